//! The thread of a log: writes the backlog, syncs once for all callers that wait, and takes over the queue from a
//! call that has written long enough for others.

use std::{
    io,
    ops::RangeInclusive,
    sync::{Arc, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use super::Shared;

/// How often the backlog is retried.
const RETRY: Duration = Duration::from_millis(200);
/// How many failed syncs are remembered for callers that have not asked yet.
const FAILURES: usize = 64;

/// The entries up to which syncs have finished, and the ranges whose sync failed.
#[derive(Debug, Default)]
pub(super) struct Synced {
    through: u64,
    failures: Vec<(RangeInclusive<u64>, String)>,
}

impl Synced {
    /// Whether the sync of the entry `seq` has finished.
    pub(super) fn answers(&self, seq: u64) -> bool {
        seq <= self.through
    }

    /// The result of the sync of the entry `seq`, once it has finished.
    pub(super) fn verdict(&self, seq: u64) -> Result<(), String> {
        let failure = self.failures.iter().find(|(range, _)| range.contains(&seq));
        failure.map_or(Ok(()), |(_, reason)| Err(reason.clone()))
    }

    fn settle(&mut self, through: u64, result: Result<(), String>) {
        let from = self.through + 1;
        self.through = self.through.max(through);
        if let Err(reason) = result {
            if self.failures.len() == FAILURES {
                self.failures.remove(0);
            }
            self.failures
                .push((from..=through, format!("sync failed: {reason}")));
        }
    }
}

/// Starts the thread; it ends when the chain is stopped.
pub(super) fn start(shared: Arc<Shared>) -> io::Result<JoinHandle<()>> {
    thread::Builder::new()
        .name("record".to_owned())
        .spawn(move || keep(&shared))
}

fn keep(shared: &Shared) {
    let mut chain = shared.lock();
    loop {
        if chain.take_over() {
            shared.serve_on(&mut chain);
        }
        if chain.is_stopped() {
            return;
        }
        if chain.wants_sync() {
            let (files, through) = chain.start_sync();
            // Without the lock: entries are written while the device works.
            drop(chain);
            let result = files.iter().try_for_each(|file| file.sync());
            chain = shared.lock();
            let (through, result) = chain.end_sync(through, result);
            shared
                .synced
                .send_modify(|synced| synced.settle(through, result));
            continue;
        }
        chain = if chain.backlog_len() > 0 {
            let (mut chain, _) = shared
                .work
                .wait_timeout(chain, RETRY)
                .unwrap_or_else(PoisonError::into_inner);
            // Entries that still cannot be written stay in the backlog.
            let _ = chain.write_backlog();
            chain
        } else {
            shared
                .work
                .wait(chain)
                .unwrap_or_else(PoisonError::into_inner)
        };
    }
}
