//! The files that tell how far a chain came: its newest keyed head, so that a tail that is cut off later is found, and a
//! summary for the next start.

use std::{
    io,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
};

use callgate_record::Head;

use crate::{
    disk::Files,
    folder::Folder,
    key::Key,
    summary::{self, ChainSummary},
};

#[derive(Debug)]
pub(super) struct HeadFile {
    folder: Folder,
    key: Key,
    files: Files,
    /// The entry that it names.
    named: Mutex<Option<u64>>,
}

/// How far a chain came.
#[derive(Debug)]
pub(super) struct Standing {
    pub(super) head: Head,
    /// None without a segment, and in a short chain.
    pub(super) summary: Option<ChainSummary>,
}

impl HeadFile {
    pub(super) fn new(folder: Folder, key: Key, files: Files) -> Self {
        Self {
            folder,
            key,
            files,
            named: Mutex::default(),
        }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.head_path()
    }

    /// Whether it names no entry as new as this one.
    pub(super) fn is_behind(&self, seq: u64) -> bool {
        self.named().is_none_or(|named| named < seq)
    }

    /// Replaces the file; a failure is only a line of the operator's log, because all entries are on record.
    pub(super) fn replace_or_tell(&self, standing: &Standing) {
        if let Err(error) = self.replace(standing) {
            crate::log::head_not_written(&self.path(), &error);
        }
    }

    /// Names a newer entry; an older one changes nothing.
    pub(super) fn replace(&self, standing: &Standing) -> io::Result<()> {
        let mut named = self.named();
        let seq = standing.head.seq;
        if named.is_some_and(|named| named >= seq) {
            return Ok(());
        }
        let keyed = serde_json::to_vec(&self.key.sign(standing.head.clone()))?;
        self.files.replace(&self.folder.head_path(), &keyed)?;
        *named = Some(seq);
        if let Some(summary) = &standing.summary {
            let path = self.folder.summary_path();
            self.files.replace(&path, &summary.encode(&self.key)?)?;
        }
        Ok(())
    }

    fn named(&self) -> MutexGuard<'_, Option<u64>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The summary of a chain that is long enough to need one.
pub(super) fn summary_of_long(
    bytes: u64,
    make: impl FnOnce() -> ChainSummary,
) -> Option<ChainSummary> {
    (bytes >= summary::LEAST_BYTES).then(make)
}
