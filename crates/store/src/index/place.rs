//! The positions of a call's entries in the log, and the record that they fold into. Records are never shown from the
//! index: it only has their positions.

use std::{
    collections::HashMap,
    fmt::Write as _,
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use callgate_gate::CallId;
use callgate_record::{Activity, Status, WriterId};
use ulid::Ulid;

use super::IndexError;
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
    pub(super) id: String,
    pub(super) status: Option<String>,
    pub(super) places: String,
}

/// Places as the text that the index has.
pub(super) fn written(places: &[Place]) -> String {
    let mut text = String::new();
    for place in places {
        let Place {
            writer,
            segment,
            offset,
            length,
        } = place;
        let gap = if text.is_empty() { "" } else { " " };
        let _ = write!(text, "{gap}{writer}:{segment}:{offset}:{length}");
    }
    text
}

/// The places in a text; none if it is malformed.
pub(super) fn read(text: &str) -> Option<Vec<Place>> {
    let place = |text: &str| {
        let mut parts = text.split(':');
        let place = Place {
            writer: WriterId(Ulid::from_string(parts.next()?).ok()?),
            segment: parts.next()?.parse().ok()?,
            offset: parts.next()?.parse().ok()?,
            length: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(place)
    };
    text.split(' ').map(place).collect()
}

/// Reads entries at their places, and keeps the segments open.
#[derive(Debug)]
pub(super) struct Reader {
    log: PathBuf,
    files: HashMap<(WriterId, u32), File>,
}

impl Reader {
    /// Reads the log in this data folder.
    pub(super) fn new(dir: &Path) -> Self {
        Self {
            log: crate::folder::log_path(dir),
            files: HashMap::new(),
        }
    }

    /// The record of a row; none when retention has dropped its beginning. A row that contradicts its entries is an
    /// error.
    pub(super) fn record(&mut self, row: &Row) -> Result<Option<Activity>, IndexError> {
        let id = CallId(Ulid::from_string(&row.id).map_err(|_| IndexError::Differs)?);
        let places = read(&row.places).ok_or(IndexError::Differs)?;
        let mut record: Option<Activity> = None;
        for place in places {
            let Some(bytes) = self.bytes(&place)? else {
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
