//! The calls in flight, by session and the host's request id: cancellations are looked up here, and draining cancels from here.

use std::{
    collections::hash_map::Entry,
    sync::{Arc, Mutex},
};

use callgate_wire::Id;
use foldhash::HashMap;
use tokio_util::sync::CancellationToken;

/// The calls in flight.
#[derive(Debug, Default)]
pub struct Registry {
    running: Mutex<HashMap<Key, CancellationToken>>,
}

/// A session and the id of its request. Shared by the table and the call's entry.
type Key = Arc<(String, Id)>;

/// A call's entry in the registry. Dropping it removes the entry, however the call ends.
#[derive(Debug)]
pub(crate) struct RegistryEntry {
    registry: Arc<Registry>,
    key: Key,
    pub(crate) cancelled: CancellationToken,
}

impl Registry {
    /// Adds a call. `None` if this session has a call with the same id in flight.
    pub(crate) fn enter(self: &Arc<Self>, session: &str, id: &Id) -> Option<RegistryEntry> {
        let key = key(session, id);
        // Looked up and added under one lock: two requests with one id must not both get in.
        let cancelled = match self.lock().entry(key.clone()) {
            Entry::Occupied(_) => return None,
            Entry::Vacant(place) => place.insert(CancellationToken::new()).clone(),
        };
        Some(RegistryEntry {
            registry: self.clone(),
            key,
            cancelled,
        })
    }

    /// The cancellation token of a session's call; `None` if it is not in flight.
    pub(crate) fn token(&self, session: &str, id: &Id) -> Option<CancellationToken> {
        self.lock().get(&key(session, id)).cloned()
    }

    /// Cancels a session's call. Unknown and finished ids are ignored.
    pub fn cancel(&self, session: &str, id: &Id) {
        if let Some(token) = self.lock().get(&key(session, id)) {
            token.cancel();
        }
    }

    /// Cancels every call of a session that has ended.
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

    pub fn len(&self) -> usize {
        self.lock().len()
    }

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

impl Drop for RegistryEntry {
    fn drop(&mut self) {
        self.registry.lock().remove(&self.key);
    }
}
