//! What is told to hosts outside of any call: list changes, log messages, custom notifications.

use bytes::Bytes;
use callgate_gate::{Host, ServerName};

/// A notification for hosts.
#[derive(Debug, Clone)]
pub struct Announcement {
    /// Who should hear it.
    pub audience: Audience,
    /// The server that says it; `None` where it is the gateway itself.
    pub server: Option<ServerName>,
    /// The notification.
    pub frame: Bytes,
}

impl Announcement {
    /// Whether `host` should hear it. What a token does not let its holder use, it does not hear of either.
    pub fn is_for(&self, host: &Host) -> bool {
        let grant = &host.who.grant;
        let server = self.server.as_ref();
        self.audience.includes(host) && server.is_none_or(|server| grant.includes(server.as_str()))
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
        /// The capabilities, as raw JSON.
        capabilities: String,
    },
    /// These sessions.
    Sessions(Vec<String>),
}

impl Audience {
    /// Whether `host` should hear it.
    pub fn includes(&self, host: &Host) -> bool {
        match self {
            Self::All => true,
            Self::Sharing {
                principal,
                capabilities,
            } => host.who.principal == *principal && host.capabilities == *capabilities,
            Self::Sessions(sessions) => sessions.contains(&host.who.session),
        }
    }
}
