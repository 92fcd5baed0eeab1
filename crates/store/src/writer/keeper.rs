//! The thread of a log: writes the backlog, syncs once for all callers that wait, names the newest head beside the
//! chain every second, and takes over the queue from a call that has written long enough for others.

use std::{
    io,
    ops::RangeInclusive,
    sync::{Arc, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use callgate_record::Clock;

use super::{Durability, Shared, chain::Chain};

/// How often the backlog is retried.
const RETRY: Duration = Duration::from_millis(200);
/// How often the newest head is stored beside the chain while entries arrive.
const HEAD_EVERY: Duration = Duration::from_secs(1);
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
pub(super) fn start(shared: Arc<Shared>, clock: Arc<dyn Clock>) -> io::Result<JoinHandle<()>> {
    thread::Builder::new()
        .name("record".to_owned())
        .spawn(move || keep(&shared, &*clock))
}

/// What the thread does next.
enum Next {
    Again,
    Wait,
    End,
}

fn keep(shared: &Shared, clock: &dyn Clock) {
    let mut chain = shared.lock();
    let mut named_at = clock.uptime();
    loop {
        let next;
        (chain, next) = step(shared, chain, clock, &mut named_at);
        match next {
            Next::Again => continue,
            Next::End => return,
            Next::Wait => {}
        }
        let wait = match chain.backlog_len() {
            0 => HEAD_EVERY,
            _ => RETRY,
        };
        (chain, _) = shared
            .work
            .wait_timeout(chain, wait)
            .unwrap_or_else(PoisonError::into_inner);
        // Entries that still cannot be written stay in the backlog.
        let _ = chain.write_backlog();
    }
}

/// All that the thread would do now, for a log without one.
pub(super) fn turn(shared: &Shared, clock: &dyn Clock, named_at: &mut Duration) {
    let mut chain = shared.lock();
    let _ = chain.write_backlog();
    loop {
        let next;
        (chain, next) = step(shared, chain, clock, named_at);
        match next {
            Next::Again => {}
            Next::Wait | Next::End => return,
        }
    }
}

/// Does one thing that is due.
fn step<'a>(
    shared: &'a Shared,
    mut chain: MutexGuard<'a, Chain>,
    clock: &dyn Clock,
    named_at: &mut Duration,
) -> (MutexGuard<'a, Chain>, Next) {
    if chain.take_over() {
        shared.serve_on(&mut chain);
    }
    if chain.is_stopped() {
        return (chain, Next::End);
    }
    if chain.wants_sync() {
        return (sync(shared, chain).0, Next::Again);
    }
    let is_due = clock.uptime().saturating_sub(*named_at) >= HEAD_EVERY;
    if is_due && shared.head_file.is_behind(chain.head().seq) {
        chain = name_head(shared, chain);
        *named_at = clock.uptime();
        return (chain, Next::Again);
    }
    (chain, Next::Wait)
}

/// Syncs what was written, and tells those who wait. Returns whether it is on the device.
fn sync<'a>(shared: &'a Shared, mut chain: MutexGuard<'a, Chain>) -> (MutexGuard<'a, Chain>, bool) {
    let (files, through) = chain.start_sync();
    // Without the lock: entries are written while the device works.
    drop(chain);
    let result = files.iter().try_for_each(|file| file.sync());
    let mut chain = shared.lock();
    let (through, result) = chain.end_sync(through, result);
    let is_synced = result.is_ok();
    shared
        .synced
        .send_modify(|synced| synced.settle(through, result));
    (chain, is_synced)
}

/// Stores the newest head beside the chain, so that at most a second of entries can be cut off unnoticed.
fn name_head<'a>(shared: &'a Shared, mut chain: MutexGuard<'a, Chain>) -> MutexGuard<'a, Chain> {
    let standing = chain.standing();
    match shared.durability {
        Durability::Process => {}
        Durability::Power => {
            let is_synced;
            (chain, is_synced) = sync(shared, chain);
            if !is_synced {
                return chain;
            }
        }
    }
    drop(chain);
    shared.head_file.replace_or_tell(&standing);
    shared.lock()
}
