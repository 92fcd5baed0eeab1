//! Notifications to hosts outside of calls: list changes, log messages, custom notifications.

use bytes::Bytes;
use callgate_gate::{Host, Owner, ServerName};

/// A notification for hosts.
#[derive(Debug, Clone)]
pub struct Announcement {
    pub audience: Audience,
    /// The servers that it is about; empty if it is about the gateway itself.
    pub servers: Vec<ServerName>,
    pub frame: Bytes,
}

impl Announcement {
    /// Whether `host` receives it.
    pub fn is_for(&self, host: &Host) -> bool {
        // A token that may not use a server must not learn of it from notifications either.
        let grant = &host.identity.grant;
        let mut servers = self.servers.iter();
        let may_know = self.servers.is_empty() || servers.any(|of| grant.includes(of.as_str()));
        may_know && self.audience.includes(host)
    }
}

/// Which hosts an announcement is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Audience {
    All,
    /// The hosts that share one upstream connection: one principal, the same capabilities.
    Sharing {
        principal: String,
        /// The capabilities, as raw JSON; `None` where the connection serves hosts of any.
        capabilities: Option<String>,
    },
    Sessions(Vec<String>),
}

impl Audience {
    /// Whether the audience is the hosts of this token alone.
    pub fn is_of(&self, owner: &Owner) -> bool {
        match self {
            Self::All | Self::Sessions(_) => false,
            Self::Sharing { principal, .. } => *principal == owner.principal,
        }
    }

    pub fn includes(&self, host: &Host) -> bool {
        match self {
            Self::All => true,
            Self::Sharing {
                principal,
                capabilities,
            } => {
                let wanted = capabilities.as_ref();
                host.identity.principal == *principal
                    && wanted.is_none_or(|wanted| host.capabilities == *wanted)
            }
            Self::Sessions(sessions) => sessions.contains(&host.identity.session),
        }
    }
}
