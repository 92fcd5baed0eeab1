//! Who is calling: what was authenticated, and what was merely said.

use callgate_wire::Era;

/// The identity that a call is decided and recorded under.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Who {
    /// The token's tenant; `local` where nothing else was configured.
    pub tenant: String,
    /// What authenticated the request: a token's name, or the local user on stdio.
    pub principal: String,
    /// The token's own name, else what the client calls itself, else `anonymous`.
    /// It is self-declared in the second case and never widens what the principal may do.
    pub agent: String,
    /// The gateway's id for this connection or `Mcp-Session-Id`.
    pub session: String,
}

impl Who {
    /// Whether the agent's name is that of what authenticated it, and not only its own word.
    pub fn is_vouched_for(&self) -> bool {
        self.agent == self.principal
    }
}

/// A host as it introduced itself: who it is, and what it said it can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The identity that the host's calls run under.
    pub who: Who,
    /// The raw JSON of `clientInfo`, passed on to upstreams as it came; absent until initialized.
    pub client_info: Option<String>,
    /// The raw JSON object of the host's capabilities; `{}` where it declared none.
    pub capabilities: String,
    /// The era of the protocol that it speaks.
    pub era: Era,
}
