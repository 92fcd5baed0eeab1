//! Polls a future that wakes itself again at once.
//!
//! A connection and the service that answers its requests are one task, and they wake each other: one has read a body, the
//! other wants the next. A task that is woken while it runs is queued again, and because its thread's queue is then not
//! empty, the runtime wakes another thread to help. Polling such a future again at once avoids that.

use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures_util::task::AtomicWaker;

/// The limit of polls in a row; then other tasks get their turn.
const MAX_IN_A_ROW: usize = 16;

thread_local! {
    static IS_MUTED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `poll` and ignores the wakes that it causes on this thread. The caller must know that they are not needed, or wake
/// its task itself afterwards.
pub(in crate::http) fn without_waking<T>(poll: impl FnOnce() -> T) -> T {
    /// Restores the flag even if `poll` panics.
    struct Muted(bool);
    impl Drop for Muted {
        fn drop(&mut self) {
            IS_MUTED.set(self.0);
        }
    }
    let _muted = Muted(IS_MUTED.replace(true));
    poll()
}

/// Self-wake detection for one future.
#[derive(Debug)]
pub(super) struct SelfWake {
    shared: Arc<Shared>,
    waker: Waker,
}

#[derive(Debug, Default)]
struct Shared {
    task: AtomicWaker,
    is_running: AtomicBool,
    is_woken: AtomicBool,
}

impl SelfWake {
    pub(super) fn new() -> Self {
        let shared = Arc::<Shared>::default();
        Self {
            waker: Waker::from(shared.clone()),
            shared,
        }
    }

    /// Polls a future, and polls it again as long as it wakes itself.
    pub(super) fn poll<T>(
        &self,
        context: &Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let shared = &*self.shared;
        shared.task.register(context.waker());
        // Sequentially consistent, like all uses of both flags: a wake on another thread must either see `is_running` and
        // be found by the last check below, or wake the task itself.
        shared.is_running.store(true, Ordering::SeqCst);
        for _ in 0..MAX_IN_A_ROW {
            shared.is_woken.store(false, Ordering::SeqCst);
            let polled = poll(&mut Context::from_waker(&self.waker));
            if polled.is_ready() {
                // `is_running` stays set: the future is done, and a late wake must not reach the task.
                return polled;
            }
            if !shared.is_woken.load(Ordering::SeqCst) {
                break;
            }
        }
        shared.is_running.store(false, Ordering::SeqCst);
        // A wake after the last poll saw `is_running` and did not wake the task, so that is made up for here.
        if shared.is_woken.load(Ordering::SeqCst) {
            shared.task.wake();
        }
        Poll::Pending
    }
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if IS_MUTED.get() {
            return;
        }
        self.is_woken.store(true, Ordering::SeqCst);
        if !self.is_running.load(Ordering::SeqCst) {
            self.task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// How often a future was polled in one turn, and how often its task was woken for it.
    fn polled(mut wakes_itself: impl FnMut(usize) -> bool) -> (usize, usize) {
        let counted = Arc::new(Counted::default());
        let waker = Waker::from(counted.clone());
        let mut polls = 0;
        let pending: Poll<()> = SelfWake::new().poll(&Context::from_waker(&waker), |context| {
            polls += 1;
            if wakes_itself(polls) {
                context.waker().wake_by_ref();
            }
            Poll::Pending
        });
        assert!(pending.is_pending());
        (polls, counted.0.load(Ordering::SeqCst))
    }

    #[test]
    fn a_self_waking_future_is_polled_again_without_waking_the_task() {
        assert_eq!(polled(|_| false), (1, 0));
        assert_eq!(polled(|polls| polls < 3), (3, 0));
    }

    #[test]
    fn muted_wakes_poll_nothing_again() {
        let waker = Waker::from(Arc::new(Counted::default()));
        let mut polls = 0;
        let pending: Poll<()> = SelfWake::new().poll(&Context::from_waker(&waker), |context| {
            polls += 1;
            without_waking(|| context.waker().wake_by_ref());
            if polls == 1 {
                context.waker().wake_by_ref();
            }
            Poll::Pending
        });
        assert!(pending.is_pending());
        assert_eq!(polls, 2);
    }

    #[test]
    fn a_constantly_waking_future_yields() {
        assert_eq!(polled(|_| true), (MAX_IN_A_ROW, 1));
    }

    #[test]
    fn a_wake_between_polls_wakes_the_task() {
        let counted = Arc::new(Counted::default());
        let waker = Waker::from(counted.clone());
        let turns = SelfWake::new();
        let mut kept = None;
        let pending: Poll<()> = turns.poll(&Context::from_waker(&waker), |context| {
            kept = Some(context.waker().clone());
            Poll::Pending
        });
        assert!(pending.is_pending());
        kept.expect("it was polled").wake();
        assert_eq!(counted.0.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn no_wake_is_lost_between_threads() {
        for _ in 0..2000 {
            let (send, receive) = tokio::sync::oneshot::channel();
            let turns = SelfWake::new();
            let mut receive = std::pin::pin!(receive);
            let sending = std::thread::spawn(move || send.send(()));
            let received = std::future::poll_fn(|context| {
                turns.poll(context, |context| receive.as_mut().poll(context))
            });
            let in_time = tokio::time::timeout(std::time::Duration::from_secs(10), received);
            assert!(in_time.await.is_ok_and(|received| received.is_ok()));
            let _ = sending.join();
        }
    }
}
