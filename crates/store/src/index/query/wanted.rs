//! A filter as conditions on rows. Their text is constant; values from a request are bound.

use callgate_record::ActivityFilter;
use rusqlite::{Connection, OptionalExtension as _, params_from_iter, types::Value};

use super::Key;
use crate::index::{IndexError, rows, sorts::word};

/// Of more sorts than this, a page is read in order of time: a query per sort would take longer.
const MANY: u64 = 2000;

/// A condition and its values.
type Condition = (&'static str, Vec<Value>);

/// What a filter asks for.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) sorts: MatchingSorts,
    /// On names that few records share: session, request, parent.
    names: Vec<Condition>,
    times: Vec<Condition>,
    /// All records there are.
    records: u64,
}

/// The sorts that match.
#[derive(Debug, Clone)]
pub(super) enum MatchingSorts {
    All {
        records: u64,
    },
    /// Each with the number of its records.
    Few(Vec<(i64, u64)>),
    Many {
        records: u64,
        conditions: Vec<Condition>,
    },
}

impl Wanted {
    /// What a filter asks for; none if no record can match.
    pub(super) fn of(
        connection: &Connection,
        filter: &ActivityFilter,
    ) -> Result<Option<Self>, IndexError> {
        let Some(names) = names(connection, filter)? else {
            return Ok(None);
        };
        let records = sum(connection, &[])?;
        Ok(Some(Self {
            sorts: MatchingSorts::of(connection, filter, records)?,
            names,
            times: times(filter),
            records,
        }))
    }

    pub(super) fn has_names(&self) -> bool {
        !self.names.is_empty()
    }

    pub(super) fn has_times(&self) -> bool {
        !self.times.is_empty()
    }

    /// Whether at least one in so many records is of a matching sort.
    pub(super) fn is_frequent(&self, one_in: usize) -> bool {
        self.sorts.records().saturating_mul(one_in as u64) >= self.records
    }

    /// The same before a position.
    pub(super) fn before(&self, position: Option<Key>) -> Self {
        let mut wanted = self.clone();
        let before = position.map(|(at, id)| ("(at, id) < (?, ?)", vec![at.into(), id.into()]));
        wanted.times.extend(before);
        wanted
    }

    /// All conditions, and their values.
    pub(super) fn conditions(&self) -> (String, Vec<Value>) {
        match &self.sorts {
            MatchingSorts::All { .. } => joined(self.names.iter().chain(&self.times)),
            sorts @ (MatchingSorts::Few(_) | MatchingSorts::Many { .. }) => {
                let (condition, values) = sorts.condition();
                let (others, of_others) = joined(self.names.iter().chain(&self.times));
                let begin = if others.is_empty() { "WHERE" } else { "AND" };
                let all = of_others.into_iter().chain(values).collect();
                (format!("{others} {begin} {condition}"), all)
            }
        }
    }

    /// The conditions on times alone.
    pub(super) fn times(&self) -> (String, Vec<Value>) {
        joined(&self.times)
    }

    /// The conditions on times, and another one.
    pub(super) fn with(&self, condition: Condition) -> (String, Vec<Value>) {
        joined([&condition].into_iter().chain(&self.times))
    }
}

/// The condition for one sort.
pub(super) fn of_sort(sort: i64) -> Condition {
    ("sort = ?", vec![sort.into()])
}

impl MatchingSorts {
    fn of(
        connection: &Connection,
        filter: &ActivityFilter,
        records: u64,
    ) -> Result<Self, IndexError> {
        let conditions = on_sorts(filter)?;
        if conditions.is_empty() {
            return Ok(Self::All { records });
        }
        let (text, values) = joined(&conditions);
        let sql = format!("SELECT id, count FROM sort {text} LIMIT {}", MANY + 1);
        let mut statement = connection.prepare_cached(&sql)?;
        let found = statement.query_map(params_from_iter(values), |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
        let found: Vec<(i64, u64)> = found.collect::<Result<_, _>>()?;
        if found.len() as u64 <= MANY {
            return Ok(Self::Few(found));
        }
        Ok(Self::Many {
            records: sum(connection, &conditions)?,
            conditions,
        })
    }

    /// How many records are of them.
    pub(super) fn records(&self) -> u64 {
        match self {
            Self::All { records } | Self::Many { records, .. } => *records,
            Self::Few(sorts) => sorts.iter().map(|(_, records)| records).sum(),
        }
    }

    /// The condition that a row is of one of them. `+sort` keeps SQLite from reading them sort by sort.
    pub(super) fn condition(&self) -> (String, Vec<Value>) {
        match self {
            Self::All { .. } => ("TRUE".to_owned(), Vec::new()),
            Self::Few(sorts) => {
                let numbers: Vec<String> = sorts.iter().map(|(sort, _)| sort.to_string()).collect();
                (format!("+sort IN ({})", numbers.join(", ")), Vec::new())
            }
            Self::Many { conditions, .. } => {
                let (text, values) = joined(conditions);
                (format!("+sort IN (SELECT id FROM sort {text})"), values)
            }
        }
    }
}

fn sum(connection: &Connection, conditions: &[Condition]) -> Result<u64, IndexError> {
    let (text, values) = joined(conditions);
    let sql = format!("SELECT ifnull(sum(count), 0) FROM sort {text}");
    let mut statement = connection.prepare_cached(&sql)?;
    Ok(statement.query_row(params_from_iter(values), |row| row.get(0))?)
}

fn joined<'c>(conditions: impl IntoIterator<Item = &'c Condition>) -> (String, Vec<Value>) {
    let (mut text, mut values) = (String::new(), Vec::new());
    for (condition, of_condition) in conditions {
        text.push_str(if text.is_empty() { "WHERE " } else { " AND " });
        text.push_str(condition);
        values.extend_from_slice(of_condition);
    }
    (text, values)
}

/// The conditions on what records have in common.
fn on_sorts(filter: &ActivityFilter) -> Result<Vec<Condition>, IndexError> {
    let of_type = filter.record_type.as_ref().map(word).transpose()?;
    let status = filter.status.map(|status| status.as_str().to_owned());
    let decision = filter.decision.as_ref().map(word).transpose()?;
    let equal = [
        ("type = ?", of_type),
        ("server = ?", filter.server.clone()),
        ("tool = ?", filter.tool.clone()),
        ("status = ?", status),
        ("intent_type = ?", filter.intent_type.clone()),
        ("decision = ?", decision),
        ("instr(scopes, '|' || ? || '|') > 0", filter.scope.clone()),
        ("tenant = ?", filter.tenant.clone()),
        ("agent = ?", filter.agent.clone()),
    ];
    let present = equal
        .into_iter()
        .filter_map(|(text, value)| Some((text, vec![Value::from(value?)])));
    let mut conditions: Vec<Condition> = present.collect();
    if let Some(prefix) = &filter.rule_prefix {
        // A range and not LIKE: `%` and `_` in a rule are plain characters.
        let end = format!("{prefix}{}", char::MAX);
        conditions.push((
            "rule >= ? AND rule < ?",
            vec![prefix.clone().into(), end.into()],
        ));
    }
    Ok(conditions)
}

/// The conditions on names; none if the index does not have the session.
fn names(
    connection: &Connection,
    filter: &ActivityFilter,
) -> Result<Option<Vec<Condition>>, IndexError> {
    let mut conditions: Vec<Condition> = Vec::new();
    if let Some(session) = &filter.session_id {
        let mut statement = connection.prepare_cached("SELECT id FROM session WHERE name = ?1")?;
        let number: Option<i64> = statement
            .query_row([session], |row| row.get(0))
            .optional()?;
        let Some(number) = number else {
            return Ok(None);
        };
        conditions.push(("session = ?", vec![number.into()]));
    }
    if let Some(request) = &filter.request_id {
        conditions.push(("request = ?", vec![request.clone().into()]));
    }
    if let Some(parent) = filter.parent_id {
        conditions.push(("parent = ?", vec![rows::bytes(parent).to_vec().into()]));
    }
    Ok(Some(conditions))
}

fn times(filter: &ActivityFilter) -> Vec<Condition> {
    let since = filter.since.map(|at| ("at >= ?", at.as_microsecond()));
    let until = filter.until.map(|at| ("at < ?", at.as_microsecond()));
    let both = since.into_iter().chain(until);
    both.map(|(text, at)| (text, vec![at.into()])).collect()
}
