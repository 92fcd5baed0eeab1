//! Ends the worker when a script uses more CPU time than it may and the interpreter does not notice: while it
//! compiles, or inside of one long step. Also when the gateway is gone.

use std::{
    process::exit,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustix::{
    process::getppid,
    time::{ClockId, Timespec, clock_gettime},
};

use super::OUT_OF_CPU;

/// How often it looks.
const EVERY: Duration = Duration::from_millis(20);

/// Watches one run after the other; between them it sleeps.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// The CPU time of this process at which the run is over.
    until: Mutex<Option<Duration>>,
    begun: Condvar,
}

impl Watch {
    /// A run begins, with so much CPU time. The interpreter looks at the same limit, so this one comes after.
    pub(super) fn begin(&self, cpu: Duration) {
        *self.lock() = Some(used() + cpu + cpu / 20);
        self.begun.notify_one();
    }

    /// The run has ended.
    pub(super) fn end(&self) {
        *self.lock() = None;
    }

    pub(super) fn run(&self) {
        let parent = getppid();
        let mut until = self.lock();
        loop {
            let Some(end) = *until else {
                until = self
                    .begun
                    .wait(until)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            if used() >= end {
                exit(OUT_OF_CPU);
            }
            if getppid() != parent {
                exit(0);
            }
            let waited = self.begun.wait_timeout(until, EVERY);
            until = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Duration>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The CPU time of this process.
fn used() -> Duration {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::ProcessCPUTime);
    let part = |number: i64| u64::try_from(number).unwrap_or_default();
    Duration::from_secs(part(tv_sec)) + Duration::from_nanos(part(tv_nsec))
}
