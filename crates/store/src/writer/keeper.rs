//! The thread of a log: pays what is owed, syncs once for everyone who waits, and goes on where a call has
//! written long enough for others.

use std::{
    io,
    ops::RangeInclusive,
    sync::{Arc, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use super::Shared;

/// How often it is tried to write what is owed.
const RETRY: Duration = Duration::from_millis(200);
/// How many failed syncs are remembered for those who have not asked yet.
const FAILURES: usize = 64;

/// Up to where entries are on the device, and which are perhaps not.
#[derive(Debug, Default)]
pub(super) struct Synced {
    through: u64,
    failures: Vec<(RangeInclusive<u64>, String)>,
}

impl Synced {
    /// Whether it is known what became of the entry `seq`.
    pub(super) fn answers(&self, seq: u64) -> bool {
        seq <= self.through
    }

    /// Whether the entry `seq` is on the device; asked when that is known.
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
                .push((from..=through, format!("syncing failed: {reason}")));
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
            drop(chain);
            let result = files.iter().try_for_each(|file| file.sync());
            chain = shared.lock();
            let (through, result) = chain.end_sync(through, result);
            shared
                .synced
                .send_modify(|synced| synced.settle(through, result));
            continue;
        }
        chain = if chain.owed() > 0 {
            let (mut chain, _) = shared
                .work
                .wait_timeout(chain, RETRY)
                .unwrap_or_else(PoisonError::into_inner);
            // What still cannot be written stays owed.
            let _ = chain.pay();
            chain
        } else {
            shared
                .work
                .wait(chain)
                .unwrap_or_else(PoisonError::into_inner)
        };
    }
}
