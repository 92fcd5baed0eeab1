//! The positions of a call's entries in the log, and the record that they fold into. Records are never shown from the
//! index: it only has their positions.

use std::{
    collections::HashMap,
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use callgate_record::{Activity, Status, WriterId};
use rusqlite::{Connection, OptionalExtension as _};
use ulid::Ulid;

use super::{IndexError, rows};
use crate::{line, segment};

/// How many segments are kept open.
const OPEN_FILES: usize = 64;

/// The position of one entry in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) writer: WriterId,
    pub(super) segment: u32,
    pub(super) offset: u64,
    /// Without the line break.
    pub(super) length: u64,
}

/// One row of the index, as far as a record needs it.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) id: Vec<u8>,
    pub(super) status: Option<String>,
    pub(super) begin: Begin,
    pub(super) places: Vec<u8>,
}

/// The segment in which a record begins, by the writer's number in the index.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begin {
    pub(super) writer: i64,
    pub(super) segment: u32,
}

impl Row {
    /// The query for it.
    pub(super) const COLUMNS: &str = "a.id, s.status, a.writer, a.segment, a.places";
    /// How many columns that are.
    pub(super) const COUNT: usize = 5;
    /// The tables of that query.
    pub(super) const TABLES: &str = "activity a CROSS JOIN sort s ON s.id = a.sort";

    pub(super) fn from_row(row: &rusqlite::Row<'_>) -> Result<Self, rusqlite::Error> {
        Ok(Self {
            id: row.get(0)?,
            status: row.get(1)?,
            begin: Begin {
                writer: row.get(2)?,
                segment: row.get(3)?,
            },
            places: row.get(4)?,
        })
    }
}

/// The writers that places name, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Writers {
    names: HashMap<i64, WriterId>,
    numbers: HashMap<WriterId, i64>,
}

impl Writers {
    /// The number of a writer that the index has.
    pub(super) fn number(
        &mut self,
        connection: &Connection,
        writer: WriterId,
    ) -> Result<Option<i64>, rusqlite::Error> {
        if let Some(number) = self.numbers.get(&writer) {
            return Ok(Some(*number));
        }
        let mut statement = connection.prepare_cached("SELECT id FROM writer WHERE name = ?1")?;
        let number = statement.query_row([writer.to_string()], |row| row.get(0));
        let number = number.optional()?;
        if let Some(number) = number {
            self.numbers.insert(writer, number);
            self.names.insert(number, writer);
        }
        Ok(number)
    }

    /// The writer with a number; none if retention has dropped it.
    fn name(
        &mut self,
        connection: &Connection,
        number: i64,
    ) -> Result<Option<WriterId>, IndexError> {
        if let Some(name) = self.names.get(&number) {
            return Ok(Some(*name));
        }
        let mut statement = connection.prepare_cached("SELECT name FROM writer WHERE id = ?1")?;
        let name: Option<String> = statement.query_row([number], |row| row.get(0)).optional()?;
        let Some(name) = name else { return Ok(None) };
        let name = WriterId(Ulid::from_string(&name).map_err(|_| IndexError::Differs)?);
        self.names.insert(number, name);
        self.numbers.insert(name, number);
        Ok(Some(name))
    }
}

/// Places as the index has them: where the first is, and all of them in few bytes.
pub(super) fn encode(
    connection: &Connection,
    writers: &mut Writers,
    places: &[Place],
) -> Result<(Begin, Vec<u8>), IndexError> {
    let mut begin = None;
    let mut bytes = Vec::with_capacity(16);
    for place in places {
        let number = writers.number(connection, place.writer)?;
        let number = number.ok_or(IndexError::Differs)?;
        if begin.is_some() {
            put(&mut bytes, number.cast_unsigned());
            put(&mut bytes, place.segment.into());
        } else {
            begin = Some(Begin {
                writer: number,
                segment: place.segment,
            });
        }
        put(&mut bytes, place.offset);
        put(&mut bytes, place.length);
    }
    Ok((begin.ok_or(IndexError::Differs)?, bytes))
}

/// One place as it was read; without a writer if that is gone.
type DecodedPlace = (Option<WriterId>, Place);

/// The places of a row.
pub(super) fn decode(
    connection: &Connection,
    writers: &mut Writers,
    row: &Row,
) -> Result<Vec<DecodedPlace>, IndexError> {
    let mut bytes = &*row.places;
    let mut number = row.begin.writer;
    let mut segment = row.begin.segment;
    let mut places = Vec::with_capacity(2);
    loop {
        let (offset, length) = (take(&mut bytes)?, take(&mut bytes)?);
        let writer = writers.name(connection, number)?;
        let place = Place {
            writer: writer.unwrap_or(WriterId(Ulid::nil())),
            segment,
            offset,
            length,
        };
        places.push((writer, place));
        if bytes.is_empty() {
            return Ok(places);
        }
        number = take(&mut bytes)?.cast_signed();
        segment = u32::try_from(take(&mut bytes)?).map_err(|_| IndexError::Differs)?;
    }
}

/// Appends a number, seven bits per byte.
fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Takes a number off the front.
fn take(bytes: &mut &[u8]) -> Result<u64, IndexError> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or(IndexError::Differs)?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(IndexError::Differs)
}

/// Reads entries at their places, and keeps the segments open.
#[derive(Debug)]
pub(super) struct Reader {
    log: PathBuf,
    files: HashMap<(WriterId, u32), File>,
    pub(super) writers: Writers,
}

impl Reader {
    /// Reads the log in this data folder.
    pub(super) fn new(dir: &Path) -> Self {
        Self {
            log: crate::folder::log_path(dir),
            files: HashMap::new(),
            writers: Writers::default(),
        }
    }

    /// The record of a row; none when retention has dropped its beginning. A row that contradicts its entries is an
    /// error.
    pub(super) fn record(
        &mut self,
        connection: &Connection,
        row: &Row,
    ) -> Result<Option<Activity>, IndexError> {
        let id = rows::id(&row.id).ok_or(IndexError::Differs)?;
        let mut record: Option<Activity> = None;
        for (writer, place) in decode(connection, &mut self.writers, row)? {
            let found = match writer {
                Some(_) => self.bytes(&place)?,
                None => None,
            };
            let Some(bytes) = found else {
                if record.is_none() {
                    return Ok(None);
                }
                continue;
            };
            let line = line::parse(&bytes).map_err(|_| IndexError::Differs)?;
            let entry = line.entry().map_err(|_| IndexError::Differs)?;
            if line.front.id != Some(id) || line.front.writer != place.writer {
                return Err(IndexError::Differs);
            }
            match &mut record {
                Some(record) => record.apply(&entry),
                None => {
                    record = Activity::begin(place.writer, line.front.seq, line.front.at, &entry);
                }
            }
        }
        let mut record = record.ok_or(IndexError::Differs)?;
        record.status = status(record.status, row.status.as_deref()).ok_or(IndexError::Differs)?;
        Ok(Some(record))
    }

    /// The bytes of an entry; none when its segment is gone.
    fn bytes(&mut self, place: &Place) -> Result<Option<Vec<u8>>, IndexError> {
        let key = (place.writer, place.segment);
        if self.files.len() >= OPEN_FILES && !self.files.contains_key(&key) {
            self.files.clear();
        }
        let file = match self.files.entry(key) {
            std::collections::hash_map::Entry::Occupied(file) => file.into_mut(),
            std::collections::hash_map::Entry::Vacant(vacant) => {
                let folder = self.log.join(place.writer.to_string());
                match File::open(folder.join(segment::name(place.segment))) {
                    Ok(file) => vacant.insert(file),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                    Err(error) => return Err(error.into()),
                }
            }
        };
        let length = usize::try_from(place.length).map_err(|_| IndexError::Differs)?;
        // The row is not trusted: an edited length must not allocate memory for bytes that do not exist.
        if place.offset.saturating_add(place.length) > file.metadata()?.len() {
            return Err(IndexError::Differs);
        }
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, place.offset)?;
        Ok(Some(bytes))
    }
}

/// The status of a record by its entries and by the column, which also reflects dead writers; none if they contradict
/// each other.
fn status(entries: Option<Status>, column: Option<&str>) -> Option<Option<Status>> {
    let said = entries.map(Status::as_str);
    match (entries, column) {
        (None, Some("unknown")) => Some(Some(Status::Unknown)),
        (Some(Status::Pending), Some("rejected")) => Some(Some(Status::Rejected)),
        (entries, column) => (said == column).then_some(entries),
    }
}
