//! Queries on the index: filters, pages and cursors.

use std::io;

use callgate_record::{Activity, ActivityFilter, Page, Summary};
use jiff::Timestamp;
use rusqlite::{Connection, params, params_from_iter, types::Value};

use super::{
    IndexError,
    place::{Reader, Row},
    rows::word,
};

/// A summary lists at most so many values, the most frequent first.
const MAX_SORTS: usize = 20;

/// Up to this many matches, finding records by rule and sorting them is faster than reading them in order of time.
const SORTABLE: u64 = 2000;

pub(super) fn page(
    connection: &Connection,
    reader: &mut Reader,
    filter: &ActivityFilter,
) -> Result<Page, IndexError> {
    let mut terms = WhereClause::of(filter)?;
    let cursor = filter.cursor.as_deref().map(parse_cursor).transpose()?;
    let total = terms.count(connection)?;
    if total == 0 {
        return Ok(Page::default());
    }
    terms.choose_index(connection, total)?;
    if let Some((at, id)) = cursor {
        terms.add(
            Lookup::InTime,
            "(at, id) < (?, ?)",
            [Value::from(at), Value::from(id)],
        );
    }
    let limit = filter.page_size();
    let sql = format!(
        "SELECT id, status, places, at FROM activity {} ORDER BY at DESC, id DESC LIMIT {}",
        terms.sql(),
        limit + 1,
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(terms.values()))?;
    let mut page = Page {
        activities: Vec::new(),
        total,
        next_cursor: None,
    };
    let mut last = None;
    let mut seen = 0;
    while let Some(row) = rows.next()? {
        if seen == limit {
            page.next_cursor = last.map(|(at, id): (i64, String)| format!("{at:x}-{id}"));
            break;
        }
        page.activities.extend(reader.record(&found(row)?)?);
        last = Some((row.get(3)?, row.get(0)?));
        seen += 1;
    }
    Ok(page)
}

/// Every record that fits, oldest first.
pub(super) fn for_each(
    connection: &Connection,
    reader: &mut Reader,
    filter: &ActivityFilter,
    visit: &mut dyn FnMut(Activity) -> io::Result<()>,
) -> Result<(), IndexError> {
    let terms = WhereClause::of(filter)?;
    let sql = format!(
        "SELECT id, status, places FROM activity {} ORDER BY at, id",
        terms.sql(),
    );
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query(params_from_iter(terms.values()))?;
    while let Some(row) = rows.next()? {
        if let Some(record) = reader.record(&found(row)?)? {
            visit(record)?;
        }
    }
    Ok(())
}

fn found(row: &rusqlite::Row<'_>) -> Result<Row, rusqlite::Error> {
    Ok(Row {
        id: row.get(0)?,
        status: row.get(1)?,
        places: row.get(2)?,
    })
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
        // The column is one of the constants below, never text from a request.
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

/// How the records that match a condition are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lookup {
    /// The tally has the column, and an index has it together with the time.
    BySort,
    /// The tally has it; no index does, or only without the time.
    LedgerFuture,
    /// By an index of few records each; the tally does not have it.
    ByName,
    InTime,
}

/// One condition. Its text is constant; values from a request are bound.
struct Condition {
    found: Lookup,
    text: &'static str,
    values: Vec<Value>,
    /// `false` makes it an expression, for which SQLite uses no index.
    is_plain: bool,
}

#[derive(Default)]
struct WhereClause(Vec<Condition>);

impl WhereClause {
    fn of(filter: &ActivityFilter) -> Result<Self, IndexError> {
        let mut terms = Self::default();
        let of_type = filter.record_type.as_ref().map(word).transpose()?;
        let status = filter.status.as_ref().map(word).transpose()?;
        let decision = filter.decision.as_ref().map(word).transpose()?;
        let parent = filter.parent_id.map(|id| id.to_string());
        let equal = [
            (Lookup::BySort, "type = ?", of_type),
            (Lookup::BySort, "server = ?", filter.server.clone()),
            (Lookup::BySort, "tool = ?", filter.tool.clone()),
            (Lookup::ByName, "session_id = ?", filter.session_id.clone()),
            (Lookup::BySort, "status = ?", status),
            (
                Lookup::BySort,
                "intent_type = ?",
                filter.intent_type.clone(),
            ),
            (Lookup::BySort, "decision = ?", decision),
            (
                Lookup::LedgerFuture,
                "instr(scopes, '|' || ? || '|') > 0",
                filter.scope.clone(),
            ),
            (Lookup::LedgerFuture, "tenant = ?", filter.tenant.clone()),
            (Lookup::ByName, "request_id = ?", filter.request_id.clone()),
            (Lookup::ByName, "parent_id = ?", parent),
            (Lookup::BySort, "agent = ?", filter.agent.clone()),
        ];
        for (found, text, value) in equal {
            if let Some(value) = value {
                terms.add(found, text, [Value::from(value)]);
            }
        }
        if let Some(prefix) = &filter.rule_prefix {
            // A range and not LIKE: it uses the index, and `%` and `_` in a rule are plain characters.
            let end = format!("{prefix}{}", char::MAX);
            let values = [Value::from(prefix.clone()), Value::from(end)];
            terms.add(Lookup::LedgerFuture, "rule >= ? AND rule < ?", values);
        }
        if let Some(since) = filter.since {
            let since = Value::from(since.as_microsecond());
            terms.add(Lookup::InTime, "at >= ?", [since]);
        }
        if let Some(until) = filter.until {
            let until = Value::from(until.as_microsecond());
            terms.add(Lookup::InTime, "at < ?", [until]);
        }
        Ok(terms)
    }

    fn add(&mut self, found: Lookup, text: &'static str, values: impl IntoIterator<Item = Value>) {
        self.0.push(Condition {
            found,
            text,
            values: values.into_iter().collect(),
            is_plain: true,
        });
    }

    /// The number of matches, from the tally where possible.
    fn count(&self, connection: &Connection) -> Result<u64, IndexError> {
        let sql = if self.0.iter().all(Condition::is_tallied) {
            format!("SELECT ifnull(sum(count), 0) FROM tally {}", self.sql())
        } else {
            format!("SELECT count(*) FROM activity {}", self.sql())
        };
        let mut statement = connection.prepare_cached(&sql)?;
        Ok(statement.query_row(params_from_iter(self.values()), |row| row.get(0))?)
    }

    /// Leaves SQLite one index.
    // SQLite has no statistics here and cannot know which of several conditions has the fewest matches; the tally does.
    fn choose_index(&mut self, connection: &Connection, total: u64) -> Result<(), IndexError> {
        let has_name = self.0.iter().any(|term| term.found == Lookup::ByName);
        let by_sort = |term: &&mut Condition| term.found == Lookup::BySort;
        if has_name {
            self.0
                .iter_mut()
                .filter(by_sort)
                .for_each(Condition::leave_index);
            return Ok(());
        }
        if total > SORTABLE {
            let ranges = self.0.iter_mut();
            ranges
                .filter(|term| term.found == Lookup::LedgerFuture)
                .for_each(Condition::leave_index);
        }
        let mut counted: Vec<(u64, &mut Condition)> = Vec::new();
        for term in self.0.iter_mut().filter(by_sort) {
            let sql = format!(
                "SELECT ifnull(sum(count), 0) FROM tally WHERE {}",
                term.text
            );
            let mut statement = connection.prepare_cached(&sql)?;
            let of_this = statement.query_row(params_from_iter(&term.values), |row| row.get(0))?;
            counted.push((of_this, term));
        }
        counted.sort_by_key(|(of_this, _)| *of_this);
        let others = counted.into_iter().skip(1);
        others.for_each(|(_, term)| term.leave_index());
        Ok(())
    }

    fn sql(&self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let texts: Vec<String> = self.0.iter().map(Condition::sql).collect();
        format!("WHERE {}", texts.join(" AND "))
    }

    fn values(&self) -> impl Iterator<Item = &Value> {
        self.0.iter().flat_map(|term| &term.values)
    }
}

impl Condition {
    /// Whether the tally can answer the condition. It has empty text for null, so not for empty values.
    fn is_tallied(&self) -> bool {
        let knows = matches!(self.found, Lookup::BySort | Lookup::LedgerFuture);
        knows && !self.values.contains(&Value::from(String::new()))
    }

    fn leave_index(&mut self) {
        self.is_plain = false;
    }

    fn sql(&self) -> String {
        if self.is_plain {
            return self.text.to_owned();
        }
        let parts = self.text.split(" AND ").map(|part| format!("+{part}"));
        parts.collect::<Vec<_>>().join(" AND ")
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
