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
    thread,
};

use callgate_store::{Disk, Durability, SegmentFile};

use super::random::Random;

/// The name of the log's own thread.
const KEEPER: &str = "record";

/// What all processes of a simulation share.
#[derive(Debug)]
pub(super) struct Weather {
    random: Mutex<Random>,
    /// How many of a thousand operations fail.
    per_mille: AtomicU64,
    is_full: AtomicBool,
    /// Whether syncs of the log's own thread fail.
    syncs_fail: AtomicBool,
    /// Whether a sync has failed.
    has_failed_sync: AtomicBool,
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
            only_content,
        })
    }

    pub(super) fn fail(&self, per_mille: u64) {
        self.per_mille.store(per_mille, Ordering::SeqCst);
    }

    pub(super) fn fill(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::SeqCst);
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
}

#[derive(Debug)]
pub(super) struct SimDisk {
    inner: Arc<dyn Disk>,
    state: Arc<DiskState>,
}

#[derive(Debug)]
struct DiskState {
    weather: Arc<Weather>,
    is_dead: AtomicBool,
    /// Operations of the log's own thread.
    by_keeper: AtomicU64,
}

impl SimDisk {
    pub(super) fn new(inner: Arc<dyn Disk>, weather: &Arc<Weather>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            state: Arc::new(DiskState {
                weather: Arc::clone(weather),
                is_dead: AtomicBool::new(false),
                by_keeper: AtomicU64::new(0),
            }),
        })
    }

    /// The process is killed: nothing reaches the disk any more.
    pub(super) fn kill(&self) {
        self.state.is_dead.store(true, Ordering::SeqCst);
    }

    pub(super) fn by_keeper(&self) -> u64 {
        self.state.by_keeper.load(Ordering::SeqCst)
    }
}

impl DiskState {
    fn fault(&self, operation: Operation) -> io::Result<Option<Fault>> {
        if self.is_dead.load(Ordering::SeqCst) {
            return Err(io::Error::other("the process is dead"));
        }
        if thread::current().name() == Some(KEEPER) {
            return self.fault_of_keeper(operation);
        }
        let weather = &self.weather;
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

    /// When this thread comes is chance that no seed repeats. So all that it tries for the backlog fails, which leaves
    /// everything as it is however often it tries; the next entry writes the backlog. Of its syncs, the test waits for each.
    fn fault_of_keeper(&self, operation: Operation) -> io::Result<Option<Fault>> {
        self.by_keeper.fetch_add(1, Ordering::SeqCst);
        match operation {
            Operation::Sync if self.weather.syncs_fail.load(Ordering::SeqCst) => {
                Ok(Some(Fault::Refuse))
            }
            Operation::Sync | Operation::Truncate => Ok(None),
            Operation::Write | Operation::Reserve | Operation::Name => Ok(Some(Fault::Refuse)),
        }
    }

    /// Whether an operation that makes or names files goes through.
    fn check(&self, operation: Operation) -> io::Result<()> {
        match self.fault(operation)? {
            None if operation == Operation::Name && self.weather.is_full() => Err(full()),
            None => Ok(()),
            Some(_) => {
                let is_sync = operation == Operation::Sync;
                self.weather
                    .has_failed_sync
                    .fetch_or(is_sync, Ordering::SeqCst);
                Err(io::Error::other("the disk fails"))
            }
        }
    }
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
