//! Work that the waiting task runs itself, and that continues as a task of its own when the waiting task drops it.
//!
//! Spawning a task for each piece of work would be simpler. But a task that only waits for another one costs two task
//! switches, and often a wake-up of a second thread, for every call (docs/notes/hot-path.md).

use std::{
    fmt,
    panic::resume_unwind,
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use tokio::{runtime::Handle, task::JoinHandle};
use tokio_util::task::TaskTracker;

/// A future that runs in the task that polls it. Dropped unfinished, it becomes a task of its own.
#[must_use]
pub struct CallerDriven<T: Send + 'static> {
    work: DrivenWork<T>,
    /// The tracker of the task that it becomes.
    tasks: TaskTracker,
}

enum DrivenWork<T> {
    Inline(BoxFuture<'static, T>),
    HandedOver(JoinHandle<T>),
    Done,
}

impl<T: Send + 'static> CallerDriven<T> {
    /// Work that becomes one of `tasks` when it is dropped unfinished.
    pub fn new(work: impl Future<Output = T> + Send + 'static, tasks: TaskTracker) -> Self {
        Self {
            work: DrivenWork::Inline(Box::pin(work)),
            tasks,
        }
    }

    fn is_done(&self) -> bool {
        matches!(self.work, DrivenWork::Done)
    }

    /// Moves the work to a task, which continues even if this is no longer polled.
    pub fn hand_over(&mut self) {
        self.work = match std::mem::replace(&mut self.work, DrivenWork::Done) {
            // Without a runtime the work cannot continue. Its record entry stays open and will read `unknown`.
            DrivenWork::Inline(work) => match Handle::try_current() {
                Ok(runtime) => DrivenWork::HandedOver(self.tasks.spawn_on(work, &runtime)),
                Err(_) => DrivenWork::Done,
            },
            other => other,
        };
    }
}

impl<T: Send + 'static> Future for CallerDriven<T> {
    type Output = T;

    /// Stays pending after it has completed, so that it can be a branch of a `select!` in a loop.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // Taken out while it is polled: work that panicked must not become a task when this is dropped.
        match std::mem::replace(&mut self.work, DrivenWork::Done) {
            DrivenWork::Inline(mut work) => {
                let polled = work.as_mut().poll(context);
                if polled.is_pending() {
                    self.work = DrivenWork::Inline(work);
                }
                polled
            }
            DrivenWork::HandedOver(mut task) => match Pin::new(&mut task).poll(context) {
                Poll::Ready(Ok(done)) => Poll::Ready(done),
                Poll::Ready(Err(error)) => match error.try_into_panic() {
                    Ok(panic) => resume_unwind(panic),
                    // The task was aborted because the runtime is shutting down, and the waiting task with it.
                    Err(_) => Poll::Pending,
                },
                Poll::Pending => {
                    self.work = DrivenWork::HandedOver(task);
                    Poll::Pending
                }
            },
            DrivenWork::Done => Poll::Pending,
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
        let mut driven = work(&steps, &go, &tasks);
        assert!((&mut driven).now_or_never().is_none());
        assert_eq!((steps.load(Ordering::SeqCst), tasks.len()), (1, 0));
        drop(driven);
        assert_eq!(tasks.len(), 1);
        go.notify_one();
        tasks.close();
        tasks.wait().await;
        assert_eq!(steps.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn finished_work_leaves_no_task() {
        let (steps, go, tasks) = (Arc::default(), Arc::default(), TaskTracker::new());
        let mut driven = work(&steps, &go, &tasks);
        go.notify_one();
        assert_eq!((&mut driven).await, 2);
        assert!(driven.is_done());
        drop(driven);
        assert!(tasks.is_empty());
    }

    #[tokio::test]
    async fn handed_over_work_can_still_be_awaited() {
        let (steps, go, tasks) = (Arc::default(), Arc::default(), TaskTracker::new());
        let mut driven = work(&steps, &go, &tasks);
        driven.hand_over();
        assert_eq!(tasks.len(), 1);
        go.notify_one();
        assert_eq!(driven.await, 2);
    }

    #[tokio::test]
    async fn panicked_work_counts_as_done() {
        let tasks = TaskTracker::new();
        let mut driven = CallerDriven::new(
            async {
                yield_now().await;
                panic!("a fault")
            },
            tasks.clone(),
        );
        let caught = std::panic::AssertUnwindSafe(async { (&mut driven).await })
            .catch_unwind()
            .await;
        let _: Result<(), _> = caught;
        assert!(driven.is_done());
        drop(driven);
        assert!(tasks.is_empty());
    }
}
