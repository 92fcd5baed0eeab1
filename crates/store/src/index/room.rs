//! The room that the index takes. It can be made again from the log, so it goes before the log lacks room.

use std::{fs, io, os::unix::fs::MetadataExt as _, path::Path, thread, time::Duration};

use super::{
    Index, IndexError,
    files::{files, remove_files},
    forget,
    seal::Seal,
};

/// The index leaves this much of a disk to the log, or a part of a small disk.
const LEAST_FREE: u64 = 64 * 1024 * 1024;
const LEAST_FREE_PART: u64 = 8;
/// How often the lock is tried while another thread fills the index, and the time between.
const TRIES: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(5);

/// What the index takes of the disk.
pub(crate) fn bytes(dir: &Path) -> u64 {
    let blocks = |path| fs::metadata(path).map_or(0, |data| data.blocks());
    files(dir).into_iter().map(blocks).sum::<u64>() * 512
}

/// Gives back what the index does not need: the room of rows that are gone, and its write-ahead log.
pub(crate) fn shrink(dir: &Path) -> Result<(), IndexError> {
    if bytes(dir) == 0 {
        return Ok(());
    }
    let index = Index::open(dir)?;
    let _held = index.seal.lock()?;
    forget::give_all_back(&index.connection)?;
    Ok(index.seal.renew()?)
}

/// Removes the index because the log has no room. Returns whether that made room. The next reader makes it again once
/// there is more room than the log needs.
pub(crate) fn give_up(dir: &Path) -> bool {
    if bytes(dir) == 0 {
        return false;
    }
    let Ok(seal) = Seal::open(dir, dir) else {
        return false;
    };
    for _ in 0..TRIES {
        match seal.try_lock() {
            Ok(Some(_held)) => return remove(dir, &seal).is_ok(),
            Ok(None) => thread::sleep(BETWEEN),
            Err(_) => return false,
        }
    }
    false
}

fn remove(dir: &Path, seal: &Seal) -> io::Result<()> {
    seal.void()?;
    let [database, wal, _] = files(dir);
    // Cut before they are removed: a file that a process has open keeps its room otherwise. Not the third one: processes
    // have it mapped.
    for path in [database, wal] {
        match fs::OpenOptions::new().write(true).open(path) {
            Ok(file) => file.set_len(0)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    remove_files(dir)
}

/// Fails where the disk has no more room than the log needs.
pub(super) fn check(home: &Path) -> Result<(), IndexError> {
    let disk = rustix::fs::statvfs(home).map_err(io::Error::from)?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let all = disk.f_blocks.saturating_mul(disk.f_frsize);
    if free < LEAST_FREE.min(all / LEAST_FREE_PART) {
        return Err(IndexError::NoRoom {
            free_mb: free / (1024 * 1024),
        });
    }
    Ok(())
}
