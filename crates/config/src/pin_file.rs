//! `callgate.lock` as a file. It is read as a whole and replaced as a whole. A writer holds the folder meanwhile, so
//! that gateways which see a new tool at the same time do not lose each other's pins.
//!
//! A lock that cannot be read is not replaced: what was accepted would be lost. Before a new file takes the place of the
//! old one it is read back, so that the next command can read it, too.

use std::{
    error::Error,
    fmt,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, ErrorKind, Read, Write},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use callgate_gate::pins::{Lock, MAX_LOCK_BYTES, PinStore};
use callgate_process::regular_file;

use crate::trust::ProjectLock;

/// The name of the lock file.
pub const LOCK_FILE: &str = "callgate.lock";

/// How long to wait for another writer.
const HELD_AT_MOST: Duration = Duration::from_secs(10);
/// The pause between two attempts to lock the folder.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Why the lock cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum PinFileError {
    /// An I/O error.
    #[error("cannot write `{path}`: {source}")]
    Io { path: PathBuf, source: io::Error },
    /// The witness refused the change.
    #[error("`{path}` was left unchanged: {why}")]
    Refused { path: PathBuf, why: String },
    /// The current lock cannot be read.
    #[error("`{path}` is damaged and was not overwritten: {why}")]
    Damaged { path: PathBuf, why: String },
    /// The new lock was written but could not be read back.
    #[error("`{path}` was left unchanged: the new lock could not be read back")]
    NotReadBack { path: PathBuf },
}

/// Is notified of changes to the lock, because trust in it depends on its content.
pub trait LockObserver: fmt::Debug + Send + Sync {
    /// The lock is about to be replaced. An error keeps the old lock.
    fn before(&self, old: Option<&[u8]>, new: &[u8]) -> Result<(), String>;
    /// The lock was replaced by `new`.
    fn after(&self, new: &[u8]);
}

/// The lock file as the gateway's store of accepted definitions.
#[derive(Debug, Clone)]
pub struct LockFile {
    pub file: PathBuf,
    /// The project whose trust the lock is part of.
    pub project: Option<ProjectLock>,
}

impl PinStore for LockFile {
    fn change(
        &self,
        edit: &mut dyn FnMut(&mut Lock),
    ) -> Result<Lock, Box<dyn Error + Send + Sync>> {
        let witness = self
            .project
            .as_ref()
            .map(|project| project as &dyn LockObserver);
        Ok(change(&self.file, witness, edit)?)
    }

    fn place(&self) -> String {
        self.file.display().to_string()
    }
}

/// Reads the lock. A missing lock is empty, and an unreadable one is damaged.
pub fn read(path: &Path) -> Lock {
    match content(path) {
        Ok(content) => parse(content.as_deref()),
        Err(error) => Lock::damaged(error.to_string()),
    }
}

/// The lock with this content; empty without content.
pub fn parse(content: Option<&[u8]>) -> Lock {
    match content.map(std::str::from_utf8) {
        None => Lock::default(),
        Some(Ok(text)) => Lock::read(text),
        Some(Err(error)) => Lock::damaged(format!("it is not valid UTF-8: {error}")),
    }
}

fn content(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match bytes(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The bytes of a file of a reasonable size.
fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let file = regular_file::open(path)?;
    let mut bytes = Vec::new();
    let limit = MAX_LOCK_BYTES as u64 + 1;
    file.take(limit).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_LOCK_BYTES {
        return Err(io::Error::other(format!(
            "it is longer than {MAX_LOCK_BYTES} bytes"
        )));
    }
    Ok(bytes)
}

/// Changes the lock and returns the new one.
pub fn change(
    path: &Path,
    witness: Option<&dyn LockObserver>,
    how: impl FnOnce(&mut Lock),
) -> Result<Lock, PinFileError> {
    // A link stays a link: the file that it leads to is replaced.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    // A bare name is in the working folder.
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let folder = folder.unwrap_or(Path::new("."));
    let damaged = |why: String| PinFileError::Damaged {
        path: path.to_owned(),
        why,
    };
    let _held = hold(folder).map_err(|error| failed(path, error))?;
    let old = content(path).map_err(|error| damaged(error.to_string()))?;
    let mut lock = parse(old.as_deref());
    if let Some(why) = lock.damage() {
        return Err(damaged(why.to_owned()));
    }
    let before = lock.clone();
    how(&mut lock);
    if lock == before {
        return Ok(lock);
    }
    let new = lock.write();
    let witnessed = witness.map_or(Ok(()), |one| one.before(old.as_deref(), new.as_bytes()));
    witnessed.map_err(|why| PinFileError::Refused {
        path: path.to_owned(),
        why,
    })?;
    replace(path, folder, &lock, &new)?;
    if let Some(witness) = witness {
        witness.after(new.as_bytes());
    }
    Ok(lock)
}

/// Locks the folder, waiting up to [`HELD_AT_MOST`] for another process.
fn hold(folder: &Path) -> io::Result<File> {
    let folder = File::open(folder)?;
    let started = Instant::now();
    loop {
        match folder.try_lock() {
            Ok(()) => return Ok(folder),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if started.elapsed() < HELD_AT_MOST => {
                thread::sleep(LOOK_EVERY);
            }
            Err(TryLockError::WouldBlock) => {
                let what = "another process held the lock on its folder for too long";
                return Err(io::Error::new(ErrorKind::TimedOut, what));
            }
        }
    }
}

fn replace(path: &Path, folder: &Path, lock: &Lock, text: &str) -> Result<(), PinFileError> {
    let fresh = folder.join(format!(".{LOCK_FILE}.{}.new", ulid::Ulid::generate()));
    let written = write_new(&fresh, text);
    let is_as_meant = written.is_ok() && read(&fresh) == *lock;
    let result = match written {
        Ok(()) if is_as_meant => fs::rename(&fresh, path).map_err(|error| failed(path, error)),
        Ok(()) => Err(PinFileError::NotReadBack {
            path: path.to_owned(),
        }),
        Err(error) => Err(failed(path, error)),
    };
    if result.is_err() {
        // The new file may not exist; only the old lock matters.
        let _ = fs::remove_file(&fresh);
    }
    result
}

/// Writes a new file; a link in its place is not followed.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    // Not synced, because that can take long; a power cut that empties the file leaves a damaged lock, which is
    // refused, rather than a missing one, which would accept all tools again.
    file.write_all(text.as_bytes())
}

fn failed(path: &Path, source: io::Error) -> PinFileError {
    PinFileError::Io {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use callgate_gate::{ServerName, Tool, pins::Accepted};

    use super::*;

    fn tool(name: &str) -> Tool {
        let server = ServerName::new("s").unwrap();
        let descriptor = format!(r#"{{"name":"{name}"}}"#);
        Tool::from_descriptor(&server, Bytes::from(descriptor)).unwrap()
    }

    fn accept(name: &str) -> impl FnOnce(&mut Lock) {
        let tool = tool(name);
        move |lock| lock.accept_tool(&tool, Accepted::ByPerson)
    }

    #[test]
    fn a_lock_update_leaves_no_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LOCK_FILE);
        change(&path, None, accept("a")).unwrap();
        let lock = change(&path, None, accept("b")).unwrap();
        assert_eq!(lock.pins().count(), 2);
        assert_eq!(read(&path), lock);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_lock_update_keeps_a_symlink() {
        let folder = tempfile::tempdir().unwrap();
        let (real, path) = (folder.path().join("real"), folder.path().join(LOCK_FILE));
        fs::write(&real, Lock::default().write()).unwrap();
        std::os::unix::fs::symlink(&real, &path).unwrap();
        change(&path, None, accept("a")).unwrap();
        assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
        assert_eq!(read(&real).pins().count(), 1);
    }

    #[test]
    fn a_damaged_lock_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LOCK_FILE);
        for bytes in [
            &b""[..],
            b"version: 1\nservers: 7\n",
            b"\xff\xfe",
            b"version: 9\n",
        ] {
            fs::write(&path, bytes).unwrap();
            let error = change(&path, None, accept("a")).unwrap_err();
            assert!(matches!(error, PinFileError::Damaged { .. }), "{error}");
            assert_eq!(fs::read(&path).unwrap(), bytes);
        }
    }

    #[test]
    fn an_unreadable_new_lock_does_not_replace_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LOCK_FILE);
        change(&path, None, accept("a")).unwrap();
        let before = fs::read(&path).unwrap();
        let mut lock = read(&path);
        // More than a file may have.
        let long = "x".repeat(MAX_LOCK_BYTES);
        lock.accept("s", &long, read(&path).pin("s", "a").unwrap().clone());
        let error = replace(&path, folder.path(), &lock, &lock.write()).unwrap_err();
        assert!(matches!(error, PinFileError::NotReadBack { .. }), "{error}");
        assert_eq!(fs::read(&path).unwrap(), before);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
