//! Retention: dropping whole segments beyond the limits, oldest first, each after a checkpoint that
//! names it.
//!
//! The segment that a running writer appends to always stays, and so do all segments of a dead writer
//! whose calls are not closed yet.

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

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DroppedSegments {
    pub segments: u64,
    /// How many entries were in them.
    pub entries: u64,
    pub bytes: u64,
}

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
        queue.remove_if_empty()?;
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

/// The lock of the process that drops segments; shared by readers that need all of them.
pub(crate) fn lock_path(log: &Path) -> PathBuf {
    log.join("retain.lock")
}

/// The segments of one writer that have entries, oldest first.
struct WriterSegments {
    folder: Folder,
    segments: Vec<SegmentInfo>,
    /// How many of them, from the first, may be dropped.
    droppable: usize,
    is_sealed: bool,
}

struct SegmentInfo {
    path: PathBuf,
    bytes: u64,
    entries: u64,
    last: Front,
}

impl WriterSegments {
    fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Removes the folder of a process that died before its first entry: it has no segment to drop.
    fn remove_if_empty(&self) -> Result<(), RetainError> {
        let seal = folder::read_head(&self.folder.seal_path()).ok().flatten();
        match seal {
            Some(keyed) if keyed.head.seq == 0 => remove(&self.folder.path, fs::remove_dir_all),
            _ => Ok(()),
        }
    }
}

fn queues(root: &Path) -> Result<Vec<WriterSegments>, RetainError> {
    let folders = Folder::list(root).map_err(|source| stuck(root, source))?;
    folders.into_iter().map(queue).collect()
}

fn queue(folder: Folder) -> Result<WriterSegments, RetainError> {
    let is_sealed = folder.is_sealed();
    let is_alive = folder
        .is_alive()
        .map_err(|source| stuck(&folder.path, source))?;
    let mut segments = Vec::new();
    for segment in folder
        .segments()
        .map_err(|source| stuck(&folder.path, source))?
    {
        match segment_info(&segment) {
            Ok(kept) => segments.extend(kept),
            Err(source) => {
                // A damaged segment is evidence: it stays, and so do the later ones, or it would look like a gap.
                crate::log::damaged_segment_kept(&segment.path, &source);
                break;
            }
        }
    }
    // A sealed writer is complete. A running one still writes its last segment. The entries of a dead one are needed to
    // close its calls.
    let droppable = match (is_sealed, is_alive) {
        (true, _) => segments.len(),
        (false, true) => segments.len().saturating_sub(1),
        (false, false) => 0,
    };
    Ok(WriterSegments {
        folder,
        segments,
        droppable,
        is_sealed,
    })
}

fn segment_info(segment: &SegmentPath) -> io::Result<Option<SegmentInfo>> {
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
    Ok(Some(SegmentInfo {
        path: segment.path.clone(),
        bytes,
        entries,
        last,
    }))
}

/// The writer with the oldest segment that may be dropped.
fn oldest(queues: &mut [WriterSegments]) -> Option<&mut WriterSegments> {
    let droppable = queues.iter_mut().filter(|queue| queue.droppable > 0);
    droppable.min_by_key(|queue| queue.segments.first().map(|segment| segment.last.at))
}

fn drop_first(log: &Log, root: &Path, queue: &mut WriterSegments) -> Result<(), RetainError> {
    let segment = queue.segments.remove(0);
    queue.droppable -= 1;
    for checkpoint in still_needed(root, queue, &segment)? {
        log.append_blocking(&Entry::Checkpoint(checkpoint))?;
    }
    let writer = queue.folder.writer;
    let dropped = Head {
        writer,
        ..segment.last.head()
    };
    // Before the file goes: after a crash in between the segment is dropped again, but a missing segment without a
    // checkpoint would be taken for tampering.
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

/// Writers that have a folder, or that the opening of another one names. Openings are the first
/// entries of a chain, so only first segments are looked at.
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
        let Some(text) = read::first_line(&first.path)? else {
            continue;
        };
        if let Ok(Entry::Opened(opened)) = line::parse(&text).and_then(|line| line.entry()) {
            named.extend(opened.heads.iter().map(|head| head.writer));
        }
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
