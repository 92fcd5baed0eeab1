//! Filling the index from the log, writer by writer, in transactions of bounded size.

use std::{fs, io, os::unix::fs::MetadataExt as _, path::Path};

use callgate_gate::CallId;
use callgate_record::{FillProgress, TellProgress};
use foldhash::{HashMap, HashMapExt as _};
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::{
    IndexError,
    folding::{Folded, IndexedEntry},
    forget::{forget_before, forget_gone, forget_writer, give_back},
    load,
    mark::{Mark, first_mark, mark, put_mark, unread},
    place::{Place, Reader},
    room,
    rows::{self, ChangedRecord, RowWriter},
    seal::Seal,
    sorts::{Sort, Sorts},
};
use crate::{
    folder::{self, Folder, SegmentPath},
    line::{self, LineError},
    read,
};

/// The bytes of the log per transaction.
// Small, so that other processes do not wait long for the lock, and a gateway with calls to serve can stop soon. Large
// enough that many rows share a page that is written.
const BATCH_BYTES: u64 = 2 * 1024 * 1024;

/// The data folder to read, the seal to renew, and the signal to stop.
#[derive(Clone, Copy)]
pub(super) struct FillContext<'a> {
    pub(super) dir: &'a Path,
    /// The folder with the index.
    pub(super) home: &'a Path,
    pub(super) seal: &'a Seal,
    pub(super) stop: &'a dyn Fn() -> bool,
    /// Whether entries are read whole, so that one that cannot be shown is left out.
    pub(super) is_careful: bool,
    pub(super) progress: Option<&'a TellProgress>,
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
    let mut told = match filling.progress {
        Some(_) => FillProgress {
            read: 0,
            of: unread(connection, &folders)?,
        },
        None => FillProgress { read: 0, of: 0 },
    };
    for folder in &folders {
        let one = catch_up_writer(connection, folder, filling, &mut told)?;
        all.entries += one.entries;
        if one.stopped {
            all.stopped = true;
            break;
        }
    }
    give_back(connection)?;
    filling.seal.renew()?;
    Ok(all)
}

fn catch_up_writer(
    connection: &mut Connection,
    folder: &Folder,
    filling: FillContext<'_>,
    told: &mut FillProgress,
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
        let batch = read_batch(&transaction, folder, filling)?;
        all.entries += batch.entries;
        if batch.entries > 0 {
            // Rolled back otherwise: what is there is not lost, and readers are told why the rest is missing.
            room::check(filling.home)?;
        }
        if batch.is_last {
            settle(&transaction, folder, is_dead, changed.filter(|_| is_sealed))?;
        }
        transaction.commit()?;
        filling.seal.renew()?;
        if let Some(progress) = filling.progress {
            told.read += batch.bytes;
            progress.tell(*told);
        }
        if batch.is_last {
            return Ok(all);
        }
    }
}

struct Batch {
    entries: u64,
    bytes: u64,
    is_last: bool,
}

impl Batch {
    /// There is nothing to read.
    const END: Self = Self {
        entries: 0,
        bytes: 0,
        is_last: true,
    };
}

fn read_batch(
    transaction: &Transaction<'_>,
    folder: &Folder,
    filling: FillContext<'_>,
) -> Result<Batch, IndexError> {
    let segments = folder.segments()?;
    let Some(first) = segments.first() else {
        return Ok(Batch::END);
    };
    let before = match mark(transaction, folder)? {
        Some(mark) => mark,
        None => first_mark(transaction, folder, first)?,
    };
    let mut mark = before;
    if first.number < mark.first {
        // Earlier segments were put back from the trash.
        return start_over(transaction, mark.number, first);
    }
    if first.number > mark.first {
        forget_before(transaction, mark.number, first.number)?;
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
        return start_over(transaction, mark.number, first);
    }
    let bytes = whole_lines(segment, mark.offset)?;
    let entries = take_over(transaction, (folder, filling), &bytes, &mut mark)?;
    let next = segments.iter().find(|next| next.number > mark.segment);
    let mut is_last = false;
    if bytes.is_empty() {
        match next {
            Some(next) => (mark.segment, mark.offset) = (next.number, 0),
            None => is_last = true,
        }
    }
    // Without a change there is nothing to write.
    if before != mark {
        put_mark(transaction, mark)?;
    }
    Ok(Batch {
        entries,
        bytes: bytes.len() as u64,
        is_last,
    })
}

/// Reads a writer from its beginning again: its file was cut, so rows may point to entries that are gone.
fn start_over(
    transaction: &Transaction<'_>,
    number: i64,
    first: &SegmentPath,
) -> Result<Batch, IndexError> {
    forget_writer(transaction, number)?;
    let mark = Mark {
        number,
        segment: first.number,
        first: first.number,
        ..Mark::default()
    };
    put_mark(transaction, mark)?;
    Ok(Batch {
        entries: 0,
        bytes: 0,
        is_last: false,
    })
}

/// Stores the records of these lines and moves the mark behind them. Returns the number of lines.
fn take_over(
    transaction: &Transaction<'_>,
    (folder, filling): (&Folder, FillContext<'_>),
    bytes: &[u8],
    mark: &mut Mark,
) -> Result<u64, IndexError> {
    let mut fold = Fold::new(filling, transaction)?;
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
    fold.store(transaction, mark)?;
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
    /// The newest id in the index: a later one is not there.
    newest: Option<Vec<u8>>,
    is_careful: bool,
}

impl Fold {
    fn new(filling: FillContext<'_>, transaction: &Transaction<'_>) -> Result<Self, IndexError> {
        let mut newest = transaction.prepare_cached("SELECT max(id) FROM activity")?;
        Ok(Self {
            changed: HashMap::new(),
            order: Vec::new(),
            reader: Reader::new(filling.dir),
            newest: newest.query_row([], |row| row.get(0))?,
            is_careful: filling.is_careful,
        })
    }

    /// Adds a line. A damaged one changes nothing, and its error is the inner result.
    fn add(
        &mut self,
        transaction: &Transaction<'_>,
        text: &[u8],
        place: Place,
    ) -> Result<Result<(), LineError>, IndexError> {
        let entry: IndexedEntry<'_> = match self.read(text) {
            Ok(entry) if entry.writer == place.writer => entry,
            Ok(_) => return Ok(Err(LineError::NotALine { at: 0 })),
            Err(error) => return Ok(Err(error)),
        };
        // An entry without an id is about the chain.
        let Some(id) = entry.id else {
            return Ok(Ok(()));
        };
        if let Some(changed) = self.changed.get_mut(&id) {
            changed.record.apply(&entry);
            changed.places.push(place);
            return Ok(Ok(()));
        }
        let known = match &self.newest {
            Some(newest) if rows::bytes(id)[..] <= newest[..] => {
                load(transaction, &mut self.reader, id)?
            }
            Some(_) | None => None,
        };
        let begun = match known {
            Some(known) => {
                let mut record = Folded::of(&known.activity);
                record.apply(&entry);
                let mut places = known.places;
                places.push(place);
                Some((record, places, Some(known.row)))
            }
            // Retention can drop the beginning of a call before its end; an end alone does not make a record.
            None => match entry.begin() {
                Ok(begun) => begun.map(|record| (record, vec![place], None)),
                Err(error) => return Ok(Err(error)),
            },
        };
        if let Some((record, places, before)) = begun {
            let changed = ChangedRecord {
                id,
                record,
                places,
                before,
            };
            self.changed.insert(id, changed);
            self.order.push(id);
        }
        Ok(Ok(()))
    }

    fn read<'a>(&self, text: &'a [u8]) -> Result<IndexedEntry<'a>, LineError> {
        if self.is_careful {
            line::parse(text)?.entry()?;
        }
        line::parse_members(text)
    }

    fn store(mut self, transaction: &Transaction<'_>, mark: &Mark) -> Result<(), IndexError> {
        let mut writer = RowWriter::default();
        let writers = &mut self.reader.writers;
        let mut begun: Option<(i64, i64)> = None;
        for id in &self.order {
            let changed = &self.changed[id];
            if let Some(before) = changed.before {
                writer.change(transaction, (changed, before), writers)?;
                continue;
            }
            writer.begin(transaction, changed, writers)?;
            let at = changed.record.columns.at;
            let (oldest, newest) = begun.unwrap_or((at, at));
            begun = Some((oldest.min(at), newest.max(at)));
        }
        writer.sorts.store(transaction)?;
        if let Some((oldest, newest)) = begun {
            transaction.execute(
                "INSERT INTO segment (writer, number, oldest, newest) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT DO UPDATE SET oldest = min(oldest, excluded.oldest), newest = max(newest, excluded.newest)",
                params![mark.number, mark.segment, oldest, newest],
            )?;
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
) -> Result<(), IndexError> {
    let Some(Mark { number, .. }) = mark(transaction, folder)? else {
        return Ok(());
    };
    if is_dead {
        end_open(transaction, "unknown", "s.status IS NULL", number)?;
        // A held call ends with the process that held it; nothing was sent.
        end_open(transaction, "rejected", "s.status = 'pending'", number)?;
    }
    transaction.execute(
        "UPDATE writer SET settled = ?2 WHERE id = ?1 AND settled IS NOT ?2",
        params![number, settled],
    )?;
    Ok(())
}

/// Gives a status to all records of a writer whose sort fits a condition.
fn end_open(
    transaction: &Transaction<'_>,
    status: &'static str,
    condition: &str,
    writer: i64,
) -> Result<(), IndexError> {
    // CROSS JOIN keeps the order: few records are open, and a writer has many.
    let sql = format!(
        "SELECT a.at, a.id, a.sort, {} FROM sort s CROSS JOIN activity a ON a.sort = s.id
         WHERE {condition} AND a.writer = ?1",
        Sort::columns("s.")
    );
    let mut statement = transaction.prepare_cached(&sql)?;
    let open = statement.query_map([writer], |row| {
        let (at, id, number): (i64, Vec<u8>, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok((at, id, number, Sort::from_row(row, 3)?))
    })?;
    let open: Vec<_> = open.collect::<Result<_, _>>()?;
    let mut sorts = Sorts::default();
    for (at, id, before, sort) in open {
        let number = sorts.number(transaction, &sort.with_status(status))?;
        sorts.count(before, -1);
        sorts.count(number, 1);
        let mut change = transaction
            .prepare_cached("UPDATE activity SET sort = ?3 WHERE at = ?1 AND id = ?2")?;
        change.execute(params![at, id, number])?;
    }
    Ok(sorts.store(transaction)?)
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
