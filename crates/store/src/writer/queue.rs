//! One thread writes for all: what comes while it does waits in a queue, and no thread waits with it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use callgate_record::Placing;
use futures_util::future::{self, Either, FutureExt};
use tokio::sync::oneshot;

use super::{Shared, chain::Chain};

/// How many rounds somebody writes for others before the log's own thread does: a call must not be kept
/// from going on because others are made.
const ROUNDS: usize = 64;

/// Something to do with the chain, and to tell of.
type Job = Box<dyn FnOnce(&mut Chain) + Send>;

/// What waits for the chain.
#[derive(Default)]
pub(super) struct Queue(Mutex<State>);

#[derive(Default)]
struct State {
    jobs: Vec<Job>,
    /// Whether somebody does them. Who finds nobody becomes the one.
    is_served: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The jobs to do next; without any, nobody serves from here on.
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

/// Somebody serves the queue. Should a job panic, the next one who comes goes on.
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
    /// Does `job` with the chain: at once when nobody has it, else it is done by whoever has it. The job
    /// is done also when nobody waits for what comes of it; `lost` stands for one that panicked.
    pub(super) fn place<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Chain) -> T + Send + 'static,
        lost: fn() -> T,
    ) -> Placing<T> {
        let mut state = self.queue.lock();
        if state.is_served {
            let (done, told) = oneshot::channel();
            state.jobs.push(Box::new(move |chain| {
                // Nobody may be waiting any more.
                let _ = done.send(job(chain));
            }));
            let told = told.map(move |told| told.unwrap_or_else(|_| lost()));
            return Either::Right(told.boxed());
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

    /// Goes on with the queue where somebody left it to the log's thread.
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

/// Does what waits, and says whether nothing is left. What is left is still served, by somebody else.
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
