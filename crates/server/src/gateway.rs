//! What all doors share.

use std::{fmt, sync::Arc};

use callgate_call::{CallPath, events::gateway::FrameError};
use callgate_gate::Transport;
use serde::{Deserialize, Serialize};

use crate::{
    inflight::Budget,
    view::{ViewSettings, Views},
};

/// What may be in the works at once unless it is set.
const INFLIGHT_BYTES: usize = 256 * 1024 * 1024;

/// The gateway as the doors see it.
#[derive(Debug, Clone)]
pub struct Gateway {
    pub(crate) path: CallPath,
    pub(crate) status: Arc<dyn StatusSource>,
    pub(crate) inflight: Budget,
    pub(crate) views: Arc<Views>,
}

/// How one server stands, as health and the admin API tell it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerRow {
    /// Its name.
    pub name: String,
    /// `stdio` or `http`.
    pub r#type: String,
    /// Whether the configuration has it switched on.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// `starting`, `ok`, `degraded` or `stopped`.
    pub status: String,
    /// Why, when it is not `ok`.
    pub reason: Option<String>,
    /// How many tools it has.
    pub tools: usize,
    /// The process id of its warden.
    pub pid: Option<u32>,
}

fn yes() -> bool {
    true
}

/// How often the configuration was read again since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Reloads {
    /// How often it was taken over.
    pub taken_over: u64,
    /// How often it could not be used.
    pub rejected: u64,
}

/// Tells how the gateway stands.
pub trait StatusSource: Send + Sync {
    /// A row for each server, in configuration order.
    fn rows(&self) -> Vec<ServerRow>;

    /// How often the configuration was read again.
    fn reloads(&self) -> Reloads {
        Reloads::default()
    }

    /// Entries of the record that have happened and could not be written yet.
    fn record_owed(&self) -> usize {
        0
    }

    /// Entries of this process that are in the record and not yet in its index.
    fn index_lag(&self) -> u64 {
        0
    }

    /// What else is not as it should be: a sentence each.
    fn complaints(&self) -> Vec<String> {
        Vec::new()
    }
}

impl<F: Fn() -> Vec<ServerRow> + Send + Sync> StatusSource for F {
    fn rows(&self) -> Vec<ServerRow> {
        self()
    }
}

impl fmt::Debug for dyn StatusSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StatusSource")
    }
}

impl Gateway {
    /// A gateway over a call path.
    pub fn new(path: CallPath, status: impl StatusSource + 'static) -> Self {
        Self {
            path,
            status: Arc::new(status),
            inflight: Budget::new(INFLIGHT_BYTES),
            views: Arc::default(),
        }
    }

    /// Sets how many bytes of requests and answers may be in the works at once, over all doors.
    #[must_use]
    pub fn inflight(mut self, bytes: usize) -> Self {
        self.inflight = Budget::new(bytes);
        self
    }

    /// Tells the views what is configured, at the start and whenever it changes.
    pub fn set_views(&self, settings: ViewSettings) {
        self.views.set(settings);
    }

    /// What is configured for the views right now.
    pub fn view_settings(&self) -> Arc<ViewSettings> {
        self.views.settings()
    }

    /// The call path behind the doors.
    pub fn path(&self) -> &CallPath {
        &self.path
    }

    /// Tells of a frame that was no frame.
    pub(crate) fn frame_error(&self, transport: Transport, error: &str) {
        let events = self.path.events();
        events.emit(FrameError { transport, error });
    }
}
