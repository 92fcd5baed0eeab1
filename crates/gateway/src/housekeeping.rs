//! What is done for the record in the background: the index catches up, old segments go.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use callgate_call::{Events, events::gateway::IndexRebuilt};
use callgate_store::{Index, Limits, Log, retain};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How often it is looked whether there is something to do.
const TICK: Duration = Duration::from_secs(2);
/// More entries than this in one tick mean that calls need the processor more than the index
/// does: whoever asks for records brings the index up to date anyway.
const BUSY_ENTRIES: u64 = 500;
/// So few entries since a filling began do not interrupt it.
const QUIET_ENTRIES: u64 = 50;
/// However busy it is, the index is never left behind for longer than this.
const LONGEST_LAG: Duration = Duration::from_secs(600);
/// How often old segments are looked for.
const RETAIN_EVERY: Duration = Duration::from_secs(3600);

/// Keeps house until `stop` fires, and notes up to where the index has this process's entries.
pub(crate) async fn keep(
    log: Arc<Log>,
    indexed_through: Arc<AtomicU64>,
    limits: Limits,
    (events, stop): (Events, CancellationToken),
) {
    let mut retained: Option<Instant> = None;
    let mut indexed = Instant::now();
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
        let (keeping, telling) = (log.clone(), events.clone());
        let kept = tokio::task::spawn_blocking(move || {
            if retain_due {
                drop_old(&keeping, limits);
            }
            (idle || overdue) && catch_up(&keeping, overdue, &telling)
        });
        match kept.await {
            Ok(true) => {
                indexed = Instant::now();
                indexed_through.store(head, Ordering::Release);
            }
            Ok(false) => {}
            Err(_) => tracing::error!("housekeeping of the record failed"),
        }
    }
}

fn drop_old(log: &Log, limits: Limits) {
    if let Err(error) = retain(log, limits) {
        tracing::warn!(error = %error, "old records could not be dropped");
    }
}

/// Whether the index has all that was in the log when this began. It makes way for calls, unless
/// it is `overdue`.
fn catch_up(log: &Log, overdue: bool, events: &Events) -> bool {
    let began = log.head().seq;
    let make_way = || !overdue && log.head().seq - began > QUIET_ENTRIES;
    let indexed = Index::open(log.dir()).and_then(|mut index| {
        let done = index.catch_up_until(&make_way);
        if index.was_rebuilt() {
            events.emit(IndexRebuilt);
        }
        done
    });
    match indexed {
        Ok(done) => !done.stopped,
        Err(error) => {
            tracing::warn!(error = %error, "the index could not catch up; it is filled later");
            false
        }
    }
}
