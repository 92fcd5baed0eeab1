//! Ends the worker when a script runs longer than it may and the interpreter does not notice: while it compiles, or
//! inside of one long step. Also when the gateway is gone.
//!
//! It counts the time that the script runs, without what it waits for calls: as much as its CPU time, or more where
//! others use the processor too. So a script ends when its limit says, however busy the machine is.

use std::{
    process::exit,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rustix::process::getppid;

use crate::frames::OUT_OF_CPU;

/// How often it looks.
const EVERY: Duration = Duration::from_millis(20);
/// How long after the limit it ends a script: the interpreter, which knows the line, comes first.
const AFTER: Duration = Duration::from_millis(30);

/// Watches one run after the other; between them it sleeps.
#[derive(Debug, Default)]
pub(super) struct Watch {
    clock: Mutex<Clock>,
    begun: Condvar,
}

/// How much time a script has.
#[derive(Debug, Clone, Copy, Default)]
enum Clock {
    /// There is no script.
    #[default]
    Off,
    /// It runs.
    Running { until: Instant },
    /// It waits for a call.
    Waiting { left: Duration },
}

impl Watch {
    /// A run begins, with so much time.
    pub(super) fn begin(&self, time: Duration) {
        let until = Instant::now() + time + AFTER;
        *self.lock() = Clock::Running { until };
        self.begun.notify_one();
    }

    /// The script waits.
    pub(super) fn wait(&self) {
        let mut clock = self.lock();
        if let Clock::Running { until } = *clock {
            let left = until.saturating_duration_since(Instant::now());
            *clock = Clock::Waiting { left };
        }
    }

    /// The script goes on.
    pub(super) fn go_on(&self) {
        let mut clock = self.lock();
        if let Clock::Waiting { left } = *clock {
            let until = Instant::now() + left;
            *clock = Clock::Running { until };
        }
    }

    /// The run has ended.
    pub(super) fn end(&self) {
        *self.lock() = Clock::Off;
    }

    pub(super) fn run(&self) {
        let parent = getppid();
        let mut clock = self.lock();
        loop {
            let next = match *clock {
                Clock::Off => {
                    let begun = self.begun.wait(clock);
                    clock = begun.unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
                Clock::Running { until } => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        exit(OUT_OF_CPU);
                    }
                    left.min(EVERY)
                }
                Clock::Waiting { .. } => EVERY,
            };
            if getppid() != parent {
                exit(0);
            }
            let waited = self.begun.wait_timeout(clock, next);
            clock = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Clock> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
