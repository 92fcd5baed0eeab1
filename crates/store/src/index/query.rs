//! Asking the index: filters, pages and their cursors.

use std::io;

use callgate_record::{Activity, ActivityFilter, Page, Summary};
use jiff::Timestamp;
use rusqlite::{Connection, params, params_from_iter, types::Value};

use super::{IndexError, activity, fill::word};

const DEFAULT_LIMIT: usize = 50;
/// More than this is not given in one page.
const MAX_LIMIT: usize = 1000;

/// So many sorts are counted apart; the most frequent come first.
const MAX_SORTS: usize = 20;

/// Up to here it is quicker to find the records by their rule and to sort them; beyond, to go
/// back in time and look at each.
const SORTABLE: u64 = 2000;

const BY_RULE: &str = "rule >= ? AND rule < ?";
/// The same, but SQLite does not use an index for an expression.
const BY_RULE_UNINDEXED: &str = "+rule >= ? AND +rule < ?";

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

/// How many records since then there are of each sort.
pub(super) fn summary(
    connection: &Connection,
    since: Timestamp,
    tenant: Option<&str>,
) -> Result<Summary, IndexError> {
    const WHOSE: &str = "at >= ?1 AND (?2 IS NULL OR tenant = ?2)";
    let at = since.as_microsecond();
    let total = connection
        .prepare_cached(&format!("SELECT count(*) FROM activity WHERE {WHOSE}"))?
        .query_row(params![at, tenant], |row| row.get(0))?;
    let counted = |column: &str| -> Result<Vec<(String, u64)>, IndexError> {
        // The column is one of those below, never what was asked for.
        let sql = format!(
            "SELECT {column}, count(*) FROM activity WHERE {WHOSE} AND {column} IS NOT NULL
             GROUP BY {column} ORDER BY count(*) DESC, {column} LIMIT {MAX_SORTS}"
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let rows =
            statement.query_map(params![at, tenant], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    };
    Ok(Summary {
        total,
        by_status: counted("status")?,
        by_intent: counted("intent_type")?,
        by_decision: counted("decision")?,
        by_server: counted("server")?,
        by_tool: counted("tool")?,
    })
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
