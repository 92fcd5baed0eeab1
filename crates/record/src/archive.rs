//! The port for reading records: queries, verification and retention.

use std::{
    collections::BTreeMap,
    fmt,
    io::{self, Write},
    sync::Arc,
};

use callgate_gate::CallId;
use jiff::Timestamp;
use serde::Serialize;

use crate::{
    Activity, ClockTrust, Decision, DropReason, Head, KeyedHead, RecordType, RetentionPause, Status,
};

/// A filter for records; an absent field matches all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ActivityFilter {
    pub record_type: Option<RecordType>,
    pub server: Option<String>,
    /// The tool, method or event.
    pub tool: Option<String>,
    pub session_id: Option<String>,
    pub status: Option<Status>,
    /// `read`, `write` or `destructive`, whether declared or inferred.
    pub intent_type: Option<String>,
    pub decision: Option<Decision>,
    pub rule_prefix: Option<String>,
    /// A scope that was checked.
    pub scope: Option<String>,
    pub tenant: Option<String>,
    /// The host's own id of the request, as JSON text.
    pub request_id: Option<String>,
    /// The call that made it.
    pub parent_id: Option<CallId>,
    /// What the caller is called.
    pub agent: Option<String>,
    /// Inclusive.
    pub since: Option<Timestamp>,
    /// Exclusive.
    pub until: Option<Timestamp>,
    /// Records per page: 50 when absent, at most 1000.
    pub limit: Option<usize>,
    /// The `next_cursor` of the page before.
    pub cursor: Option<String>,
}

/// The page size without a limit.
const DEFAULT_PAGE: usize = 50;
// A page is built in memory and under the index's lock.
const MAX_PAGE: usize = 1000;

impl ActivityFilter {
    /// How many records a page has.
    pub fn page_size(&self) -> usize {
        self.limit.unwrap_or(DEFAULT_PAGE).clamp(1, MAX_PAGE)
    }

    /// Whether a record matches, apart from limit and cursor.
    // Backends with their own query language must agree with this function; the conformance suite compares them.
    pub fn includes(&self, record: &Activity) -> bool {
        fn is<T: PartialEq>(wanted: &Option<T>, found: Option<&T>) -> bool {
            wanted.as_ref().is_none_or(|wanted| found == Some(wanted))
        }
        let intent = record.metadata.intent.as_ref();
        let rule = record.rule.as_deref();
        is(&self.record_type, Some(&record.record_type))
            && is(&self.server, record.server.as_ref())
            && is(&self.tool, record.tool.as_ref())
            && is(&self.session_id, record.session_id.as_ref())
            && is(&self.status, record.status.as_ref())
            && is(
                &self.intent_type,
                intent.and_then(|intent| intent.operation_type.as_ref()),
            )
            && is(&self.decision, record.decision.as_ref())
            && is(&self.tenant, record.tenant.as_ref())
            && is(&self.request_id, record.request_id.as_ref())
            && is(&self.parent_id, record.parent_id.as_ref())
            && is(&self.agent, record.agent.as_ref())
            && self
                .rule_prefix
                .as_ref()
                .is_none_or(|prefix| rule.is_some_and(|rule| rule.starts_with(prefix)))
            && self
                .scope
                .as_ref()
                .is_none_or(|scope| record.checks.iter().any(|check| check.scope == *scope))
            && self.since.is_none_or(|since| record.timestamp >= since)
            && self.until.is_none_or(|until| record.timestamp < until)
    }
}

/// A page of records, newest first.
#[derive(Debug, Clone, Default)]
pub struct Page {
    pub activities: Vec<Activity>,
    /// How many fit the filter, on all pages.
    pub total: u64,
    /// The cursor of the next page; none on the last.
    pub next_cursor: Option<String>,
}

/// How many records of each sort there are, the most frequent first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    pub total: u64,
    pub by_status: Vec<(String, u64)>,
    /// By declared or inferred intent.
    pub by_intent: Vec<(String, u64)>,
    pub by_decision: Vec<(String, u64)>,
    pub by_server: Vec<(String, u64)>,
    /// By tool, method or event.
    pub by_tool: Vec<(String, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One JSON object per line.
    Jsonl,
    /// Comma-separated with a heading; nested members are JSON text.
    Csv,
}

/// What a look at the whole log has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verification {
    pub writers: u64,
    /// How many good entries they have.
    pub entries: u64,
    /// The damage of the log, a sentence each.
    pub problems: Vec<String>,
    /// How a search index differed from the log, where the backend has one and it did. The index was
    /// rebuilt from the log by then.
    pub index_differed: Option<String>,
    /// What a reader should know although nothing is wrong, a sentence each: that there is no entry, or which entries
    /// were dropped by retention.
    pub notes: Vec<String>,
}

impl Verification {
    /// Whether the log and the index are as they were written.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty() && self.index_differed.is_none()
    }

    /// Notes that nothing is on record, or what retention dropped of it.
    pub fn note_extent(&mut self, dropped: &BTreeMap<Option<DropReason>, u64>) {
        if self.entries == 0 {
            self.notes
                .push("the activity log is empty: no entry is on record".to_owned());
        }
        for (why, entries) in dropped.iter().filter(|(_, entries)| **entries > 0) {
            let why = why.map_or_else(
                || "an earlier version gave no reason".to_owned(),
                |why| why.to_string(),
            );
            self.notes
                .push(format!("retention dropped {entries} entries: {why}"));
        }
    }
}

/// How much of the log is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionLimits {
    /// Entries that are older than this many days go.
    pub days: u32,
    /// How many MiB the log, its search index and its trash may take together. Before they take more, the index gives back
    /// what it does not need, then the trash goes, then the oldest entries.
    pub max_mb: u64,
}

impl RetentionLimits {
    /// The budget in bytes.
    pub fn max_bytes(&self) -> u64 {
        self.max_mb.saturating_mul(1024 * 1024)
    }
}

/// What the record takes of the disk, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskUse {
    /// The entries, and the files beside them.
    pub log: u64,
    /// What can be made again from the log.
    pub index: u64,
    /// What age has dropped, for a day.
    pub trash: u64,
}

impl DiskUse {
    pub fn total(&self) -> u64 {
        self.log + self.index + self.trash
    }
}

/// What retention has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Retained {
    /// What was dropped, in order.
    pub drops: Vec<DroppedEntries>,
    /// Why age dropped nothing.
    pub paused: Option<RetentionPause>,
}

impl Retained {
    /// How many entries were dropped.
    pub fn entries(&self) -> u64 {
        self.drops.iter().map(|dropped| dropped.entries).sum()
    }

    /// How large they were.
    pub fn bytes(&self) -> u64 {
        self.drops.iter().map(|dropped| dropped.bytes).sum()
    }
}

/// Entries that retention dropped together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedEntries {
    /// The last of them.
    pub last: Head,
    pub entries: u64,
    pub bytes: u64,
    pub why: DropReason,
}

/// What was put back from the trash.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Restored {
    pub entries: u64,
    pub bytes: u64,
}

/// How far a search index has caught up with the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CatchUp {
    /// Whether it has all that was in the log when this began.
    pub is_complete: bool,
    /// Whether another program had changed the index, so that it was rebuilt.
    pub was_rebuilt: bool,
}

/// How far a search index is while it is filled, in bytes of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FillProgress {
    pub read: u64,
    /// What there was to read when it began.
    pub of: u64,
}

/// Tells someone who waits for an answer how far the index is.
#[derive(Clone)]
pub struct TellProgress(Arc<dyn Fn(FillProgress) + Send + Sync>);

impl TellProgress {
    pub fn new(tell: impl Fn(FillProgress) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    pub fn tell(&self, progress: FillProgress) {
        (self.0)(progress);
    }
}

impl fmt::Debug for TellProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TellProgress")
    }
}

/// What a reader of the record should know about the answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Caveats {
    /// Another program had changed the search index, and it was rebuilt from the log.
    pub index_rebuilt: bool,
    /// How many damaged entries of the log are left out.
    pub damaged_entries: u64,
}

/// Why a question about the record has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The cursor did not come from a page.
    #[error("`{cursor}` is not a valid cursor: use the `next_cursor` of a page")]
    BadCursor { cursor: String },
    /// The records cannot be read. The reason is for the operator.
    #[error("could not read the activity log: {reason}")]
    Unreadable { reason: String },
    /// Old entries cannot be dropped. The reason is for the operator.
    #[error("{reason}")]
    NotDropped { reason: String },
    /// The reader of an export closed its end, or its disk is full.
    #[error("could not write the export: {0}")]
    Unwritable(#[from] io::Error),
}

/// Answers questions about what is on record, of all writers. Its methods block.
pub trait Archive: Send + Sync + std::fmt::Debug {
    /// One page of records, newest first.
    fn page(&self, filter: &ActivityFilter) -> Result<Page, ArchiveError>;

    fn get(&self, id: CallId) -> Result<Option<Activity>, ArchiveError>;

    /// Writes every record that matches, oldest first, and returns their number.
    fn export(
        &self,
        format: Format,
        filter: &ActivityFilter,
        out: &mut dyn Write,
    ) -> Result<u64, ArchiveError>;

    /// How many records since then there are of each sort; of one tenant, where one is named.
    fn summary(&self, since: Timestamp, tenant: Option<&str>) -> Result<Summary, ArchiveError>;

    /// Checks the whole log, also against heads that were `exported` before. Writers may write meanwhile.
    fn verify(&self, exported: Option<&[Head]>) -> Result<Verification, ArchiveError>;

    /// The keyed head of every writer.
    // Every check inside the data folder can be forged with the key; heads that are stored elsewhere still reveal a
    // cut tail.
    fn heads(&self) -> Result<Vec<KeyedHead>, ArchiveError>;

    /// Drops entries beyond the limits, oldest first, and writes checkpoints about them. The newest entries of a running
    /// writer stay, and so do a dead writer's calls until they are closed. What age drops can be put back for a day;
    /// what the size drops is gone at once. A clock that is not believed ([`ClockTrust`]) drops nothing by age. Does
    /// nothing while another process drops entries.
    fn retain(&self, limits: RetentionLimits) -> Result<Retained, ArchiveError>;

    /// Whether so much was written since the last [`Archive::retain`] that it should be called again.
    fn wants_room(&self, limits: RetentionLimits) -> bool {
        let _ = limits;
        false
    }

    /// What the record takes of the disk.
    fn disk_use(&self) -> Result<DiskUse, ArchiveError> {
        Ok(DiskUse::default())
    }

    /// Puts back what age has dropped and is not yet gone; age then drops nothing for a day.
    fn restore(&self) -> Result<Restored, ArchiveError>;

    /// How far retention believes the clock; none before the first [`Archive::retain`].
    fn clock(&self) -> Result<Option<ClockTrust>, ArchiveError>;

    /// Makes retention believe the clock as it is: a person has looked at it.
    fn confirm_clock(&self) -> Result<(), ArchiveError>;

    /// Updates a search index in small steps, until `make_way` returns that calls need the processor. Queries update it
    /// themselves; a backend without an index does nothing.
    fn catch_up(&self, make_way: &dyn Fn() -> bool) -> Result<CatchUp, ArchiveError> {
        let _ = make_way;
        Ok(CatchUp {
            is_complete: true,
            was_rebuilt: false,
        })
    }

    /// Tells from now on how far the index is while a question waits for it.
    fn tell_progress(&self, tell: TellProgress) {
        drop(tell);
    }

    /// Limits of the answers so far, for the reader.
    fn caveats(&self) -> Result<Caveats, ArchiveError> {
        Ok(Caveats::default())
    }
}
