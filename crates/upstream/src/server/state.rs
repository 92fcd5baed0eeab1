//! The state of one server as reports and the catalog see it.

use std::{collections::HashMap, fmt};

use bytes::Bytes;
use callgate_gate::{Offers, Tool};

use crate::{
    definitions::Definitions,
    lists::{Lists, OtherLists},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerStatus {
    /// The first connect has neither succeeded nor failed.
    Starting,
    Ok,
    /// It was up and is being reconnected, or one of its lists is faulty.
    Degraded,
    /// Disabled, never reached, or down for longer than it stays listed.
    Stopped,
}

impl ServerStatus {
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

#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) status: ServerStatus,
    pub(crate) reason: Option<String>,
    pub(crate) listed: bool,
    /// Whether the lists come from saved definitions of an earlier run.
    pub(crate) from_memory: bool,
    pub(crate) tools: Option<Vec<Tool>>,
    pub(crate) extras: Vec<Bytes>,
    pub(crate) others: OtherLists,
    /// Faults in its lists, for the operator.
    pub(crate) complaints: HashMap<Lists, Vec<String>>,
    pub(crate) capabilities: Option<String>,
    pub(crate) instructions: Option<String>,
    pub(crate) pid: Option<u32>,
}

impl State {
    /// A server in its first connect; definitions from an earlier run are listed at once.
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
