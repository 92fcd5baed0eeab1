//! Questions to a host (sampling, elicitation, roots) that wait for its reply.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use callgate_wire::{Frame, Id};
use tokio::sync::oneshot;

/// The open questions of one session.
#[derive(Debug, Default)]
pub(crate) struct Asks {
    next: AtomicU64,
    open: Mutex<HashMap<Id, oneshot::Sender<Frame>>>,
}

impl Asks {
    /// Notes a question and gives it an id.
    pub(crate) fn enter(&self) -> (Id, oneshot::Receiver<Frame>) {
        let id = Id::number(self.next.fetch_add(1, Ordering::Relaxed) + 1);
        let (reply, receiver) = oneshot::channel();
        self.lock().insert(id.clone(), reply);
        (id, receiver)
    }

    /// Forgets a question. `true` when it was still open.
    pub(crate) fn forget(&self, id: &Id) -> bool {
        self.lock().remove(id).is_some()
    }

    /// Hands the host's reply to whoever asked; a reply that nobody waits for is ignored.
    pub(crate) fn resolve(&self, reply: Frame) {
        let asked = reply.id().and_then(|id| self.lock().remove(id));
        if let Some(asked) = asked {
            let _ = asked.send(reply);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Id, oneshot::Sender<Frame>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
