//! Retention in a simulation, and what it may drop.

use std::collections::BTreeMap;

use callgate_record::{Clock as _, DropReason, RetentionLimits};
use callgate_store::retain;

use super::{DAY, KEPT_DAYS, World};
use crate::seeds::found::Entries;

impl World {
    /// Retention; not where power cuts are simulated, which know nothing of removed files.
    pub(super) fn retain(&mut self) {
        if self.noted.is_some() {
            return;
        }
        let at = self.random.index(self.processes.len());
        let limits = RetentionLimits {
            days: KEPT_DAYS,
            max_mb: *self.random.pick(&[0, 1024, 1024, 1024]),
        };
        self.found.look(self.dir.path());
        let before = self.found.entries();
        let drops = retain(&self.processes[at].log, limits);
        if self.tells {
            println!("limits {limits:?}, clock {}: {drops:#?}", self.clock.now());
        }
        self.found.look(self.dir.path());
        let after = self.found.entries();
        let is_there = |entries: &BTreeMap<u64, Entries>, key: &u64| {
            entries.get(key).is_some_and(|of| of.forwarding > 0)
        };
        let only_age = match &drops {
            Ok(done) => done.drops.iter().all(|one| one.why == DropReason::Age),
            // It failed on the way.
            Err(_) => limits.max_mb > 0,
        };
        let now = self.clock.passed();
        let is_believed = self.jumped_at.is_some_and(|at| now - at >= DAY);
        for (key, call) in &mut self.model.calls {
            if !is_there(&before, key) || is_there(&after, key) {
                continue;
            }
            call.is_dropped = true;
            if let Ok(done) = &drops {
                assert!(!done.drops.is_empty(), "call {key} went without a word");
            }
            let youngest = i64::from(KEPT_DAYS) * DAY - self.crept - DAY;
            assert!(
                !only_age || is_believed || now - call.began >= youngest,
                "a wrong clock dropped call {key}: {call:?} at {now}"
            );
        }
        self.verify();
    }
}
