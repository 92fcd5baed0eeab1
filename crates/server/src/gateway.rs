//! What all doors share.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use callgate_call::CallPath;
use serde::{Deserialize, Serialize};

/// The gateway as the doors see it.
#[derive(Debug, Clone)]
pub struct Gateway {
    pub(crate) path: CallPath,
    pub(crate) frame_errors: Arc<AtomicU64>,
    pub(crate) status: Arc<dyn StatusSource>,
}

/// How one server stands, as health and the admin API tell it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerRow {
    /// Its name.
    pub name: String,
    /// `stdio` or `http`.
    pub r#type: String,
    /// `starting`, `ok`, `degraded` or `stopped`.
    pub status: String,
    /// Why, when it is not `ok`.
    pub reason: Option<String>,
    /// How many tools it has.
    pub tools: usize,
    /// The process id of its warden.
    pub pid: Option<u32>,
}

/// Tells how the servers stand.
pub trait StatusSource: Send + Sync {
    /// A row for each server, in configuration order.
    fn rows(&self) -> Vec<ServerRow>;
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
            frame_errors: Arc::default(),
            status: Arc::new(status),
        }
    }

    /// The call path behind the doors.
    pub fn path(&self) -> &CallPath {
        &self.path
    }

    /// Counts a frame that was no frame.
    pub(crate) fn frame_error(&self, door: &str, error: &str) {
        self.frame_errors.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(name: "frame_error", door, error, "frame_error");
    }
}
