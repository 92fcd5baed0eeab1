//! A copy of the log to search in: one row per call, filled behind the log.
//!
//! The index can be deleted. It is rebuilt from the activity log when it is missing, broken, of an older format, or was
//! changed by another program; one of a newer format is left alone. Several processes may fill it, one at a time.
//!
//! A row has the columns to search by, and the positions of its record's entries in the log. Records are shown from
//! the log ([`place`]). Edited, hidden and added rows are detected by the seal ([`seal`]) before each answer, and by a
//! comparison with the whole log ([`compare`]) in `verify` and `doctor`.

mod compare;
mod files;
mod fill;
mod folding;
mod forget;
mod home;
mod mark;
mod place;
mod query;
mod room;
mod rows;
mod schema;
mod seal;
mod sorts;

use std::{
    io,
    path::{Path, PathBuf},
};

use callgate_gate::CallId;
use callgate_record::{Activity, ActivityFilter, Page, Summary, TellProgress};
use rusqlite::{Connection, ErrorCode, OptionalExtension as _};

use self::{
    compare::LogEnds,
    files::{connect, has_content, inode, opened_rows, remove_older, reset},
    fill::FillContext,
    home::Home,
    place::{Place, Reader, Row},
    rows::StoredRow,
    seal::Seal,
};
use crate::{
    folder,
    version::{self, VersionError},
};

pub(crate) use files::check;
pub use fill::CaughtUp;
pub(crate) use room::{bytes, give_up, shrink};

/// Why the index cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// A newer version made it.
    #[error(
        "the index `{path}` was written by a newer callgate: format {found}, and this version reads formats up to {known}; upgrade callgate, or delete the file: it is rebuilt from the activity log"
    )]
    Newer {
        path: PathBuf,
        found: i64,
        known: i64,
    },
    /// The log has a format that this version does not know.
    #[error(transparent)]
    Version(#[from] VersionError),
    /// The cursor did not come from a page.
    #[error("`{cursor}` is not a valid cursor: use the `next_cursor` of a page")]
    BadCursor { cursor: String },
    #[error("could not read the activity log: {0}")]
    Log(#[from] io::Error),
    #[error("could not use index.sqlite: {0}")]
    Database(#[from] rusqlite::Error),
    /// The seal does not match: another program changed the index, or a process died while it filled it.
    #[error(
        "index.sqlite does not match its seal: another program changed it, or callgate stopped while filling it"
    )]
    Changed,
    /// A row contradicts its entries in the log.
    #[error("a row of index.sqlite differs from the activity log")]
    Differs,
    /// The disk has no more room than the log needs.
    #[error(
        "the disk is too full for the search index ({free_mb} MB are free), and the activity log goes first; make room on the disk, or use `callgate activity verify`, which needs none"
    )]
    NoRoom { free_mb: u64 },
    /// A row has a value that this version does not write.
    #[error("malformed row in index.sqlite: {0}")]
    Row(#[from] serde_json::Error),
}

/// The index of a data folder.
#[derive(Debug)]
pub struct Index {
    connection: Connection,
    /// The data folder with the log.
    dir: PathBuf,
    home: Home,
    seal: Seal,
    reader: Reader,
    /// The inode of the connected file: another process may have replaced it.
    file: Option<u64>,
    was_rebuilt: bool,
    /// Whether an entry could not be shown that the index has: entries are read whole from then on.
    is_careful: bool,
    /// Who is told how far filling is.
    progress: Option<TellProgress>,
}

/// A record that the index has.
struct Loaded {
    activity: Activity,
    places: Vec<Place>,
    row: StoredRow,
}

impl Index {
    /// Opens the index of a data folder; makes a new one if there is none to use, elsewhere if the folder cannot be written.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, IndexError> {
        let dir = dir.into();
        version::check(&folder::log_path(&dir))?;
        match Seal::open(&dir, &dir) {
            Ok(seal) => Self::open_at(Home::beside_log(&dir), dir, seal),
            Err(error) if home::is_read_only(&error) => {
                let home = Home::scratch()?;
                let seal = Seal::open(&dir, home.path())?;
                Self::open_at(home, dir, seal)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn open_at(home: Home, dir: PathBuf, seal: Seal) -> Result<Self, IndexError> {
        let _held = seal.lock()?;
        remove_older(home.path())?;
        let (has_content, holds) = (has_content(home.path()), seal.holds()?);
        let mut was_rebuilt = false;
        let connection = match connect(home.path()) {
            Ok(connection) if holds || !has_content => connection,
            Err(error) if !is_broken(&error) => return Err(error),
            other => {
                let why = other.err().unwrap_or(IndexError::Changed);
                // A restart of the machine can take the newest part of the files.
                let is_told = has_content && !seal.is_of_earlier_boot()?;
                was_rebuilt = is_told && opened_rows(home.path());
                reset(home.path(), &why, was_rebuilt)?
            }
        };
        // For root, SQLite sets the owner of the WAL when it opens it, and that is a change of the file.
        seal.renew()?;
        Ok(Self {
            connection,
            reader: Reader::new(&dir),
            file: inode(home.path()),
            dir,
            home,
            seal,
            was_rebuilt,
            is_careful: false,
            progress: None,
        })
    }

    /// Tells from now on how far filling is.
    pub fn tell_progress(&mut self, tell: Option<TellProgress>) {
        self.progress = tell;
    }

    /// Adds the new entries of the log; returns their number.
    pub fn catch_up(&mut self) -> Result<u64, IndexError> {
        self.catch_up_until(&|| false).map(|done| done.entries)
    }

    /// The same in small steps, until `stop` returns `true`.
    pub fn catch_up_until(&mut self, stop: &dyn Fn() -> bool) -> Result<CaughtUp, IndexError> {
        self.with_repair(|index| {
            let _held = index.seal.lock()?;
            index.look()?;
            index.fill(stop)
        })
    }

    /// Deletes all rows and reads the whole log again.
    pub fn rebuild(&mut self) -> Result<u64, IndexError> {
        self.with_repair(|index| {
            let _held = index.seal.lock()?;
            index.start_anew(&IndexError::Changed, false)?;
            index.fill(&|| false).map(|done| done.entries)
        })
    }

    /// One page of records, newest first.
    pub fn query(&mut self, filter: &ActivityFilter) -> Result<Page, IndexError> {
        self.with_repair(|index| {
            let _held = index.seal.lock_shared()?;
            index.look()?;
            query::page(&index.connection, &mut index.reader, filter)
        })
    }

    pub fn get(&mut self, id: CallId) -> Result<Option<Activity>, IndexError> {
        self.with_repair(|index| {
            let _held = index.seal.lock_shared()?;
            index.look()?;
            let found = load(&index.connection, &mut index.reader, id)?;
            Ok(found.map(|found| found.activity))
        })
    }

    /// How many records since then there are of each sort; of one tenant, where one is named.
    pub fn summary(
        &mut self,
        since: jiff::Timestamp,
        tenant: Option<&str>,
    ) -> Result<Summary, IndexError> {
        self.with_repair(|index| {
            let _held = index.seal.lock_shared()?;
            index.look()?;
            query::summary(&index.connection, since, tenant)
        })
    }

    /// Passes every record that matches to `visit`, oldest first, from one snapshot.
    pub fn for_each(
        &mut self,
        filter: &ActivityFilter,
        visit: &mut dyn FnMut(Activity) -> io::Result<()>,
    ) -> Result<(), IndexError> {
        // The lock is not held while reading, so that a slow reader does not keep the index from being filled. SQLite
        // shows the rows as they were when reading began; the seal is checked then and at the end.
        let held = self.with_repair(|index| {
            let held = index.seal.lock_shared()?;
            index.look()?;
            Ok(held)
        })?;
        let transaction = self.connection.transaction()?;
        // A read, because SQLite takes its snapshot with the first one and not with BEGIN.
        transaction.query_row("SELECT count(*) FROM writer", [], |_| Ok(()))?;
        drop(held);
        query::for_each(&transaction, &mut self.reader, filter, visit)?;
        drop(transaction);
        let _held = self.seal.lock_shared()?;
        self.look()
    }

    /// The number of damaged entries, which the index leaves out.
    pub fn damaged(&mut self) -> Result<u64, IndexError> {
        let sql = "SELECT ifnull(sum(damaged), 0) FROM writer";
        Ok(self.connection.query_row(sql, [], |row| row.get(0))?)
    }

    /// Whether another program had changed the index, so that it was rebuilt.
    pub fn was_rebuilt(&self) -> bool {
        self.was_rebuilt
    }

    /// Compares the index with the whole log. Returns the first difference, after rebuilding the index.
    fn compare(&mut self) -> Result<Option<String>, IndexError> {
        let held = self.seal.lock()?;
        let ends = LogEnds::of(&self.dir)?;
        let found = self
            .fill(&|| false)
            .and_then(|_| compare::difference(&self.connection, &self.dir, &ends));
        let what = match found {
            Ok(None) => return Ok(None),
            Ok(Some(what)) => what,
            Err(
                error @ (IndexError::Database(_)
                | IndexError::Row(_)
                | IndexError::Changed
                | IndexError::Differs),
            ) => error.to_string(),
            Err(error) => {
                // Filling has sealed an index that was not compared: it must not be trusted.
                self.seal.void()?;
                return Err(error);
            }
        };
        self.replace(&IndexError::Changed)?;
        drop(held);
        Ok(Some(what))
    }

    /// Fails unless the seal matches. The caller holds a lock.
    fn look(&mut self) -> Result<(), IndexError> {
        if !self.seal.holds()? {
            return Err(IndexError::Changed);
        }
        let file = inode(self.home.path());
        if file != self.file {
            self.connection = connect(self.home.path())?;
            self.reader = Reader::new(&self.dir);
            self.file = file;
            self.seal.renew()?;
        }
        Ok(())
    }

    fn fill(&mut self, stop: &dyn Fn() -> bool) -> Result<CaughtUp, IndexError> {
        let filling = FillContext {
            dir: &self.dir,
            home: self.home.path(),
            seal: &self.seal,
            stop,
            is_careful: self.is_careful,
            progress: self.progress.as_ref(),
        };
        fill::catch_up(&mut self.connection, filling)
    }

    /// Replaces the index by a new one. The caller holds the exclusive lock.
    fn replace(&mut self, why: &IndexError) -> Result<(), IndexError> {
        self.was_rebuilt = true;
        self.is_careful |= matches!(why, IndexError::Differs);
        self.start_anew(why, true)?;
        self.fill(&|| false).map(drop)
    }

    /// Replaces the index by an empty one.
    fn start_anew(&mut self, why: &IndexError, is_told: bool) -> Result<(), IndexError> {
        self.connection = reset(self.home.path(), why, is_told)?;
        self.file = inode(self.home.path());
        self.reader = Reader::new(&self.dir);
        Ok(self.seal.renew()?)
    }

    /// Runs `act`; if the index turns out to be broken, rebuilds it and runs `act` once more.
    fn with_repair<T>(
        &mut self,
        mut act: impl FnMut(&mut Self) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        match act(self) {
            Err(error) if is_broken(&error) => {
                let held = self.seal.lock()?;
                // Another process may have rebuilt it while this one waited for the lock.
                if self.look().is_err() || !matches!(error, IndexError::Changed) {
                    self.replace(&error)?;
                }
                drop(held);
                act(self)
            }
            other => other,
        }
    }
}

/// Compares the index of a data folder with its log. Returns the first difference, after rebuilding the index; none
/// without an index.
pub fn compare_index(dir: &Path) -> Result<Option<String>, IndexError> {
    if !has_content(dir) {
        return Ok(None);
    }
    version::check(&folder::log_path(dir))?;
    let seal = match Seal::open(dir, dir) {
        // Queries do not use it either.
        Err(error) if home::is_read_only(&error) => return Ok(None),
        other => other?,
    };
    let held = seal.lock()?;
    remove_older(dir)?;
    let connection = match connect(dir) {
        Ok(connection) => connection,
        Err(error) if is_broken(&error) => {
            drop(held);
            let what = error.to_string();
            Index::open(dir)?.rebuild()?;
            return Ok(Some(what));
        }
        Err(error) => return Err(error),
    };
    let mut index = Index {
        connection,
        reader: Reader::new(dir),
        file: inode(dir),
        dir: dir.to_owned(),
        home: Home::beside_log(dir),
        seal,
        was_rebuilt: false,
        is_careful: false,
        progress: None,
    };
    index.compare()
}

/// The record with this id, and its row.
fn load(
    connection: &Connection,
    reader: &mut Reader,
    id: CallId,
) -> Result<Option<Loaded>, IndexError> {
    let (columns, tables) = (Row::COLUMNS, Row::TABLES);
    let sql = format!("SELECT {columns}, a.at, a.sort FROM {tables} WHERE a.id = ?1");
    let mut statement = connection.prepare_cached(&sql)?;
    let row = statement.query_row([rows::bytes(id)], |row| {
        let before = StoredRow {
            at: row.get(Row::COUNT)?,
            sort: row.get(Row::COUNT + 1)?,
        };
        Ok((Row::from_row(row)?, before))
    });
    let Some((row, before)) = row.optional()? else {
        return Ok(None);
    };
    let places = place::decode(connection, &mut reader.writers, &row)?;
    let Some(activity) = reader.record(connection, &row)? else {
        return Ok(None);
    };
    // A place of a writer that is gone has no entry to show.
    let places = places.into_iter().filter(|(writer, _)| writer.is_some());
    Ok(Some(Loaded {
        activity,
        places: places.map(|(_, place)| place).collect(),
        row: before,
    }))
}

fn is_broken(error: &IndexError) -> bool {
    match error {
        IndexError::Row(_) | IndexError::Changed | IndexError::Differs => true,
        IndexError::Database(error) => {
            matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
            )
        }
        IndexError::Newer { .. }
        | IndexError::Version(_)
        | IndexError::BadCursor { .. }
        | IndexError::NoRoom { .. }
        | IndexError::Log(_) => false,
    }
}
