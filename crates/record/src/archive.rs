//! The port to what is on record: what may be asked about it. Whoever keeps the record fills it.

use std::io::{self, Write};

use callgate_gate::CallId;
use jiff::Timestamp;
use serde::Serialize;

use crate::{Activity, Decision, RecordType, Status};

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
    /// Nobody takes what is written out any more.
    #[error("the export cannot be written: {0}")]
    Unwritable(#[from] io::Error),
}

/// Answers questions about what is on record. Its methods block.
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
}
