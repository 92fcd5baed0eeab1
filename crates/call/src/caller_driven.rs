//! Work that whoever waits for it does itself, and that goes on without them when they leave.
//!
//! A task for each piece of work would be simpler. But a task that only waits for another one costs
//! two switches, and often a wake-up of a second thread, for every call.

use std::{
    fmt,
    panic::resume_unwind,
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use tokio::{runtime::Handle, task::JoinHandle};
use tokio_util::task::TaskTracker;

/// Work in the hands of whoever polls it. Dropped unfinished, it becomes a task of its own.
#[must_use]
pub struct CallerDriven<T: Send + 'static> {
    work: Work<T>,
    /// Whose task it becomes.
    tasks: TaskTracker,
}

enum Work<T> {
    Mine(BoxFuture<'static, T>),
    HandedOver(JoinHandle<T>),
    Done,
}

impl<T: Send + 'static> CallerDriven<T> {
    /// Work that becomes one of `tasks` when it is left.
    pub fn new(work: impl Future<Output = T> + Send + 'static, tasks: TaskTracker) -> Self {
        Self {
            work: Work::Mine(Box::pin(work)),
            tasks,
        }
    }

    /// Whether there is nothing left to do.
    fn is_done(&self) -> bool {
        matches!(self.work, Work::Done)
    }

    /// Makes a task of it, which goes on however seldom this is polled from now on.
    pub fn hand_over(&mut self) {
        self.work = match std::mem::replace(&mut self.work, Work::Done) {
            // Without a runtime nothing can go on; what is on record then reads as unknown.
            Work::Mine(work) => match Handle::try_current() {
                Ok(runtime) => Work::HandedOver(self.tasks.spawn_on(work, &runtime)),
                Err(_) => Work::Done,
            },
            other => other,
        };
    }
}

impl<T: Send + 'static> Future for CallerDriven<T> {
    type Output = T;

    /// What is done stays pending from then on, as a branch of a `select!` in a loop wants it.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // Taken out while it runs: work that panicked is over, and must not become a task.
        match std::mem::replace(&mut self.work, Work::Done) {
            Work::Mine(mut work) => {
                let polled = work.as_mut().poll(context);
                if polled.is_pending() {
                    self.work = Work::Mine(work);
                }
                polled
            }
            Work::HandedOver(mut task) => match Pin::new(&mut task).poll(context) {
                Poll::Ready(Ok(done)) => Poll::Ready(done),
                Poll::Ready(Err(error)) => match error.try_into_panic() {
                    Ok(panic) => resume_unwind(panic),
                    // The runtime ends, and whoever waits here with it.
                    Err(_) => Poll::Pending,
                },
                Poll::Pending => {
                    self.work = Work::HandedOver(task);
                    Poll::Pending
                }
            },
            Work::Done => Poll::Pending,
        }
    }
}

impl<T: Send + 'static> Drop for CallerDriven<T> {
    fn drop(&mut self) {
        self.hand_over();
    }
}

impl<T: Send + 'static> fmt::Debug for CallerDriven<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallerDriven")
            .field("is_done", &self.is_done())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use futures_util::FutureExt;
    use tokio::{sync::Notify, task::yield_now};

    use super::*;

    /// Counts its two steps, and waits to be let go between them.
    fn work(
        steps: &Arc<AtomicUsize>,
        go: &Arc<Notify>,
        tasks: &TaskTracker,
    ) -> CallerDriven<usize> {
        let (steps, go) = (steps.clone(), go.clone());
        let work = async move {
            steps.fetch_add(1, Ordering::SeqCst);
            go.notified().await;
            steps.fetch_add(1, Ordering::SeqCst) + 1
        };
        CallerDriven::new(work, tasks.clone())
    }

    #[tokio::test]
    async fn the_waiting_caller_drives_the_work_and_a_leaving_one_hands_it_over() {
        let (steps, go, tasks) = (Arc::default(), Arc::default(), TaskTracker::new());
        let mut in_hand = work(&steps, &go, &tasks);
        assert!((&mut in_hand).now_or_never().is_none());
        assert_eq!((steps.load(Ordering::SeqCst), tasks.len()), (1, 0));
        drop(in_hand);
        assert_eq!(tasks.len(), 1);
        go.notify_one();
        tasks.close();
        tasks.wait().await;
        assert_eq!(steps.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn finished_work_leaves_no_task() {
        let (steps, go, tasks) = (Arc::default(), Arc::default(), TaskTracker::new());
        let mut in_hand = work(&steps, &go, &tasks);
        go.notify_one();
        assert_eq!((&mut in_hand).await, 2);
        assert!(in_hand.is_done());
        drop(in_hand);
        assert!(tasks.is_empty());
    }

    #[tokio::test]
    async fn handed_over_work_can_still_be_awaited() {
        let (steps, go, tasks) = (Arc::default(), Arc::default(), TaskTracker::new());
        let mut in_hand = work(&steps, &go, &tasks);
        in_hand.hand_over();
        assert_eq!(tasks.len(), 1);
        go.notify_one();
        assert_eq!(in_hand.await, 2);
    }

    #[tokio::test]
    async fn panicked_work_counts_as_done() {
        let tasks = TaskTracker::new();
        let mut in_hand = CallerDriven::new(
            async {
                yield_now().await;
                panic!("a fault")
            },
            tasks.clone(),
        );
        let caught = std::panic::AssertUnwindSafe(async { (&mut in_hand).await })
            .catch_unwind()
            .await;
        let _: Result<(), _> = caught;
        assert!(in_hand.is_done());
        drop(in_hand);
        assert!(tasks.is_empty());
    }
}
