//! How far each writer's log has been read.

use std::{cmp::Ordering, fs};

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use super::IndexError;
use crate::folder::{Folder, SegmentPath};

/// How far a writer's log has been read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// The writer's number in the index.
    pub(super) number: i64,
    pub(super) segment: u32,
    pub(super) offset: u64,
    /// The first segment that existed; retention dropped earlier ones.
    pub(super) first: u32,
    pub(super) settled: Option<i64>,
    pub(super) damaged: u64,
}

pub(super) fn mark(
    connection: &Connection,
    folder: &Folder,
) -> Result<Option<Mark>, rusqlite::Error> {
    let mut statement = connection.prepare_cached(
        "SELECT id, segment, offset, first, settled, damaged FROM writer WHERE name = ?1",
    )?;
    let row = statement.query_row([folder.writer.to_string()], |row| {
        Ok(Mark {
            number: row.get(0)?,
            segment: row.get(1)?,
            offset: row.get(2)?,
            first: row.get(3)?,
            settled: row.get(4)?,
            damaged: row.get(5)?,
        })
    });
    row.optional()
}

/// The mark of a writer that the index does not have yet.
pub(super) fn first_mark(
    transaction: &Transaction<'_>,
    folder: &Folder,
    first: &SegmentPath,
) -> Result<Mark, rusqlite::Error> {
    transaction.execute(
        "INSERT INTO writer (name, segment, offset, first) VALUES (?1, ?2, 0, ?2)",
        params![folder.writer.to_string(), first.number],
    )?;
    Ok(Mark {
        number: transaction.last_insert_rowid(),
        segment: first.number,
        first: first.number,
        ..Mark::default()
    })
}

pub(super) fn put_mark(transaction: &Transaction<'_>, mark: Mark) -> Result<(), rusqlite::Error> {
    let mut statement = transaction.prepare_cached(
        "UPDATE writer SET segment = ?2, offset = ?3, first = ?4, settled = NULL, damaged = ?5 WHERE id = ?1",
    )?;
    statement.execute(params![
        mark.number,
        mark.segment,
        mark.offset,
        mark.first,
        mark.damaged
    ])?;
    Ok(())
}

/// How many bytes of the log the index has not read.
pub(super) fn unread(connection: &Connection, folders: &[Folder]) -> Result<u64, IndexError> {
    let mut bytes = 0;
    for folder in folders {
        let mark = mark(connection, folder)?.unwrap_or_default();
        for segment in folder.segments()? {
            let length = fs::metadata(&segment.path).map_or(0, |data| data.len());
            bytes += match segment.number.cmp(&mark.segment) {
                Ordering::Less => 0,
                Ordering::Equal => length.saturating_sub(mark.offset),
                Ordering::Greater => length,
            };
        }
    }
    Ok(bytes)
}
