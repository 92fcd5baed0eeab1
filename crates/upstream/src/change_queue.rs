//! Changes that a server has announced, queued until its lists are requested again. A change is queued once,
//! however often it is announced.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::{Profile, lists::Lists};

/// The announced changes, with the profile of the connection that announced them.
#[derive(Debug, Default)]
pub(crate) struct ChangeQueue {
    announced: Mutex<Vec<(Profile, Change)>>,
    added: Notify,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Lists(Lists),
    /// A new session: all lists, and the subscriptions and log levels have to be repeated.
    Session,
}

impl ChangeQueue {
    /// Queues a change that was announced over the connection of `profile`.
    pub(crate) fn push(&self, profile: &Profile, change: Change) {
        let mut announced = self
            .announced
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // Queued once, so that a server that announces in a loop neither fills the memory nor causes more
        // than one request at a time.
        let known = |(of, what): &(Profile, Change)| of.fits(profile) && *what == change;
        if !announced.iter().any(known) {
            announced.push((profile.clone(), change));
        }
        drop(announced);
        self.added.notify_one();
    }

    /// Waits for changes and takes all of them.
    pub(crate) async fn next(&self) -> Vec<(Profile, Change)> {
        loop {
            let all = self.take();
            if !all.is_empty() {
                return all;
            }
            self.added.notified().await;
        }
    }

    fn take(&self) -> Vec<(Profile, Change)> {
        let mut announced = self
            .announced
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *announced)
    }
}
