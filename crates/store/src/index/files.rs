//! The files of the index: what is there, and making them.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use callgate_process::kept_file::{self, Sync};
use rusqlite::Connection;

use super::{IndexError, schema};

/// The number of the file that the index is in.
pub(super) fn inode(dir: &Path) -> Option<u64> {
    fs::metadata(path(dir)).ok().map(|data| data.ino())
}

/// Whether the index has records or cannot be read. Rebuilding an empty one is not worth a warning.
pub(super) fn opened_rows(dir: &Path) -> bool {
    let count = |connection: Connection| {
        let sql = "SELECT count(*) FROM (SELECT 1 FROM activity LIMIT 1)";
        connection.query_row(sql, [], |row| row.get::<_, u64>(0))
    };
    Connection::open(path(dir)).and_then(count).unwrap_or(1) > 0
}

/// Whether there is an index that was filled.
pub(super) fn has_content(dir: &Path) -> bool {
    fs::metadata(path(dir)).is_ok_and(|data| data.len() > 0)
}

fn path(dir: &Path) -> PathBuf {
    dir.join("index.sqlite")
}

/// Refuses an index of a newer format.
// Without opening it: SQLite would leave files beside it.
pub(crate) fn check(dir: &Path) -> Result<(), IndexError> {
    match form(dir)? {
        Some(form) => schema::refuse_newer(form, &path(dir)),
        None => Ok(()),
    }
}

/// The format of the index; none if it is missing or cut.
fn form(dir: &Path) -> io::Result<Option<i64>> {
    let mut start = [0; schema::START_BYTES];
    let read = File::open(path(dir)).and_then(|mut file| file.read_exact(&mut start));
    match read {
        Ok(()) => Ok(schema::form_in(&start)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

pub(super) fn connect(dir: &Path) -> Result<Connection, IndexError> {
    kept_file::create_folder(dir, Sync::Later)?;
    let path = path(dir);
    // SQLite gives the files beside it the same mode.
    crate::disk::private_file().open(&path)?;
    let mut connection = Connection::open(&path)?;
    schema::prepare(&mut connection, &path)?;
    Ok(connection)
}

/// Replaces the files by empty ones. A warning is logged where there were records before.
pub(super) fn reset(dir: &Path, why: &IndexError, is_told: bool) -> Result<Connection, IndexError> {
    let path = path(dir);
    if is_told {
        crate::log::rebuilding_index(&path, why);
    }
    remove_files(dir)?;
    connect(dir)
}

/// Removes an index of an older format: it is made again from the log.
pub(super) fn remove_older(dir: &Path) -> Result<(), IndexError> {
    match form(dir)? {
        Some(form) if schema::is_older(form) => Ok(remove_files(dir)?),
        Some(_) | None => Ok(()),
    }
}

pub(super) fn remove_files(dir: &Path) -> io::Result<()> {
    files(dir)
        .into_iter()
        .try_for_each(|path| match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        })
}

/// The files of the database.
pub(super) fn files(dir: &Path) -> [PathBuf; 3] {
    ["index.sqlite", "index.sqlite-wal", "index.sqlite-shm"].map(|name| dir.join(name))
}
