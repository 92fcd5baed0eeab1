//! Entries about the chain itself: openings, heads, and checkpoints of retention.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::WriterId;

/// The beginning of a writer's chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// The process id, to tell an operator where to look.
    pub pid: u32,
    pub version: String,
    /// The last entries of the other writers.
    // A chain cannot prove its own length: a tail that is cut off later is found because the entry is named here.
    pub heads: Vec<Head>,
    /// The newest time that was ever believed: the chain is younger than this, also if its own times are wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Timestamp>,
}

/// The last entry of a writer's chain at some time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub writer: WriterId,
    pub seq: u64,
    /// The hash of that entry, 64 hex digits.
    pub hash: String,
}

/// A head and its message authentication code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyedHead {
    /// The authenticated head: the entry before this one.
    pub head: Head,
    /// HMAC-SHA-256 over writer, seq and hash, 64 hex digits.
    // A program that can write the log but not read the key could rehash a chain, but not make this code.
    pub mac: String,
}

/// Segments that retention dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The last dropped entry; the chain continues from its hash.
    pub dropped: Head,
    /// How many entries are gone.
    pub entries: u64,
    /// Absent in checkpoints of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<DropReason>,
}

/// Why retention dropped entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// They were older than the limit; for a day they can be put back.
    Age,
    /// The record was larger than the limit.
    Size,
}

impl std::fmt::Display for DropReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Age => "older than the limit",
            Self::Size => "beyond the size limit",
        })
    }
}
