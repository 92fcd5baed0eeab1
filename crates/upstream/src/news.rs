//! What a server says has changed, kept until somebody has looked: each thing once, however often it
//! is said.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::{Profile, lists::Lists};

/// What was said and not looked at yet, with the connection it was said over.
#[derive(Debug, Default)]
pub(crate) struct News {
    said: Mutex<Vec<(Profile, Change)>>,
    rung: Notify,
}

/// What may be another than before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// A list.
    Lists(Lists),
    /// The session, and so everything.
    Session,
}

impl News {
    /// Notes a change that was told over the connection of `profile`.
    pub(crate) fn ring(&self, profile: &Profile, change: Change) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let known = |(of, what): &(Profile, Change)| of.fits(profile) && *what == change;
        if !said.iter().any(known) {
            said.push((profile.clone(), change));
        }
        drop(said);
        self.rung.notify_one();
    }

    /// Waits until something is said, and takes all of it.
    pub(crate) async fn next(&self) -> Vec<(Profile, Change)> {
        loop {
            let all = self.take();
            if !all.is_empty() {
                return all;
            }
            self.rung.notified().await;
        }
    }

    fn take(&self) -> Vec<(Profile, Change)> {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *said)
    }
}
