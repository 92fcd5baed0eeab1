//! The folders of the writers as they lie on disk: which there are, which of them live, and the
//! small files beside the segments.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use callgate_record::{KeyedHead, WriterId};
use ulid::Ulid;

use crate::{disk::private_file, segment};

/// A folder that is not complete yet has this before its name, and nobody else looks into it.
const UNBORN: &str = ".new-";
/// How long an unborn folder is left alone.
const UNBORN_MS: u64 = 60_000;
/// How often a lock is tried again that only readers seem to hold.
const LOCK_TRIES: u32 = 200;

/// Where the log is in a data folder.
pub(crate) fn log_path(dir: &Path) -> PathBuf {
    dir.join("log")
}

/// The folder of one writer.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    pub(crate) writer: WriterId,
    pub(crate) path: PathBuf,
}

/// A held lock; dropping it, or dying, lets go.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// One segment file.
#[derive(Debug, Clone)]
pub(crate) struct SegmentPath {
    pub(crate) number: u32,
    pub(crate) path: PathBuf,
}

impl Folder {
    /// Every writer's folder, oldest first. A log that does not exist has none.
    pub(crate) fn list(log: &Path) -> io::Result<Vec<Self>> {
        let mut folders = Vec::new();
        for name in names(log)? {
            // A name is taken only in the form that we write.
            let writer = Ulid::from_string(&name)
                .ok()
                .filter(|ulid| ulid.to_string() == name);
            if let Some(ulid) = writer {
                folders.push(Self {
                    writer: WriterId(ulid),
                    path: log.join(name),
                });
            }
        }
        folders.sort_by_key(|folder| folder.writer);
        Ok(folders)
    }

    /// Makes a new writer's folder, which appears under its name only when its lock is held.
    pub(crate) fn create(log: &Path) -> io::Result<(Self, Lock)> {
        let writer = WriterId(Ulid::generate());
        let unborn = log.join(format!("{UNBORN}{writer}"));
        crate::disk::private_folder(&unborn)?;
        let file = private_file().open(unborn.join("lock"))?;
        file.lock()?;
        let path = log.join(writer.to_string());
        fs::rename(&unborn, &path)?;
        Ok((Self { writer, path }, Lock { _file: file }))
    }

    /// The segments in order.
    pub(crate) fn segments(&self) -> io::Result<Vec<SegmentPath>> {
        let mut segments = Vec::new();
        for name in names(&self.path)? {
            if let Some(number) = segment::number(&name) {
                segments.push(SegmentPath {
                    number,
                    path: self.path.join(name),
                });
            }
        }
        segments.sort_by_key(|segment| segment.number);
        Ok(segments)
    }

    /// Takes a dead writer's lock; none while its owner, or another adopter, lives.
    pub(crate) fn adopt(&self) -> io::Result<Option<Lock>> {
        for _ in 0..LOCK_TRIES {
            let file = private_file().open(self.path.join("lock"))?;
            match file.try_lock() {
                Ok(()) => return Ok(Some(Lock { _file: file })),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) => {}
            }
            // A reader that asks whether the writer lives holds a shared lock for a moment.
            match file.try_lock_shared() {
                Ok(()) => thread::sleep(Duration::from_millis(1)),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Whether the writer lives.
    pub(crate) fn is_alive(&self) -> io::Result<bool> {
        let file = match File::open(self.path.join("lock")) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Whether a later writer has closed this one.
    pub(crate) fn is_sealed(&self) -> bool {
        self.seal_path().exists()
    }

    /// Where the last head stands once the writer is sealed.
    pub(crate) fn seal_path(&self) -> PathBuf {
        self.path.join("sealed")
    }

    /// Where the newest keyed head stands.
    pub(crate) fn head_path(&self) -> PathBuf {
        self.path.join("head")
    }
}

/// The keyed head in a file; none where there is no file. A file that is no head is an error of
/// the kind `InvalidData`.
pub(crate) fn read_head(path: &Path) -> io::Result<Option<KeyedHead>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let keyed: KeyedHead = serde_json::from_slice(&bytes)?;
    // An id can be spelled in more than one way; only ours is taken.
    if serde_json::to_vec(&keyed)? != bytes {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "it is not spelled as it was written",
        ));
    }
    Ok(Some(keyed))
}

/// Removes what starts that died half-way left behind.
pub(crate) fn sweep_unborn(log: &Path) -> io::Result<()> {
    let now = Ulid::generate().timestamp_ms();
    for name in names(log)? {
        let born = name
            .strip_prefix(UNBORN)
            .and_then(|name| Ulid::from_string(name).ok());
        let is_old = born.is_some_and(|ulid| ulid.timestamp_ms() + UNBORN_MS < now);
        if !is_old {
            continue;
        }
        let folder = Folder {
            writer: WriterId(Ulid::nil()),
            path: log.join(&name),
        };
        if !folder.is_alive()? {
            fs::remove_dir_all(&folder.path)?;
        }
    }
    Ok(())
}

fn names(path: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry?.file_name().into_string());
    }
    Ok(names)
}
