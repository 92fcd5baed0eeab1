//! The calls that are under way, by session and the host's own request id: what a cancellation
//! is looked up in, and what draining waits for.

use std::{
    collections::hash_map::Entry,
    sync::{Arc, Mutex},
};

use callgate_wire::Id;
use foldhash::HashMap;
use tokio_util::sync::CancellationToken;

/// Calls under way.
#[derive(Debug, Default)]
pub struct Registry {
    running: Mutex<HashMap<Key, CancellationToken>>,
}

/// A session and the id of its request. Shared by the table and the call's place in it.
type Key = Arc<(String, Id)>;

/// A call's place in the registry, given back however the call ends.
#[derive(Debug)]
pub(crate) struct Place {
    registry: Arc<Registry>,
    key: Key,
    pub(crate) cancelled: CancellationToken,
}

impl Registry {
    /// Notes a call. `None` when this session has a call of the same id under way already.
    pub(crate) fn enter(self: &Arc<Self>, session: &str, id: &Id) -> Option<Place> {
        let key = key(session, id);
        let cancelled = match self.lock().entry(key.clone()) {
            Entry::Occupied(_) => return None,
            Entry::Vacant(place) => place.insert(CancellationToken::new()).clone(),
        };
        Some(Place {
            registry: self.clone(),
            key,
            cancelled,
        })
    }

    /// What fires when a session's call is cancelled; `None` when there is no such call.
    pub(crate) fn token(&self, session: &str, id: &Id) -> Option<CancellationToken> {
        self.lock().get(&key(session, id)).cloned()
    }

    /// Cancels a session's call. Unknown and finished ids are ignored.
    pub fn cancel(&self, session: &str, id: &Id) {
        if let Some(token) = self.lock().get(&key(session, id)) {
            token.cancel();
        }
    }

    /// Cancels every call of a session that went away.
    pub fn cancel_session(&self, session: &str) {
        for (key, token) in self.lock().iter() {
            if key.0 == session {
                token.cancel();
            }
        }
    }

    /// Cancels everything, at the end of draining.
    pub fn cancel_all(&self) {
        self.lock().values().for_each(CancellationToken::cancel);
    }

    /// How many calls are under way.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Key, CancellationToken>> {
        self.running
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn key(session: &str, id: &Id) -> Key {
    Arc::new((session.to_owned(), id.clone()))
}

impl Drop for Place {
    fn drop(&mut self) {
        self.registry.lock().remove(&self.key);
    }
}
