//! The file operations of the log's writer, behind a trait so that tests can make them fail.

use std::{
    fmt::Debug,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::Path,
    sync::Arc,
};

use crate::Durability;

/// Makes segment files and the small files beside them.
pub trait Disk: Send + Sync + Debug {
    /// Makes an empty segment at `path`; whatever stood there is gone.
    fn create(&self, path: &Path) -> io::Result<Box<dyn SegmentFile>>;

    /// Puts `bytes` at `path` so that a reader sees either the old or the new content; under
    /// `Power` after a power cut as well.
    fn replace(&self, path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()>;

    /// Makes the names in a folder survive a power cut.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
}

/// A segment that is being written.
pub trait SegmentFile: Send + Sync + Debug {
    /// Writes at `offset`; returns the number of bytes written, which can be less than all.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize>;

    /// Cuts the file at `length`, and gives back the space that was reserved beyond it.
    fn truncate(&self, length: u64) -> io::Result<()>;

    /// Reserves the space between two offsets without growing the file. `Unsupported` where the
    /// filesystem cannot.
    fn reserve(&self, from: u64, to: u64) -> io::Result<()>;

    /// Makes what was written survive a power cut.
    fn sync(&self) -> io::Result<()>;

    /// Whether the file still has a name; what is written to a deleted one is lost.
    // The default is for disks of tests.
    fn has_name(&self) -> bool {
        true
    }
}

/// Writes small files as durably as the log.
#[derive(Debug, Clone)]
pub(crate) struct SmallFiles {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) durability: Durability,
}

impl Default for SmallFiles {
    fn default() -> Self {
        Self {
            disk: Arc::new(RealDisk),
            durability: Durability::Process,
        }
    }
}

impl SmallFiles {
    pub(crate) fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.disk.replace(path, bytes, self.durability)
    }
}

/// The disk of this machine. What it makes is readable by its owner alone.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn SegmentFile>> {
        Ok(Box::new(RealSegment(
            private_file().truncate(true).open(path)?,
        )))
    }

    fn replace(&self, path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
        let new = path.with_extension("new");
        let mut file = private_file().truncate(true).open(&new)?;
        file.write_all(bytes)?;
        match durability {
            Durability::Process => {}
            Durability::Power => file.sync_data()?,
        }
        fs::rename(&new, path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

#[derive(Debug)]
struct RealSegment(File);

impl SegmentFile for RealSegment {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    #[cfg(target_os = "linux")]
    fn reserve(&self, from: u64, to: u64) -> io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        Ok(fallocate(
            &self.0,
            FallocateFlags::KEEP_SIZE,
            from,
            to - from,
        )?)
    }

    #[cfg(not(target_os = "linux"))]
    fn reserve(&self, _from: u64, _to: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn has_name(&self) -> bool {
        links(&self.0).is_ok_and(|links| links > 0)
    }
}

/// The number of a file's hard links.
// Only that: after a query for its times, the kernel stores a new, finer time with the next write, which makes every
// write more expensive.
#[cfg(target_os = "linux")]
fn links(file: &File) -> io::Result<u64> {
    use rustix::fs::{AtFlags, StatxFlags, statx};
    match statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::NLINK) {
        Ok(found) if StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::NLINK) => {
            Ok(found.stx_nlink.into())
        }
        // Some filesystems do not fill the field, and some sandboxes forbid `statx`.
        Ok(_) | Err(_) => Ok(file.metadata()?.nlink()),
    }
}

#[cfg(not(target_os = "linux"))]
fn links(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.nlink())
}

/// Options to open a file of the log for writing, readable by its owner alone.
pub(crate) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    options
}

/// Makes a file that appears with its whole content. An existing file stays: of two processes that make one at once,
/// both end up with the same.
// A hard link fails where the name exists; a rename would replace the other process's file.
pub(crate) fn create_once(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension(ulid::Ulid::generate().to_string());
    let made = private_file()
        .create_new(true)
        .open(&new)?
        .write_all(bytes)
        .and_then(|()| fs::hard_link(&new, path));
    fs::remove_file(&new)?;
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Makes a folder, and those above it, that only the owner can enter.
pub(crate) fn private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}
