//! What a starting writer finds: running writers, whose heads it names, and dead ones, whose open
//! calls it closes.
//!
//! A dead writer is read under its own lock, so of two that start at once only one closes it. A
//! damaged log never prevents a start: it is read as far as possible, and the damage is recorded.

use std::{io, path::Path};

use callgate_gate::CallId;
use callgate_record::{EntryKind, Head, WriterId};

use crate::{
    folder::{Folder, Lock},
    line::{Line, NO_HASH},
    read::{self, ChainReader},
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
    _lock: Lock,
}

/// Looks at every writer in `log` except `own`.
pub(crate) fn survey(log: &Path, own: WriterId) -> io::Result<Survey> {
    let mut survey = Survey::default();
    for folder in Folder::list(log)? {
        if folder.writer == own || folder.is_sealed() {
            continue;
        }
        match folder.adopt() {
            // Sealed between the first check and the lock. Under the lock the answer is final.
            Ok(Some(_)) if folder.is_sealed() => {}
            Ok(Some(lock)) => {
                let dead = read_dead(folder, lock);
                survey
                    .heads
                    .extend((dead.head.seq > 0).then(|| dead.head.clone()));
                survey.dead.push(dead);
            }
            // Running. Its head is named in our opening, so that a later cut of its tail is found.
            Ok(None) => match read::last_head(&folder) {
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

fn read_dead(folder: Folder, lock: Lock) -> DeadWriter {
    let mut reader = ChainReader::new(folder.clone());
    let mut calls = OpenCalls::default();
    let read = reader.read_on(&mut |line| calls.see(line));
    let unreadable = read.err().map(|error| error.to_string());
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
        _lock: lock,
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
