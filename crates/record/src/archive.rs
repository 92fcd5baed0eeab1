//! The port to what is on record: what may be asked about it, and what is done with it as it ages.

use std::io::{self, Write};

use callgate_gate::CallId;
use jiff::Timestamp;
use serde::Serialize;

use crate::{Activity, Decision, Head, KeyedHead, RecordType, Status};

/// Which records are asked for; what is left out does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ActivityFilter {
    /// What kind of request.
    pub record_type: Option<RecordType>,
    /// The server.
    pub server: Option<String>,
    /// The tool, method or event.
    pub tool: Option<String>,
    /// The session.
    pub session_id: Option<String>,
    /// How it stands.
    pub status: Option<Status>,
    /// `read`, `write` or `destructive`, whether declared or inferred.
    pub intent_type: Option<String>,
    /// What policy said.
    pub decision: Option<Decision>,
    /// How the rule begins.
    pub rule_prefix: Option<String>,
    /// A scope that was checked.
    pub scope: Option<String>,
    /// The tenant.
    pub tenant: Option<String>,
    /// The host's own id of the request, as JSON text.
    pub request_id: Option<String>,
    /// The call that made it.
    pub parent_id: Option<CallId>,
    /// What the caller is called.
    pub agent: Option<String>,
    /// Not before this.
    pub since: Option<Timestamp>,
    /// Before this.
    pub until: Option<Timestamp>,
    /// How many a page has at most: 50 where nothing is said, 1000 where more is said.
    pub limit: Option<usize>,
    /// Where the page before ended.
    pub cursor: Option<String>,
}

/// How many records a page has where nothing is said.
const DEFAULT_PAGE: usize = 50;
/// The most that one page has.
const MAX_PAGE: usize = 1000;

impl ActivityFilter {
    /// How many records a page has.
    pub fn page_size(&self) -> usize {
        self.limit.unwrap_or(DEFAULT_PAGE).clamp(1, MAX_PAGE)
    }

    /// Whether a record fits. Pages and cursors do not matter for this.
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
    /// The records.
    pub activities: Vec<Activity>,
    /// How many fit the filter, on all pages.
    pub total: u64,
    /// What to ask for the next page with; none on the last.
    pub next_cursor: Option<String>,
}

/// How many records of each sort there are, the most frequent first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// All of them.
    pub total: u64,
    /// By how they stand.
    pub by_status: Vec<(String, u64)>,
    /// By what they were said, or taken, to do.
    pub by_intent: Vec<(String, u64)>,
    /// By what policy said.
    pub by_decision: Vec<(String, u64)>,
    /// By server.
    pub by_server: Vec<(String, u64)>,
    /// By tool, method or event.
    pub by_tool: Vec<(String, u64)>,
}

/// How records are written out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One JSON object per line.
    Jsonl,
    /// Comma-separated with a heading; members that are no plain values stand as JSON.
    Csv,
}

/// What a look at the whole log has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verification {
    /// How many writers there are.
    pub writers: u64,
    /// How many good entries they have.
    pub entries: u64,
    /// What is wrong with the log, a sentence each.
    pub problems: Vec<String>,
    /// How a search index differed from the log, where the backend has one and it did. The index was
    /// rebuilt from the log by then.
    pub index_differed: Option<String>,
}

impl Verification {
    /// Whether the log and the index are as they were written.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty() && self.index_differed.is_none()
    }
}

/// How much of the log is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionLimits {
    /// Entries that are older than this many days go.
    pub days: u32,
    /// Beyond this many MiB the oldest entries go.
    pub max_mb: u64,
}

/// What retention dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retained {
    /// How many entries.
    pub entries: u64,
    /// How many bytes that were.
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
    /// The cursor is not one that a page gave.
    #[error("`{cursor}` is not a cursor of this list")]
    BadCursor {
        /// What was given.
        cursor: String,
    },
    /// What is on record cannot be read. The reason is for the operator.
    #[error("the record cannot be read: {reason}")]
    Unreadable {
        /// Why.
        reason: String,
    },
    /// Old entries cannot be dropped. The reason is for the operator.
    #[error("{reason}")]
    NotDropped {
        /// Why.
        reason: String,
    },
    /// The reader of an export went away, or its disk is full.
    #[error("the export cannot be written: {0}")]
    Unwritable(#[from] io::Error),
}

/// Answers questions about what is on record, of all writers. Its methods block.
pub trait Archive: Send + Sync + std::fmt::Debug {
    /// One page of records, newest first.
    fn page(&self, filter: &ActivityFilter) -> Result<Page, ArchiveError>;

    /// One record.
    fn get(&self, id: CallId) -> Result<Option<Activity>, ArchiveError>;

    /// Writes every record that fits, oldest first; says how many those were.
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

    /// Where every writer stands, each with its code. Kept elsewhere, they show later whether anything
    /// was cut off.
    fn heads(&self) -> Result<Vec<KeyedHead>, ArchiveError>;

    /// Drops what exceeds the limits, oldest first, and names in the log what is gone. The newest entries
    /// of a living writer stay, and so do the calls of a dead writer until they are closed. While another
    /// process does the same, nothing is dropped here.
    fn retain(&self, limits: RetentionLimits) -> Result<Retained, ArchiveError>;

    /// Brings a search index up to date in small steps, until `make_way` says that calls need the
    /// processor. Questions do this by themselves; a backend without such an index has nothing to do.
    fn catch_up(&self, make_way: &dyn Fn() -> bool) -> Result<CatchUp, ArchiveError> {
        let _ = make_way;
        Ok(CatchUp {
            is_complete: true,
            was_rebuilt: false,
        })
    }

    /// What a reader of the answers so far should know.
    fn caveats(&self) -> Result<Caveats, ArchiveError> {
        Ok(Caveats::default())
    }
}
