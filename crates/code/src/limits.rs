//! The limits of a run. A run that reaches one ends with an error that names it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The limits of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The script's running time, without the time it waits for calls.
    pub cpu: Duration,
    /// Wall time from start to end, calls included.
    pub wall: Duration,
    /// Memory beyond that of an idle worker.
    pub memory_bytes: u64,
    /// The number of calls to the host.
    pub calls: u32,
    /// Size of the script's source.
    pub source_bytes: usize,
    /// How deep functions may be nested.
    pub nesting: usize,
    /// The size of printed text and result together, and of the arguments of one call.
    pub output_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            cpu: Duration::from_secs(5),
            wall: Duration::from_secs(120),
            memory_bytes: 128 * 1024 * 1024,
            calls: 1000,
            source_bytes: 64 * 1024,
            nesting: 8,
            output_bytes: 1024 * 1024,
        }
    }
}
