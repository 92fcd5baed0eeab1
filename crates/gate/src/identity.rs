//! Callers: the authenticated identity, and what a client only claims.

use std::fmt;

use callgate_wire::Era;
use serde::{Deserialize, Serialize};

use crate::Grant;

/// What a token is for. No role includes another: a token that makes calls cannot approve them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Agent,
    /// Sees held calls and decides about them.
    Approver,
    /// Sees and does everything else, and decides about held calls.
    Admin,
}

impl Role {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Approver => "approver",
            Self::Admin => "admin",
        }
    }

    /// Whether its holder may decide about held calls.
    pub fn approves(self) -> bool {
        match self {
            Self::Agent => false,
            Self::Approver | Self::Admin => true,
        }
    }
}

/// The tenant and the token that state belongs to: counts, sessions, tasks, kept results. On stdio it is the local user.
/// The name that a client gives itself is not part of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Owner {
    pub tenant: String,
    /// The token's name, or the local user.
    pub principal: String,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.principal)
    }
}

/// The identity that a call is decided and recorded under.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CallerIdentity {
    /// The token's tenant; `local` where nothing else was configured.
    pub tenant: String,
    /// The authenticated name: a token's name, or the local user on stdio.
    pub principal: String,
    /// The token's name, else the client's `clientInfo.name`, else `anonymous`. The client's own name is
    /// self-declared and never widens what the principal may do.
    pub agent: String,
    /// The gateway's id for this connection or `Mcp-Session-Id`.
    pub session: String,
    /// The limits of the principal's token.
    pub grant: Grant,
}

impl CallerIdentity {
    /// Whether the agent's name is the authenticated one rather than self-declared.
    pub fn has_authenticated_name(&self) -> bool {
        // A client can only claim the name of its own token this way, which gains it nothing.
        self.agent == self.principal
    }

    /// The tenant and the token that the caller's state belongs to.
    pub fn owner(&self) -> Owner {
        Owner {
            tenant: self.tenant.clone(),
            principal: self.principal.clone(),
        }
    }

    /// The part of the identity that decides visibility.
    pub fn viewer(&self) -> Viewer {
        Viewer {
            tenant: self.tenant.clone(),
            agent: self.agent.clone(),
            has_authenticated_name: self.has_authenticated_name(),
            grant: self.grant.clone(),
        }
    }
}

/// The part of an identity that decides visibility: under one policy, equal viewers see the same lists.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Viewer {
    tenant: String,
    agent: String,
    has_authenticated_name: bool,
    grant: Grant,
}

/// A host's identity and the capabilities that it declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The identity that the host's calls run under.
    pub identity: CallerIdentity,
    /// The raw JSON of `clientInfo`, passed on to upstreams as it came; absent until initialized.
    pub client_info: Option<String>,
    /// The raw JSON object of the host's capabilities; `{}` where it declared none.
    pub capabilities: String,
    /// The era of the protocol that it speaks.
    pub era: Era,
}
