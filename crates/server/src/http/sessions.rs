//! The sessions of the HTTP door.

use std::{
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use callgate_call::{AskFailed, Caller};
use callgate_wire::Frame;
use foldhash::HashMap;
use futures_util::future::BoxFuture;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{Principal, outlet::Outlet, queue::Sender, session::Session};

/// The limit of sessions per tenant. Beyond it, the longest-idle session of the same token is ended; if the token has none,
/// the longest-idle session of the tenant.
const MAX_SESSIONS: usize = 10_000;
/// How often idle sessions are looked for: this part of the time after which they end.
const SWEEPS_PER_IDLE_TIME: u32 = 10;
/// The longest time between two of these searches.
const SWEEP_AT_LEAST_EVERY: Duration = Duration::from_secs(60);

/// A session and its GET stream, if the host has opened one.
#[derive(Debug)]
pub(super) struct HttpSession {
    pub(super) session: Session,
    pub(super) get_stream: Arc<GetStream>,
    usage: Mutex<Usage>,
}

/// How a session is used.
#[derive(Debug, Clone, Copy)]
struct Usage {
    /// Requests and streams that are open.
    open: usize,
    last: Instant,
}

/// A request or stream that uses a session. Such a session is not idle.
#[derive(Debug)]
pub(super) struct SessionUse(Arc<HttpSession>);

/// The host's GET stream: the way to notify or ask it outside of calls.
#[derive(Debug, Default)]
pub(super) struct GetStream {
    outlet: Mutex<Option<Outlet>>,
}

type ById = HashMap<String, Arc<HttpSession>>;

#[derive(Debug)]
pub(super) struct Sessions {
    by_id: Mutex<ById>,
    /// How long a session may be idle.
    idle: Duration,
}

impl Sessions {
    pub(super) fn new(idle: Duration) -> Self {
        Self {
            by_id: Mutex::default(),
            idle,
        }
    }

    pub(super) fn add(&self, session: Session) -> SessionUse {
        let session = Arc::new(HttpSession {
            session,
            get_stream: Arc::default(),
            usage: Mutex::new(Usage {
                open: 0,
                last: Instant::now(),
            }),
        });
        let used = SessionUse::of(&session);
        let mut by_id = self.lock();
        let evicted = (by_id.len() >= MAX_SESSIONS)
            .then(|| session_to_end(&by_id, session.session.principal()))
            .flatten()
            .and_then(|id| by_id.remove(&id));
        by_id.insert(session.session.id.clone(), session);
        drop(by_id);
        if let Some(evicted) = evicted {
            // Ended, not only removed: its calls and resource subscriptions would otherwise stay open.
            evicted.end();
        }
        used
    }

    /// The session of that id, if it belongs to this token and was not idle for too long. A session id alone grants nothing.
    pub(super) fn get(&self, id: &str, principal: &Principal) -> Option<SessionUse> {
        let mut by_id = self.lock();
        let session = by_id.get(id)?;
        if !session.session.principal().shares_with(principal) {
            return None;
        }
        if session.is_over(self.idle, Instant::now()) {
            let over = by_id.remove(id);
            drop(by_id);
            over.iter().for_each(|session| session.end());
            return None;
        }
        Some(SessionUse::of(session))
    }

    pub(super) fn remove(&self, id: &str) {
        // A variable of its own, so that the lock is released before the session ends and calls out.
        let removed = self.lock().remove(id);
        if let Some(session) = removed {
            session.end();
        }
    }

    /// Ends idle sessions until `stop` fires.
    pub(super) async fn sweep(&self, stop: CancellationToken) {
        let pause = (self.idle / SWEEPS_PER_IDLE_TIME).min(SWEEP_AT_LEAST_EVERY);
        while stop
            .run_until_cancelled(tokio::time::sleep(pause))
            .await
            .is_some()
        {
            let now = Instant::now();
            let over: Vec<_> = {
                let mut by_id = self.lock();
                let over = by_id.extract_if(|_, session| session.is_over(self.idle, now));
                over.collect()
            };
            over.iter().for_each(|(_, session)| session.end());
        }
    }

    pub(super) fn end_all(&self) {
        let all = std::mem::take(&mut *self.lock());
        all.values().for_each(|session| session.end());
    }

    fn lock(&self) -> MutexGuard<'_, ById> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The session to end for a new one of this token, if its tenant is at the limit.
fn session_to_end(by_id: &ById, newcomer: &Principal) -> Option<String> {
    let of_tenant = || {
        by_id.iter().filter_map(|(id, session)| {
            let whose = session.session.principal();
            let is_anothers = !whose.shares_with(newcomer);
            let usage = *session.usage();
            let rank = (is_anothers, usage.open > 0, usage.last, id);
            (whose.tenant == newcomer.tenant).then_some(rank)
        })
    };
    // Counted per tenant, so that one tenant cannot end another's sessions by opening its own.
    let is_full = of_tenant().count() >= MAX_SESSIONS;
    // `false` sorts first, so the token's own sessions go before those of other tokens, and idle ones before those in use.
    let oldest = of_tenant().min().filter(|_| is_full);
    oldest.map(|(_, _, _, id)| id.clone())
}

impl HttpSession {
    fn end(&self) {
        self.session.end();
        self.get_stream.close();
    }

    fn is_over(&self, idle: Duration, now: Instant) -> bool {
        let usage = *self.usage();
        usage.open == 0 && now.saturating_duration_since(usage.last) >= idle
    }

    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionUse {
    fn of(session: &Arc<HttpSession>) -> Self {
        session.usage().open += 1;
        Self(session.clone())
    }
}

impl Clone for SessionUse {
    fn clone(&self) -> Self {
        Self::of(&self.0)
    }
}

impl Drop for SessionUse {
    fn drop(&mut self) {
        let mut usage = self.0.usage();
        usage.open -= 1;
        usage.last = Instant::now();
    }
}

impl Deref for SessionUse {
    type Target = HttpSession;

    fn deref(&self) -> &HttpSession {
        &self.0
    }
}

impl GetStream {
    /// Opens the stream and ends an earlier one: a host that reconnects may not have closed its old stream.
    pub(super) fn open(&self, session: &Session, messages: Sender) {
        *self.lock() = Some(Outlet::new(messages, session.asks.clone()));
    }

    /// Ends the stream after its queued messages.
    fn close(&self) {
        *self.lock() = None;
    }

    fn outlet(&self) -> Option<Outlet> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Outlet>> {
        self.outlet.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Caller for GetStream {
    fn notify(&self, notification: Bytes) {
        if let Some(outlet) = self.outlet() {
            outlet.notify(notification);
        }
    }

    fn ask(&self, request: Frame) -> BoxFuture<'_, Result<Frame, AskFailed>> {
        Box::pin(async move {
            match self.outlet() {
                Some(outlet) => outlet.ask(request).await,
                None => Err(AskFailed::NoWay),
            }
        })
    }
}
