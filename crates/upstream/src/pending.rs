//! The requests of one connection that await a reply, by our own id.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use callgate_call::{Caller, Failure};
use callgate_gate::Host;
use callgate_record::Effect;
use callgate_wire::{Era, Frame, Id};
use foldhash::HashMap;
use tokio::sync::oneshot;

use crate::{stopped_clock::StoppedClock, tasks::TaskMaker};

/// The outcome of a pending request.
#[derive(Debug)]
pub(crate) enum Ended {
    /// A result or an error.
    Reply(Frame),
    /// The reply exceeded the frame limit and was dropped.
    TooLarge,
    /// The reply is not a valid message, for this reason.
    Unreadable(String),
    /// The transport refused the request or broke.
    Lost {
        /// What is known about its effect.
        effect: Effect,
        /// The HTTP status, when that was the answer.
        status: Option<u16>,
        /// What went wrong, for the operator.
        detail: String,
    },
    /// The connection ended first.
    Gone,
}

/// The host's side of a waiting call.
#[derive(Debug)]
pub(crate) struct OnBehalf {
    pub(crate) caller: Arc<dyn Caller>,
    pub(crate) host: Arc<Host>,
    /// The host's own id of its request.
    pub(crate) request: Option<Id>,
    /// The host's own progress token, raw.
    pub(crate) progress_token: Option<String>,
    /// Paused while questions to the host are open.
    pub(crate) clock: StoppedClock,
    /// If the call asks for a task: its owner.
    pub(crate) makes_task: Option<Arc<TaskMaker>>,
}

impl OnBehalf {
    /// Why the call is given up, for the server.
    pub(crate) fn reason(&self, failure: &Failure) -> String {
        let said = match failure {
            Failure::Cancelled { .. } => {
                let request = self.request.as_ref();
                request.and_then(|request| self.caller.cancel_reason(request))
            }
            Failure::Unavailable { .. }
            | Failure::TimedOut { .. }
            | Failure::TooLarge { .. }
            | Failure::Unreadable { .. }
            | Failure::UnknownState
            | Failure::Broken => None,
        };
        said.unwrap_or_else(|| failure.to_string())
    }

    fn session(&self) -> &str {
        &self.host.identity.session
    }

    /// Whether questions must be this call's beyond doubt: its host could not tell another call's question from
    /// one of its own.
    fn is_strict(&self) -> bool {
        self.host.era == Era::Stateless
    }
}

#[derive(Debug)]
struct Waiting {
    reply: oneshot::Sender<Ended>,
    on_behalf: Option<Arc<OnBehalf>>,
}

#[derive(Debug, Default)]
pub(crate) struct Pending {
    next_id: AtomicU64,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    waiting: HashMap<u64, Waiting>,
    closed: bool,
}

impl Pending {
    /// A fresh id for a request on this connection.
    pub(crate) fn fresh_id(&self) -> u64 {
        // Relaxed: ids only have to differ, and order nothing else.
        self.next_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Adds a request before it is written, because the reply may come first. `None` when the connection has
    /// ended.
    pub(crate) fn enter(
        &self,
        id: u64,
        on_behalf: Option<Arc<OnBehalf>>,
    ) -> Option<oneshot::Receiver<Ended>> {
        let (reply, receiver) = oneshot::channel();
        let mut table = self.lock();
        // Nothing would ever end a request that is added after `close` has drained the table.
        if table.closed {
            return None;
        }
        table.waiting.insert(id, Waiting { reply, on_behalf });
        Some(receiver)
    }

    /// Forgets an abandoned request; a late reply to it will be ignored.
    pub(crate) fn forget(&self, id: u64) {
        self.lock().waiting.remove(&id);
    }

    /// Delivers an outcome to the waiting request. `false` if there is none.
    pub(crate) fn resolve(&self, id: u64, ended: Ended) -> bool {
        let waiting = self.lock().waiting.remove(&id);
        waiting.is_some_and(|waiting| {
            let call = waiting.on_behalf.as_deref();
            let maker = call.and_then(|call| call.makes_task.as_ref());
            // Here in the reader, so that the owner is known before the server's next message is read.
            if let (Some(maker), Ended::Reply(reply)) = (maker, &ended) {
                maker.replied(reply);
            }
            waiting.reply.send(ended).is_ok()
        })
    }

    /// Ends all pending requests, and refuses new ones.
    pub(crate) fn close(&self) {
        let mut table = self.lock();
        table.closed = true;
        for (_, waiting) in table.waiting.drain() {
            let _ = waiting.reply.send(Ended::Gone);
        }
    }

    pub(crate) fn is_waiting(&self, id: u64) -> bool {
        self.lock().waiting.contains_key(&id)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().waiting.is_empty()
    }

    /// Whether calls are pending, and all of them wait for answers of their hosts.
    pub(crate) fn waits_for_hosts(&self) -> bool {
        let table = self.lock();
        let mut calls = table.waiting.values();
        let waits = |waiting: &Waiting| {
            let call = waiting.on_behalf.as_ref();
            call.is_none_or(|call| call.clock.is_stopped())
        };
        !table.waiting.is_empty() && calls.all(waits)
    }

    /// The host's side of call `id`.
    pub(crate) fn on_behalf(&self, id: u64) -> Option<Arc<OnBehalf>> {
        self.lock().waiting.get(&id)?.on_behalf.clone()
    }

    /// The call that a message without any reference belongs to: the newest one, provided that all calls in
    /// flight are of one session.
    pub(crate) fn sole_session(&self) -> SoleSession {
        let table = self.lock();
        let mut newest: Option<(u64, &Arc<OnBehalf>)> = None;
        let calls = table
            .waiting
            .values()
            .filter_map(|waiting| waiting.on_behalf.as_ref());
        // A host that answers in a later request would attach the question to the wrong call.
        if calls.clone().count() > 1 && calls.clone().any(|call| call.is_strict()) {
            return SoleSession::Several;
        }
        for (id, waiting) in &table.waiting {
            let Some(on_behalf) = &waiting.on_behalf else {
                continue;
            };
            match newest {
                Some((_, other)) if other.session() != on_behalf.session() => {
                    return SoleSession::Several;
                }
                Some((newer, _)) if newer > *id => {}
                Some(_) | None => newest = Some((*id, on_behalf)),
            }
        }
        newest.map_or(SoleSession::NoCalls, |(_, on_behalf)| {
            SoleSession::One(on_behalf.clone())
        })
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who has calls in flight.
#[derive(Debug)]
pub(crate) enum SoleSession {
    NoCalls,
    /// All calls are of one session; this is the newest.
    One(Arc<OnBehalf>),
    /// Several sessions have calls in flight, or the call is ambiguous for another reason.
    Several,
}
