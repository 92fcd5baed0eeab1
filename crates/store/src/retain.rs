//! Retention: dropping whole segments beyond the limits, oldest first, each after a checkpoint that
//! names it, and putting them back from the trash.
//!
//! The budget ([`budget`]) is for the whole record. The index shrinks first, then the trash goes, then segments.
//!
//! The segment that a running writer appends to always stays, and so do all segments of a dead writer
//! whose calls are not closed yet. A clock that is not believed ([`kept_clock`]) drops nothing by age.

mod budget;
mod kept_clock;
mod segments;
mod trash;

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use callgate_record::{
    Checkpoint, ClockTrust, DropReason, DroppedEntries, Entry, EntryKind, Head, Restored, Retained,
    RetentionLimits, StoreError, WriterId,
};
use jiff::{SignedDuration, Timestamp};

use self::{
    budget::Excess,
    kept_clock::KeptClock,
    segments::{SegmentInfo, WriterSegments},
    trash::Trash,
};
use crate::{
    Log,
    disk::{Files, private_file},
    folder::{self, Folder},
    index, line, read, resume,
};

pub(crate) use budget::{Budget, disk_use};

#[derive(Debug, thiserror::Error)]
pub enum RetainError {
    /// A file cannot be read or removed.
    #[error("could not drop old records: `{path}`: {source}")]
    Stuck { path: PathBuf, source: io::Error },
    /// The checkpoint cannot be written, so the segment stays.
    #[error(transparent)]
    NotRecorded(#[from] StoreError),
}

/// Drops segments beyond `limits`; the checkpoints go into the chain of `log`. Does nothing while another process drops
/// segments.
pub fn retain(log: &Log, limits: RetentionLimits) -> Result<Retained, RetainError> {
    let root = folder::log_path(log.dir());
    let lock = lock(&root)?;
    if lock.try_lock().is_err() {
        return Ok(Retained::default());
    }
    let now = log.clock().now();
    let mut clock = KeptClock::load(&root);
    let mut queues = segments::queues(&root, &clock)?;
    let paused = clock.look(now, log.uptime_since_look(), || segments::times(&queues));
    let mut trash = Trash::in_log(&root, log.files());
    if paused.is_none() {
        trash.purge(now)?;
    }
    let kept = SignedDuration::from_hours(24 * i64::from(limits.days));
    let oldest_kept = match paused {
        None => now.checked_sub(kept).unwrap_or(Timestamp::MIN),
        Some(_) => Timestamp::MIN,
    };
    let mut dropping = Dropping {
        log,
        root: &root,
        now,
        trash,
        clock,
    };
    let drops = dropping.drop_all(&mut queues, oldest_kept, limits);
    // Kept also when dropping failed: the next run must know what this one saw of the clock.
    let kept = dropping.clock.keep(&root, log.files());
    let drops = drops?;
    kept.map_err(|source| stuck(&kept_clock::path(&root), source))?;
    Ok(Retained { drops, paused })
}

/// Puts back what age has dropped and is not yet gone.
pub(crate) fn restore(dir: &Path, now: Timestamp, files: &Files) -> Result<Restored, RetainError> {
    let root = folder::log_path(dir);
    let lock = held_lock(&root, files)?;
    let restored = Trash::in_log(&root, files).put_back()?;
    if restored.entries > 0 {
        let mut clock = KeptClock::load(&root);
        clock.restored(now);
        let kept = clock.keep(&root, files);
        kept.map_err(|source| stuck(&kept_clock::path(&root), source))?;
    }
    drop(lock);
    Ok(restored)
}

/// Empties the trash of a log because the disk is full. Returns whether there was any; not while another process drops
/// segments or puts them back.
pub(crate) fn empty_trash(root: &Path) -> bool {
    let Ok(lock) = lock(root) else { return false };
    lock.try_lock().is_ok() && Trash::remove_all(root)
}

/// How far the clock is believed; none before the first retention.
pub(crate) fn clock(dir: &Path) -> Option<ClockTrust> {
    KeptClock::load(&folder::log_path(dir)).known()
}

/// Believes the clock as it is.
pub(crate) fn confirm_clock(dir: &Path, now: Timestamp, files: &Files) -> Result<(), RetainError> {
    let root = folder::log_path(dir);
    let lock = held_lock(&root, files)?;
    let mut clock = KeptClock::load(&root);
    clock.confirm(now);
    let kept = clock.keep(&root, files);
    kept.map_err(|source| stuck(&kept_clock::path(&root), source))?;
    drop(lock);
    Ok(())
}

/// The newest time that was ever believed in this log.
pub(crate) fn newest_believed(root: &Path) -> Option<Timestamp> {
    KeptClock::load(root).known().map(|trust| trust.highest)
}

/// The lock of the process that drops segments; shared by readers that need all of them.
pub(crate) fn lock_path(log: &Path) -> PathBuf {
    log.join("retain.lock")
}

fn lock(root: &Path) -> Result<File, RetainError> {
    let path = lock_path(root);
    private_file()
        .open(&path)
        .map_err(|source| stuck(&path, source))
}

fn held_lock(root: &Path, files: &Files) -> Result<File, RetainError> {
    files
        .create_folder(root)
        .map_err(|source| stuck(root, source))?;
    let lock = lock(root)?;
    lock.lock()
        .map_err(|source| stuck(&lock_path(root), source))?;
    Ok(lock)
}

/// One run of retention.
struct Dropping<'a> {
    log: &'a Log,
    root: &'a Path,
    now: Timestamp,
    trash: Trash,
    clock: KeptClock,
}

impl Dropping<'_> {
    fn drop_all(
        &mut self,
        queues: &mut [WriterSegments],
        oldest_kept: Timestamp,
        limits: RetentionLimits,
    ) -> Result<Vec<DroppedEntries>, RetainError> {
        for queue in queues.iter() {
            queue.remove_if_empty()?;
        }
        let mut over = self.make_room(Budget::of(limits))?;
        let mut drops = Vec::new();
        loop {
            let is_over = over.is_over();
            let Some(queue) = oldest(queues) else {
                break;
            };
            let Some(next) = queue.segments.first() else {
                break;
            };
            let why = if is_over {
                DropReason::Size
            } else if next.younger_than < oldest_kept {
                DropReason::Age
            } else {
                break;
            };
            let dropped = self.drop_first(queue, why)?;
            over.dropped(dropped.bytes, why);
            drops.push(dropped);
        }
        Ok(drops)
    }

    /// Lets the index shrink and empties the trash, where that is needed. Returns how much has to go then.
    fn make_room(&mut self, budget: Budget) -> Result<Excess, RetainError> {
        let dir = self.log.dir();
        let measure = || disk_use(dir).map_err(|source| stuck(dir, source));
        let mut used = measure()?;
        if used.total() > budget.high {
            // Without an index that can be used there is nothing to gain.
            if let Err(error) = index::shrink(dir) {
                crate::log::index_not_shrunk(&error);
            }
            used = measure()?;
        }
        if used.total() > budget.high && used.trash > 0 {
            self.trash.empty()?;
            used.trash = 0;
        }
        Ok(Excess::over(budget, used))
    }

    fn drop_first(
        &mut self,
        queue: &mut WriterSegments,
        why: DropReason,
    ) -> Result<DroppedEntries, RetainError> {
        let segment = queue.segments.remove(0);
        queue.droppable -= 1;
        for checkpoint in still_needed(self.root, queue, &segment)? {
            self.log.append_blocking(&Entry::Checkpoint(checkpoint))?;
        }
        let writer = queue.folder.writer;
        let last = Head {
            writer,
            ..segment.last.head()
        };
        // Before the file goes: after a crash in between the segment is dropped again, but a missing segment without a
        // checkpoint would be taken for tampering.
        self.log.append_blocking(&Entry::Checkpoint(Checkpoint {
            dropped: last.clone(),
            entries: segment.entries,
            why: Some(why),
        }))?;
        for path in segment.torn_before.iter().chain([&segment.path]) {
            match why {
                DropReason::Age => self.trash.take(self.now, &queue.folder, path)?,
                DropReason::Size => remove(path, fs::remove_file)?,
            }
        }
        if queue.is_sealed && queue.segments.is_empty() {
            match why {
                DropReason::Age => self.trash.take_rest(self.now, &queue.folder)?,
                DropReason::Size => {}
            }
            remove(&queue.folder.path, fs::remove_dir_all)?;
            self.clock.forget(writer);
        } else {
            self.clock.note(writer, segment.younger_than);
        }
        Ok(DroppedEntries {
            last,
            entries: segment.entries,
            bytes: segment.bytes,
            why,
        })
    }
}

/// The writer with the oldest segment that may be dropped.
fn oldest(queues: &mut [WriterSegments]) -> Option<&mut WriterSegments> {
    let droppable = queues.iter_mut().filter(|queue| queue.droppable > 0);
    droppable.min_by_key(|queue| queue.segments.first().map(|segment| segment.younger_than))
}

/// The checkpoints inside a dropped segment that are still needed: those about writers that exist or are named. They are
/// written again, because nothing else accounts for the missing entries.
fn still_needed(
    root: &Path,
    queue: &WriterSegments,
    segment: &SegmentInfo,
) -> Result<Vec<Checkpoint>, RetainError> {
    let mut newest: HashMap<WriterId, Checkpoint> = HashMap::new();
    let bytes = fs::read(&segment.path).map_err(|source| stuck(&segment.path, source))?;
    for text in bytes.split(|byte| *byte == b'\n') {
        let Ok(line) = line::parse(text) else {
            continue;
        };
        if line.front.kind == EntryKind::Checkpoint
            && let Ok(Entry::Checkpoint(checkpoint)) = line.entry()
        {
            newest.insert(checkpoint.dropped.writer, checkpoint);
        }
    }
    if newest.is_empty() {
        return Ok(Vec::new());
    }
    let needed = named(root, queue, segment).map_err(|source| stuck(root, source))?;
    let mut still_needed: Vec<_> = newest
        .into_values()
        .filter(|c| needed.contains(&c.dropped.writer))
        .collect();
    still_needed.sort_by_key(|checkpoint| checkpoint.dropped.writer);
    Ok(still_needed)
}

/// Writers that have a folder, or that an opening of another one names. Openings are at the beginning of a chain, so only
/// that of first segments is looked at.
fn named(
    root: &Path,
    queue: &WriterSegments,
    segment: &SegmentInfo,
) -> io::Result<HashSet<WriterId>> {
    let mut named = HashSet::new();
    for folder in Folder::list(root)? {
        let goes_whole =
            folder.writer == queue.folder.writer && queue.is_sealed && queue.segments.is_empty();
        if !goes_whole {
            named.insert(folder.writer);
        }
        let Some(first) = folder
            .segments()?
            .into_iter()
            .next()
            .filter(|first| first.path != segment.path)
        else {
            continue;
        };
        read::for_each_line_before(&first.path, resume::MOST_BYTES, &mut |text| {
            if let Ok(line) = line::parse(text)
                && line.front.kind == EntryKind::Opened
                && let Ok(Entry::Opened(opened)) = line.entry()
            {
                named.extend(opened.heads.iter().map(|head| head.writer));
            }
        })?;
    }
    Ok(named)
}

/// Removes a file or folder; one that is gone already is not an error.
fn remove(path: &Path, how: impl Fn(PathBuf) -> io::Result<()>) -> Result<(), RetainError> {
    match how(path.to_owned()) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(stuck(path, source)),
        _ => Ok(()),
    }
}

fn stuck(path: &Path, source: io::Error) -> RetainError {
    RetainError::Stuck {
        path: path.to_owned(),
        source,
    }
}
