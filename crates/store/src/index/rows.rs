//! The rows of the index: what tells a record apart, and the positions of its entries.

use callgate_gate::CallId;
use callgate_record::Activity;
use foldhash::HashMap;
use rusqlite::{OptionalExtension as _, Row, Transaction, params};
use ulid::Ulid;

use super::{
    IndexError,
    folding::Folded,
    place::{self, Place, Writers},
    sorts::{Sort, Sorts},
};

/// A record that a batch of entries begins or changes.
pub(super) struct ChangedRecord {
    pub(super) id: CallId,
    pub(super) record: Folded,
    pub(super) places: Vec<Place>,
    /// Its row before the batch, if it has one.
    pub(super) before: Option<StoredRow>,
}

/// What changes about a row, and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StoredRow {
    pub(super) at: i64,
    pub(super) sort: i64,
}

/// What the index has of a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) at: i64,
    pub(super) sort: Sort,
    pub(super) session: Option<String>,
    pub(super) request: Option<String>,
    pub(super) parent: Option<[u8; ID_BYTES]>,
}

const ID_BYTES: usize = 16;

impl Columns {
    /// The query for them.
    pub(super) fn sql() -> String {
        format!(
            "a.at, (SELECT name FROM session WHERE session.id = a.session), a.request, a.parent, {}",
            Sort::columns("s.")
        )
    }

    /// Those of a record.
    pub(super) fn of(activity: &Activity) -> Self {
        Self {
            at: activity.timestamp.as_microsecond(),
            sort: Sort::of(activity),
            session: activity.session_id.clone(),
            request: activity.request_id.clone(),
            parent: activity.parent_id.map(bytes),
        }
    }

    /// Those of a row, from its column `first` on.
    pub(super) fn from_row(row: &Row<'_>, first: usize) -> Result<Self, rusqlite::Error> {
        Ok(Self {
            at: row.get(first)?,
            session: row.get(first + 1)?,
            request: row.get(first + 2)?,
            parent: row.get(first + 3)?,
            sort: Sort::from_row(row, first + 4)?,
        })
    }
}

/// Writes the rows of one batch.
#[derive(Debug, Default)]
pub(super) struct RowWriter {
    pub(super) sorts: Sorts,
    sessions: HashMap<String, i64>,
}

impl RowWriter {
    /// Puts a new record into the index. A plain insert: one that could also replace would make SQLite
    /// copy every page it touches first.
    pub(super) fn begin(
        &mut self,
        transaction: &Transaction<'_>,
        changed: &ChangedRecord,
        writers: &mut Writers,
    ) -> Result<(), IndexError> {
        let ChangedRecord {
            id, record, places, ..
        } = changed;
        let columns = &record.columns;
        let sort = self.sorts.number(transaction, &columns.sort)?;
        self.sorts.count(sort, 1);
        let (begin, places) = place::encode(transaction, writers, places)?;
        let session = columns.session.as_deref();
        let session = session
            .map(|name| self.session(transaction, name))
            .transpose()?;
        let mut row = transaction.prepare_cached(
            "INSERT INTO activity (at, id, writer, segment, sort, session, request, parent, places)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?;
        row.execute(params![
            columns.at,
            bytes(*id),
            begin.writer,
            begin.segment,
            sort,
            session,
            columns.request,
            columns.parent,
            places,
        ])?;
        Ok(())
    }

    /// Changes what can change about a record.
    pub(super) fn change(
        &mut self,
        transaction: &Transaction<'_>,
        (changed, before): (&ChangedRecord, StoredRow),
        writers: &mut Writers,
    ) -> Result<(), IndexError> {
        let ChangedRecord {
            id, record, places, ..
        } = changed;
        let columns = &record.columns;
        let sort = self.sorts.number(transaction, &columns.sort)?;
        self.sorts.count(before.sort, -1);
        self.sorts.count(sort, 1);
        let (_, places) = place::encode(transaction, writers, places)?;
        let mut row = transaction.prepare_cached(
            "UPDATE activity SET sort = ?3, places = ?4 WHERE at = ?1 AND id = ?2",
        )?;
        row.execute(params![before.at, bytes(*id), sort, places])?;
        Ok(())
    }

    /// The number of a session; a new one gets one.
    fn session(
        &mut self,
        transaction: &Transaction<'_>,
        name: &str,
    ) -> Result<i64, rusqlite::Error> {
        if let Some(number) = self.sessions.get(name) {
            return Ok(*number);
        }
        let mut known = transaction.prepare_cached("SELECT id FROM session WHERE name = ?1")?;
        let known = known.query_row([name], |row| row.get(0)).optional()?;
        let number = match known {
            Some(number) => number,
            None => {
                let mut add =
                    transaction.prepare_cached("INSERT INTO session (name) VALUES (?1)")?;
                add.execute([name])?;
                transaction.last_insert_rowid()
            }
        };
        self.sessions.insert(name.to_owned(), number);
        Ok(number)
    }
}

/// An id as the index has it.
pub(super) fn bytes(id: CallId) -> [u8; ID_BYTES] {
    id.0.to_bytes()
}

/// The id in these bytes.
pub(super) fn id(bytes: &[u8]) -> Option<CallId> {
    Some(CallId(Ulid::from_bytes(bytes.try_into().ok()?)))
}
