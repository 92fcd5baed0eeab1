//! The disk of one simulated process: it refuses, writes short or torn, fills up, and dies with the process.
//!
//! The files are real ones, on a file system in memory where there is one: the log reads them by their paths.

use std::{
    io,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use callgate_store::{Disk, Durability, SegmentFile};

use super::{life::Life, random::Random};

/// How many of a million operations the process does not survive.
const DEADLY: u64 = 400;

/// What all processes of a simulation share.
#[derive(Debug)]
pub(super) struct Weather {
    random: Mutex<Random>,
    /// How many of a thousand operations fail.
    per_mille: AtomicU64,
    is_full: AtomicBool,
    /// Whether every sync fails.
    syncs_fail: AtomicBool,
    /// Whether a sync has failed.
    has_failed_sync: AtomicBool,
    /// Whether a process can die in the middle of an operation.
    is_deadly: AtomicBool,
    /// Whether only writes and syncs fail: a power cut is simulated from what the disk noted of the rest.
    only_content: bool,
}

impl Weather {
    pub(super) fn new(random: Random, only_content: bool) -> Arc<Self> {
        Arc::new(Self {
            random: Mutex::new(random),
            per_mille: AtomicU64::new(0),
            is_full: AtomicBool::new(false),
            syncs_fail: AtomicBool::new(false),
            has_failed_sync: AtomicBool::new(false),
            is_deadly: AtomicBool::new(true),
            only_content,
        })
    }

    pub(super) fn fail(&self, per_mille: u64) {
        self.per_mille.store(per_mille, Ordering::SeqCst);
    }

    pub(super) fn fill(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::SeqCst);
    }

    /// From now on no process dies by itself.
    pub(super) fn spare(&self) {
        self.is_deadly.store(false, Ordering::SeqCst);
    }

    pub(super) fn fail_syncs(&self, fail: bool) {
        self.syncs_fail.store(fail, Ordering::SeqCst);
    }

    pub(super) fn has_failed_sync(&self) -> bool {
        self.has_failed_sync.load(Ordering::SeqCst)
    }

    pub(super) fn is_clear(&self) -> bool {
        self.per_mille.load(Ordering::SeqCst) == 0 && !self.syncs_fail.load(Ordering::SeqCst)
    }

    fn is_full(&self) -> bool {
        self.is_full.load(Ordering::SeqCst)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Write,
    Sync,
    Truncate,
    Reserve,
    Name,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Refuse,
    Short,
    Torn,
    /// The process dies after half of it.
    Deadly,
}

#[derive(Debug)]
pub(super) struct SimDisk {
    inner: Arc<dyn Disk>,
    state: Arc<DiskState>,
}

#[derive(Debug)]
struct DiskState {
    weather: Arc<Weather>,
    life: Arc<Life>,
}

impl SimDisk {
    /// The disk of a process with this life.
    pub(super) fn new(inner: Arc<dyn Disk>, weather: &Arc<Weather>, life: Arc<Life>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            state: Arc::new(DiskState {
                weather: Arc::clone(weather),
                life,
            }),
        })
    }
}

impl DiskState {
    fn fault(&self, operation: Operation) -> io::Result<Option<Fault>> {
        if self.life.is_over() {
            return Err(dead());
        }
        let weather = &self.weather;
        let is_deadly = weather.is_deadly.load(Ordering::SeqCst);
        if is_deadly && weather.random.lock().unwrap().below(1_000_000) < DEADLY {
            self.life.end();
            return Ok(Some(Fault::Deadly));
        }
        if operation == Operation::Sync && weather.syncs_fail.load(Ordering::SeqCst) {
            return Ok(Some(Fault::Refuse));
        }
        let may_fail =
            !weather.only_content || matches!(operation, Operation::Write | Operation::Sync);
        let per_mille = weather.per_mille.load(Ordering::SeqCst);
        if !may_fail || per_mille == 0 {
            return Ok(None);
        }
        let mut random = weather.random.lock().unwrap();
        let fault = random
            .happens(per_mille)
            .then(|| *random.pick(&[Fault::Refuse, Fault::Short, Fault::Torn]));
        Ok(fault)
    }

    /// Whether an operation that makes or names files goes through.
    fn check(&self, operation: Operation) -> io::Result<()> {
        match self.fault(operation)? {
            None if operation == Operation::Name && self.weather.is_full() => Err(full()),
            None => Ok(()),
            Some(Fault::Deadly) => Err(dead()),
            Some(Fault::Refuse | Fault::Short | Fault::Torn) => {
                let is_sync = operation == Operation::Sync;
                self.weather
                    .has_failed_sync
                    .fetch_or(is_sync, Ordering::SeqCst);
                Err(io::Error::other("the disk fails"))
            }
        }
    }
}

fn dead() -> io::Error {
    io::Error::other("the process is dead")
}

fn full() -> io::Error {
    io::ErrorKind::StorageFull.into()
}

impl Disk for SimDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn SegmentFile>> {
        self.state.check(Operation::Name)?;
        Ok(Box::new(SimFile {
            file: self.inner.create(path)?,
            state: Arc::clone(&self.state),
            reserved: AtomicU64::new(0),
        }))
    }

    fn replace(&self, path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
        self.state.check(Operation::Name)?;
        self.inner.replace(path, bytes, durability)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.state.check(Operation::Sync)?;
        self.inner.sync_folder(path)
    }

    fn create_once(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.state.check(Operation::Name)?;
        self.inner.create_once(path, bytes)
    }

    fn create_folder(&self, path: &Path, durability: Durability) -> io::Result<()> {
        self.state.check(Operation::Name)?;
        self.inner.create_folder(path, durability)
    }

    fn rename(&self, from: &Path, to: &Path, durability: Durability) -> io::Result<()> {
        self.state.check(Operation::Name)?;
        self.inner.rename(from, to, durability)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.state.check(Operation::Sync)?;
        self.inner.sync_file(path)
    }
}

#[derive(Debug)]
struct SimFile {
    file: Box<dyn SegmentFile>,
    state: Arc<DiskState>,
    reserved: AtomicU64,
}

impl SegmentFile for SimFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let fault = self.state.fault(Operation::Write)?;
        let end = offset + bytes.len() as u64;
        if self.state.weather.is_full() && end > self.reserved.load(Ordering::SeqCst) {
            return Err(full());
        }
        let half = &bytes[..bytes.len() / 2];
        match fault {
            None => self.file.write_at(offset, bytes),
            Some(Fault::Refuse) => Err(io::Error::other("the disk fails")),
            Some(Fault::Short) => self.file.write_at(offset, half),
            Some(Fault::Torn) => {
                self.file.write_at(offset, half)?;
                Err(io::Error::other("torn"))
            }
            Some(Fault::Deadly) => {
                self.file.write_at(offset, half)?;
                Err(dead())
            }
        }
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.state.check(Operation::Truncate)?;
        self.reserved.store(length, Ordering::SeqCst);
        self.file.truncate(length)
    }

    fn reserve(&self, _from: u64, to: u64) -> io::Result<()> {
        self.state.check(Operation::Reserve)?;
        if self.state.weather.is_full() {
            return Err(full());
        }
        self.reserved.fetch_max(to, Ordering::SeqCst);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.state.check(Operation::Sync)?;
        self.file.sync()
    }

    fn has_name(&self) -> bool {
        self.file.has_name()
    }
}
