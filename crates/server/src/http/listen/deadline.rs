//! The deadline of a connection for its next request head.
//!
//! hyper sets a timer per request and drops it when the head has arrived. Setting and dropping a timer each take a lock
//! that all threads of the runtime share. So a connection sets one timer and leaves it: when it fires too early, it is
//! reset to the current deadline. A busy connection is woken once per deadline without need.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use hyper::rt::{Sleep, Timer};
use tokio::time::{self, Duration, Instant};

/// The timer of one connection. It has one deadline at a time.
#[derive(Debug, Clone, Default)]
pub(super) struct Deadline {
    set: Arc<Mutex<Option<Pin<Box<time::Sleep>>>>>,
}

/// Waits for one deadline.
struct Until {
    at: Instant,
    timer: Deadline,
}

impl Timer for Deadline {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, at: std::time::Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Until {
            at: at.into(),
            timer: self.clone(),
        })
    }

    fn now(&self) -> std::time::Instant {
        Instant::now().into()
    }
}

impl Sleep for Until {}

impl Future for Until {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let set = self.timer.set.lock();
        let mut set = set.unwrap_or_else(PoisonError::into_inner);
        let set = set.get_or_insert_with(|| Box::pin(time::sleep_until(self.at)));
        // Moved only if it would fire too late. One that fires too early costs a wake, but moving it takes the lock.
        if set.deadline() > self.at {
            set.as_mut().reset(self.at);
        }
        // A timer that was reset must be polled again, or it would not register the waker.
        while set.as_mut().poll(context).is_ready() {
            if set.deadline() >= self.at {
                return Poll::Ready(());
            }
            set.as_mut().reset(self.at);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    /// Long enough for anything that happens at all.
    const LONG: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn each_deadline_is_met_and_not_before_its_time() {
        let timer = Deadline::default();
        // As late as the one before, later and earlier than it, and whether it is waited for or dropped unmet.
        let cases = [
            (10, true),
            (10, true),
            (5, false),
            (20, true),
            (60_000, false),
            (10, true),
            (60_000, false),
            (0, true),
            (15, false),
            (10, true),
        ];
        for (length, is_met) in cases {
            let (start, length) = (Instant::now(), Duration::from_millis(length));
            let mut waiting = timer.sleep(length);
            assert!(length.is_zero() || (&mut waiting).now_or_never().is_none());
            if is_met {
                let in_time = time::timeout(LONG, waiting).await;
                assert!(in_time.is_ok(), "it never came");
                assert!(start.elapsed() >= length, "it came too early");
            }
        }
    }
}
