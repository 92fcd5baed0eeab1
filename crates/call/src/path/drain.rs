//! Draining: the path refuses new calls and waits for those in flight.

use std::time::Duration;

use tokio::time::timeout;

use super::CallPath;
use crate::events::cancelled::CallsGivenUp;

/// The deadlines of draining.
#[derive(Debug, Clone, Copy)]
pub struct DrainDeadlines {
    /// How long calls may take to end by themselves.
    pub calls: Duration,
    /// How long the remaining calls may take after they were cancelled.
    pub cancelled: Duration,
}

impl From<Duration> for DrainDeadlines {
    /// `calls` for calls in flight, and five seconds after cancelling them.
    fn from(calls: Duration) -> Self {
        Self {
            calls,
            cancelled: Duration::from_secs(5),
        }
    }
}

impl CallPath {
    /// Refuses new calls, waits for calls in flight, then cancels them and waits again. Returns how many did not end in
    /// time. The next process that writes the record closes those as `unknown`.
    pub async fn drain(&self, deadlines: impl Into<DrainDeadlines>) -> usize {
        let deadlines = deadlines.into();
        let tasks = &self.shared.tasks;
        // Closed before waiting: `enter` counts a call first and looks here second, so each call is either refused or
        // waited for.
        tasks.close();
        // A parked call waits for a second request of its host, which would be refused from now on.
        self.shared.parking.cancel_all();
        if timeout(deadlines.calls, tasks.wait()).await.is_ok() {
            return 0;
        }
        // Only now: a call that is cancelled while its server works ends as `unknown`, so calls get their time first.
        self.shared.registry.cancel_all();
        if timeout(deadlines.cancelled, tasks.wait()).await.is_ok() {
            return 0;
        }
        let given_up = self.shared.registry.len();
        self.events().emit(CallsGivenUp { calls: given_up });
        given_up
    }
}
