//! Spinning, and the decision whether it pays.

use std::{
    sync::LazyLock,
    thread,
    time::{Duration, Instant},
};

/// After this many unsuccessful spins in a row, spinning becomes rare.
const MAX_MISSES: u32 = 3;
/// Rare spinning is one wait in this many, to notice when answers become fast again.
const RARELY: u32 = 32;

/// On a single core, spinning would starve the task that it waits for.
static SEVERAL_PROCESSORS: LazyLock<bool> =
    LazyLock::new(|| thread::available_parallelism().is_ok_and(|count| count.get() > 1));

/// Spins for something, as long as previous spins were successful.
#[derive(Debug)]
pub struct Spin {
    within: Duration,
    pub(crate) pays: bool,
    /// Waits in a row without a successful spin.
    missed: u32,
}

impl Spin {
    /// A spin takes at most `within`.
    pub fn new(within: Duration) -> Self {
        Self {
            within,
            pays: *SEVERAL_PROCESSORS,
            missed: 0,
        }
    }

    /// Calls `find` until it returns something or the time is over; `None` at once when spinning does not pay.
    pub fn until<T>(&mut self, mut find: impl FnMut() -> Option<T>) -> Option<T> {
        let is_worth_it = self.missed < MAX_MISSES || self.missed.is_multiple_of(RARELY);
        let found = if self.pays && is_worth_it {
            self.spin(&mut find)
        } else {
            None
        };
        self.missed = match found {
            Some(_) => 0,
            None => self.missed.wrapping_add(1),
        };
        found
    }

    fn spin<T>(&self, find: &mut impl FnMut() -> Option<T>) -> Option<T> {
        let started = Instant::now();
        loop {
            let found = find();
            if found.is_some() || started.elapsed() >= self.within {
                return found;
            }
            // The task that will produce the answer may need this processor.
            thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spin(pays: bool) -> Spin {
        Spin {
            within: Duration::from_micros(50),
            pays,
            missed: 0,
        }
    }

    /// Whether it looks for something that is not there.
    fn looks(spin: &mut Spin) -> bool {
        let mut looked = false;
        let found = spin.until(|| {
            looked = true;
            None::<()>
        });
        assert!(found.is_none());
        looked
    }

    #[test]
    fn spinning_finds_what_arrives_in_time() {
        let mut calls = 0;
        let mut spin = Spin {
            within: Duration::from_secs(60),
            ..spin(true)
        };
        let found = spin.until(|| {
            calls += 1;
            (calls == 3).then_some("there")
        });
        assert_eq!((found, calls), (Some("there"), 3));
    }

    #[test]
    fn spinning_stops_after_repeated_misses() {
        let mut spin = spin(true);
        let looked: Vec<bool> = (0..100).map(|_| looks(&mut spin)).collect();
        assert_eq!(looked[..4], [true, true, true, false]);
        let often = looked.iter().filter(|&&looked| looked).count();
        assert_eq!(often, 6, "three, and then once in thirty-two");
        while spin.until(|| Some(())).is_none() {}
        assert!(looks(&mut spin), "a success makes it spin again");
    }

    #[test]
    fn spinning_is_off_on_a_single_core() {
        assert!(!looks(&mut spin(false)));
    }
}
