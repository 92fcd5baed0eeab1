//! Queries on the index: filters, pages and cursors.
//!
//! Most filters are about columns of sorts, so a filter first becomes a set of sorts. Their counts answer how many records
//! match; the newest of each sort, merged, are a page. What a page costs depends on the number of sorts, not of records.

mod wanted;

use std::{cmp::Reverse, collections::HashMap, io};

use callgate_record::{Activity, ActivityFilter, Page, Summary};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, params, params_from_iter, types::Value};

use super::{
    IndexError,
    place::{Reader, Row},
    rows,
};
use wanted::{MatchingSorts, Wanted};

/// A summary lists at most so many values, the most frequent first.
const MAX_VALUES: usize = 20;
/// How many of the newest rows are looked at before the newest of each sort are merged.
const NEWEST: usize = 1000;

/// Where a row is: its time and id.
type Key = (i64, Vec<u8>);

pub(super) fn page(
    connection: &Connection,
    reader: &mut Reader,
    filter: &ActivityFilter,
) -> Result<Page, IndexError> {
    let before = filter.cursor.as_deref().map(parse_cursor).transpose()?;
    // One transaction: SQLite would lock and look at the files for each statement.
    let transaction = connection.unchecked_transaction()?;
    let connection = &*transaction;
    let Some(wanted) = Wanted::of(connection, filter)? else {
        return Ok(Page::default());
    };
    let total = count(connection, &wanted)?;
    let mut page = Page {
        total,
        ..Page::default()
    };
    if total == 0 {
        return Ok(page);
    }
    let limit = filter.page_size();
    let mut keys = newest(connection, &wanted, before, limit + 1)?;
    if keys.len() > limit {
        keys.truncate(limit);
        page.next_cursor = keys.last().and_then(cursor);
    }
    for key in keys {
        let row = row(connection, &key)?.ok_or(IndexError::Differs)?;
        page.activities.extend(reader.record(connection, &row)?);
    }
    Ok(page)
}

fn row(connection: &Connection, (at, id): &Key) -> Result<Option<Row>, rusqlite::Error> {
    let (columns, tables) = (Row::COLUMNS, Row::TABLES);
    let sql = format!("SELECT {columns} FROM {tables} WHERE a.at = ?1 AND a.id = ?2");
    let mut statement = connection.prepare_cached(&sql)?;
    statement
        .query_row(params![at, id], Row::from_row)
        .optional()
}

/// How many records match.
fn count(connection: &Connection, wanted: &Wanted) -> Result<u64, IndexError> {
    if !wanted.has_names() && !wanted.has_times() {
        return Ok(wanted.sorts.records());
    }
    // A count per sort reads only what it counts.
    if !wanted.has_names()
        && let MatchingSorts::Few(sorts) = &wanted.sorts
    {
        let mut total = 0;
        for (sort, _) in sorts {
            let of_sort = wanted.with(wanted::of_sort(*sort));
            total += count_rows(connection, &of_sort)?;
        }
        return Ok(total);
    }
    count_rows(connection, &wanted.conditions())
}

fn count_rows(
    connection: &Connection,
    (conditions, values): &(String, Vec<Value>),
) -> Result<u64, IndexError> {
    let sql = format!("SELECT count(*) FROM activity {conditions}");
    let mut statement = connection.prepare_cached(&sql)?;
    Ok(statement.query_row(params_from_iter(values), |row| row.get(0))?)
}

/// The keys of the newest matches before a position, newest first.
fn newest(
    connection: &Connection,
    wanted: &Wanted,
    before: Option<Key>,
    limit: usize,
) -> Result<Vec<Key>, IndexError> {
    let wanted = wanted.before(before);
    let MatchingSorts::Few(sorts) = &wanted.sorts else {
        return keys(connection, &wanted.conditions(), limit);
    };
    if wanted.has_names() {
        return keys(connection, &wanted.conditions(), limit);
    }
    if wanted.is_frequent(NEWEST / limit.max(1)) {
        let found = keys_among_newest(connection, &wanted, limit)?;
        if found.len() == limit {
            return Ok(found);
        }
    }
    let mut found = Vec::new();
    for (sort, _) in sorts {
        found.extend(keys(
            connection,
            &wanted.with(wanted::of_sort(*sort)),
            limit,
        )?);
        if found.len() > 64 * limit {
            keep_newest(&mut found, limit);
        }
    }
    keep_newest(&mut found, limit);
    Ok(found)
}

fn keep_newest(keys: &mut Vec<Key>, limit: usize) {
    keys.sort_unstable_by(|one, other| Reverse(one).cmp(&Reverse(other)));
    keys.truncate(limit);
}

fn keys(
    connection: &Connection,
    (conditions, values): &(String, Vec<Value>),
    limit: usize,
) -> Result<Vec<Key>, IndexError> {
    let sql =
        format!("SELECT at, id FROM activity {conditions} ORDER BY at DESC, id DESC LIMIT {limit}");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(params_from_iter(values), |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The matches among the newest rows.
fn keys_among_newest(
    connection: &Connection,
    wanted: &Wanted,
    limit: usize,
) -> Result<Vec<Key>, IndexError> {
    let (conditions, mut values) = wanted.times();
    let (sorts, of_sorts) = wanted.sorts.condition();
    values.extend(of_sorts);
    let sql = format!(
        "SELECT at, id FROM (SELECT at, id, sort FROM activity {conditions} ORDER BY at DESC, id DESC LIMIT {NEWEST})
         WHERE {sorts} LIMIT {limit}"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(params_from_iter(values), |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Every record that fits, oldest first.
pub(super) fn for_each(
    connection: &Connection,
    reader: &mut Reader,
    filter: &ActivityFilter,
    visit: &mut dyn FnMut(Activity) -> io::Result<()>,
) -> Result<(), IndexError> {
    let Some(wanted) = Wanted::of(connection, filter)? else {
        return Ok(());
    };
    let (conditions, values) = wanted.conditions();
    let (columns, tables) = (Row::COLUMNS, Row::TABLES);
    let sql = format!("SELECT {columns} FROM {tables} {conditions} ORDER BY a.at, a.id");
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    while let Some(row) = rows.next()? {
        if let Some(record) = reader.record(connection, &Row::from_row(row)?)? {
            visit(record)?;
        }
    }
    Ok(())
}

/// How many records since then there are of each sort.
pub(super) fn summary(
    connection: &Connection,
    since: Timestamp,
    tenant: Option<&str>,
) -> Result<Summary, IndexError> {
    let oldest: Option<i64> =
        connection.query_row("SELECT min(at) FROM activity", [], |row| row.get(0))?;
    let since = since.as_microsecond();
    let counts = match oldest {
        None => return Ok(Summary::default()),
        Some(oldest) if oldest >= since => "SELECT id, count FROM sort WHERE ?1 = ?1",
        // `+sort` keeps SQLite from reading all records in the order of their sorts.
        Some(_) => "SELECT sort, count(*) FROM activity WHERE at >= ?1 GROUP BY +sort",
    };
    let columns = ["status", "intent_type", "decision", "server", "tool"];
    let sql = format!(
        "WITH counts (sort, records) AS ({counts})
         SELECT records, {} FROM counts CROSS JOIN sort ON sort.id = counts.sort
         WHERE records > 0 AND (?2 IS NULL OR tenant = ?2)",
        columns.join(", ")
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params![since, tenant])?;
    let mut total = 0;
    let mut by_value: [HashMap<String, u64>; 5] = Default::default();
    while let Some(row) = rows.next()? {
        let records: u64 = row.get(0)?;
        total += records;
        for (at, counts) in by_value.iter_mut().enumerate() {
            if let Some(value) = row.get::<_, Option<String>>(at + 1)? {
                *counts.entry(value).or_default() += records;
            }
        }
    }
    let [by_status, by_intent, by_decision, by_server, by_tool] = by_value.map(most_frequent);
    Ok(Summary {
        total,
        by_status,
        by_intent,
        by_decision,
        by_server,
        by_tool,
    })
}

fn most_frequent(counts: HashMap<String, u64>) -> Vec<(String, u64)> {
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_unstable_by(|(one, first), (other, second)| second.cmp(first).then(one.cmp(other)));
    counts.truncate(MAX_VALUES);
    counts
}

fn cursor((at, id): &Key) -> Option<String> {
    Some(format!("{at:x}-{}", rows::id(id)?))
}

fn parse_cursor(cursor: &str) -> Result<Key, IndexError> {
    let parse = || {
        let (at, id) = cursor.split_once('-')?;
        let id = ulid::Ulid::from_string(id).ok()?;
        Some((i64::from_str_radix(at, 16).ok()?, id.to_bytes().to_vec()))
    };
    parse().ok_or_else(|| IndexError::BadCursor {
        cursor: cursor.to_owned(),
    })
}
