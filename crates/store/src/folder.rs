//! The writers' folders on disk: their list, which writers are running, and the small files beside
//! the segments.

use std::{
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use callgate_record::{KeyedHead, WriterId};
use ulid::Ulid;

use crate::{
    disk::{Files, private_file},
    segment,
};

/// The prefix of an incomplete folder's name; other processes ignore such folders.
const INCOMPLETE: &str = ".new-";
/// What earlier versions called the folder of the activity log.
const OLD_NAME: &str = "log";
/// How long an incomplete folder may be in use by the process that makes it.
const INCOMPLETE_MS: u64 = 60_000;
/// How often a lock is tried while only readers seem to hold it.
const LOCK_TRIES: u32 = 200;

/// Where the activity log is in a data folder. Earlier versions called it `log`; where only that exists, it stays in
/// use, because a gateway of such a version may be running on it.
pub(crate) fn log_path(dir: &Path) -> PathBuf {
    let [log, old] = ["activity", OLD_NAME].map(|name| dir.join(name));
    if old.is_dir() && !log.exists() {
        old
    } else {
        log
    }
}

/// The activity log under its old name, if there is one beside the log under its present name.
pub(crate) fn second_log(log: &Path) -> Option<PathBuf> {
    let old = log.with_file_name(OLD_NAME);
    (old != log && log.exists() && old.join("version").exists()).then_some(old)
}

#[derive(Debug, Clone)]
pub(crate) struct Folder {
    pub(crate) writer: WriterId,
    pub(crate) path: PathBuf,
}

/// A held lock. The kernel releases it with the file, also when the process dies.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

impl Lock {
    /// What is wrong with the folder that the lock is in, whose path it had: another file is there, or none.
    pub(crate) fn trouble(&self, path: &Path) -> Option<String> {
        let same = |(own, there): (fs::Metadata, fs::Metadata)| {
            (own.dev(), own.ino()) == (there.dev(), there.ino())
        };
        let both = self
            .file
            .metadata()
            .and_then(|own| Ok((own, fs::metadata(path)?)));
        let is_there = both.is_ok_and(same);
        (!is_there).then(|| {
            format!(
                "the folder of the activity log was renamed, replaced or deleted: `{}`",
                path.parent().unwrap_or(path).display()
            )
        })
    }
}

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
            // Ids can be spelled in several ways. Only ours counts, or one writer could have two folders.
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

    /// Makes a new writer's folder.
    // It gets its name once the lock is held: otherwise another process could take the new writer for a dead one.
    pub(crate) fn create(log: &Path, files: &Files) -> io::Result<(Self, Lock)> {
        let writer = WriterId(Ulid::generate());
        let incomplete = log.join(format!("{INCOMPLETE}{writer}"));
        files.create_folder(&incomplete)?;
        let file = private_file().open(incomplete.join("lock"))?;
        file.lock()?;
        let path = log.join(writer.to_string());
        files.rename(&incomplete, &path)?;
        Ok((Self { writer, path }, Lock { file }))
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

    /// Takes a dead writer's lock; none while its owner, or another process that adopts it, is running.
    pub(crate) fn adopt(&self) -> io::Result<Option<Lock>> {
        for _ in 0..LOCK_TRIES {
            let file = private_file().open(self.path.join("lock"))?;
            match file.try_lock() {
                Ok(()) => return Ok(Some(Lock { file })),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) => {}
            }
            // `is_alive` takes a shared lock briefly; that is not the writer's lock.
            match file.try_lock_shared() {
                Ok(()) => thread::sleep(Duration::from_millis(1)),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) => return Ok(None),
            }
        }
        Ok(None)
    }

    /// What is wrong with the folder of a lock that is held. One that was put back from a copy has another file for the lock,
    /// which is taken; not where a later process has closed the chain meanwhile, because it must not go on there.
    pub(crate) fn retake(&self, lock: &mut Lock) -> Option<String> {
        let trouble = lock.trouble(&self.path.join("lock"))?;
        if !self.path.is_dir() {
            return Some(trouble);
        }
        match self.adopt() {
            Ok(Some(retaken)) if !self.is_sealed() => {
                *lock = retaken;
                None
            }
            Ok(_) | Err(_) => Some(trouble),
        }
    }

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

    /// The file with the last head of a sealed writer.
    pub(crate) fn seal_path(&self) -> PathBuf {
        self.path.join("sealed")
    }

    /// The file with what a later start must know of this writer.
    pub(crate) fn summary_path(&self) -> PathBuf {
        self.path.join("summary")
    }

    /// The file with the newest keyed head.
    pub(crate) fn head_path(&self) -> PathBuf {
        self.path.join("head")
    }
}

/// The keyed head in a file; none without a file. A malformed file is an error of the kind `InvalidData`.
pub(crate) fn read_head(path: &Path) -> io::Result<Option<KeyedHead>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let keyed: KeyedHead = serde_json::from_slice(&bytes)?;
    // Ids can be spelled in several ways, and the code does not cover the spelling: only ours is accepted.
    if serde_json::to_vec(&keyed)? != bytes {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "malformed keyed head: not in the form that callgate writes",
        ));
    }
    Ok(Some(keyed))
}

/// Removes the folders of processes that died while they made them.
pub(crate) fn sweep_incomplete(log: &Path) -> io::Result<()> {
    let now = Ulid::generate().timestamp_ms();
    for name in names(log)? {
        let started = name
            .strip_prefix(INCOMPLETE)
            .and_then(|name| Ulid::from_string(name).ok());
        let is_old = started.is_some_and(|ulid| ulid.timestamp_ms() + INCOMPLETE_MS < now);
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

/// The names in a folder; none without one.
pub(crate) fn names(path: &Path) -> io::Result<Vec<String>> {
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
