//! Compares the index with the log: every row, every count and the form of the tables.

use std::{
    collections::{HashMap, HashSet},
    fs,
    path::Path,
};

use callgate_record::{EntryKind, WriterId};
use rusqlite::{Connection, OptionalExtension as _, Statement};

use super::{
    IndexError,
    place::{self, Place, Reader, Row},
    rows::{self, Columns},
    schema, sorts,
};
use crate::{
    folder::{self, Folder},
    line, read,
};

/// The ends of the log at one moment.
#[derive(Debug, Default)]
pub(super) struct LogEnds(HashMap<(WriterId, u32), u64>);

impl LogEnds {
    /// Where the log ends now.
    pub(super) fn of(dir: &Path) -> Result<Self, IndexError> {
        let mut ends = HashMap::new();
        for folder in Folder::list(&folder::log_path(dir))? {
            for segment in folder.segments()? {
                let length = fs::metadata(&segment.path)?.len();
                ends.insert((folder.writer, segment.number), length);
            }
        }
        Ok(Self(ends))
    }

    fn include(&self, place: &Place) -> bool {
        let end = self.0.get(&(place.writer, place.segment));
        end.is_some_and(|end| place.offset + place.length < *end)
    }
}

/// The first difference between index and log; the index must have been filled since `ends` were taken.
pub(super) fn difference(
    connection: &Connection,
    dir: &Path,
    ends: &LogEnds,
) -> Result<Option<String>, IndexError> {
    // One transaction: SQLite would lock and look at the files for each entry.
    let transaction = connection.unchecked_transaction()?;
    let connection = &*transaction;
    if let Some(what) = schema::difference(connection)? {
        return Ok(Some(what));
    }
    let sound: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if sound != "ok" {
        return Ok(Some(format!("SQLite reports damage: {sound}")));
    }
    let named = match named(connection, dir, ends)? {
        Counted::Entries(count) => count,
        Counted::Differs(what) => return Ok(Some(what)),
    };
    match logged(connection, dir, ends)? {
        Counted::Differs(what) => return Ok(Some(what)),
        // Each of them is named by its row, so rows with more name what the log does not have.
        Counted::Entries(count) if count != named => {
            return Ok(Some(
                "rows name entries that the log does not have".to_owned(),
            ));
        }
        Counted::Entries(_) => {}
    }
    if !is_every_row_findable(connection)? {
        return Ok(Some(
            "rows are not in the times of their segments, or of no sort".to_owned(),
        ));
    }
    Ok(sorts::difference(connection)?.then(|| "the record counts are wrong".to_owned()))
}

/// Compares every row with its entries.
fn named(connection: &Connection, dir: &Path, ends: &LogEnds) -> Result<Counted, IndexError> {
    let mut count = 0;
    let mut reader = Reader::new(dir);
    let (columns, tables, compared) = (Row::COLUMNS, Row::TABLES, Columns::sql());
    let sql = format!("SELECT {columns}, {compared} FROM {tables}");
    let mut statement = connection.prepare(&sql)?;
    let mut found = statement.query([])?;
    while let Some(found) = found.next()? {
        let row = Row::from_row(found)?;
        let differs = || {
            let id = rows::id(&row.id).map_or_else(|| "?".to_owned(), |id| id.to_string());
            Ok(Counted::Differs(format!(
                "the row of record {id} differs from its log entries"
            )))
        };
        let places = match place::decode(connection, &mut reader.writers, &row) {
            Ok(places) => places,
            Err(IndexError::Differs) => return differs(),
            Err(error) => return Err(error),
        };
        let distinct: HashSet<&Place> = places.iter().map(|(_, place)| place).collect();
        let is_repeated = distinct.len() != places.len();
        let included = places.iter().filter(|(_, place)| ends.include(place));
        count += included.count();
        let record = match reader.record(connection, &row) {
            Ok(Some(record)) => record,
            Ok(None) => continue,
            Err(IndexError::Differs) => return differs(),
            Err(error) => return Err(error),
        };
        if Columns::of(&record) != Columns::from_row(found, Row::COUNT)? || is_repeated {
            return differs();
        }
    }
    Ok(Counted::Entries(count))
}

/// Whether every row has a sort, and is within the times that are noted of its segment.
fn is_every_row_findable(connection: &Connection) -> Result<bool, IndexError> {
    let sql = "SELECT NOT EXISTS (
        SELECT 1 FROM activity a LEFT JOIN segment ON segment.writer = a.writer AND segment.number = a.segment
        LEFT JOIN sort ON sort.id = a.sort
        WHERE segment.oldest IS NULL OR a.at NOT BETWEEN oldest AND newest OR sort.id IS NULL)";
    Ok(connection.query_row(sql, [], |row| row.get(0))?)
}

/// One side of the comparison.
enum Counted {
    /// How many entries of records it has.
    Entries(usize),
    Differs(String),
}

/// Looks every entry of the log up in the index, up to `ends`.
// One after the other, so that the memory does not grow with the log.
fn logged(connection: &Connection, dir: &Path, ends: &LogEnds) -> Result<Counted, IndexError> {
    let (columns, tables) = (Row::COLUMNS, Row::TABLES);
    let mut statement =
        connection.prepare(&format!("SELECT {columns} FROM {tables} WHERE a.id = ?1"))?;
    let mut writers = place::Writers::default();
    let mut count = 0;
    for folder in Folder::list(&folder::log_path(dir))? {
        for segment in folder.segments()? {
            let Some(end) = ends.0.get(&(folder.writer, segment.number)) else {
                continue;
            };
            let bytes = read::read_from(&segment.path, 0, *end)?;
            let mut offset = 0;
            for text in bytes.split_inclusive(|byte| *byte == b'\n') {
                let place = Place {
                    writer: folder.writer,
                    segment: segment.number,
                    offset,
                    length: text.len() as u64 - 1,
                };
                offset += text.len() as u64;
                match look_up(connection, (&mut statement, &mut writers), text, &place)? {
                    LookedUp::Named => count += 1,
                    LookedUp::Unnamed => {}
                    LookedUp::Differs(what) => return Ok(Counted::Differs(what)),
                }
            }
        }
    }
    Ok(Counted::Entries(count))
}

/// One entry of the log beside the index.
enum LookedUp {
    Named,
    /// No row has to name it.
    Unnamed,
    Differs(String),
}

fn look_up(
    connection: &Connection,
    (statement, writers): (&mut Statement<'_>, &mut place::Writers),
    text: &[u8],
    place: &Place,
) -> Result<LookedUp, IndexError> {
    // `verify` reports damage of the log; the index leaves such entries out.
    let Ok(line) = line::parse(text.strip_suffix(b"\n").unwrap_or_default()) else {
        return Ok(LookedUp::Unnamed);
    };
    let Some(id) = line.front.id.filter(|_| line.entry().is_ok()) else {
        return Ok(LookedUp::Unnamed);
    };
    let row = statement
        .query_row([rows::bytes(id)], Row::from_row)
        .optional()?;
    let Some(row) = row else {
        return Ok(match begins(line.front.kind) {
            true => LookedUp::Differs(format!("record {id} is missing from the index")),
            // Retention dropped the beginning of the call.
            false => LookedUp::Unnamed,
        });
    };
    let places = place::decode(connection, writers, &row);
    let is_named = places.is_ok_and(|places| places.iter().any(|(_, named)| named == place));
    Ok(match is_named {
        true => LookedUp::Named,
        false => LookedUp::Differs(format!(
            "the row of record {id} differs from its log entries"
        )),
    })
}

/// Whether a record can begin with such an entry.
fn begins(kind: EntryKind) -> bool {
    match kind {
        EntryKind::Refused
        | EntryKind::Held
        | EntryKind::Checked
        | EntryKind::Forwarding
        | EntryKind::Event => true,
        EntryKind::Opened
        | EntryKind::Closed
        | EntryKind::Finished
        | EntryKind::Unknown
        | EntryKind::Head
        | EntryKind::Checkpoint => false,
    }
}
