//! Whether the index is as a gateway left it.
//!
//! After each filling the gateway writes down which files the index consists of, how long they are and when they were last
//! changed, with a code that only the owner of the log's key can make. Any other program that writes to the index,
//! or puts another one in its place, changes that. The system keeps the time of the last change; a program cannot set it
//! back. Reading every row before each answer would say the same and take a hundred times as long.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{folder, key::Key};

/// The file beside the index that holds the seal, and that is locked while the index is read or filled.
const NAME: &str = "index.seal";

/// The seal of one index.
#[derive(Debug, Clone)]
pub(super) struct Seal {
    dir: PathBuf,
    file: Arc<File>,
}

/// A lock on the index; dropping it lets go.
#[derive(Debug)]
pub(super) struct Held(Arc<File>);

impl Drop for Held {
    fn drop(&mut self) {
        // The lock goes with the process at the latest.
        let _ = self.0.unlock();
    }
}

impl Seal {
    /// The seal of the index in this data folder.
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        crate::disk::private_folder(dir)?;
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

    /// Keeps everyone else away while the index is filled.
    pub(super) fn lock(&self) -> io::Result<Held> {
        self.file.lock()?;
        Ok(Held(self.file.clone()))
    }

    /// Keeps those away who would fill the index.
    pub(super) fn lock_shared(&self) -> io::Result<Held> {
        self.file.lock_shared()?;
        Ok(Held(self.file.clone()))
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

    /// Breaks the seal: the index is not believed until it was made again.
    pub(super) fn void(&self) -> io::Result<()> {
        self.file.set_len(0)
    }

    /// Without a key anyone could seal; `verify` says that it is missing.
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

/// What changes with every change of a file. An empty file is as good as none: SQLite makes one when it only reads.
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
