//! Whether a simulated process still runs.

use std::sync::atomic::{AtomicBool, Ordering};

/// Once it is over, nothing of the process reaches the disk, the approvals or a server.
#[derive(Debug, Default)]
pub(super) struct Life {
    is_over: AtomicBool,
}

impl Life {
    /// The process is killed.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
}
