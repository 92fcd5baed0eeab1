//! The end of the path: it takes no more calls, and lets those under way end.

use std::time::Duration;

use tokio::time::timeout;

use super::CallPath;
use crate::events::cancelled::CallsGivenUp;

/// How long draining waits.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For calls to end by themselves.
    pub calls: Duration,
    /// For cancelled calls to end.
    pub cancelled: Duration,
}

impl From<Duration> for Patience {
    /// So long for calls, and five seconds for those that are then cancelled.
    fn from(calls: Duration) -> Self {
        Self {
            calls,
            cancelled: Duration::from_secs(5),
        }
    }
}

impl CallPath {
    /// Takes no more calls, and lets those under way end, as long as `patience` says. Then it
    /// cancels what is left and waits for its records, but not for ever: says how many calls
    /// were given up. Whoever writes the record next closes those as `unknown`.
    pub async fn drain(&self, patience: impl Into<Patience>) -> usize {
        let patience = patience.into();
        let tasks = &self.shared.tasks;
        tasks.close();
        self.shared.parking.cancel_all();
        if timeout(patience.calls, tasks.wait()).await.is_ok() {
            return 0;
        }
        self.shared.registry.cancel_all();
        if timeout(patience.cancelled, tasks.wait()).await.is_ok() {
            return 0;
        }
        let given_up = self.shared.registry.len();
        self.events().emit(CallsGivenUp { calls: given_up });
        given_up
    }
}
