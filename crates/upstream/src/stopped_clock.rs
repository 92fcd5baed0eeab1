//! The paused time of a call's deadline: while its host is asked something, the server waits for a person,
//! which must not count against the server.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// The paused time of one call.
#[derive(Debug, Default)]
pub(crate) struct StoppedClock {
    stops: Mutex<Stops>,
}

/// An open question to the host; the clock resumes when the last one is dropped.
#[derive(Debug)]
pub(crate) struct OpenQuestion<'a>(&'a StoppedClock);

#[derive(Debug, Default)]
struct Stops {
    open: usize,
    since: Option<Instant>,
    past: Duration,
}

impl StoppedClock {
    /// Stops the clock; it may be stopped already.
    pub(crate) fn stop(&self) -> OpenQuestion<'_> {
        let mut stops = self.lock();
        stops.open += 1;
        stops.since.get_or_insert_with(Instant::now);
        drop(stops);
        OpenQuestion(self)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.lock().open > 0
    }

    /// The paused time since the last `take`, up to now.
    pub(crate) fn take(&self) -> Duration {
        let mut stops = self.lock();
        stops.settle();
        stops.since = (stops.open > 0).then(Instant::now);
        std::mem::take(&mut stops.past)
    }

    fn lock(&self) -> MutexGuard<'_, Stops> {
        self.stops.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stops {
    fn settle(&mut self) {
        if let Some(since) = self.since.take() {
            self.past += since.elapsed();
        }
    }
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        let mut stops = self.0.lock();
        stops.open -= 1;
        if stops.open == 0 {
            stops.settle();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_questions_stop_the_clock_once() {
        let clock = StoppedClock::default();
        assert_eq!(clock.take(), Duration::ZERO);
        let before = Instant::now();
        let (one, two) = (clock.stop(), clock.stop());
        drop(one);
        let while_open = clock.take();
        assert!(while_open > Duration::ZERO, "the second is still open");
        drop(two);
        let stood_still = while_open + clock.take();
        assert!(stood_still <= before.elapsed(), "{stood_still:?}");
        assert_eq!(clock.take(), Duration::ZERO, "it goes again");
    }
}
