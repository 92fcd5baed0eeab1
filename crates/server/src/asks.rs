//! Open questions to a host (sampling, elicitation, roots), by the id they were sent with.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use callgate_wire::{Frame, Id};
use tokio::sync::{oneshot, watch};

/// How many reasons for cancellations are kept. They are used at once, so a few are enough.
const REASONS_KEPT: usize = 64;
/// Longer reasons are cut off.
const MAX_REASON_CHARS: usize = 1000;

type Open = HashMap<Id, oneshot::Sender<Frame>>;

/// The open questions of one session.
#[derive(Debug, Default)]
pub(crate) struct OpenQuestions {
    next: AtomicU64,
    open: Mutex<Open>,
    /// The number of open questions.
    count: watch::Sender<usize>,
    /// Why the host cancelled its latest requests.
    reasons: Mutex<VecDeque<(Id, String)>>,
}

impl OpenQuestions {
    /// Registers a question and assigns its id.
    pub(crate) fn register(&self) -> (Id, oneshot::Receiver<Frame>) {
        // Own ids, not the server's: several servers ask the same host and choose the same ids.
        let id = Id::number(self.next.fetch_add(1, Ordering::Relaxed) + 1);
        let (reply, receiver) = oneshot::channel();
        self.change(|open| open.insert(id.clone(), reply));
        (id, receiver)
    }

    /// Removes a question. `true` when it was still open.
    pub(crate) fn forget(&self, id: &Id) -> bool {
        self.change(|open| open.remove(id)).is_some()
    }

    /// Delivers the host's reply to the call that asked. A reply to an unknown or abandoned question is ignored.
    pub(crate) fn resolve(&self, reply: Frame) {
        let asked = reply
            .id()
            .and_then(|id| self.change(|open| open.remove(id)));
        if let Some(asked) = asked {
            let _ = asked.send(reply);
        }
    }

    /// Notes why the host cancels a request.
    pub(crate) fn note_cancel(&self, request: &Id, reason: &str) {
        let reason = reason.chars().take(MAX_REASON_CHARS).collect();
        let mut reasons = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        if reasons.len() == REASONS_KEPT {
            reasons.pop_front();
        }
        reasons.push_back((request.clone(), reason));
    }

    /// The reason for the latest cancellation of a request.
    pub(crate) fn cancel_reason(&self, request: &Id) -> Option<String> {
        let reasons = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        let mut reasons = reasons.iter().rev();
        let (_, reason) = reasons.find(|(cancelled, _)| cancelled == request)?;
        Some(reason.clone())
    }

    /// Waits until a question is open.
    pub(crate) async fn any(&self) {
        // This cannot fail: `self` owns the sender.
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
