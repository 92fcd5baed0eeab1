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

/// Sessions that a tenant has at once. One more makes the longest-idle session of the same token give way; a token without any
/// takes the place of the longest-idle session of the tenant.
const MAX_SESSIONS: usize = 10_000;

/// A session and its standing stream, when the host has one open.
#[derive(Debug)]
pub(super) struct HttpSession {
    pub(super) session: Session,
    pub(super) standing: Arc<Standing>,
}

/// The host's GET stream: the way to tell or ask it something outside of any call.
#[derive(Debug, Default)]
pub(super) struct Standing {
    outlet: Mutex<Option<Outlet>>,
}

/// Sessions, and when each was last used.
type ById = HashMap<String, (Arc<HttpSession>, Instant)>;

/// All sessions by id.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    by_id: Mutex<ById>,
}

impl Sessions {
    /// Adds a session.
    pub(super) fn add(&self, session: Session) -> Arc<HttpSession> {
        let session = Arc::new(HttpSession {
            session,
            standing: Arc::default(),
        });
        let mut by_id = self.lock();
        if by_id.len() >= MAX_SESSIONS
            && let Some(id) = gives_way(&by_id, session.session.principal())
            && let Some((given_up, _)) = by_id.remove(&id)
        {
            given_up.end();
        }
        by_id.insert(
            session.session.id.clone(),
            (session.clone(), Instant::now()),
        );
        session
    }

    /// The session of that id, if it belongs to this token.
    pub(super) fn get(&self, id: &str, principal: &Principal) -> Option<Arc<HttpSession>> {
        let mut by_id = self.lock();
        let (session, used) = by_id.get_mut(id)?;
        if !session.session.principal().shares_with(principal) {
            return None;
        }
        *used = Instant::now();
        Some(session.clone())
    }

    /// Ends a session.
    pub(super) fn remove(&self, id: &str) {
        let removed = self.lock().remove(id);
        if let Some((session, _)) = removed {
            session.end();
        }
    }

    /// Ends all sessions.
    pub(super) fn end_all(&self) {
        for (_, (session, _)) in self.lock().drain() {
            session.end();
        }
    }

    fn lock(&self) -> MutexGuard<'_, ById> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The session that makes room for another of this token, where the token's tenant has too many.
fn gives_way(by_id: &ById, newcomer: &Principal) -> Option<String> {
    let of_tenant = || {
        by_id.iter().filter_map(|(id, (session, used))| {
            let whose = session.session.principal();
            let is_anothers = !whose.shares_with(newcomer);
            (whose.tenant == newcomer.tenant).then_some((is_anothers, *used, id))
        })
    };
    let is_full = of_tenant().count() >= MAX_SESSIONS;
    let oldest = of_tenant().min().filter(|_| is_full);
    oldest.map(|(_, _, id)| id.clone())
}

impl HttpSession {
    /// Ends the session and its standing stream.
    fn end(&self) {
        self.session.end();
        self.standing.close();
    }
}

impl Standing {
    /// Opens the stream; one that was open before is replaced and ends.
    pub(super) fn open(&self, session: &Session, messages: Sender) {
        *self.lock() = Some(Outlet::new(messages, session.asks.clone()));
    }

    /// Ends the stream once what waits in it is written.
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

impl Caller for Standing {
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
