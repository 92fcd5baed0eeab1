//! A copy of the log to search in: one row per call, filled behind the log.
//!
//! Nothing is lost with it. It is made again from the log when it is missing, broken or of an
//! older form; one of a newer form is left alone. Several processes may fill it at once.

mod fill;
mod query;
mod schema;
mod tally;

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use callgate_gate::CallId;
use callgate_record::{Activity, ActivityFilter, Page, Status, Summary};
use rusqlite::{Connection, ErrorCode, OptionalExtension as _};

use crate::{
    folder,
    version::{self, VersionError},
};

pub use fill::CaughtUp;

/// Why the index cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// A newer version made it.
    #[error(
        "the index `{path}` has form {found}, and this callgate knows forms up to {known}; use a newer callgate, or delete the file"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its form.
        found: i64,
        /// The newest form that is known here.
        known: i64,
    },
    /// The log itself is of a form that this version does not know.
    #[error(transparent)]
    Version(#[from] VersionError),
    /// The cursor is not one that a page gave.
    #[error("`{cursor}` is not a cursor of this list")]
    BadCursor {
        /// What was given.
        cursor: String,
    },
    /// The log cannot be read.
    #[error("the log cannot be read: {0}")]
    Log(#[from] io::Error),
    /// The database refuses.
    #[error("the index cannot be used: {0}")]
    Database(#[from] rusqlite::Error),
    /// A row is not what this version writes.
    #[error("a row of the index is not understood: {0}")]
    Row(#[from] serde_json::Error),
}

/// The index of a data folder.
#[derive(Debug)]
pub struct Index {
    connection: Connection,
    dir: PathBuf,
}

impl Index {
    /// Opens the index of a data folder, and makes it when there is none that can be used.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, IndexError> {
        let dir = dir.into();
        let connection = match connect(&dir) {
            Err(error) if is_broken(&error) => reset(&dir, &error)?,
            other => other?,
        };
        Ok(Self { connection, dir })
    }

    /// Takes over what the log has got since the last time; says how many entries that were.
    pub fn catch_up(&mut self) -> Result<u64, IndexError> {
        self.catch_up_until(&|| false).map(|done| done.entries)
    }

    /// The same in small steps, until `stop` says that it is enough for now.
    pub fn catch_up_until(&mut self, stop: &dyn Fn() -> bool) -> Result<CaughtUp, IndexError> {
        self.with_repair(|index| fill::catch_up(&mut index.connection, &index.dir, stop))
    }

    /// Throws everything away and reads the whole log again.
    pub fn rebuild(&mut self) -> Result<u64, IndexError> {
        self.with_repair(|index| {
            schema::clear(&mut index.connection)?;
            fill::catch_up(&mut index.connection, &index.dir, &|| false).map(|done| done.entries)
        })
    }

    /// One page of records, newest first.
    pub fn query(&mut self, filter: &ActivityFilter) -> Result<Page, IndexError> {
        self.with_repair(|index| query::page(&index.connection, filter))
    }

    /// One record.
    pub fn get(&mut self, id: CallId) -> Result<Option<Activity>, IndexError> {
        self.with_repair(|index| load(&index.connection, id))
    }

    /// How many records since then there are of each sort; of one tenant, where one is named.
    pub fn summary(
        &mut self,
        since: jiff::Timestamp,
        tenant: Option<&str>,
    ) -> Result<Summary, IndexError> {
        self.with_repair(|index| query::summary(&index.connection, since, tenant))
    }

    /// Shows every record that fits to `visit`, oldest first, as of one moment.
    pub fn for_each(
        &mut self,
        filter: &ActivityFilter,
        visit: &mut dyn FnMut(Activity) -> io::Result<()>,
    ) -> Result<(), IndexError> {
        query::for_each(&self.connection, filter, visit)
    }

    /// Does something; when the file turns out to be broken, makes it again and does it once more.
    fn with_repair<T>(
        &mut self,
        mut act: impl FnMut(&mut Self) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        match act(self) {
            Err(error) if is_broken(&error) => {
                self.connection = reset(&self.dir, &error)?;
                fill::catch_up(&mut self.connection, &self.dir, &|| false)?;
                act(self)
            }
            other => other,
        }
    }
}

/// The record with this id, as the index has it.
fn load(connection: &Connection, id: CallId) -> Result<Option<Activity>, IndexError> {
    let mut statement = connection.prepare_cached(
        "SELECT document.json, activity.status FROM activity JOIN document USING (key) WHERE activity.id = ?1",
    )?;
    let row = statement
        .query_row([id.to_string()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    row.map(|(json, status): (String, Option<String>)| activity(&json, status))
        .transpose()
}

/// The column has the last word on the status: it also says which writers have died.
fn activity(json: &str, status: Option<String>) -> Result<Activity, IndexError> {
    let mut activity: Activity = serde_json::from_str(json)?;
    activity.status = match status {
        Some(word) => Some(serde_json::from_value::<Status>(word.into())?),
        None => None,
    };
    Ok(activity)
}

fn path(dir: &Path) -> PathBuf {
    dir.join("index.sqlite")
}

/// Refuses an index of a newer form, without opening it: SQLite would leave files beside it.
pub(crate) fn check(dir: &Path) -> Result<(), IndexError> {
    let path = path(dir);
    let mut start = [0; schema::START_BYTES];
    let read = File::open(&path).and_then(|mut file| file.read_exact(&mut start));
    match read {
        Ok(()) => schema::refuse_newer(schema::form_in(&start), &path),
        // None, or none that is whole: it will be made again.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof
            ) =>
        {
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

fn connect(dir: &Path) -> Result<Connection, IndexError> {
    version::check(&folder::log_path(dir))?;
    crate::disk::private_folder(dir)?;
    let path = path(dir);
    // SQLite gives the files beside it the same mode.
    crate::disk::private_file().open(&path)?;
    let mut connection = Connection::open(&path)?;
    schema::prepare(&mut connection, &path)?;
    Ok(connection)
}

fn reset(dir: &Path, error: &IndexError) -> Result<Connection, IndexError> {
    let path = path(dir);
    tracing::warn!(path = %path.display(), %error, "the index is broken and made again from the log");
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.clone().into_os_string();
        name.push(suffix);
        match fs::remove_file(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    connect(dir)
}

fn is_broken(error: &IndexError) -> bool {
    match error {
        IndexError::Row(_) => true,
        IndexError::Database(error) => {
            matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
            )
        }
        IndexError::Newer { .. }
        | IndexError::Version(_)
        | IndexError::BadCursor { .. }
        | IndexError::Log(_) => false,
    }
}
