//! Detects that another program changed the index.
//!
//! After each filling the gateway stores the inode, length and change times of the index's files, authenticated with the
//! log's key. Another program that writes to the index or replaces it changes these values, and a program cannot set a
//! file's change time back. Reading every row before each answer would detect the same and take a hundred times as long.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use callgate_process::kept_file::{self, Sync};

use crate::{folder, key::Key};

/// The file beside the index that holds the seal, and that is locked while the index is read or filled.
const NAME: &str = "index.seal";

#[derive(Debug, Clone)]
pub(super) struct Seal {
    dir: PathBuf,
    file: Arc<File>,
}

/// A lock on the index; dropping it lets go.
#[derive(Debug)]
pub(super) struct SealLock(Arc<File>);

impl Drop for SealLock {
    fn drop(&mut self) {
        // If this fails, the kernel releases the lock with the process.
        let _ = self.0.unlock();
    }
}

impl Seal {
    /// The seal of the index in this data folder.
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        kept_file::create_folder(dir, Sync::Later)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(dir.join(NAME))?;
        Ok(Self {
            dir: dir.to_owned(),
            file: Arc::new(file),
        })
    }

    /// Excludes readers and other processes that fill the index.
    pub(super) fn lock(&self) -> io::Result<SealLock> {
        self.file.lock()?;
        Ok(SealLock(self.file.clone()))
    }

    /// Excludes processes that fill the index.
    pub(super) fn lock_shared(&self) -> io::Result<SealLock> {
        self.file.lock_shared()?;
        Ok(SealLock(self.file.clone()))
    }

    /// Whether the index is as it was sealed.
    pub(super) fn holds(&self) -> io::Result<bool> {
        let code = self.code()?;
        let mut kept = String::new();
        let mut file = &*self.file;
        file.seek(SeekFrom::Start(0))?;
        Ok(file.read_to_string(&mut kept).is_ok() && kept == code)
    }

    /// Seals the index as it is now.
    pub(super) fn renew(&self) -> io::Result<()> {
        let code = self.code()?;
        let mut file = &*self.file;
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(code.as_bytes())
    }

    /// Breaks the seal: the index is not trusted until it was rebuilt.
    pub(super) fn void(&self) -> io::Result<()> {
        self.file.set_len(0)
    }

    // Without a key anyone could seal; `verify` reports the missing key.
    fn code(&self) -> io::Result<String> {
        let key = Key::load(&folder::log_path(&self.dir)).unwrap_or_else(|_| Key::none());
        let mut state = String::from("index");
        for suffix in ["", "-wal"] {
            state.push('\n');
            state.push_str(&file_state(
                &self.dir.join(format!("index.sqlite{suffix}")),
            )?);
        }
        Ok(key.code(&state))
    }
}

/// The values that change with every change of a file.
// An empty file counts as missing: SQLite makes one when it only reads.
fn file_state(path: &Path) -> io::Result<String> {
    match fs::metadata(path) {
        Ok(data) if data.len() > 0 => Ok(format!(
            "{} {} {} {}.{} {}.{}",
            data.dev(),
            data.ino(),
            data.len(),
            data.mtime(),
            data.mtime_nsec(),
            data.ctime(),
            data.ctime_nsec()
        )),
        Ok(_) => Ok(String::new()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error),
    }
}
