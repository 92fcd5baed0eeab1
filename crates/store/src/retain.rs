//! Dropping what is too old or too much: whole segments, oldest first, each named by a checkpoint
//! before it goes.
//!
//! The segment that a living writer writes to never goes, nor does anything of a dead writer
//! whose calls nobody has closed yet.

use std::{
    collections::{HashMap, HashSet},
    fs, io,
    path::{Path, PathBuf},
};

use callgate_record::{Checkpoint, Entry, EntryKind, Head, RetentionLimits, StoreError, WriterId};
use jiff::{SignedDuration, Timestamp};

use crate::{
    Log,
    disk::private_file,
    folder::{self, Folder, SegmentPath},
    line::{self, Front},
    read,
};

/// What was dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DroppedSegments {
    /// How many segments.
    pub segments: u64,
    /// How many entries were in them.
    pub entries: u64,
    /// How many bytes that were.
    pub bytes: u64,
}

/// Why nothing more could be dropped.
#[derive(Debug, thiserror::Error)]
pub enum RetainError {
    /// A file cannot be read or removed.
    #[error("`{path}` cannot be dropped: {source}")]
    Stuck {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The checkpoint cannot be written, so the segment stays.
    #[error(transparent)]
    NotRecorded(#[from] StoreError),
}

/// Drops what exceeds `limits`; the checkpoints go into the chain of `log`. While another process
/// does the same, nothing is dropped here.
pub fn retain(log: &Log, limits: RetentionLimits) -> Result<DroppedSegments, RetainError> {
    let root = folder::log_path(log.dir());
    let lock = lock_path(&root);
    let file = private_file()
        .open(&lock)
        .map_err(|source| stuck(&lock, source))?;
    if file.try_lock().is_err() {
        return Ok(DroppedSegments::default());
    }
    let mut queues = queues(&root)?;
    for queue in &queues {
        queue.remove_if_stillborn()?;
    }
    let mut bytes: u64 = queues.iter().map(|queue| queue.bytes()).sum();
    let kept = SignedDuration::from_hours(24 * i64::from(limits.days));
    let oldest_kept = Timestamp::now().checked_sub(kept).unwrap_or(Timestamp::MIN);
    let mut dropped = DroppedSegments::default();
    while let Some(queue) = oldest(&mut queues) {
        let Some(next) = queue.segments.first().filter(|_| queue.droppable > 0) else {
            break;
        };
        let is_too_much = bytes > limits.max_mb.saturating_mul(1024 * 1024);
        if next.last.at >= oldest_kept && !is_too_much {
            break;
        }
        let size = next.bytes;
        let entries = next.entries;
        drop_first(log, &root, queue)?;
        bytes -= size;
        dropped.segments += 1;
        dropped.entries += entries;
        dropped.bytes += size;
    }
    Ok(dropped)
}

/// Held by whoever drops segments, and shared by those who must not lose them while they read.
pub(crate) fn lock_path(log: &Path) -> PathBuf {
    log.join("retain.lock")
}

/// The segments of one writer that have entries, oldest first.
struct Queue {
    folder: Folder,
    segments: Vec<Kept>,
    /// How many of them, from the first, may go.
    droppable: usize,
    is_sealed: bool,
}

struct Kept {
    path: PathBuf,
    bytes: u64,
    entries: u64,
    last: Front,
}

impl Queue {
    fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// A start that died before its first entry leaves a folder in which there is nothing to drop.
    fn remove_if_stillborn(&self) -> Result<(), RetainError> {
        let seal = folder::read_head(&self.folder.seal_path()).ok().flatten();
        match seal {
            Some(keyed) if keyed.head.seq == 0 => remove(&self.folder.path, fs::remove_dir_all),
            _ => Ok(()),
        }
    }
}

fn queues(root: &Path) -> Result<Vec<Queue>, RetainError> {
    let folders = Folder::list(root).map_err(|source| stuck(root, source))?;
    folders.into_iter().map(queue).collect()
}

fn queue(folder: Folder) -> Result<Queue, RetainError> {
    let is_sealed = folder.is_sealed();
    let is_alive = folder
        .is_alive()
        .map_err(|source| stuck(&folder.path, source))?;
    let mut segments = Vec::new();
    for segment in folder
        .segments()
        .map_err(|source| stuck(&folder.path, source))?
    {
        match kept(&segment) {
            Ok(kept) => segments.extend(kept),
            Err(source) => {
                // A damaged segment is evidence; it and what follows it stay.
                crate::log::damaged_segment_kept(&segment.path, &source);
                break;
            }
        }
    }
    let droppable = match (is_sealed, is_alive) {
        (true, _) => segments.len(),
        (false, true) => segments.len().saturating_sub(1),
        (false, false) => 0,
    };
    Ok(Queue {
        folder,
        segments,
        droppable,
        is_sealed,
    })
}

fn kept(segment: &SegmentPath) -> io::Result<Option<Kept>> {
    let (Some(first), Some(last)) = (
        read::first_line(&segment.path)?,
        read::last_line(&segment.path)?,
    ) else {
        return Ok(None);
    };
    let first =
        line::parse(&first).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    let bytes = fs::metadata(&segment.path)?.len();
    let entries = last.seq.saturating_sub(first.front.seq) + 1;
    Ok(Some(Kept {
        path: segment.path.clone(),
        bytes,
        entries,
        last,
    }))
}

/// The writer whose first segment is the oldest of those that may go.
fn oldest(queues: &mut [Queue]) -> Option<&mut Queue> {
    let droppable = queues.iter_mut().filter(|queue| queue.droppable > 0);
    droppable.min_by_key(|queue| queue.segments.first().map(|segment| segment.last.at))
}

fn drop_first(log: &Log, root: &Path, queue: &mut Queue) -> Result<(), RetainError> {
    let segment = queue.segments.remove(0);
    queue.droppable -= 1;
    for checkpoint in outlived(root, queue, &segment)? {
        log.append_blocking(&Entry::Checkpoint(checkpoint))?;
    }
    let writer = queue.folder.writer;
    let dropped = Head {
        writer,
        ..segment.last.head()
    };
    log.append_blocking(&Entry::Checkpoint(Checkpoint {
        dropped,
        entries: segment.entries,
    }))?;
    remove(&segment.path, fs::remove_file)?;
    if queue.is_sealed && queue.segments.is_empty() {
        remove(&queue.folder.path, fs::remove_dir_all)?;
    }
    Ok(())
}

/// Checkpoints inside a segment that goes, about writers that are still there or still named:
/// they are written again, since nothing else explains what is missing.
fn outlived(root: &Path, queue: &Queue, segment: &Kept) -> Result<Vec<Checkpoint>, RetainError> {
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
    let mut outlived: Vec<_> = newest
        .into_values()
        .filter(|c| needed.contains(&c.dropped.writer))
        .collect();
    outlived.sort_by_key(|checkpoint| checkpoint.dropped.writer);
    Ok(outlived)
}

/// Writers that have a folder, or that the opening of another one names. Openings are the first
/// entries of a chain, so only first segments are looked at.
fn named(root: &Path, queue: &Queue, segment: &Kept) -> io::Result<HashSet<WriterId>> {
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
        let Some(text) = read::first_line(&first.path)? else {
            continue;
        };
        if let Ok(Entry::Opened(opened)) = line::parse(&text).and_then(|line| line.entry()) {
            named.extend(opened.heads.iter().map(|head| head.writer));
        }
    }
    Ok(named)
}

/// Removes what is there; what is gone already is as good.
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
