//! One thread writes for all: entries that arrive meanwhile wait in a queue, and their threads do not block.

use std::sync::{Mutex, MutexGuard, PoisonError};

use callgate_record::Placing;
use futures_util::future::{self, Either, FutureExt};
use tokio::sync::oneshot;

use super::{Shared, chain::Chain};

/// How many rounds a call writes for others before the log's own thread takes over: a steady stream of other
/// calls must not delay it forever.
const ROUNDS: usize = 64;

/// An operation on the chain that reports its own result.
type Job = Box<dyn FnOnce(&mut Chain) + Send>;

#[derive(Default)]
pub(super) struct Queue(Mutex<State>);

#[derive(Default)]
struct State {
    jobs: Vec<Job>,
    /// Whether a thread runs the jobs. A thread that finds none becomes the one that does.
    is_served: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The jobs to run next; without any, the queue is no longer served.
    fn next_round(&self) -> Option<Vec<Job>> {
        let mut state = self.lock();
        state.is_served = !state.jobs.is_empty();
        state.is_served.then(|| std::mem::take(&mut state.jobs))
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.lock();
        f.debug_struct("Queue")
            .field("jobs", &state.jobs.len())
            .field("is_served", &state.is_served)
            .finish()
    }
}

/// The duty of running the queue's jobs. If a job panics, dropping this lets the next thread take over.
struct Serving<'a> {
    queue: &'a Queue,
    has_ended: bool,
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.queue.lock().is_served = false;
        }
    }
}

impl Shared {
    /// Runs `job` on the chain: at once if no thread has it, else on the thread that has it. The job runs even if its
    /// result is dropped; `lost` makes the result of a job that panicked.
    pub(super) fn place<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Chain) -> T + Send + 'static,
        lost: fn() -> T,
    ) -> Placing<T> {
        let mut state = self.queue.lock();
        if state.is_served {
            let (done, result) = oneshot::channel();
            state.jobs.push(Box::new(move |chain| {
                // The receiver is gone when the caller was cancelled.
                let _ = done.send(job(chain));
            }));
            let result = result.map(move |result| result.unwrap_or_else(|_| lost()));
            return Either::Right(result.boxed());
        }
        state.is_served = true;
        drop(state);
        let serving = self.serving();
        let mut chain = self.lock();
        let done = job(&mut chain);
        if !serve(serving, &mut chain, ROUNDS) {
            chain.hand_over();
            self.work.notify_all();
        }
        Either::Left(future::ready(done))
    }

    /// Runs the queue that a call left to the log's thread.
    pub(super) fn serve_on(&self, chain: &mut Chain) {
        serve(self.serving(), chain, usize::MAX);
    }

    fn serving(&self) -> Serving<'_> {
        Serving {
            queue: &self.queue,
            has_ended: false,
        }
    }
}

/// Runs the waiting jobs; returns whether none is left. Otherwise the duty passes to the log's thread.
fn serve(mut serving: Serving<'_>, chain: &mut Chain, rounds: usize) -> bool {
    for _ in 0..rounds {
        let Some(jobs) = serving.queue.next_round() else {
            serving.has_ended = true;
            return true;
        };
        jobs.into_iter().for_each(|job| job(chain));
    }
    serving.has_ended = true;
    false
}
