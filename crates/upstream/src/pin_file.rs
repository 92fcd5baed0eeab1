//! `callgate.lock` as a file. It is read as a whole and replaced as a whole; whoever changes it holds its folder, so
//! that gateways which see a new tool at the same time do not lose each other's.

use std::{
    fmt,
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
    /// It may not be replaced.
    #[error("`{path}` is not changed: {why}")]
    Refused {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
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

/// Who must know what the lock becomes, because trust in it depends on its content.
pub trait Witness: fmt::Debug + Send + Sync {
    /// The lock is about to be replaced. With an error it stays as it is.
    fn before(&self, old: Option<&[u8]>, new: &[u8]) -> Result<(), String>;
    /// It was replaced.
    fn after(&self, new: &[u8]);
}

/// Reads the lock; one that is not there is empty.
pub fn read(path: &Path) -> Result<Lock, PinFileError> {
    parse(path, content(path)?.as_deref())
}

/// The lock with this content; without any it is empty.
pub fn parse(path: &Path, content: Option<&[u8]>) -> Result<Lock, PinFileError> {
    let broken = |source| PinFileError::Broken {
        path: path.to_owned(),
        source,
    };
    let Some(content) = content else {
        return Ok(Lock::default());
    };
    let text = std::str::from_utf8(content);
    let text = text.map_err(|error| broken(LockError::Unreadable(error.to_string())))?;
    Lock::read(text).map_err(broken)
}

fn content(path: &Path) -> Result<Option<Vec<u8>>, PinFileError> {
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(path, error)),
    }
}

/// Changes the lock, and gives back what it is now.
pub fn change(
    path: &Path,
    witness: Option<&dyn Witness>,
    how: impl FnOnce(&mut Lock),
) -> Result<Lock, PinFileError> {
    // A bare name is in the working folder.
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let folder = folder.unwrap_or(Path::new("."));
    let held = File::open(folder).and_then(|folder| folder.lock().map(|()| folder));
    let _held = held.map_err(|error| failed(path, error))?;
    let old = content(path)?;
    let mut lock = parse(path, old.as_deref())?;
    let before = lock.clone();
    how(&mut lock);
    if lock != before {
        let new = lock.write();
        let witnessed = witness.map_or(Ok(()), |one| one.before(old.as_deref(), new.as_bytes()));
        witnessed.map_err(|why| PinFileError::Refused {
            path: path.to_owned(),
            why,
        })?;
        let fresh = path.with_extension(format!("lock.{}.new", std::process::id()));
        let written = fs::write(&fresh, &new).and_then(|()| fs::rename(&fresh, path));
        written.map_err(|error| failed(path, error))?;
        if let Some(witness) = witness {
            witness.after(new.as_bytes());
        }
    }
    Ok(lock)
}

fn failed(path: &Path, source: io::Error) -> PinFileError {
    PinFileError::Io {
        path: path.to_owned(),
        source,
    }
}
