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
    rows::Columns,
    schema, tally,
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
    if let Some(what) = schema::difference(connection)? {
        return Ok(Some(what));
    }
    let sound: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if sound != "ok" {
        return Ok(Some(format!("SQLite reports damage: {sound}")));
    }
    let mut named = 0;
    let mut reader = Reader::new(dir);
    let sql = format!(
        "SELECT id, status, places, {} FROM activity",
        Columns::NAMES
    );
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([])?;
    while let Some(found) = rows.next()? {
        let row = Row {
            id: found.get(0)?,
            status: found.get(1)?,
            places: found.get(2)?,
        };
        let differs = || {
            Ok(Some(format!(
                "the row of record {} differs from its log entries",
                row.id
            )))
        };
        let Some(places) = place::read(&row.places) else {
            return differs();
        };
        let distinct: HashSet<&Place> = places.iter().collect();
        named += places.iter().filter(|place| ends.include(place)).count();
        let record = match reader.record(&row) {
            Ok(Some(record)) => record,
            Ok(None) => continue,
            Err(IndexError::Differs) => return differs(),
            Err(error) => return Err(error),
        };
        if Columns::of(&record)? != Columns::from_row(found, 3)? || distinct.len() != places.len() {
            return differs();
        }
    }
    match logged(connection, dir, ends)? {
        Logged::Differs(what) => return Ok(Some(what)),
        // Each of them is named by its row, so rows with more name what the log does not have.
        Logged::Entries(count) if count != named => {
            return Ok(Some(
                "rows name entries that the log does not have".to_owned(),
            ));
        }
        Logged::Entries(_) => {}
    }
    Ok(tally::difference(connection)?.then(|| "the record counts are wrong".to_owned()))
}

/// The entries of the log beside the index.
enum Logged {
    /// How many entries of records there are; a row names each of them.
    Entries(usize),
    Differs(String),
}

/// Looks every entry of the log up in the index, up to `ends`.
// One after the other, so that the memory does not grow with the log.
fn logged(connection: &Connection, dir: &Path, ends: &LogEnds) -> Result<Logged, IndexError> {
    let mut rows = connection.prepare("SELECT places FROM activity WHERE id = ?1")?;
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
                match look_up(&mut rows, text, &place)? {
                    LookedUp::Named => count += 1,
                    LookedUp::Unnamed => {}
                    LookedUp::Differs(what) => return Ok(Logged::Differs(what)),
                }
            }
        }
    }
    Ok(Logged::Entries(count))
}

/// One entry of the log beside the index.
enum LookedUp {
    Named,
    /// No row has to name it.
    Unnamed,
    Differs(String),
}

fn look_up(rows: &mut Statement<'_>, text: &[u8], place: &Place) -> Result<LookedUp, IndexError> {
    // `verify` reports damage of the log; the index leaves such entries out.
    let Ok(line) = line::parse(text.strip_suffix(b"\n").unwrap_or_default()) else {
        return Ok(LookedUp::Unnamed);
    };
    let Some(id) = line.front.id.filter(|_| line.entry().is_ok()) else {
        return Ok(LookedUp::Unnamed);
    };
    let places = rows.query_row([id.to_string()], |row| row.get(0));
    let places: Option<String> = places.optional()?;
    Ok(match places.as_deref().map(place::read) {
        Some(Some(places)) if places.contains(place) => LookedUp::Named,
        Some(_) => LookedUp::Differs(format!(
            "the row of record {id} differs from its log entries"
        )),
        None if begins(line.front.kind) => {
            LookedUp::Differs(format!("record {id} is missing from the index"))
        }
        // Retention dropped the beginning of the call.
        None => LookedUp::Unnamed,
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
