//! What a run may use. Each limit ends a run with an error that names it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a run may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// CPU time of the script itself.
    pub cpu: Duration,
    /// Time from the beginning to the end, calls included.
    pub wall: Duration,
    /// Memory beyond what an idle worker has.
    pub memory_bytes: u64,
    /// Calls of tools, of every kind.
    pub calls: u32,
    /// The script's text.
    pub source_bytes: usize,
    /// Functions inside functions.
    pub nesting: usize,
    /// Printed text and the result together; also the arguments of one call.
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
