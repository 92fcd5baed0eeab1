//! Background work for the record: the index catches up, and old segments are deleted.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use callgate_call::{Events, events::gateway::IndexRebuilt};
use callgate_record::{Archive, RetentionLimits, Stores};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How often the task checks for work.
const TICK: Duration = Duration::from_secs(2);
/// Above this many entries in one tick, calls need the processor more than the index does: a query
/// for records brings the index up to date anyway.
const BUSY_ENTRIES: u64 = 500;
/// Catching up continues while at most this many entries arrive.
const QUIET_ENTRIES: u64 = 50;
/// The longest time without catching up, even under load.
const LONGEST_LAG: Duration = Duration::from_secs(600);
/// How often old segments are deleted.
const RETAIN_EVERY: Duration = Duration::from_secs(3600);

/// Runs until `stop` fires, and stores in `indexed_through` how far the index has this process's entries.
pub(crate) async fn keep(
    stores: Stores,
    indexed_through: Arc<AtomicU64>,
    limits: RetentionLimits,
    (events, stop): (Events, CancellationToken),
) {
    let mut retained: Option<Instant> = None;
    let mut indexed = Instant::now();
    let log = &stores.log;
    let mut seen = log.head().seq;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(TICK) => {}
        }
        let head = log.head().seq;
        let idle = head - seen <= BUSY_ENTRIES;
        seen = head;
        let retain_due = retained.is_none_or(|last| last.elapsed() >= RETAIN_EVERY);
        let overdue = indexed.elapsed() >= LONGEST_LAG;
        if retain_due {
            retained = Some(Instant::now());
        }
        let (keeping, telling) = (stores.clone(), events.clone());
        let kept = tokio::task::spawn_blocking(move || {
            if retain_due {
                drop_old(&*keeping.archive, limits);
            }
            (idle || overdue) && catch_up(&keeping, overdue, &telling)
        });
        match kept.await {
            Ok(true) => {
                indexed = Instant::now();
                indexed_through.store(head, Ordering::Release);
            }
            Ok(false) => {}
            Err(_) => crate::log::housekeeping_failed(),
        }
    }
}

fn drop_old(archive: &dyn Archive, limits: RetentionLimits) {
    if let Err(error) = archive.retain(limits) {
        crate::log::old_records_not_dropped(&error);
    }
}

/// Brings the index up to date, and returns whether it is complete. It stops early while calls are busy, unless
/// it is `overdue`.
fn catch_up(stores: &Stores, overdue: bool, events: &Events) -> bool {
    let head = || stores.log.head().seq;
    let began = head();
    let make_way = || !overdue && head() - began > QUIET_ENTRIES;
    match stores.archive.catch_up(&make_way) {
        Ok(done) => {
            if done.was_rebuilt {
                events.emit(IndexRebuilt);
            }
            done.is_complete
        }
        Err(error) => {
            crate::log::index_not_filled(&error);
            false
        }
    }
}
