//! The segments that retention chooses from.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
};

use callgate_record::{Entry, Head, WriterId};
use jiff::{SignedDuration, Timestamp};

use super::{RetainError, kept_clock::KeptClock, remove, stuck};
use crate::{
    folder::{self, Folder, SegmentPath},
    line::{self, Front},
    read,
};

/// The segments of one writer that have entries, oldest first.
pub(super) struct WriterSegments {
    pub(super) folder: Folder,
    pub(super) segments: Vec<SegmentInfo>,
    /// How many of them, from the first, may be dropped.
    pub(super) droppable: usize,
    pub(super) is_sealed: bool,
    /// The ends of other chains that its opening names. Those of dead writers had their calls closed in this chain.
    named: Vec<Head>,
}

pub(super) struct SegmentInfo {
    pub(super) path: PathBuf,
    /// The files before it that have no whole line, because a write to a new segment failed. They go with it: numbers
    /// that are missing in between look like tampering.
    pub(super) torn_before: Vec<PathBuf>,
    pub(super) bytes: u64,
    pub(super) entries: u64,
    pub(super) first: Front,
    pub(super) last: Front,
    /// All its entries are older than what was written after this: its newest time, or that of what came before it,
    /// where the clock was set back.
    pub(super) younger_than: Timestamp,
}

impl WriterSegments {
    /// Removes the folder of a process that died before its first entry: it has no segment to drop.
    pub(super) fn remove_if_empty(&self) -> Result<(), RetainError> {
        let seal = folder::read_head(&self.folder.seal_path()).ok().flatten();
        match seal {
            Some(keyed) if keyed.head.seq == 0 => remove(&self.folder.path, fs::remove_dir_all),
            _ => Ok(()),
        }
    }
}

/// The segments of every writer.
pub(super) fn queues(root: &Path, clock: &KeptClock) -> Result<Vec<WriterSegments>, RetainError> {
    let folders = Folder::list(root).map_err(|source| stuck(root, source))?;
    let queues = folders.into_iter().map(|folder| queue(folder, clock));
    let mut queues = queues.collect::<Result<Vec<_>, _>>()?;
    put_ends_behind_calls(&mut queues);
    Ok(queues)
}

/// Where the clock was set back, the end of a dead writer's call can look older than the call. It must not be dropped
/// first: nothing would close the call again.
fn put_ends_behind_calls(queues: &mut [WriterSegments]) {
    // Again until nothing moves: the one that closed calls can have died, too.
    loop {
        let last = |queue: &WriterSegments| {
            let last = queue.segments.last()?;
            Some((queue.folder.writer, (last.last.seq, last.younger_than)))
        };
        let sealed = queues.iter().filter(|queue| queue.is_sealed);
        let newest: HashMap<WriterId, (u64, Timestamp)> = sealed.filter_map(last).collect();
        let mut has_moved = false;
        for queue in &mut *queues {
            let closed = queue.named.iter().filter_map(|head| {
                // One that went on after it was named was alive then, and closed by another.
                let (last, newest) = newest.get(&head.writer)?;
                (head.seq >= *last).then_some(*newest)
            });
            let Some(closed) = closed.max() else { continue };
            let moment = SignedDuration::from_micros(1);
            let behind = closed.saturating_add(moment).unwrap_or(Timestamp::MAX);
            for segment in &mut queue.segments {
                has_moved |= segment.younger_than < behind;
                segment.younger_than = segment.younger_than.max(behind);
            }
        }
        if !has_moved {
            return;
        }
    }
}

/// The times of the first and last entries of all segments.
pub(super) fn times(queues: &[WriterSegments]) -> Vec<Timestamp> {
    let segments = queues.iter().flat_map(|queue| &queue.segments);
    segments
        .flat_map(|segment| [segment.first.at, segment.last.at])
        .collect()
}

fn queue(folder: Folder, clock: &KeptClock) -> Result<WriterSegments, RetainError> {
    let is_sealed = folder.is_sealed();
    let is_alive = folder
        .is_alive()
        .map_err(|source| stuck(&folder.path, source))?;
    let mut before = clock.noted(folder.writer);
    let mut segments = Vec::new();
    let (mut named, mut torn) = (Vec::new(), Vec::new());
    for segment in folder
        .segments()
        .map_err(|source| stuck(&folder.path, source))?
    {
        match segment_info(&segment, before) {
            Ok(Some((mut kept, others))) => {
                before = Some(kept.younger_than);
                kept.torn_before = std::mem::take(&mut torn);
                segments.push(kept);
                named.extend(others);
            }
            Ok(None) => torn.push(segment.path),
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
        named,
    })
}

/// A segment, and the ends of other chains that its opening names, if it begins the chain.
fn segment_info(
    segment: &SegmentPath,
    before: Option<Timestamp>,
) -> io::Result<Option<(SegmentInfo, Vec<Head>)>> {
    let (Some(first), Some(last)) = (
        read::first_line(&segment.path)?,
        read::last_line(&segment.path)?,
    ) else {
        return Ok(None);
    };
    let damaged = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    let line = line::parse(&first).map_err(damaged)?;
    let bytes = fs::metadata(&segment.path)?.len();
    let entries = last.seq.saturating_sub(line.front.seq) + 1;
    let (after, named) = match line.entry() {
        Ok(Entry::Opened(opened)) => (opened.after, opened.heads),
        Ok(_) => (None, Vec::new()),
        Err(error) => return Err(damaged(error)),
    };
    let younger_than = [before, after, Some(line.front.at), Some(last.at)]
        .into_iter()
        .flatten()
        .max()
        .unwrap_or(last.at);
    let info = SegmentInfo {
        path: segment.path.clone(),
        torn_before: Vec::new(),
        bytes,
        entries,
        first: line.front,
        last,
        younger_than,
    };
    Ok(Some((info, named)))
}
