//! The private folder of a step: accessible to the user alone, and removed with the step. Folders left behind by a
//! crash are removed when the next step starts.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};
use ulid::Ulid;

/// The prefix of step folders.
const PREFIX: &str = "callgate-step-";
/// Locked for as long as the step runs.
const LOCK: &str = "lock";
/// The name of the lock file until it is locked.
const UNNAMED_LOCK: &str = "lock.new";

/// A private folder, removed on drop.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Creates a folder in the system's temporary folder, because the path of a Unix socket must be short.
    pub fn make() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("{PREFIX}{}", Ulid::generate()));
        DirBuilder::new().mode(0o700).create(&path)?;
        // Another process may be sweeping right now. To it, an unlocked lock file means a crashed step, so the file gets
        // its final name only after it is locked.
        let unnamed = path.join(UNNAMED_LOCK);
        let lock = private(&unnamed)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        fs::rename(unnamed, path.join(LOCK))?;
        Ok(Self { path, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file that only the user can read, and returns its path.
    pub(crate) fn write(&self, name: &str, content: &str) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        if let Some(folder) = path.parent() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)?;
        }
        private(&path)?.write_all(content.as_bytes())?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            crate::log::folder_not_removed(&self.path, &error);
        }
    }
}

/// Removes the folders of steps whose process is gone.
pub fn sweep() {
    let own = rustix::process::getuid().as_raw();
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else {
        return;
    };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX)
            && entry
                .metadata()
                .is_ok_and(|data| data.is_dir() && data.uid() == own);
        if is_ours && is_abandoned(&entry.path()) {
            // Another process may be sweeping at the same time.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether the lock is free. A folder without a lock file is being created or removed, so it is left alone.
fn is_abandoned(folder: &Path) -> bool {
    let Ok(lock) = File::open(folder.join(LOCK)) else {
        return false;
    };
    flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
}

fn private(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_folder_lives_exactly_as_long_as_its_step() {
        let folder = Folder::make().unwrap();
        let path = folder.path().to_owned();
        let file = folder.write("sub/file", "x").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        sweep();
        assert!(file.exists(), "it lives");
        drop(folder);
        assert!(!path.exists(), "it is gone");
    }

    #[test]
    fn abandoned_step_folders_are_swept() {
        let folder = Folder::make().unwrap();
        let path = folder.path().to_owned();
        // As a crash does: the lock goes, the folder stays.
        let Folder { _lock, .. } = &folder;
        flock(_lock, FlockOperation::Unlock).unwrap();
        std::mem::forget(folder);
        sweep();
        // A sweep elsewhere may have come first, and not have finished.
        let patience = std::time::Duration::from_secs(60);
        assert!(callgate_testkit::wait_until(patience, || !path.exists()));
    }

    #[test]
    fn step_folders_under_construction_are_not_swept() {
        let made = std::sync::atomic::AtomicBool::new(false);
        let is_made = || made.load(std::sync::atomic::Ordering::Acquire);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_made() {
                    sweep();
                }
            });
            let folders: Vec<io::Result<Folder>> = (0..500).map(|_| Folder::make()).collect();
            made.store(true, std::sync::atomic::Ordering::Release);
            for folder in folders {
                assert!(folder.unwrap().path().join(LOCK).exists());
            }
        });
    }
}
