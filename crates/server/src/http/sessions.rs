//! The sessions of the HTTP door.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use bytes::Bytes;
use callgate_call::{AskFailed, Caller};
use callgate_wire::Frame;
use foldhash::HashMap;
use futures_util::future::BoxFuture;

use crate::{Principal, outlet::Outlet, queue::Sender, session::Session};

/// The limit of sessions per tenant. Beyond it, the longest-idle session of the same token is ended; if the token has none,
/// the longest-idle session of the tenant.
const MAX_SESSIONS: usize = 10_000;

/// A session and its GET stream, if the host has opened one.
#[derive(Debug)]
pub(super) struct HttpSession {
    pub(super) session: Session,
    pub(super) get_stream: Arc<GetStream>,
}

/// The host's GET stream: the way to notify or ask it outside of calls.
#[derive(Debug, Default)]
pub(super) struct GetStream {
    outlet: Mutex<Option<Outlet>>,
}

type ById = HashMap<String, (Arc<HttpSession>, Instant)>;

#[derive(Debug, Default)]
pub(super) struct Sessions {
    by_id: Mutex<ById>,
}

impl Sessions {
    pub(super) fn add(&self, session: Session) -> Arc<HttpSession> {
        let session = Arc::new(HttpSession {
            session,
            get_stream: Arc::default(),
        });
        let mut by_id = self.lock();
        if by_id.len() >= MAX_SESSIONS
            && let Some(id) = session_to_end(&by_id, session.session.principal())
            && let Some((evicted, _)) = by_id.remove(&id)
        {
            // Ended, not only removed: its calls and resource subscriptions would otherwise stay open.
            evicted.end();
        }
        by_id.insert(
            session.session.id.clone(),
            (session.clone(), Instant::now()),
        );
        session
    }

    /// The session of that id, if it belongs to this token. A session id alone grants nothing.
    pub(super) fn get(&self, id: &str, principal: &Principal) -> Option<Arc<HttpSession>> {
        let mut by_id = self.lock();
        let (session, used) = by_id.get_mut(id)?;
        if !session.session.principal().shares_with(principal) {
            return None;
        }
        *used = Instant::now();
        Some(session.clone())
    }

    pub(super) fn remove(&self, id: &str) {
        // A variable of its own, so that the lock is released before the session ends and calls out.
        let removed = self.lock().remove(id);
        if let Some((session, _)) = removed {
            session.end();
        }
    }

    pub(super) fn end_all(&self) {
        for (_, (session, _)) in self.lock().drain() {
            session.end();
        }
    }

    fn lock(&self) -> MutexGuard<'_, ById> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The session to end for a new one of this token, if its tenant is at the limit.
fn session_to_end(by_id: &ById, newcomer: &Principal) -> Option<String> {
    let of_tenant = || {
        by_id.iter().filter_map(|(id, (session, used))| {
            let whose = session.session.principal();
            let is_anothers = !whose.shares_with(newcomer);
            (whose.tenant == newcomer.tenant).then_some((is_anothers, *used, id))
        })
    };
    // Counted per tenant, so that one tenant cannot end another's sessions by opening its own.
    let is_full = of_tenant().count() >= MAX_SESSIONS;
    // `false` sorts first, so the token's own sessions go before those of other tokens.
    let oldest = of_tenant().min().filter(|_| is_full);
    oldest.map(|(_, _, id)| id.clone())
}

impl HttpSession {
    fn end(&self) {
        self.session.end();
        self.get_stream.close();
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
