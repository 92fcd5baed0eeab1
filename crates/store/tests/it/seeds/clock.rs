//! The clock of a simulated machine: time goes on, and what the clock shows jumps.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use callgate_record::Clock;
use jiff::Timestamp;

const START: i64 = 1_800_000_000;

/// Times are in seconds.
#[derive(Debug, Default)]
pub(super) struct SimClock {
    passed: AtomicI64,
    offset: AtomicI64,
}

impl SimClock {
    /// The seconds since the simulation began.
    pub(super) fn passed(&self) -> i64 {
        self.passed.load(Ordering::SeqCst)
    }

    pub(super) fn pass(&self, seconds: i64) {
        self.passed.fetch_add(seconds, Ordering::SeqCst);
    }

    /// Sets what the clock shows ahead of the time, or behind it.
    pub(super) fn jump(&self, seconds: i64) {
        self.offset.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        let offset = self.offset.load(Ordering::SeqCst);
        Timestamp::from_second(START + self.passed() + offset).unwrap()
    }

    fn uptime(&self) -> Duration {
        Duration::from_secs(u64::try_from(self.passed()).unwrap())
    }
}
