//! Detects that another program changed the index.
//!
//! After each filling the gateway stores the inode, length and change times of the index's files, authenticated with the
//! log's key. Another program that writes to the index or replaces it changes these values, and a program cannot set a
//! file's change time back. Reading every row before each answer would detect the same and take a hundred times as long.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
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
    /// The data folder with the key.
    dir: PathBuf,
    /// The folder with the index.
    home: PathBuf,
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
    /// The seal of the index in `home` of the log in `dir`.
    pub(super) fn open(dir: &Path, home: &Path) -> io::Result<Self> {
        kept_file::create_folder(home, Sync::Later)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(home.join(NAME))?;
        Ok(Self {
            dir: dir.to_owned(),
            home: home.to_owned(),
            file: Arc::new(file),
        })
    }

    /// Excludes readers and other processes that fill the index.
    pub(super) fn lock(&self) -> io::Result<SealLock> {
        self.file.lock()?;
        Ok(SealLock(self.file.clone()))
    }

    /// The same, where it can be had at once.
    pub(super) fn try_lock(&self) -> io::Result<Option<SealLock>> {
        match self.file.try_lock() {
            Ok(()) => Ok(Some(SealLock(self.file.clone()))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Excludes processes that fill the index.
    pub(super) fn lock_shared(&self) -> io::Result<SealLock> {
        self.file.lock_shared()?;
        Ok(SealLock(self.file.clone()))
    }

    /// Whether the index is as it was sealed.
    pub(super) fn holds(&self) -> io::Result<bool> {
        let code = self.code()?;
        Ok(self.kept()?.lines().next() == Some(&*code))
    }

    /// Whether the machine was started again since the index was sealed.
    pub(super) fn is_of_earlier_boot(&self) -> io::Result<bool> {
        let kept = self.kept()?;
        let mut lines = kept.lines().skip(1);
        let (Some(boot), Some(code)) = (lines.next(), lines.next()) else {
            return Ok(false);
        };
        Ok(boot != boot_id() && self.key().made(code, &boot_text(boot)))
    }

    /// Seals the index as it is now.
    pub(super) fn renew(&self) -> io::Result<()> {
        let (code, boot) = (self.code()?, boot_id());
        let boot_code = self.key().code(&boot_text(&boot));
        let mut file = &*self.file;
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(format!("{code}\n{boot}\n{boot_code}").as_bytes())
    }

    fn kept(&self) -> io::Result<String> {
        let mut kept = String::new();
        let mut file = &*self.file;
        file.seek(SeekFrom::Start(0))?;
        // A file that is not text is not a seal.
        let read = file.read_to_string(&mut kept);
        Ok(read.map(|_| kept).unwrap_or_default())
    }

    /// Breaks the seal: the index is not trusted until it was rebuilt.
    pub(super) fn void(&self) -> io::Result<()> {
        self.file.set_len(0)
    }

    // Without a key anyone could seal; `verify` reports the missing key.
    fn key(&self) -> Key {
        Key::load(&folder::log_path(&self.dir)).unwrap_or_else(|_| Key::none())
    }

    fn code(&self) -> io::Result<String> {
        let mut state = String::from("index");
        for suffix in ["", "-wal"] {
            state.push('\n');
            state.push_str(&file_state(
                &self.home.join(format!("index.sqlite{suffix}")),
            )?);
        }
        Ok(self.key().code(&state))
    }
}

fn boot_text(boot: &str) -> String {
    format!("boot\n{boot}")
}

/// The id of this start of the machine; empty where the system does not tell.
fn boot_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map(|id| id.trim().to_owned()).unwrap_or_default()
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
