//! Who came in through a door: what authenticated them, and what that lets them do.

use std::{fmt, sync::Arc};

use callgate_gate::{Digest, Grant, Role, View};

/// Somebody who was authenticated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// What they are called in the record.
    pub name: String,
    /// What they are here for.
    pub role: Role,
    /// The tenant they belong to.
    pub tenant: String,
    /// What they may do.
    pub grant: Grant,
    /// The view they get; the configured one when absent.
    pub view: Option<View>,
    /// Whether the name is also the agent's, whatever the client calls itself.
    pub names_agent: bool,
    /// Whether they run this gateway, and so see every tenant.
    pub operates: bool,
}

impl Principal {
    /// Somebody of the default tenant with a role and no limits.
    pub fn new(name: &str, role: Role) -> Self {
        Self {
            name: name.to_owned(),
            role,
            tenant: "local".to_owned(),
            grant: Grant::default(),
            view: None,
            names_agent: false,
            operates: false,
        }
    }

    /// Whether what belongs to one belongs to the other: one token of one tenant.
    pub(crate) fn shares_with(&self, other: &Self) -> bool {
        self.name == other.name && self.tenant == other.tenant
    }

    /// Whoever runs this gateway: the holder of its own admin token.
    pub fn operator() -> Self {
        Self {
            operates: true,
            ..Self::new(Role::Admin.as_str(), Role::Admin)
        }
    }
}

/// Tokens besides the two that every gateway has.
pub trait Keyring: Send + Sync + fmt::Debug {
    /// Whoever holds the token with this digest, if it opens anything now.
    fn holder(&self, digest: &Digest) -> Option<Arc<Principal>>;

    /// Whether somebody's token still opens anything.
    fn is_valid(&self, name: &str) -> bool;
}

/// Tells whether a principal's token is still valid. Configured tokens and the local user always are.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pass(Option<(Arc<dyn Keyring>, String)>);

impl Pass {
    /// The pass of a token that is kept somewhere and can be revoked.
    pub(crate) fn kept(keyring: Arc<dyn Keyring>, name: &str) -> Self {
        Self(Some((keyring, name.to_owned())))
    }

    /// Whether the token has neither been revoked nor expired.
    pub(crate) fn is_valid(&self) -> bool {
        let kept = self.0.as_ref();
        kept.is_none_or(|(keyring, name)| keyring.is_valid(name))
    }
}
