//! What a starting writer finds: running writers, whose heads it names, and dead ones, whose open
//! calls it closes.
//!
//! A dead writer is read under its own lock, so of two that start at once only one closes it, and only from its
//! [summary](ChainSummary) on. A
//! damaged log never prevents a start: it is read as far as possible, and the damage is recorded.

use std::{fs::OpenOptions, io, path::Path};

use callgate_gate::CallId;
use callgate_record::{EntryKind, Head, WriterId};

use crate::{
    disk::Files,
    folder::{self, Folder, Lock},
    key::Key,
    line::{Line, NO_HASH},
    read::{self, ChainReader},
    summary::ChainSummary,
};

/// All other writers of the log.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// The last entries of all writers that are not sealed.
    pub(crate) heads: Vec<Head>,
    pub(crate) dead: Vec<DeadWriter>,
}

/// A writer that crashed or ended, and is not sealed yet.
#[derive(Debug)]
pub(crate) struct DeadWriter {
    pub(crate) folder: Folder,
    pub(crate) head: Head,
    /// Calls that were forwarded and whose end is not in the log, oldest first.
    pub(crate) open_calls: Vec<CallId>,
    /// The first damage in its chain.
    pub(crate) damage: Option<String>,
    /// What a power cut left behind its last entry, and was removed.
    pub(crate) cut: Option<String>,
    _lock: Lock,
}

/// Looks at every writer in `log` except `own`.
pub(crate) fn survey(log: &Path, own: WriterId, key: &Key, files: &Files) -> io::Result<Survey> {
    let mut survey = Survey::default();
    for folder in Folder::list(log)? {
        if folder.writer == own || folder.is_sealed() {
            continue;
        }
        match folder.adopt() {
            // Sealed between the first check and the lock. Under the lock the answer is final.
            Ok(Some(_)) if folder.is_sealed() => {}
            Ok(Some(lock)) => {
                let dead = read_dead(folder, lock, key, files);
                survey
                    .heads
                    .extend((dead.head.seq > 0).then(|| dead.head.clone()));
                survey.dead.push(dead);
            }
            // Running. Its head is named in our opening, so that a later cut of its tail is found.
            Ok(None) => match running_head(&folder, files) {
                Ok(head) => survey.heads.extend(head),
                Err(error) => {
                    crate::log::head_not_read(folder.writer, &error);
                }
            },
            // Retention has just removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                crate::log::lock_not_tried(folder.writer, &error);
            }
        }
    }
    Ok(survey)
}

/// The last entry of a running writer. It is synced before it is named: a power cut that took it and not our opening would
/// look like a tail that was cut off.
fn running_head(folder: &Folder, files: &Files) -> io::Result<Option<Head>> {
    let head = read::last_head(folder)?;
    sync_segments(folder, files)?;
    Ok(head)
}

fn sync_segments(folder: &Folder, files: &Files) -> io::Result<()> {
    let mut segments = folder.segments()?.into_iter();
    segments.try_for_each(|segment| files.sync_file(&segment.path))
}

fn read_dead(folder: Folder, lock: Lock, key: &Key, files: &Files) -> DeadWriter {
    let (mut reader, mut calls) = match ChainSummary::load(&folder, key) {
        Some((summary, hash)) => {
            let at = (summary.segment, summary.offset);
            let reader = ChainReader::behind(folder.clone(), at, (summary.head.seq, hash));
            let ids = summary.open_calls;
            (reader, OpenCalls { ids })
        }
        None => (ChainReader::new(folder.clone()), OpenCalls::default()),
    };
    let read = reader.read_on(&mut |line| calls.see(line));
    // Its head is about to be named, as that of a running one.
    let read = read.and_then(|()| sync_segments(&folder, files));
    let unreadable = read.err().map(|error| error.to_string());
    let cut = mend(&folder, &reader);
    let damage = reader
        .problems()
        .first()
        .map(ToString::to_string)
        .or(unreadable);
    let (seq, hash) = reader.last().unwrap_or((0, NO_HASH));
    let head = Head {
        writer: folder.writer,
        seq,
        hash: hash.to_string(),
    };
    DeadWriter {
        folder,
        head,
        open_calls: calls.ids,
        damage,
        cut,
        _lock: lock,
    }
}

/// Cuts off what is behind the zeros that a power cut left in place of entries. It stays where a head names an entry
/// that is missing: then it may be evidence.
fn mend(folder: &Folder, reader: &ChainReader) -> Option<String> {
    let cut = reader.cut()?;
    let last = reader.last().map_or(0, |(seq, _)| seq);
    let named = folder::read_head(&folder.head_path()).ok().flatten();
    if named.is_none_or(|keyed| keyed.head.seq > last) {
        return None;
    }
    let lost = cut.bytes;
    let cut_off = OpenOptions::new()
        .write(true)
        .open(&cut.path)
        .and_then(|file| file.set_len(cut.offset));
    match cut_off {
        Ok(()) => Some(format!(
            "writer `{}`: a power cut lost what was written after entry {last}: {lost} bytes were removed",
            folder.writer
        )),
        Err(error) => {
            crate::log::cut_not_mended(&cut.path, &error);
            None
        }
    }
}

/// The calls that are forwarded and not finished, in order.
#[derive(Debug, Default)]
struct OpenCalls {
    ids: Vec<CallId>,
}

impl OpenCalls {
    fn see(&mut self, line: &Line<'_>) {
        match line.front.kind {
            EntryKind::Forwarding => self.ids.extend(line.front.id),
            EntryKind::Finished => {
                // Calls end soon after they begin, so the search from the back is short.
                if let Some(at) = self.ids.iter().rposition(|id| Some(*id) == line.front.id) {
                    self.ids.remove(at);
                }
            }
            EntryKind::Opened
            | EntryKind::Closed
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
