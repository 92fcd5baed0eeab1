//! What a start must know of a dead writer, in the file `summary` beside its chain: where the chain stood, and which calls
//! were open there. A start reads only what came after it, however long the chain is.
//!
//! The file has a code made with the log's key. One that is missing, forged or contradicts the chain is not used: the chain
//! is read from its beginning then.

use std::{fs, path::Path};

use callgate_gate::CallId;
use callgate_record::Head;
use serde::{Deserialize, Serialize};

use crate::{folder::Folder, key::Key, line::Hash, read, segment};

/// Shorter chains need none: they are read at once.
pub(crate) const LEAST_BYTES: u64 = 256 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChainSummary {
    /// The last entry then.
    pub(crate) head: Head,
    /// The segment with that entry.
    pub(crate) segment: u32,
    /// Where the next one begins.
    pub(crate) offset: u64,
    /// Calls that were forwarded and had not ended, oldest first.
    pub(crate) open_calls: Vec<CallId>,
}

impl ChainSummary {
    pub(crate) fn encode(&self, key: &Key) -> Result<Vec<u8>, serde_json::Error> {
        let text = serde_json::to_string(self)?;
        Ok(format!("{}\n{text}\n", key.code(&text)).into_bytes())
    }

    /// The summary of a writer, with the hash of its last entry, if it is true.
    pub(crate) fn load(folder: &Folder, key: &Key) -> Option<(Self, Hash)> {
        let text = fs::read_to_string(folder.summary_path()).ok()?;
        let (code, text) = text.trim_end().split_once('\n')?;
        if !key.made(code, text) {
            return None;
        }
        let summary: Self = serde_json::from_str(text).ok()?;
        let last = last_before(
            &folder.path.join(segment::name(summary.segment)),
            summary.offset,
        )?;
        let is_true = summary.head.writer == folder.writer
            && summary.head.seq == last.seq
            && summary.head.hash == last.hash.to_string();
        is_true.then_some((summary, last.hash))
    }
}

/// The line that ends before `offset`.
fn last_before(path: &Path, offset: u64) -> Option<crate::line::Front> {
    read::last_line_before(path, offset).ok().flatten()
}
