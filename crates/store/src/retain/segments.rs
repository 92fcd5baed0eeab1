//! The segments that retention chooses from.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use callgate_record::Entry;
use jiff::Timestamp;

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
}

pub(super) struct SegmentInfo {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    pub(super) entries: u64,
    pub(super) first: Front,
    pub(super) last: Front,
    /// All its entries are older than what was written after this: its newest time, or that of what came before it,
    /// where the clock was set back.
    pub(super) younger_than: Timestamp,
}

impl WriterSegments {
    pub(super) fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

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
    queues.collect()
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
    for segment in folder
        .segments()
        .map_err(|source| stuck(&folder.path, source))?
    {
        match segment_info(&segment, before) {
            Ok(Some(kept)) => {
                before = Some(kept.younger_than);
                segments.push(kept);
            }
            Ok(None) => {}
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

fn segment_info(
    segment: &SegmentPath,
    before: Option<Timestamp>,
) -> io::Result<Option<SegmentInfo>> {
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
    let after = match line.entry() {
        Ok(Entry::Opened(opened)) => opened.after,
        Ok(_) => None,
        Err(error) => return Err(damaged(error)),
    };
    let younger_than = [before, after, Some(line.front.at), Some(last.at)]
        .into_iter()
        .flatten()
        .max()
        .unwrap_or(last.at);
    Ok(Some(SegmentInfo {
        path: segment.path.clone(),
        bytes,
        entries,
        first: line.front,
        last,
        younger_than,
    }))
}
