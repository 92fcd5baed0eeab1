//! The requests of one connection that wait for a reply, by our own id.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use callgate_call::Caller;
use callgate_gate::Host;
use callgate_record::Effect;
use callgate_wire::{Era, Frame};
use foldhash::HashMap;
use tokio::sync::oneshot;

use crate::{stopped_clock::StoppedClock, tasks::TaskMaker};

/// How a waiting request ends.
#[derive(Debug)]
pub(crate) enum Ended {
    /// A result or an error.
    Reply(Frame),
    /// The reply was over the frame limit and had to be dropped.
    TooLarge,
    /// The request was refused on the way, or the way broke.
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
    /// The host's own progress token, raw.
    pub(crate) progress_token: Option<String>,
    /// Stands still while questions to the host are open.
    pub(crate) clock: StoppedClock,
    /// Where the call asks for a task: whose it will be.
    pub(crate) makes_task: Option<Arc<TaskMaker>>,
}

impl OnBehalf {
    fn session(&self) -> &str {
        &self.host.who.session
    }

    /// Whether questions must be this call's beyond doubt: its host would answer another's as its own.
    fn is_strict(&self) -> bool {
        self.host.era == Era::Stateless
    }
}

#[derive(Debug)]
struct Waiting {
    reply: oneshot::Sender<Ended>,
    on_behalf: Option<Arc<OnBehalf>>,
}

/// The table of waiting requests.
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
        self.next_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Notes a request before it is written. `None` when the connection has ended.
    pub(crate) fn enter(
        &self,
        id: u64,
        on_behalf: Option<Arc<OnBehalf>>,
    ) -> Option<oneshot::Receiver<Ended>> {
        let (reply, receiver) = oneshot::channel();
        let mut table = self.lock();
        if table.closed {
            return None;
        }
        table.waiting.insert(id, Waiting { reply, on_behalf });
        Some(receiver)
    }

    /// Forgets a request that nobody waits for any more; its late reply will be ignored.
    pub(crate) fn forget(&self, id: u64) {
        self.lock().waiting.remove(&id);
    }

    /// Hands a reply to whoever waits. `false` when nobody does.
    pub(crate) fn resolve(&self, id: u64, ended: Ended) -> bool {
        let waiting = self.lock().waiting.remove(&id);
        waiting.is_some_and(|waiting| {
            let call = waiting.on_behalf.as_deref();
            let maker = call.and_then(|call| call.makes_task.as_ref());
            if let (Some(maker), Ended::Reply(reply)) = (maker, &ended) {
                maker.replied(reply);
            }
            waiting.reply.send(ended).is_ok()
        })
    }

    /// Ends every waiting request, and all that would come after.
    pub(crate) fn close(&self) {
        let mut table = self.lock();
        table.closed = true;
        for (_, waiting) in table.waiting.drain() {
            let _ = waiting.reply.send(Ended::Gone);
        }
    }

    /// Whether `id` still waits.
    pub(crate) fn waits(&self, id: u64) -> bool {
        self.lock().waiting.contains_key(&id)
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().waiting.is_empty()
    }

    /// Whether there are calls, and all of them wait for answers of their hosts.
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

    /// Whose call a message without any reference must belong to: the newest call, provided
    /// that all calls under way are of one session.
    pub(crate) fn sole_session(&self) -> Sole {
        let table = self.lock();
        let mut newest: Option<(u64, &Arc<OnBehalf>)> = None;
        let calls = table
            .waiting
            .values()
            .filter_map(|waiting| waiting.on_behalf.as_ref());
        if calls.clone().count() > 1 && calls.clone().any(|call| call.is_strict()) {
            return Sole::Several;
        }
        for (id, waiting) in &table.waiting {
            let Some(on_behalf) = &waiting.on_behalf else {
                continue;
            };
            match newest {
                Some((_, other)) if other.session() != on_behalf.session() => return Sole::Several,
                Some((newer, _)) if newer > *id => {}
                Some(_) | None => newest = Some((*id, on_behalf)),
            }
        }
        newest.map_or(Sole::Nobody, |(_, on_behalf)| Sole::One(on_behalf.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whose calls are under way.
#[derive(Debug)]
pub(crate) enum Sole {
    /// No call is.
    Nobody,
    /// All are of one session; this is the newest.
    One(Arc<OnBehalf>),
    /// Several sessions have calls under way.
    Several,
}
