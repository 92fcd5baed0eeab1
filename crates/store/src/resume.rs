//! Going on with the chain of a process that has ended, so that a command that writes a few entries does not leave a folder
//! of its own: four blocks of the disk for each.
//!
//! A chain is continued only if nothing about it is open or in doubt: it is short, whole, closed, unsealed, and its `head`
//! file names its last entry. It then has an opening entry per process.

use std::{io, path::Path, sync::Arc};

use callgate_record::{Entry, EntryKind};
use jiff::Timestamp;

use crate::{
    approval_database,
    disk::{Files, SegmentFile},
    folder::{self, Folder, Lock},
    key::Key,
    line::{Hash, Line},
    read::ChainReader,
    retain,
    segment::Segment,
};

/// Longer chains are not continued, so every opening entry begins before this.
pub(crate) const MOST_BYTES: u64 = 256 * 1024;
/// How many chains are looked at, newest first.
const MOST_LOOKS: usize = 4;

/// A chain to go on with, and its lock.
#[derive(Debug)]
pub(crate) struct Resumed {
    pub(crate) folder: Folder,
    pub(crate) lock: Lock,
    pub(crate) end: ChainEnd,
}

/// Where a chain ends.
#[derive(Debug)]
pub(crate) struct ChainEnd {
    pub(crate) segment: Segment,
    pub(crate) seq: u64,
    pub(crate) hash: Hash,
    pub(crate) at: Timestamp,
}

/// Finds a chain to go on with. Whatever is wrong with one, a new chain is begun.
pub(crate) fn find(dir: &Path, key: &Key, files: &Files) -> Option<Resumed> {
    let log = folder::log_path(dir);
    let folders = Folder::list(&log).ok()?.into_iter().rev();
    let mut unsealed = folders
        .filter(|folder| !folder.is_sealed())
        .take(MOST_LOOKS);
    unsealed.find_map(|folder| {
        let lock = folder.adopt().ok()??;
        // Sealed between the first check and the lock. Under the lock the answer is final.
        if folder.is_sealed() || approval_database::may_claim(dir, folder.writer) {
            return None;
        }
        let end = end(&folder, key, files, retain::newest_believed(&log)).ok()??;
        Some(Resumed { folder, lock, end })
    })
}

fn end(
    folder: &Folder,
    key: &Key,
    files: &Files,
    believed: Option<Timestamp>,
) -> io::Result<Option<ChainEnd>> {
    let segments = folder.segments()?;
    let [only] = &segments[..] else {
        return Ok(None);
    };
    let length = std::fs::metadata(&only.path)?.len();
    if only.number != 1 || length > MOST_BYTES {
        return Ok(None);
    }
    let Some(head) = folder::read_head(&folder.head_path())?.filter(|head| key.verifies(head))
    else {
        return Ok(None);
    };
    let mut reader = ChainReader::new(folder.clone());
    let mut seen = Seen::default();
    reader.read_on(&mut |line| seen.see(line))?;
    let Some((seq, hash)) = reader.last() else {
        return Ok(None);
    };
    let is_whole = reader.problems().is_empty()
        && reader.cut().is_none()
        && reader.offset() == length
        && reader.first().is_some_and(|(first, _)| first == 1);
    let is_named = (head.head.writer, head.head.seq) == (folder.writer, seq)
        && head.head.hash == hash.to_string();
    // Retention takes a segment to be as old as its newest entry and its opening say: one that is continued under an
    // earlier clock would go too soon.
    let is_timely = believed.is_none_or(|believed| Some(believed) <= seen.newest);
    if !(is_whole && is_named && is_timely && seen.is_closed && seen.open.is_empty()) {
        return Ok(None);
    }
    // What this process adds must not survive a power cut that takes what it follows.
    files.sync_file(&only.path)?;
    let file: Arc<dyn SegmentFile> = Arc::from(files.disk.reopen(&only.path)?);
    Ok(seen.last.map(|at| ChainEnd {
        segment: Segment::resume(file, only.number, length),
        seq,
        hash,
        at,
    }))
}

/// What a chain's entries say about whether it can be continued.
#[derive(Debug, Default)]
struct Seen {
    open: Vec<callgate_gate::CallId>,
    is_closed: bool,
    last: Option<Timestamp>,
    newest: Option<Timestamp>,
}

impl Seen {
    fn see(&mut self, line: &Line<'_>) {
        let at = line.front.at;
        self.last = Some(at);
        self.newest = self.newest.max(Some(at));
        self.is_closed = line.front.kind == EntryKind::Closed;
        match line.front.kind {
            EntryKind::Opened => {
                if let Ok(Entry::Opened(opened)) = line.entry() {
                    self.newest = self.newest.max(opened.after);
                }
            }
            EntryKind::Forwarding => self.open.extend(line.front.id),
            EntryKind::Finished => self.open.retain(|id| Some(*id) != line.front.id),
            EntryKind::Closed
            | EntryKind::Refused
            | EntryKind::Held
            | EntryKind::Checked
            | EntryKind::Unknown
            | EntryKind::Head
            | EntryKind::Checkpoint
            | EntryKind::Event => {}
        }
    }
}
