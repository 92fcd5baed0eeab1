//! Entries about the chain itself: where writers begin and stand, and what retention took away.

use serde::{Deserialize, Serialize};

use super::WriterId;

/// The beginning of a writer's chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// The process id, to tell an operator where to look.
    pub pid: u32,
    /// The version of the binary.
    pub version: String,
    /// Where the other writers stood.
    pub heads: Vec<Head>,
}

/// Where a writer's chain stood.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The writer.
    pub writer: WriterId,
    /// Its last sequence number.
    pub seq: u64,
    /// The hash of that entry, 64 hex digits.
    pub hash: String,
}

/// A head and its message authentication code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyedHead {
    /// The head that is vouched for: the entry before this one.
    pub head: Head,
    /// HMAC-SHA-256 over writer, seq and hash, 64 hex digits.
    pub mac: String,
}

/// Segments that retention dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The last entry that is gone; the chain goes on from its hash.
    pub dropped: Head,
    /// How many entries are gone.
    pub entries: u64,
}
