//! Retention in a simulation, and what it may drop.

use callgate_record::{Clock as _, DropReason, RetentionLimits};
use callgate_store::retain;

use super::{DAY, KEPT_DAYS, World};
use crate::seeds::model::Found;

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
        let before = Found::read(self.dir.path());
        let drops = retain(&self.processes[at].log, limits);
        if self.tells {
            println!("limits {limits:?}, clock {}: {drops:#?}", self.clock.now());
        }
        self.note_backlog(at);
        let after = Found::read(self.dir.path());
        let only_age = match &drops {
            Ok(done) => done.drops.iter().all(|one| one.why == DropReason::Age),
            // It failed on the way.
            Err(_) => limits.max_mb > 0,
        };
        let now = self.clock.passed();
        let is_believed = self.jumped_at.is_some_and(|at| now - at >= DAY);
        for (id, call) in &mut self.model.calls {
            if !before.has(id) || after.has(id) {
                continue;
            }
            call.is_dropped = true;
            if let Ok(done) = &drops {
                assert!(!done.drops.is_empty(), "call {id} went without a word");
            }
            let youngest = i64::from(KEPT_DAYS) * DAY - self.crept - DAY;
            assert!(
                !only_age || is_believed || now - call.began >= youngest,
                "a wrong clock dropped call {id}: {call:?} at {now}"
            );
        }
        self.verify();
    }
}
