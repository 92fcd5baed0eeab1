//! The file operations of the log's writer, behind a trait so that tests can make them fail.

use std::{
    fmt::Debug,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::Path,
    sync::Arc,
};

use callgate_process::kept_file;

use crate::Durability;

/// Makes the files and folders of the log. All of them are made here, so that a test sees every step that a power cut
/// can come between.
pub trait Disk: Send + Sync + Debug {
    /// Makes an empty segment at `path`; whatever stood there is gone.
    fn create(&self, path: &Path) -> io::Result<Box<dyn SegmentFile>>;

    /// Opens a segment to write on. `Unsupported` where that is not possible; a new one is made then.
    fn reopen(&self, _path: &Path) -> io::Result<Box<dyn SegmentFile>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Puts `bytes` at `path` so that a reader sees either the old or the new content; under
    /// `Power` after a power cut as well.
    fn replace(&self, path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()>;

    /// Makes the names in a folder survive a power cut.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;

    /// Makes a file that appears with its whole content and survives a power cut. An existing file stays.
    fn create_once(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        kept_file::create_once(path, bytes, &ulid::Ulid::generate().to_string())
    }

    /// Makes a folder, and those above it, that only the owner can enter.
    fn create_folder(&self, path: &Path, durability: Durability) -> io::Result<()> {
        kept_file::create_folder(path, durability.sync())
    }

    /// Renames a file or folder.
    fn rename(&self, from: &Path, to: &Path, durability: Durability) -> io::Result<()> {
        kept_file::rename(from, to, durability.sync())
    }

    /// Makes what another process wrote to a file survive a power cut.
    fn sync_file(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_data()
    }
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

/// The disk, and how durably files are written to it.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) durability: Durability,
}

impl Files {
    pub(crate) fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.disk.replace(path, bytes, self.durability)
    }

    pub(crate) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to, self.durability)
    }

    pub(crate) fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.disk.create_folder(path, self.durability)
    }

    /// Makes what another process wrote to a file survive a power cut, where that is promised.
    pub(crate) fn sync_file(&self, path: &Path) -> io::Result<()> {
        match self.durability {
            Durability::Process => Ok(()),
            Durability::Power => self.disk.sync_file(path),
        }
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

    fn reopen(&self, path: &Path) -> io::Result<Box<dyn SegmentFile>> {
        let file = OpenOptions::new().write(true).open(path)?;
        Ok(Box::new(RealSegment(file)))
    }

    fn replace(&self, path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
        kept_file::replace(path, bytes, durability.sync())
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        kept_file::sync_folder(path)
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

/// Makes a file once. One that a power cut has emptied is made again.
pub(crate) fn create_or_mend(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    if is_cut_file(path) {
        // Locked, so that no other process takes away what this one makes.
        let folder = File::open(path.parent().unwrap_or(Path::new(".")))?;
        folder.lock()?;
        if is_cut_file(path) {
            return disk.replace(path, bytes, Durability::Power);
        }
    }
    disk.create_once(path, bytes)
}

fn is_cut_file(path: &Path) -> bool {
    fs::read(path).is_ok_and(|content| kept_file::is_cut(&content))
}

/// Options to open a file of the log for writing, readable by its owner alone.
pub(crate) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    options
}
