//! Asking the index: filters, pages and their cursors.

use std::io;

use callgate_gate::CallId;
use callgate_record::{Activity, Decision, RecordType, Status};
use jiff::Timestamp;
use rusqlite::{Connection, params_from_iter, types::Value};

use super::{IndexError, activity, fill::word};

const DEFAULT_LIMIT: usize = 50;
/// More than this is not given in one page.
const MAX_LIMIT: usize = 1000;

/// Up to here it is quicker to find the records by their rule and to sort them; beyond, to go
/// back in time and look at each.
const SORTABLE: u64 = 2000;

const BY_RULE: &str = "rule >= ? AND rule < ?";
/// The same, but SQLite does not use an index for an expression.
const BY_RULE_UNINDEXED: &str = "+rule >= ? AND +rule < ?";

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
#[derive(Debug, Clone)]
pub struct Page {
    /// The records.
    pub activities: Vec<Activity>,
    /// How many fit the filter, on all pages.
    pub total: u64,
    /// What to ask for the next page with; none on the last.
    pub next_cursor: Option<String>,
}

/// One page.
pub(super) fn page(connection: &Connection, filter: &ActivityFilter) -> Result<Page, IndexError> {
    let mut terms = Terms::of(filter)?;
    let count = format!("SELECT count(*) FROM activity {}", terms.sql());
    let total: u64 = connection
        .prepare_cached(&count)?
        .query_row(params_from_iter(&terms.values), |row| row.get(0))?;
    if let Some(cursor) = &filter.cursor {
        let (at, id) = parse_cursor(cursor)?;
        terms.add("(at, id) < (?, ?)", [Value::from(at), Value::from(id)]);
    }
    if total > SORTABLE {
        terms.leave_rule_index();
    }
    let limit = filter.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    // The inner query finds the keys in the narrow table alone; only a page of records is read.
    let sql = format!(
        "SELECT json, status, at, id FROM (SELECT * FROM activity {} ORDER BY at DESC, id DESC LIMIT {})
         JOIN document USING (key) ORDER BY at DESC, id DESC",
        terms.sql(),
        limit + 1,
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(&terms.values))?;
    let mut page = Page {
        activities: Vec::new(),
        total,
        next_cursor: None,
    };
    let mut last = None;
    while let Some(row) = rows.next()? {
        if page.activities.len() == limit {
            page.next_cursor = last.map(|(at, id): (i64, String)| format!("{at:x}-{id}"));
            break;
        }
        let json: String = row.get(0)?;
        page.activities.push(activity(&json, row.get(1)?)?);
        last = Some((row.get(2)?, row.get(3)?));
    }
    Ok(page)
}

/// Every record that fits, oldest first.
pub(super) fn for_each(
    connection: &Connection,
    filter: &ActivityFilter,
    visit: &mut dyn FnMut(Activity) -> io::Result<()>,
) -> Result<(), IndexError> {
    let terms = Terms::of(filter)?;
    let sql = format!(
        "SELECT document.json, activity.status FROM activity JOIN document USING (key) {} ORDER BY at, id",
        terms.sql(),
    );
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query(params_from_iter(&terms.values))?;
    while let Some(row) = rows.next()? {
        let json: String = row.get(0)?;
        visit(activity(&json, row.get(1)?)?)?;
    }
    Ok(())
}

/// A `WHERE` clause in the making. Text comes only from here; what was asked for is bound.
#[derive(Default)]
struct Terms {
    text: Vec<&'static str>,
    values: Vec<Value>,
}

impl Terms {
    fn of(filter: &ActivityFilter) -> Result<Self, IndexError> {
        let mut terms = Self::default();
        terms.equal(
            "type = ?",
            filter.record_type.as_ref().map(word).transpose()?,
        );
        terms.equal("server = ?", filter.server.clone());
        terms.equal("tool = ?", filter.tool.clone());
        terms.equal("session_id = ?", filter.session_id.clone());
        terms.equal("status = ?", filter.status.as_ref().map(word).transpose()?);
        terms.equal("intent_type = ?", filter.intent_type.clone());
        terms.equal(
            "decision = ?",
            filter.decision.as_ref().map(word).transpose()?,
        );
        terms.equal("instr(scopes, '|' || ? || '|') > 0", filter.scope.clone());
        terms.equal("tenant = ?", filter.tenant.clone());
        terms.equal("request_id = ?", filter.request_id.clone());
        terms.equal("parent_id = ?", filter.parent_id.map(|id| id.to_string()));
        terms.equal("agent = ?", filter.agent.clone());
        if let Some(prefix) = &filter.rule_prefix {
            let end = format!("{prefix}{}", char::MAX);
            terms.add(BY_RULE, [Value::from(prefix.clone()), Value::from(end)]);
        }
        if let Some(since) = filter.since {
            terms.add("at >= ?", [Value::from(since.as_microsecond())]);
        }
        if let Some(until) = filter.until {
            terms.add("at < ?", [Value::from(until.as_microsecond())]);
        }
        Ok(terms)
    }

    fn equal(&mut self, text: &'static str, value: Option<String>) {
        if let Some(value) = value {
            self.add(text, [Value::from(value)]);
        }
    }

    fn add(&mut self, text: &'static str, values: impl IntoIterator<Item = Value>) {
        self.text.push(text);
        self.values.extend(values);
    }

    fn leave_rule_index(&mut self) {
        for text in self.text.iter_mut().filter(|text| **text == BY_RULE) {
            *text = BY_RULE_UNINDEXED;
        }
    }

    fn sql(&self) -> String {
        if self.text.is_empty() {
            String::new()
        } else {
            format!("WHERE {}", self.text.join(" AND "))
        }
    }
}

fn parse_cursor(cursor: &str) -> Result<(i64, String), IndexError> {
    let parse = || {
        let (at, id) = cursor.split_once('-')?;
        let id = ulid::Ulid::from_string(id).ok()?;
        Some((i64::from_str_radix(at, 16).ok()?, id.to_string()))
    };
    parse().ok_or_else(|| IndexError::BadCursor {
        cursor: cursor.to_owned(),
    })
}
