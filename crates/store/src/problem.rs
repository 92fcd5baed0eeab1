//! What can be wrong with a log, and how it is told.

use callgate_record::WriterId;

use crate::line::LineError;

/// What a look at the whole log has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogVerification {
    /// How many writers there are.
    pub writers: u64,
    /// How many good entries they have.
    pub entries: u64,
    /// Everything that is not as it should be.
    pub problems: Vec<Problem>,
}

impl LogVerification {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Who said where a chain stood.
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
    /// A head that was kept elsewhere.
    #[error("an exported head")]
    Exported,
}

/// One thing that is wrong with the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A line was changed.
    #[error("writer `{writer}`, segment {segment}, byte {offset}: {what}")]
    Damaged {
        /// The writer.
        writer: WriterId,
        /// Its segment.
        segment: u32,
        /// Where the line begins.
        offset: u64,
        /// What is wrong with it.
        what: LineError,
    },
    /// A line does not follow the one before it: something was dropped, moved or put in.
    #[error(
        "writer `{writer}`, segment {segment}, byte {offset}: entry {found} stands where entry {expected} belongs, or does not follow it"
    )]
    Broken {
        /// The writer.
        writer: WriterId,
        /// Its segment.
        segment: u32,
        /// Where the line begins.
        offset: u64,
        /// The number that should be there.
        expected: u64,
        /// The number that is there.
        found: u64,
    },
    /// A line belongs to another writer.
    #[error("writer `{writer}`, segment {segment}, byte {offset}: the entry is of writer `{from}`")]
    Foreign {
        /// The writer whose folder it is in.
        writer: WriterId,
        /// The segment.
        segment: u32,
        /// Where the line begins.
        offset: u64,
        /// The writer that it names.
        from: WriterId,
    },
    /// A segment between others is gone.
    #[error("writer `{writer}`: segment {segment} is missing")]
    SegmentMissing {
        /// The writer.
        writer: WriterId,
        /// The first one that is gone.
        segment: u32,
    },
    /// The beginning of a chain is gone, and no checkpoint says so.
    #[error("writer `{writer}`: entries before {first} are missing and no checkpoint names them")]
    BeginningMissing {
        /// The writer.
        writer: WriterId,
        /// The first entry that is there.
        first: u64,
    },
    /// A chain ends before an entry that it is known to have had.
    #[error("writer `{writer}`: ends at entry {last}, but {by} names entry {named}")]
    TailCut {
        /// The writer.
        writer: WriterId,
        /// The last entry that is there.
        last: u64,
        /// The entry that was there.
        named: u64,
        /// Who says so.
        by: NamedBy,
    },
    /// A chain goes on after its seal.
    #[error("writer `{writer}`: was sealed at entry {sealed} but goes on to {last}")]
    PastSeal {
        /// The writer.
        writer: WriterId,
        /// Where it was sealed.
        sealed: u64,
        /// Where it ends.
        last: u64,
    },
    /// An entry is not the one that was named.
    #[error("writer `{writer}`: entry {seq} is not the one that {by} names")]
    HeadDiffers {
        /// The writer.
        writer: WriterId,
        /// The entry.
        seq: u64,
        /// Who named it.
        by: NamedBy,
    },
    /// A writer is gone, and no checkpoint says so.
    #[error("writer `{writer}` is missing: {by} names it, and no checkpoint does")]
    WriterMissing {
        /// The writer.
        writer: WriterId,
        /// Who named it.
        by: NamedBy,
    },
    /// A keyed head was not made with the log's key, or is not about the entry before it.
    #[error("writer `{writer}`: the keyed head at entry {seq} is forged")]
    ForgedHead {
        /// The writer.
        writer: WriterId,
        /// The entry that it vouches for.
        seq: u64,
    },
    /// The file with the newest head is gone or is no head.
    #[error("writer `{writer}`: {file} cannot be used: {reason}")]
    NoHead {
        /// The writer.
        writer: WriterId,
        /// Which file.
        file: NamedBy,
        /// What is wrong with it.
        reason: String,
    },
    /// Keyed heads cannot be checked.
    #[error("keyed heads cannot be checked: {reason}")]
    NoKey {
        /// Why.
        reason: String,
    },
    /// A part of the log cannot be read.
    #[error("writer `{writer}` cannot be read: {reason}")]
    Unreadable {
        /// The writer.
        writer: WriterId,
        /// What the system said.
        reason: String,
    },
}
