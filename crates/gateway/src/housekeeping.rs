//! Background work for the record: the index catches up, and old segments are deleted.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use callgate_call::{
    Events,
    events::gateway::{EntriesDropped, IndexRebuilt, RetentionPaused, RetentionResumed},
};
use callgate_record::{Archive, DropReason, Retained, RetentionLimits, RetentionPause, Stores};
use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::troubles::{ClockWatch, Place, Troubles};

/// How often the task checks for work.
const TICK: Duration = Duration::from_secs(2);
/// Above this many entries in one tick, calls need the processor more than the index does: a query
/// for records brings the index up to date anyway.
const BUSY_ENTRIES: u64 = 500;
/// Catching up continues while at most this many entries arrive.
const QUIET_ENTRIES: u64 = 50;
/// The longest time without catching up, even under load.
const LONGEST_LAG: Duration = Duration::from_secs(600);
/// How often old segments are deleted, unless the record needs room earlier.
const RETAIN_EVERY: Duration = Duration::from_secs(3600);
/// How soon that is tried again after it failed.
const RETAIN_AGAIN: Duration = Duration::from_secs(15);

/// Runs until `stop` fires. Stores in `indexed_through` how far the index has this process's entries, and notes troubles.
pub(crate) async fn keep(
    stores: Stores,
    limits: RetentionLimits,
    (indexed_through, troubles): (Arc<AtomicU64>, Troubles),
    (events, stop): (Events, CancellationToken),
) {
    let mut clock = ClockWatch::start();
    let mut retain_at = Instant::now();
    let is_paused = Arc::new(AtomicBool::new(false));
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
        let retain_due = Instant::now() >= retain_at;
        let overdue = indexed.elapsed() >= LONGEST_LAG;
        if retain_due {
            retain_at = Instant::now() + RETAIN_EVERY;
        }
        troubles.note(Place::Clock, clock.look(Timestamp::now()));
        let (keeping, telling, was_paused) = (stores.clone(), events.clone(), is_paused.clone());
        let noting = troubles.clone();
        let kept = tokio::task::spawn_blocking(move || {
            noting.look(&keeping);
            let mut has_failed = false;
            if retain_due || keeping.archive.wants_room(limits) {
                let dropped = drop_old(&*keeping.archive, limits, &was_paused, &telling);
                has_failed = dropped.is_err();
                noting.note(Place::Retention, dropped.unwrap_or_else(Some));
            }
            let is_indexed = (idle || overdue) && catch_up(&keeping, overdue, &noting, &telling);
            (is_indexed, has_failed)
        });
        match kept.await {
            Ok((is_indexed, has_failed)) => {
                if is_indexed {
                    indexed = Instant::now();
                    indexed_through.store(head, Ordering::Release);
                }
                if has_failed {
                    retain_at = Instant::now() + RETAIN_AGAIN;
                }
            }
            Err(_) => crate::log::housekeeping_failed(),
        }
    }
}

/// Drops what is too old or too much, and returns why retention is paused; the error says why it failed.
fn drop_old(
    archive: &dyn Archive,
    limits: RetentionLimits,
    was_paused: &AtomicBool,
    events: &Events,
) -> Result<Option<String>, String> {
    match archive.retain(limits) {
        Ok(retained) => {
            announce(&retained, was_paused, events);
            Ok(match retained.paused {
                Some(pause @ RetentionPause::Clock { .. }) => {
                    Some(format!("retention drops nothing by age: {pause}"))
                }
                // A person asked for it.
                Some(RetentionPause::Restored { .. }) | None => None,
            })
        }
        Err(error) => {
            crate::log::old_records_not_dropped(&error);
            Err(error.to_string())
        }
    }
}

/// Announces what was dropped, and a pause when it begins and when it ends.
fn announce(retained: &Retained, was_paused: &AtomicBool, events: &Events) {
    for why in [DropReason::Age, DropReason::Size] {
        let dropped = retained.drops.iter().filter(|one| one.why == why);
        let (entries, bytes) = dropped.fold((0, 0), |(entries, bytes), one| {
            (entries + one.entries, bytes + one.bytes)
        });
        if entries > 0 {
            let reason = why.to_string();
            events.emit(EntriesDropped {
                entries,
                bytes,
                reason: &reason,
            });
        }
    }
    let was_paused = was_paused.swap(retained.paused.is_some(), Ordering::AcqRel);
    match &retained.paused {
        Some(pause) if !was_paused => {
            let reason = pause.to_string();
            events.emit(RetentionPaused { reason: &reason });
        }
        None if was_paused => events.emit(RetentionResumed),
        Some(_) | None => {}
    }
}

/// Brings the index up to date, and returns whether it is complete. It stops early while calls are busy, unless
/// it is `overdue`.
fn catch_up(stores: &Stores, overdue: bool, troubles: &Troubles, events: &Events) -> bool {
    let head = || stores.log.head().seq;
    let began = head();
    let make_way = || !overdue && head() - began > QUIET_ENTRIES;
    match stores.archive.catch_up(&make_way) {
        Ok(done) => {
            troubles.note(Place::Index, None);
            if done.was_rebuilt {
                events.emit(IndexRebuilt);
            }
            done.is_complete
        }
        Err(error) => {
            crate::log::index_not_filled(&error);
            let trouble = format!("the search index cannot be updated: {error}");
            troubles.note(Place::Index, Some(trouble));
            false
        }
    }
}
