//! Whether one place alone is at work.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// So many turns in a row are a streak.
const LONG: u32 = 8;

/// The turns that sockets take. While they are all of one socket, it keeps nobody waiting by looking.
#[derive(Debug, Default)]
pub struct SoleActivity {
    places: AtomicU64,
    /// The place that had the last turn, and how many it has had in a row.
    last: AtomicU64,
    length: AtomicU32,
}

impl SoleActivity {
    /// A new place.
    pub(crate) fn place(&self) -> u64 {
        self.places.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes a turn of a place.
    pub(crate) fn turn(&self, place: u64) {
        // Turns that are taken at once may be counted wrongly: then somebody looks in vain, or does not look.
        if self.last.swap(place, Ordering::Relaxed) == place {
            self.length.fetch_add(1, Ordering::Relaxed);
        } else {
            self.length.store(0, Ordering::Relaxed);
        }
    }

    /// Whether the last turns were all of this place.
    pub(crate) fn is_of(&self, place: u64) -> bool {
        self.last.load(Ordering::Relaxed) == place && self.length.load(Ordering::Relaxed) >= LONG
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_streak_takes_many_turns_and_another_task_ends_it() {
        let streak = SoleActivity::default();
        let (one, other) = (streak.place(), streak.place());
        streak.turn(other);
        for _ in 0..=LONG {
            assert!(!streak.is_of(one));
            streak.turn(one);
        }
        assert!(streak.is_of(one) && !streak.is_of(other));
        streak.turn(other);
        assert!(!streak.is_of(one) && !streak.is_of(other));
    }
}
