//! What is told to hosts outside of any call: list changes, log messages, custom notifications.

use bytes::Bytes;
use callgate_gate::{Host, Owner, ServerName};

/// A notification for hosts.
#[derive(Debug, Clone)]
pub struct Announcement {
    /// Who should hear it.
    pub audience: Audience,
    /// The servers that it is about; none where it is about the gateway itself.
    pub servers: Vec<ServerName>,
    /// The notification.
    pub frame: Bytes,
}

impl Announcement {
    /// Whether `host` should hear it. What a token does not let its holder use, it does not hear of either.
    pub fn is_for(&self, host: &Host) -> bool {
        let grant = &host.who.grant;
        let mut servers = self.servers.iter();
        let may_know = self.servers.is_empty() || servers.any(|of| grant.includes(of.as_str()));
        may_know && self.audience.includes(host)
    }
}

/// Which hosts an announcement is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Audience {
    /// Every host.
    All,
    /// The hosts that share one upstream connection: one principal, the same capabilities.
    Sharing {
        /// The principal.
        principal: String,
        /// The capabilities, as raw JSON; `None` where the connection serves hosts of any.
        capabilities: Option<String>,
    },
    /// These sessions.
    Sessions(Vec<String>),
}

impl Audience {
    /// Whether it is the hosts of this token that hear it.
    pub fn is_of(&self, owner: &Owner) -> bool {
        match self {
            Self::All | Self::Sessions(_) => false,
            Self::Sharing { principal, .. } => *principal == owner.principal,
        }
    }

    /// Whether `host` should hear it.
    pub fn includes(&self, host: &Host) -> bool {
        match self {
            Self::All => true,
            Self::Sharing {
                principal,
                capabilities,
            } => {
                let wanted = capabilities.as_ref();
                host.who.principal == *principal
                    && wanted.is_none_or(|wanted| host.capabilities == *wanted)
            }
            Self::Sessions(sessions) => sessions.contains(&host.who.session),
        }
    }
}
