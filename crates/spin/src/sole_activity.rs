//! Whether only one socket is active.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The number of turns in a row after which a socket counts as the only active one.
const STREAK_TURNS: u32 = 8;

/// The turns of a group of sockets. While all turns are of one socket, its spinning delays no other.
#[derive(Debug, Default)]
pub struct SoleActivity {
    places: AtomicU64,
    /// The socket that had the last turn.
    last: AtomicU64,
    length: AtomicU32,
}

impl SoleActivity {
    pub(crate) fn place(&self) -> u64 {
        self.places.fetch_add(1, Ordering::Relaxed)
    }

    /// Records a turn of a socket.
    pub(crate) fn turn(&self, place: u64) {
        // Relaxed and not atomic as a pair: concurrent turns may be miscounted, which at worst costs or saves one spin.
        if self.last.swap(place, Ordering::Relaxed) == place {
            self.length.fetch_add(1, Ordering::Relaxed);
        } else {
            self.length.store(0, Ordering::Relaxed);
        }
    }

    /// Whether this socket had all of the last turns.
    pub(crate) fn is_of(&self, place: u64) -> bool {
        self.last.load(Ordering::Relaxed) == place
            && self.length.load(Ordering::Relaxed) >= STREAK_TURNS
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
        for _ in 0..=STREAK_TURNS {
            assert!(!streak.is_of(one));
            streak.turn(one);
        }
        assert!(streak.is_of(one) && !streak.is_of(other));
        streak.turn(other);
        assert!(!streak.is_of(one) && !streak.is_of(other));
    }
}
