//! Sessions: what is open in each, and the standing stream of what belongs to no request.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::message::Events;
use crate::serve::{Outlet, Tables, locked};

/// All sessions of a fake upstream.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    known: Mutex<HashMap<String, Arc<Session>>>,
    next: AtomicUsize,
}

/// One session.
#[derive(Debug, Default)]
pub(super) struct Session {
    pub(super) id: String,
    pub(super) tables: Arc<Tables>,
    pub(super) standing: Arc<Standing>,
    requests: AtomicUsize,
}

/// What waits for the standing stream, and which stream that is.
#[derive(Debug, Default)]
pub(super) struct Standing {
    waiting: Mutex<Waiting>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    messages: VecDeque<Vec<u8>>,
    /// The newest stream; an older one ends when it sees that it is not this.
    stream: usize,
    closed: bool,
}

impl Sessions {
    /// Opens a session.
    pub(super) fn open(&self) -> Arc<Session> {
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        let session = Arc::new(Session {
            id: format!("session-{}-{number}", std::process::id()),
            ..Session::default()
        });
        locked(&self.known).insert(session.id.clone(), session.clone());
        session
    }

    /// The session of that id.
    pub(super) fn find(&self, id: &str) -> Option<Arc<Session>> {
        locked(&self.known).get(id).cloned()
    }

    /// Forgets a session. Its stream stays open and silent, as with a server that lost its memory
    /// and not its sockets.
    pub(super) fn forget(&self, id: &str) -> Option<Arc<Session>> {
        locked(&self.known).remove(id)
    }

    /// Ends a session and its stream; `false` when it was not known.
    pub(super) fn end(&self, id: &str) -> bool {
        let ended = self.forget(id);
        if let Some(session) = &ended {
            session.standing.close();
        }
        ended.is_some()
    }
}

impl Session {
    /// Counts a request; `true` when there were `most` before it.
    pub(super) fn is_used_up(&self, most: Option<usize>) -> bool {
        let made = self.requests.fetch_add(1, Ordering::SeqCst);
        most.is_some_and(|most| made >= most)
    }
}

impl Standing {
    /// Sends what waits and what comes, until the session ends or a newer stream takes over.
    pub(super) fn run(&self, events: &mut Events) -> io::Result<()> {
        let own = {
            let mut waiting = locked(&self.waiting);
            waiting.stream += 1;
            waiting.stream
        };
        self.news.notify_all();
        loop {
            let mut waiting = locked(&self.waiting);
            while waiting.messages.is_empty() && !waiting.closed && waiting.stream == own {
                waiting = self
                    .news
                    .wait(waiting)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            if waiting.closed || waiting.stream != own {
                return events.end();
            }
            let message = waiting.messages.pop_front();
            drop(waiting);
            if let Some(message) = message {
                events.event("message", &message)?;
            }
        }
    }

    fn close(&self) {
        locked(&self.waiting).closed = true;
        self.news.notify_all();
    }
}

impl Outlet for Standing {
    fn send(&self, message: &[u8]) {
        self.announce(message);
    }

    fn announce(&self, message: &[u8]) {
        locked(&self.waiting).messages.push_back(message.to_vec());
        self.news.notify_all();
    }
}
