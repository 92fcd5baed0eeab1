//! The authenticated caller of a request, and what its token permits.

use std::{fmt, sync::Arc};

use callgate_gate::{Digest, Grant, Role, View};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The name of the token in the record.
    pub name: String,
    pub role: Role,
    pub tenant: String,
    /// Which servers and operations the token permits.
    pub grant: Grant,
    /// The token's view; the configured default when absent.
    pub view: Option<View>,
    /// Whether the token's name replaces the agent name that the client gives itself.
    pub names_agent: bool,
    /// Whether the caller operates this gateway and so sees every tenant.
    pub is_operator: bool,
}

impl Principal {
    /// A principal of the default tenant with no limits.
    pub fn new(name: &str, role: Role) -> Self {
        Self {
            name: name.to_owned(),
            role,
            tenant: "local".to_owned(),
            grant: Grant::default(),
            view: None,
            names_agent: false,
            is_operator: false,
        }
    }

    /// Whether both are the same token of the same tenant, and so share sessions and results.
    pub(crate) fn shares_with(&self, other: &Self) -> bool {
        self.name == other.name && self.tenant == other.tenant
    }

    /// The operator: the holder of the gateway's own admin token.
    pub fn operator() -> Self {
        Self {
            is_operator: true,
            ..Self::new(Role::Admin.as_str(), Role::Admin)
        }
    }
}

/// The stored tokens, in addition to the gateway's own agent and admin tokens.
pub trait TokenLookup: Send + Sync + fmt::Debug {
    /// The principal of the token with this digest; `None` when it is unknown, revoked or expired.
    fn holder(&self, digest: &Digest) -> Option<Arc<Principal>>;

    /// Whether the token of this name is neither revoked nor expired.
    fn is_valid(&self, name: &str) -> bool;
}

/// Re-checks a token for streams that outlive their request. Configured tokens and the local user are always valid.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pass(Option<(Arc<dyn TokenLookup>, String)>);

impl Pass {
    /// The pass of a stored token, which can be revoked.
    pub(crate) fn stored(keyring: Arc<dyn TokenLookup>, name: &str) -> Self {
        Self(Some((keyring, name.to_owned())))
    }

    pub(crate) fn is_valid(&self) -> bool {
        // Asked by name and not by digest: the token itself is not stored beyond authentication.
        let stored = self.0.as_ref();
        stored.is_none_or(|(keyring, name)| keyring.is_valid(name))
    }
}
