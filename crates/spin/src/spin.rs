//! A look, and when it is worth it.

use std::{
    sync::LazyLock,
    thread,
    time::{Duration, Instant},
};

/// After so many looks in a row that found nothing, one looks only now and then.
const MISSES: u32 = 3;
/// How often one looks then: once in so many waits.
const NOW_AND_THEN: u32 = 32;

/// Where there is one processor, looking would keep away who is waited for.
static SEVERAL_PROCESSORS: LazyLock<bool> =
    LazyLock::new(|| thread::available_parallelism().is_ok_and(|count| count.get() > 1));

/// Looks for something, as long as the looks before found what they looked for.
#[derive(Debug)]
pub struct Spin {
    within: Duration,
    pub(crate) pays: bool,
    /// Waits in a row without a look that found something.
    missed: u32,
}

impl Spin {
    /// Looks for so long at most.
    pub fn new(within: Duration) -> Self {
        Self {
            within,
            pays: *SEVERAL_PROCESSORS,
            missed: 0,
        }
    }

    /// What `find` finds within a moment, if it is worth looking.
    pub fn until<T>(&mut self, mut find: impl FnMut() -> Option<T>) -> Option<T> {
        let is_worth_it = self.missed < MISSES || self.missed.is_multiple_of(NOW_AND_THEN);
        let found = if self.pays && is_worth_it {
            self.look(&mut find)
        } else {
            None
        };
        self.missed = match found {
            Some(_) => 0,
            None => self.missed.wrapping_add(1),
        };
        found
    }

    fn look<T>(&self, find: &mut impl FnMut() -> Option<T>) -> Option<T> {
        let started = Instant::now();
        loop {
            let found = find();
            if found.is_some() || started.elapsed() >= self.within {
                return found;
            }
            // Who is waited for may need this processor.
            thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(pays: bool) -> Spin {
        Spin {
            within: Duration::from_micros(50),
            pays,
            missed: 0,
        }
    }

    /// Whether it looks for something that is not there.
    fn looks(look: &mut Spin) -> bool {
        let mut looked = false;
        let found = look.until(|| {
            looked = true;
            None::<()>
        });
        assert!(found.is_none());
        looked
    }

    #[test]
    fn spinning_finds_what_arrives_in_time() {
        let mut calls = 0;
        let mut look = Spin {
            within: Duration::from_secs(60),
            ..look(true)
        };
        let found = look.until(|| {
            calls += 1;
            (calls == 3).then_some("there")
        });
        assert_eq!((found, calls), (Some("there"), 3));
    }

    #[test]
    fn spinning_stops_after_repeated_misses() {
        let mut look = look(true);
        let looked: Vec<bool> = (0..100).map(|_| looks(&mut look)).collect();
        assert_eq!(looked[..4], [true, true, true, false]);
        let often = looked.iter().filter(|&&looked| looked).count();
        assert_eq!(often, 6, "three, and then once in thirty-two");
        while look.until(|| Some(())).is_none() {}
        assert!(looks(&mut look), "what was found makes it look again");
    }

    #[test]
    fn spinning_is_off_on_a_single_core() {
        assert!(!looks(&mut look(false)));
    }
}
