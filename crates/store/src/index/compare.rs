//! Compares the index with the log: every row, every count and the form of the tables.

use std::{
    collections::{HashMap, HashSet},
    fs,
    path::Path,
};

use callgate_gate::CallId;
use callgate_record::{EntryKind, WriterId};
use rusqlite::Connection;

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

/// What the log has about one call.
#[derive(Debug, Default)]
struct LoggedCall {
    begins: bool,
    entries: HashSet<Place>,
}

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
    let mut log = logged_calls(dir, ends)?;
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
        let record = match reader.record(&row) {
            Ok(Some(record)) => record,
            Ok(None) => continue,
            Err(IndexError::Differs) => return differs(),
            Err(error) => return Err(error),
        };
        let places: HashSet<Place> = place::read(&row.places).into_iter().flatten().collect();
        let known = log.remove(&record.id).unwrap_or_default().entries;
        let compared = places.iter().filter(|place| ends.include(place));
        if Columns::of(&record)? != Columns::from_row(found, 3)? || compared.count() != known.len()
        {
            return differs();
        }
        if !known.is_subset(&places) {
            return differs();
        }
    }
    if let Some(id) = log.iter().find(|(_, found)| found.begins).map(|(id, _)| id) {
        return Ok(Some(format!("record {id} is missing from the index")));
    }
    Ok(tally::difference(connection)?.then(|| "the record counts are wrong".to_owned()))
}

/// Every call that the log is about, up to `ends`.
fn logged_calls(dir: &Path, ends: &LogEnds) -> Result<HashMap<CallId, LoggedCall>, IndexError> {
    let mut found: HashMap<CallId, LoggedCall> = HashMap::new();
    for folder in Folder::list(&folder::log_path(dir))? {
        for segment in folder.segments()? {
            let Some(end) = ends.0.get(&(folder.writer, segment.number)) else {
                continue;
            };
            let bytes = read::read_from(&segment.path, 0, *end)?;
            let mut offset = 0;
            for text in bytes.split_inclusive(|byte| *byte == b'\n') {
                let length = text.len() as u64 - 1;
                let place = Place {
                    writer: folder.writer,
                    segment: segment.number,
                    offset,
                    length,
                };
                offset += length + 1;
                // `verify` reports damage of the log; the index leaves such entries out.
                let Ok(line) = line::parse(text.strip_suffix(b"\n").unwrap_or_default()) else {
                    continue;
                };
                if let Some(id) = line.front.id.filter(|_| line.entry().is_ok()) {
                    let call = found.entry(id).or_default();
                    call.begins |= begins(line.front.kind);
                    call.entries.insert(place);
                }
            }
        }
    }
    Ok(found)
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
