//! What is known about a server.

use std::{collections::HashMap, fmt};

use bytes::Bytes;
use callgate_gate::{Offers, Tool};

use crate::{
    definitions::Definitions,
    lists::{Lists, OtherLists},
};

/// How a server stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerStatus {
    /// In its first connect.
    Starting,
    /// Answering.
    Ok,
    /// It was fine and is being reached again, or its list has faults.
    Degraded,
    /// Switched off, or not reached yet.
    Stopped,
}

impl ServerStatus {
    /// The word that users see.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Stopped => "stopped",
        }
    }
}

impl fmt::Display for ServerStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is known about a server right now.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) status: ServerStatus,
    pub(crate) reason: Option<String>,
    pub(crate) listed: bool,
    /// Whether what is listed was known before the first connect.
    pub(crate) from_memory: bool,
    pub(crate) tools: Option<Vec<Tool>>,
    pub(crate) extras: Vec<Bytes>,
    pub(crate) others: OtherLists,
    /// What is wrong with its lists.
    pub(crate) complaints: HashMap<Lists, Vec<String>>,
    pub(crate) capabilities: Option<String>,
    pub(crate) instructions: Option<String>,
    pub(crate) pid: Option<u32>,
}

impl State {
    /// A server in its first connect; what is known from earlier is listed at once.
    pub(super) fn starting(known: Option<Definitions>) -> Self {
        let fresh = Self {
            status: ServerStatus::Starting,
            reason: None,
            listed: false,
            from_memory: false,
            tools: None,
            extras: Vec::new(),
            others: OtherLists::default(),
            complaints: HashMap::new(),
            capabilities: None,
            instructions: None,
            pid: None,
        };
        match known {
            None => fresh,
            Some(Definitions {
                capabilities,
                instructions,
                tools,
                extras,
                others,
            }) => Self {
                listed: true,
                from_memory: true,
                tools: Some(tools),
                extras,
                others,
                capabilities: Some(capabilities),
                instructions,
                ..fresh
            },
        }
    }

    /// What the server says it can do.
    pub(crate) fn offers(&self) -> Offers {
        let capabilities = self.capabilities.as_deref();
        capabilities.map(Offers::of).unwrap_or_default()
    }

    /// Whether a list can be answered without waiting for the first connect. Tools that were just
    /// heard of do not count: they are in the catalog only when the status changes.
    pub(crate) fn can_list(&self) -> bool {
        self.status != ServerStatus::Starting || self.from_memory
    }
}
