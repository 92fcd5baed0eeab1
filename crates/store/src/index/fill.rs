//! Filling the index from the log, writer by writer, in transactions of bounded size.

use std::{collections::HashMap, fs, io, os::unix::fs::MetadataExt as _, path::Path};

use callgate_gate::CallId;
use callgate_record::Activity;
use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

use super::{
    IndexError,
    forget::{forget_before, forget_gone, forget_writer},
    load,
    place::{Place, Reader},
    rows::{self, ChangedRecord},
    seal::Seal,
    tally,
};
use crate::{
    folder::{self, Folder, SegmentPath},
    line::{self, Front, LineError},
    read,
};

/// The bytes of the log per transaction.
// Small, so that other processes do not wait long for the lock, and a gateway with calls to serve can stop soon.
const BATCH_BYTES: u64 = 512 * 1024;

/// How far a writer's log has been read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Mark {
    segment: u32,
    offset: u64,
    /// The first segment that existed; retention dropped earlier ones.
    first: u32,
    settled: Option<i64>,
    damaged: u64,
}

/// The data folder to read, the seal to renew, and the signal to stop.
#[derive(Clone, Copy)]
pub(super) struct FillContext<'a> {
    pub(super) dir: &'a Path,
    pub(super) seal: &'a Seal,
    pub(super) stop: &'a dyn Fn() -> bool,
}

/// How far a filling came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CaughtUp {
    /// The number of entries added.
    pub entries: u64,
    /// Whether it stopped before the end.
    pub stopped: bool,
}

/// Adds all new entries; checks before each batch whether to stop.
pub(super) fn catch_up(
    connection: &mut Connection,
    filling: FillContext<'_>,
) -> Result<CaughtUp, IndexError> {
    let folders = Folder::list(&folder::log_path(filling.dir))?;
    forget_gone(connection, &folders)?;
    filling.seal.renew()?;
    let mut all = CaughtUp::default();
    for folder in &folders {
        let one = catch_up_writer(connection, folder, filling)?;
        all.entries += one.entries;
        if one.stopped {
            all.stopped = true;
            break;
        }
    }
    Ok(all)
}

fn catch_up_writer(
    connection: &mut Connection,
    folder: &Folder,
    filling: FillContext<'_>,
) -> Result<CaughtUp, IndexError> {
    let mut all = CaughtUp::default();
    let changed = changed_at(folder)?;
    if mark(connection, folder)?
        .is_some_and(|mark| mark.settled.is_some() && mark.settled == changed)
    {
        return Ok(all);
    }
    // Checked before reading: all entries of a dead writer are there, but a running one may add some meanwhile.
    let is_sealed = folder.is_sealed();
    let is_dead = is_sealed || !folder.is_alive()?;
    loop {
        if (filling.stop)() {
            all.stopped = true;
            return Ok(all);
        }
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let batch = read_batch(&transaction, folder, filling.dir)?;
        all.entries += batch.entries;
        if batch.is_last {
            settle(&transaction, folder, is_dead, changed.filter(|_| is_sealed))?;
        }
        transaction.commit()?;
        filling.seal.renew()?;
        if batch.is_last {
            return Ok(all);
        }
    }
}

struct Batch {
    entries: u64,
    is_last: bool,
}

impl Batch {
    /// There is nothing to read.
    const END: Self = Self {
        entries: 0,
        is_last: true,
    };
}

fn read_batch(
    transaction: &Transaction<'_>,
    folder: &Folder,
    dir: &Path,
) -> Result<Batch, IndexError> {
    let segments = folder.segments()?;
    let before = mark(transaction, folder)?;
    let mut mark = before.unwrap_or_default();
    let Some(first) = segments.first() else {
        return Ok(Batch::END);
    };
    if before.is_some_and(|mark| first.number < mark.first) {
        // Earlier segments were put back from the trash.
        return start_over(transaction, folder, first);
    }
    if first.number > mark.first {
        forget_before(transaction, folder, first)?;
        mark.first = first.number;
    }
    let unread = segments.iter().find(|one| one.number >= mark.segment);
    let Some(segment) = unread else {
        return Ok(Batch::END);
    };
    if segment.number != mark.segment {
        (mark.segment, mark.offset) = (segment.number, 0);
    }
    if fs::metadata(&segment.path)?.len() < mark.offset {
        return start_over(transaction, folder, first);
    }
    let bytes = whole_lines(segment, mark.offset)?;
    let entries = take_over(transaction, folder, dir, &bytes, &mut mark)?;
    let next = segments.iter().find(|next| next.number > mark.segment);
    let mut is_last = false;
    if bytes.is_empty() {
        match next {
            Some(next) => (mark.segment, mark.offset) = (next.number, 0),
            None => is_last = true,
        }
    }
    // Without a change there is nothing to write.
    if before != Some(mark) {
        put_mark(transaction, folder, mark)?;
    }
    Ok(Batch { entries, is_last })
}

/// Reads a writer from its beginning again: its file was cut, so rows may point to entries that are gone.
fn start_over(
    transaction: &Transaction<'_>,
    folder: &Folder,
    first: &SegmentPath,
) -> Result<Batch, IndexError> {
    forget_writer(transaction, folder)?;
    let mark = Mark {
        segment: first.number,
        first: first.number,
        ..Mark::default()
    };
    put_mark(transaction, folder, mark)?;
    Ok(Batch {
        entries: 0,
        is_last: false,
    })
}

/// Stores the records of these lines and moves the mark behind them. Returns the number of lines.
fn take_over(
    transaction: &Transaction<'_>,
    folder: &Folder,
    dir: &Path,
    bytes: &[u8],
    mark: &mut Mark,
) -> Result<u64, IndexError> {
    let mut fold = Fold::new(dir);
    let mut entries = 0;
    for text in bytes.split_inclusive(|byte| *byte == b'\n') {
        let place = Place {
            writer: folder.writer,
            segment: mark.segment,
            offset: mark.offset,
            length: text.len() as u64 - 1,
        };
        if let Err(error) = fold.add(transaction, &text[..text.len() - 1], place)? {
            crate::log::damaged_entry_left_out(folder.writer, mark.segment, mark.offset, &error);
            mark.damaged += 1;
        }
        entries += 1;
        mark.offset += text.len() as u64;
    }
    fold.store(transaction)?;
    Ok(entries)
}

/// Whole lines from `offset` on: about a batch of them, and one at least if there is one.
fn whole_lines(segment: &SegmentPath, offset: u64) -> io::Result<Vec<u8>> {
    let mut limit = BATCH_BYTES;
    loop {
        let mut bytes = read::read_from(&segment.path, offset, limit)?;
        let is_all = (bytes.len() as u64) < limit;
        match memchr::memrchr(b'\n', &bytes) {
            Some(end) => bytes.truncate(end + 1),
            None if is_all => bytes.clear(),
            None => {
                limit *= 8;
                continue;
            }
        }
        return Ok(bytes);
    }
}

/// The records that a batch begins or changes.
struct Fold {
    changed: HashMap<CallId, ChangedRecord>,
    order: Vec<CallId>,
    reader: Reader,
}

impl Fold {
    fn new(dir: &Path) -> Self {
        Self {
            changed: HashMap::new(),
            order: Vec::new(),
            reader: Reader::new(dir),
        }
    }

    /// Adds a line. A damaged one changes nothing, and its error is the inner result.
    fn add(
        &mut self,
        transaction: &Transaction<'_>,
        text: &[u8],
        place: Place,
    ) -> Result<Result<(), LineError>, IndexError> {
        let line = match line::parse(text) {
            Ok(line) if line.front.writer == place.writer => line,
            Ok(_) => return Ok(Err(LineError::NotALine { at: 0 })),
            Err(error) => return Ok(Err(error)),
        };
        // An entry without an id is about the chain.
        let Some(id) = line.front.id else {
            return Ok(Ok(()));
        };
        let entry = match line.entry() {
            Ok(entry) => entry,
            Err(error) => return Ok(Err(error)),
        };
        if let Some(changed) = self.changed.get_mut(&id) {
            changed.activity.apply(&entry);
            changed.places.push(place);
            return Ok(Ok(()));
        }
        let Front {
            writer, seq, at, ..
        } = line.front;
        let known = load(transaction, &mut self.reader, id)?;
        let is_known = known.is_some();
        let begun = match known {
            Some((mut known, mut places)) => {
                known.apply(&entry);
                places.push(place);
                Some((known, places))
            }
            // Retention can drop the beginning of a call before its end; an end alone does not make a record.
            None => Activity::begin(writer, seq, at, &entry).map(|begun| (begun, vec![place])),
        };
        if let Some((activity, places)) = begun {
            let changed = ChangedRecord {
                activity,
                places,
                is_known,
            };
            self.changed.insert(id, changed);
            self.order.push(id);
        }
        Ok(Ok(()))
    }

    fn store(&self, transaction: &Transaction<'_>) -> Result<(), IndexError> {
        for id in &self.order {
            let changed = &self.changed[id];
            if changed.is_known {
                rows::change(transaction, *id, changed)?;
            } else {
                rows::begin(transaction, *id, changed)?;
            }
        }
        Ok(())
    }
}

/// Notes that a writer was read to its end. A dead writer's running calls become unknown.
fn settle(
    transaction: &Transaction<'_>,
    folder: &Folder,
    is_dead: bool,
    settled: Option<i64>,
) -> Result<(), rusqlite::Error> {
    let writer = folder.writer.to_string();
    if is_dead {
        end_open(
            transaction,
            "unknown",
            "writer = ?1 AND status IS NULL",
            &writer,
        )?;
        // A held call ends with the process that held it; nothing was sent. `+writer` keeps SQLite from that index:
        // few calls wait, and a writer has many.
        end_open(
            transaction,
            "rejected",
            "+writer = ?1 AND status = 'pending'",
            &writer,
        )?;
    }
    transaction.execute(
        "UPDATE writer SET settled = ?2 WHERE id = ?1 AND settled IS NOT ?2",
        params![writer, settled],
    )?;
    Ok(())
}

/// Gives a status to all records that a condition names.
fn end_open(
    transaction: &Transaction<'_>,
    status: &str,
    condition: &str,
    writer: &str,
) -> Result<(), rusqlite::Error> {
    tally::change_all(transaction, status, condition, [writer])?;
    let sql = format!("UPDATE activity SET status = '{status}' WHERE {condition}");
    transaction.execute(&sql, [writer]).map(drop)
}

fn mark(connection: &Connection, folder: &Folder) -> Result<Option<Mark>, rusqlite::Error> {
    let mut statement = connection.prepare_cached(
        "SELECT segment, offset, first, settled, damaged FROM writer WHERE id = ?1",
    )?;
    let row = statement.query_row([folder.writer.to_string()], |row| {
        Ok(Mark {
            segment: row.get(0)?,
            offset: row.get(1)?,
            first: row.get(2)?,
            settled: row.get(3)?,
            damaged: row.get(4)?,
        })
    });
    row.optional()
}

fn put_mark(
    transaction: &Transaction<'_>,
    folder: &Folder,
    mark: Mark,
) -> Result<(), rusqlite::Error> {
    transaction.execute(
        "INSERT OR REPLACE INTO writer (id, segment, offset, first, damaged) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![
            folder.writer.to_string(),
            mark.segment,
            mark.offset,
            mark.first,
            mark.damaged
        ],
    )?;
    Ok(())
}

/// When names were last added to or taken from a writer's folder.
fn changed_at(folder: &Folder) -> io::Result<Option<i64>> {
    match fs::metadata(&folder.path) {
        Ok(metadata) => Ok(Some(
            metadata
                .mtime()
                .wrapping_mul(1_000_000_000)
                .wrapping_add(metadata.mtime_nsec()),
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
