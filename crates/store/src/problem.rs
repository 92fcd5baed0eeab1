//! The problems that verification finds in a log, and their messages.

use std::collections::BTreeMap;

use callgate_record::{DropReason, WriterId};

use crate::line::LineError;

/// The result of verifying the whole log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogVerification {
    pub writers: u64,
    /// How many good entries they have.
    pub entries: u64,
    pub problems: Vec<Problem>,
    /// How many entries retention dropped for each reason, by what checkpoints say.
    pub dropped: BTreeMap<Option<DropReason>, u64>,
}

impl LogVerification {
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }
}

/// The source of a statement about a chain's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NamedBy {
    /// Another writer, in its chain.
    #[error("writer `{0}`")]
    Writer(WriterId),
    /// The file beside the chain.
    #[error("its `head` file")]
    HeadFile,
    /// The file that a later writer made.
    #[error("its `sealed` file")]
    Seal,
    /// A head that was exported before.
    #[error("an exported head")]
    Exported,
}

/// One thing that is wrong with the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A line was changed.
    #[error("writer `{writer}`, segment {segment}, byte {offset}: {what}")]
    Damaged {
        writer: WriterId,
        segment: u32,
        /// Where the line begins.
        offset: u64,
        what: LineError,
    },
    /// A line does not follow the one before it: lines were removed, moved or inserted.
    #[error(
        "writer `{writer}`, segment {segment}, byte {offset}: broken chain: found entry {found}, expected entry {expected} with the previous entry's hash"
    )]
    Broken {
        writer: WriterId,
        segment: u32,
        /// Where the line begins.
        offset: u64,
        /// The number that should be there.
        expected: u64,
        /// The number that is there.
        found: u64,
    },
    /// A line belongs to another writer.
    #[error(
        "writer `{writer}`, segment {segment}, byte {offset}: the entry belongs to writer `{from}`"
    )]
    Foreign {
        /// The writer whose folder it is in.
        writer: WriterId,
        segment: u32,
        /// Where the line begins.
        offset: u64,
        /// The writer that it names.
        from: WriterId,
    },
    /// A segment between others is gone.
    #[error("writer `{writer}`: segment {segment} is missing")]
    SegmentMissing {
        writer: WriterId,
        /// The first one that is gone.
        segment: u32,
    },
    /// The beginning of a chain is gone, and no checkpoint accounts for it.
    #[error(
        "writer `{writer}`: entries before {first} are missing, and no checkpoint accounts for them"
    )]
    BeginningMissing {
        writer: WriterId,
        /// The first entry that is there.
        first: u64,
    },
    /// A chain ends before an entry that something else names.
    #[error(
        "writer `{writer}`: the chain ends at entry {last}, but {by} names entry {named}: the tail was cut off"
    )]
    TailCut {
        writer: WriterId,
        /// The last entry that is there.
        last: u64,
        /// The entry that was there.
        named: u64,
        by: NamedBy,
    },
    /// A chain has entries after its seal.
    #[error(
        "writer `{writer}`: entries were added after the seal: sealed at entry {sealed}, ends at {last}"
    )]
    PastSeal {
        writer: WriterId,
        /// Where it was sealed.
        sealed: u64,
        last: u64,
    },
    /// An entry is not the one that was named.
    #[error("writer `{writer}`: entry {seq} differs from the one that {by} names")]
    HeadDiffers {
        writer: WriterId,
        seq: u64,
        by: NamedBy,
    },
    /// A writer is gone, and no checkpoint accounts for it.
    #[error("writer `{writer}` is missing: {by} names it, and no checkpoint accounts for it")]
    WriterMissing { writer: WriterId, by: NamedBy },
    /// A keyed head was not made with the log's key, or does not name the entry before it.
    #[error("writer `{writer}`: the keyed head of entry {seq} is forged")]
    ForgedHead {
        writer: WriterId,
        /// The entry that the head names.
        seq: u64,
    },
    /// The file with the newest head is missing or malformed.
    #[error("writer `{writer}`: could not use {file}: {reason}")]
    NoHead {
        writer: WriterId,
        file: NamedBy,
        reason: String,
    },
    #[error("could not check keyed heads: {reason}")]
    NoKey { reason: String },
    /// A part of the log cannot be read.
    #[error("writer `{writer}`: could not read the chain: {reason}")]
    Unreadable { writer: WriterId, reason: String },
}
