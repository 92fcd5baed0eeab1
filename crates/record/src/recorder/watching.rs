//! Watching the calls of one session as they are recorded: how an agent step sees the decisions about its own calls.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use callgate_gate::CallId;

use super::Recorder;
use crate::Entry;

/// Receives the entries of a session. It runs on the path of a call, so it must not block.
type Watcher = Box<dyn Fn(&Entry) + Send + Sync>;

/// The watched sessions.
#[derive(Default)]
pub(super) struct Watched {
    /// Read without the lock: usually no session is watched.
    any: AtomicBool,
    sessions: Mutex<HashMap<String, Session>>,
}

struct Session {
    watcher: Watcher,
    /// The calls whose end the watcher is owed: the entry of an end names no session.
    open: HashSet<CallId>,
}

/// Ends the watching when it is dropped.
#[derive(Debug)]
pub struct Watching {
    watched: Arc<Watched>,
    session: String,
}

impl Recorder {
    /// Passes every entry about a call of `session` to `watcher`, redacted as on record. A second watcher of a session
    /// replaces the first.
    #[must_use = "the watching ends when it is dropped"]
    pub fn watch(
        &self,
        session: &str,
        watcher: impl Fn(&Entry) + Send + Sync + 'static,
    ) -> Watching {
        let new = Session {
            watcher: Box::new(watcher),
            open: HashSet::new(),
        };
        self.watched.locked().insert(session.to_owned(), new);
        self.watched.any.store(true, Ordering::Release);
        Watching {
            watched: self.watched.clone(),
            session: session.to_owned(),
        }
    }
}

impl Watched {
    /// Passes an entry to the watcher of its session.
    pub(super) fn show(&self, entry: &Entry) {
        if self.any.load(Ordering::Acquire) {
            self.pass(entry);
        }
    }

    fn pass(&self, entry: &Entry) {
        let mut sessions = self.locked();
        match entry {
            Entry::Held(call) | Entry::Forwarding(call) => {
                if let Some(session) = sessions.get_mut(&call.session_id) {
                    session.open.insert(call.id);
                    (session.watcher)(entry);
                }
            }
            Entry::Refused(call) => {
                if let Some(session) = sessions.get_mut(&call.session_id) {
                    session.open.remove(&call.id);
                    (session.watcher)(entry);
                }
            }
            Entry::Finished(finished) => {
                let mut sessions = sessions.values_mut();
                let is_its = |session: &&mut Session| session.open.contains(&finished.id);
                if let Some(session) = sessions.find(is_its) {
                    session.open.remove(&finished.id);
                    (session.watcher)(entry);
                }
            }
            Entry::Opened(_)
            | Entry::Closed {}
            | Entry::Checked(_)
            | Entry::Unknown(_)
            | Entry::Head(_)
            | Entry::Checkpoint(_)
            | Entry::Event(_) => {}
        }
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut sessions = self.watched.locked();
        sessions.remove(&self.session);
        self.watched
            .any
            .store(!sessions.is_empty(), Ordering::Release);
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watched").field(&self.any).finish()
    }
}
