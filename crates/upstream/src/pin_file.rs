//! `callgate.lock` as a file. It is read as a whole and replaced as a whole; whoever changes it holds its folder, so
//! that gateways which see a new tool at the same time do not lose each other's.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use callgate_gate::pins::{Lock, LockError};

/// What the file is called.
pub const LOCK_FILE: &str = "callgate.lock";

/// Why the lock cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PinFileError {
    /// The system does not let us.
    #[error("`{path}` cannot be used: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is no lock.
    #[error("`{path}` is no lock: {source}")]
    Broken {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: LockError,
    },
}

/// Reads the lock; one that is not there is empty.
pub fn read(path: &Path) -> Result<Lock, PinFileError> {
    match fs::read_to_string(path) {
        Ok(text) => Lock::read(&text).map_err(|source| PinFileError::Broken {
            path: path.to_owned(),
            source,
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Lock::default()),
        Err(error) => Err(failed(path, error)),
    }
}

/// Changes the lock, and gives back what it is now.
pub fn change(path: &Path, how: impl FnOnce(&mut Lock)) -> Result<Lock, PinFileError> {
    // A bare name is in the working folder.
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let folder = folder.unwrap_or(Path::new("."));
    let held = File::open(folder).and_then(|folder| folder.lock().map(|()| folder));
    let _held = held.map_err(|error| failed(path, error))?;
    let mut lock = read(path)?;
    let before = lock.clone();
    how(&mut lock);
    if lock != before {
        let fresh = path.with_extension(format!("lock.{}.new", std::process::id()));
        let written = fs::write(&fresh, lock.write()).and_then(|()| fs::rename(&fresh, path));
        written.map_err(|error| failed(path, error))?;
    }
    Ok(lock)
}

fn failed(path: &Path, source: io::Error) -> PinFileError {
    PinFileError::Io {
        path: path.to_owned(),
        source,
    }
}
