//! What the entries of a call add up to, as far as the index has it: as [`Activity`](callgate_record::Activity) folds them,
//! from the members of a line alone. Reading all others would take most of the time that filling takes.

use std::borrow::Cow;

use callgate_gate::CallId;
use callgate_record::{Activity, Decision, EntryKind, RecordType, Status, WriterId};
use jiff::Timestamp;
use serde::Deserialize;

use super::{
    rows::{self, Columns},
    sorts::{self, Sort, SortColumns},
};
use crate::line::LineError;

/// The members of an entry that the index has.
#[derive(Deserialize)]
pub(super) struct IndexedEntry<'a> {
    pub(super) writer: WriterId,
    #[serde(borrow)]
    at: Cow<'a, str>,
    kind: EntryKind,
    /// Absent for entries about the chain.
    pub(super) id: Option<CallId>,
    #[serde(rename = "type")]
    record_type: Option<RecordType>,
    #[serde(borrow)]
    tenant: Option<Text<'a>>,
    #[serde(borrow)]
    agent: Option<Text<'a>>,
    #[serde(borrow)]
    server: Option<Text<'a>>,
    #[serde(borrow)]
    tool: Option<Text<'a>>,
    /// Of an event.
    #[serde(borrow)]
    name: Option<Text<'a>>,
    decision: Option<Decision>,
    #[serde(borrow)]
    rule: Option<Text<'a>>,
    #[serde(borrow, default)]
    checks: Vec<Check<'a>>,
    #[serde(borrow)]
    intent: Option<Intent<'a>>,
    status: Option<Status>,
    #[serde(borrow)]
    session_id: Option<Text<'a>>,
    #[serde(borrow)]
    request_id: Option<Text<'a>>,
    parent_id: Option<CallId>,
}

/// A text that is copied only where it has escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct Check<'a> {
    #[serde(borrow)]
    scope: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Intent<'a> {
    #[serde(borrow)]
    operation_type: Option<Text<'a>>,
}

/// A record while its entries are folded.
#[derive(Debug)]
pub(super) struct Folded {
    pub(super) columns: Columns,
    pub(super) status: Option<Status>,
}

fn text<'a>(text: &'a Option<Text<'_>>) -> Option<&'a str> {
    text.as_ref().map(|text| &*text.0)
}

fn owned(text: &Option<Text<'_>>) -> Option<String> {
    self::text(text).map(str::to_owned)
}

fn malformed(member: &str) -> LineError {
    LineError::NotAnEntry {
        column: 0,
        reason: format!("no valid `{member}`"),
    }
}

impl IndexedEntry<'_> {
    /// The record that begins with this entry; none for entries that begin nothing.
    pub(super) fn begin(&self) -> Result<Option<Folded>, LineError> {
        let is_event = match self.kind {
            EntryKind::Refused | EntryKind::Held | EntryKind::Checked | EntryKind::Forwarding => {
                false
            }
            EntryKind::Event => true,
            EntryKind::Opened
            | EntryKind::Closed
            | EntryKind::Finished
            | EntryKind::Unknown
            | EntryKind::Head
            | EntryKind::Checkpoint => return Ok(None),
        };
        let status = match is_event {
            true => Some(Status::Success),
            false => self.status,
        };
        let at: Timestamp = self.at.parse().map_err(|_| malformed("at"))?;
        let of_call = |text| match is_event {
            true => None,
            false => text,
        };
        let scopes = self.scopes();
        let columns = SortColumns {
            record_type: self.record_type.ok_or_else(|| malformed("type"))?,
            tenant: text(&self.tenant),
            agent: of_call(text(&self.agent)),
            server: text(&self.server),
            tool: text(if is_event { &self.name } else { &self.tool }),
            decision: self.decision,
            rule: of_call(text(&self.rule)),
            scopes: &scopes,
            intent_type: of_call(self.intent_type()),
        };
        Ok(Some(Folded {
            columns: Columns {
                at: at.as_microsecond(),
                sort: Sort::new(columns, status),
                session: owned(&self.session_id),
                request: owned(&self.request_id),
                parent: self.parent_id.map(rows::bytes),
            },
            status,
        }))
    }

    fn scopes(&self) -> String {
        sorts::scopes(self.checks.iter().map(|check| &*check.scope))
    }

    fn intent_type(&self) -> Option<&str> {
        self.intent
            .as_ref()
            .and_then(|intent| text(&intent.operation_type))
    }
}

impl Folded {
    /// That of a whole record.
    pub(super) fn of(activity: &Activity) -> Self {
        Self {
            columns: Columns::of(activity),
            status: activity.status,
        }
    }

    /// Adds a later entry about the same call. The first end wins.
    pub(super) fn apply(&mut self, entry: &IndexedEntry<'_>) {
        let is_open = matches!(self.status, None | Some(Status::Pending));
        if !is_open {
            return;
        }
        match entry.kind {
            EntryKind::Refused | EntryKind::Forwarding => {
                let scopes = entry.scopes();
                self.columns
                    .sort
                    .decide_again(entry.decision, text(&entry.rule), &scopes);
                self.end(entry.status);
            }
            EntryKind::Finished => self.end(entry.status),
            EntryKind::Unknown if self.status.is_none() => self.end(Some(Status::Unknown)),
            EntryKind::Unknown
            | EntryKind::Opened
            | EntryKind::Closed
            | EntryKind::Held
            | EntryKind::Checked
            | EntryKind::Head
            | EntryKind::Checkpoint
            | EntryKind::Event => {}
        }
    }

    fn end(&mut self, status: Option<Status>) {
        self.status = status;
        self.columns.sort.set_status(status);
    }
}
