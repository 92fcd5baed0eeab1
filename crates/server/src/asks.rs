//! Questions to a host (sampling, elicitation, roots) that wait for its reply.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use callgate_wire::{Frame, Id};
use tokio::sync::{oneshot, watch};

type Open = HashMap<Id, oneshot::Sender<Frame>>;

/// The open questions of one session.
#[derive(Debug, Default)]
pub(crate) struct Asks {
    next: AtomicU64,
    open: Mutex<Open>,
    /// How many are open.
    count: watch::Sender<usize>,
}

impl Asks {
    /// Notes a question and gives it an id.
    pub(crate) fn enter(&self) -> (Id, oneshot::Receiver<Frame>) {
        let id = Id::number(self.next.fetch_add(1, Ordering::Relaxed) + 1);
        let (reply, receiver) = oneshot::channel();
        self.change(|open| open.insert(id.clone(), reply));
        (id, receiver)
    }

    /// Forgets a question. `true` when it was still open.
    pub(crate) fn forget(&self, id: &Id) -> bool {
        self.change(|open| open.remove(id)).is_some()
    }

    /// Hands the host's reply to whoever asked; a reply that nobody waits for is ignored.
    pub(crate) fn resolve(&self, reply: Frame) {
        let asked = reply
            .id()
            .and_then(|id| self.change(|open| open.remove(id)));
        if let Some(asked) = asked {
            let _ = asked.send(reply);
        }
    }

    /// Waits until a question is open.
    pub(crate) async fn any(&self) {
        // The sender is ours, so it is not gone.
        let _ = self.count.subscribe().wait_for(|count| *count > 0).await;
    }

    fn change<T>(&self, change: impl FnOnce(&mut Open) -> T) -> T {
        let mut open = self.lock();
        let changed = change(&mut open);
        self.count.send_replace(open.len());
        changed
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
