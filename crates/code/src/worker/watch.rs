//! The watchdog: exits the worker when a script exceeds its time and the interpreter does not notice, which happens
//! during compilation or inside one long operation. Also exits when the gateway is gone.
//!
//! It measures the wall time during which the script runs, without the time it waits for calls. On a busy machine
//! that is more than the script's CPU time, so a script always ends in time.

use std::{
    process::exit,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rustix::process::getppid;

use crate::frames::EXIT_OUT_OF_CPU;

/// How often the watchdog checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// The delay after the limit: the interpreter gets the chance to end the script first, because it knows the line.
const GRACE: Duration = Duration::from_millis(30);

/// Watches one run at a time; between runs it sleeps.
#[derive(Debug, Default)]
pub(super) struct Watch {
    clock: Mutex<Clock>,
    begun: Condvar,
}

/// The remaining time of a script.
#[derive(Debug, Clone, Copy, Default)]
enum Clock {
    /// There is no script.
    #[default]
    Off,
    Running {
        until: Instant,
    },
    /// The script waits for a call, which costs it no time.
    Waiting {
        left: Duration,
    },
}

impl Watch {
    /// Starts the clock of a run.
    pub(super) fn begin(&self, time: Duration) {
        let until = Instant::now() + time + GRACE;
        *self.lock() = Clock::Running { until };
        self.begun.notify_one();
    }

    /// Stops the clock while the script waits for a call.
    pub(super) fn wait(&self) {
        let mut clock = self.lock();
        if let Clock::Running { until } = *clock {
            let left = until.saturating_duration_since(Instant::now());
            *clock = Clock::Waiting { left };
        }
    }

    pub(super) fn go_on(&self) {
        let mut clock = self.lock();
        if let Clock::Waiting { left } = *clock {
            let until = Instant::now() + left;
            *clock = Clock::Running { until };
        }
    }

    /// Stops the clock at the end of a run.
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
                        exit(EXIT_OUT_OF_CPU);
                    }
                    left.min(CHECK_INTERVAL)
                }
                Clock::Waiting { .. } => CHECK_INTERVAL,
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
