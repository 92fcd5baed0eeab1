//! The state that all doors share.

use std::{fmt, sync::Arc};

use callgate_call::{CallPath, events::gateway::FrameError};
use callgate_gate::Transport;
use serde::{Deserialize, Serialize};

use crate::{
    inflight::Budget,
    view::{ViewSettings, Views},
};

/// The default budget for data in flight.
const INFLIGHT_BYTES: usize = 256 * 1024 * 1024;

/// The gateway as the doors see it.
#[derive(Debug, Clone)]
pub struct Gateway {
    pub(crate) path: CallPath,
    pub(crate) status: Arc<dyn StatusSource>,
    pub(crate) inflight: Budget,
    pub(crate) views: Arc<Views>,
}

/// The status of one server, for health and the admin API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerRow {
    pub name: String,
    /// `stdio` or `http`.
    pub r#type: String,
    /// Whether the configuration enables it.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// `starting`, `ok`, `degraded` or `stopped`.
    pub status: String,
    /// The reason, when the status is not `ok`.
    pub reason: Option<String>,
    /// The number of its tools.
    pub tools: usize,
    /// The process id of its warden.
    pub pid: Option<u32>,
}

fn yes() -> bool {
    true
}

/// How often the configuration was reloaded since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Reloads {
    /// Reloads that were applied.
    pub taken_over: u64,
    /// Reloads that were rejected because the configuration was invalid.
    pub rejected: u64,
}

/// Reports the gateway's status.
pub trait StatusSource: Send + Sync {
    /// One row per server, in configuration order.
    fn rows(&self) -> Vec<ServerRow>;

    /// How often the configuration was reloaded.
    fn reloads(&self) -> Reloads {
        Reloads::default()
    }

    /// The number of record entries that are waiting to be written.
    fn record_backlog(&self) -> usize {
        0
    }

    /// The number of this process's record entries that the index lacks.
    fn index_lag(&self) -> u64 {
        0
    }

    /// Other reasons for a degraded status, one sentence each.
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
    pub fn new(path: CallPath, status: impl StatusSource + 'static) -> Self {
        Self {
            path,
            status: Arc::new(status),
            // One budget for all doors: separate ones would let the process use their sum.
            inflight: Budget::new(INFLIGHT_BYTES),
            views: Arc::default(),
        }
    }

    /// Sets the budget for requests and answers in flight, in bytes, shared by all doors.
    #[must_use]
    pub fn inflight(mut self, bytes: usize) -> Self {
        self.inflight = Budget::new(bytes);
        self
    }

    /// Applies view settings, at the start and after each reload.
    pub fn set_views(&self, settings: ViewSettings) {
        self.views.set(settings);
    }

    /// The current view settings.
    pub fn view_settings(&self) -> Arc<ViewSettings> {
        self.views.settings()
    }

    pub fn path(&self) -> &CallPath {
        &self.path
    }

    /// Emits the event for an invalid frame.
    pub(crate) fn frame_error(&self, transport: Transport, error: &str) {
        let events = self.path.events();
        events.emit(FrameError { transport, error });
    }
}
