//! The log of one process: takes entries in order, and keeps a backlog of those that could not be written.
//!
//! One mutex orders all entries, with one `write` per entry under it. A call that finds another one writing
//! leaves its entry to that one. A thread of the log retries the backlog, and syncs once for all callers that
//! wait.

mod backlog;
mod call_step;
mod chain;
mod head_file;
mod keeper;
mod options;
mod queue;
mod spare;
mod syncing;

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

use callgate_process::kept_file::Sync;
use callgate_record::{
    Clock, DurabilityWait, Entry, Event, Head, Opened, Placing, Position, RecordType, Store,
    StoreError, Unknown, WriterId,
};
use futures_util::future::{Either, FutureExt, ready};
use tokio::sync::watch;
use ulid::Ulid;

use crate::{
    adopt::{self, DeadWriter},
    disk::{Disk, Files, RealDisk},
    folder::{self, Folder, Lock},
    index,
    key::Key,
    line,
    resume::{self, ChainEnd, Resumed},
    retain, version,
};
use call_step::CallStep;
use chain::{Chain, ChainOptions};
use head_file::HeadFile;
use keeper::Synced;
pub use options::{LogOptions, OpenError};
use queue::Queue;
use spare::Spare;

/// When what is written counts as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// When the kernel has it: it survives the death of this process, not a power cut.
    #[default]
    Process,
    /// When the device has it.
    Power,
}

impl Durability {
    pub(crate) fn sync(self) -> Sync {
        match self {
            Self::Process => Sync::Later,
            Self::Power => Sync::Now,
        }
    }
}

/// A log that this process writes. If it is dropped without [`Log::close`], it counts as crashed.
#[derive(Debug)]
pub struct Log {
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<()>>,
    /// The uptime when a log without a thread last named its head.
    named: Mutex<Duration>,
    dir: PathBuf,
    writer: WriterId,
    files: Files,
    clock: Arc<dyn Clock>,
    /// The uptime when retention last looked at the clock.
    looked: Mutex<Option<Duration>>,
    lock: Mutex<Lock>,
}

/// What the log and its thread share.
#[derive(Debug)]
struct Shared {
    chain: Mutex<Chain>,
    queue: Queue,
    /// Signals a backlog, a request for a sync, or the end of the log.
    work: Condvar,
    synced: watch::Sender<Synced>,
    durability: Durability,
    head_file: Arc<HeadFile>,
}

impl Log {
    /// Starts a writer in the data folder, and closes the open calls of dead writers.
    pub fn open(options: LogOptions) -> Result<Self, OpenError> {
        Self::open_on(options, Arc::new(RealDisk))
    }

    /// The same on another disk, for tests that make it fail.
    pub fn open_on(options: LogOptions, disk: Arc<dyn Disk>) -> Result<Self, OpenError> {
        let mut log = Self::open_stepped(options, disk)?;
        let started = keeper::start(Arc::clone(&log.shared), Arc::clone(&log.clock));
        let keeper = started.map_err(|source| OpenError::NoFolder {
            path: folder::log_path(&log.dir),
            source,
        })?;
        log.keeper = Some(keeper);
        Ok(log)
    }

    /// The same without a thread, for simulations: nothing is synced or tried again before [`Log::turn`].
    pub fn open_stepped(options: LogOptions, disk: Arc<dyn Disk>) -> Result<Self, OpenError> {
        let log = folder::log_path(&options.dir);
        let no_folder = |source| OpenError::NoFolder {
            path: log.clone(),
            source,
        };
        // Before anything is written: a folder of a newer version must not change.
        version::check(&log)?;
        index::check(&options.dir)?;
        let files = Files {
            disk,
            durability: options.durability,
        };
        files.create_folder(&log).map_err(no_folder)?;
        version::settle(&log, &*files.disk)?;
        let key = Key::load_or_create(&log, &*files.disk)?;
        folder::sweep_incomplete(&log).map_err(no_folder)?;
        let (folder, lock, end) = own_folder(&options, &key, &files).map_err(no_folder)?;
        let survey = adopt::survey(&log, folder.writer, &key, &files).map_err(no_folder)?;
        let head_file = Arc::new(HeadFile::new(folder.clone(), key.clone(), files.clone()));
        let mut chain = Chain::new(ChainOptions {
            folder: folder.clone(),
            head_file: Arc::clone(&head_file),
            files: files.clone(),
            clock: Arc::clone(&options.clock),
            key,
            segment_bytes: options.segment_bytes,
            head_every: options.head_every,
            spare: Spare::of(options.dir.clone()),
        });
        if let Some(end) = end {
            chain.resume(end);
        }
        let opened = Opened {
            pid: std::process::id(),
            version: options.version,
            heads: survey.heads,
            after: retain::newest_believed(&log),
        };
        if let Err(source) = first_entries(&mut chain, opened, &survey.dead) {
            if chain.is_empty() {
                // The chain has no entry, so nothing can name this writer.
                let _ = fs::remove_dir_all(&folder.path);
            }
            return Err(OpenError::Unwritable { path: log, source });
        }
        seal_all(&chain, &survey.dead);
        Ok(Self {
            shared: Arc::new(Shared::new(chain, head_file, options.durability)),
            keeper: None,
            named: Mutex::new(options.clock.uptime()),
            dir: options.dir,
            writer: folder.writer,
            files,
            clock: options.clock,
            looked: Mutex::default(),
            lock: Mutex::new(lock),
        })
    }

    /// Does what the thread of a log does when it wakes up: writes the backlog, syncs for those that wait, names the head.
    /// For a log without a thread.
    pub fn turn(&self) {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        keeper::turn(&self.shared, &*self.clock, &mut named);
    }

    /// The id of this process start.
    pub fn writer(&self) -> WriterId {
        self.writer
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The last entry of this writer's chain.
    pub fn head(&self) -> Head {
        self.chain().head()
    }

    /// The length of the backlog.
    pub fn backlog(&self) -> usize {
        self.chain().backlog_len()
    }

    /// How many bytes this writer's chain has.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.chain().bytes()
    }

    /// Ends the chain with a closing entry. The backlog must be written first; if it cannot be, the
    /// log stays open. Closing twice does nothing.
    pub fn close(&self) -> Result<(), StoreError> {
        let mut chain = self.chain();
        chain.close().map_err(|error| refused(&chain, &error))
    }

    /// Appends, and blocks until the entry is as durable as it should be.
    pub(crate) fn append_blocking(&self, entry: &Entry) -> Result<(), StoreError> {
        let position = self.append(entry)?;
        self.settled(position).now_or_never().unwrap_or_else(|| {
            let mut chain = self.chain();
            let synced = chain.sync_now();
            synced.map_err(|error| refused(&chain, &error))
        })
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    pub(crate) fn shared_clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    /// The uptime since this was asked before; none the first time.
    pub(crate) fn uptime_since_look(&self) -> Option<Duration> {
        let now = self.clock.uptime();
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let before = looked.replace(now)?;
        Some(now.saturating_sub(before))
    }

    fn chain(&self) -> MutexGuard<'_, Chain> {
        self.shared.lock()
    }
}

impl Store for Log {
    fn append(&self, entry: &Entry) -> Result<Position, StoreError> {
        // Serialized before the chain is locked, so that other calls do not wait for it.
        let body = line::body(entry);
        take_written(&mut self.chain(), CallStep::of(entry), body)
    }

    fn append_or_queue(&self, entry: Entry) -> Option<Position> {
        let body = line::body(&entry).map_err(io::Error::from);
        let position = self.chain().take_or_queue(entry, body).map(Position);
        self.shared.wake_if_queued(position);
        position
    }

    fn place(&self, entry: &Entry) -> Placing<Result<Position, StoreError>> {
        let (step, body) = (CallStep::of(entry), line::body(entry));
        let lost = || {
            Err(StoreError {
                reason: "the activity log failed while it wrote the entry".to_owned(),
            })
        };
        self.shared
            .place(move |chain| take_written(chain, step, body), lost)
    }

    fn place_or_queue(&self, entry: Entry) -> Placing<Option<Position>> {
        let body = line::body(&entry).map_err(io::Error::from);
        let shared = Arc::clone(&self.shared);
        let job = move |chain: &mut Chain| {
            let position = chain.take_or_queue(entry, body).map(Position);
            shared.wake_if_queued(position);
            position
        };
        self.shared.place(job, || None)
    }

    fn settled(&self, position: Position) -> DurabilityWait<'_> {
        match self.shared.durability {
            Durability::Process => Either::Left(ready(Ok(()))),
            Durability::Power => Either::Right(self.shared.settled(position).boxed()),
        }
    }
}

impl callgate_record::Log for Log {
    fn writer(&self) -> WriterId {
        self.writer()
    }

    fn head(&self) -> Head {
        self.head()
    }

    fn backlog(&self) -> usize {
        self.backlog()
    }

    fn close(&self) -> Result<(), StoreError> {
        self.close()
    }

    fn trouble(&self) -> Option<String> {
        let folder = Folder {
            writer: self.writer,
            path: self.chain().path().to_owned(),
        };
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        folder.retake(&mut lock)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.chain().stop();
        self.shared.work.notify_all();
        if let Some(keeper) = self.keeper.take() {
            // A panic of the thread was printed when it happened.
            let _ = keeper.join();
        }
    }
}

impl Shared {
    fn new(chain: Chain, head_file: Arc<HeadFile>, durability: Durability) -> Self {
        Self {
            chain: Mutex::new(chain),
            queue: Queue::default(),
            work: Condvar::new(),
            synced: watch::Sender::new(Synced::default()),
            durability,
            head_file,
        }
    }

    // Every method leaves the chain consistent, so a poisoned lock need not stop recording.
    fn lock(&self) -> MutexGuard<'_, Chain> {
        self.chain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the log's thread for an entry without a position: it is in the backlog.
    fn wake_if_queued(&self, position: Option<Position>) {
        if position.is_none() {
            self.work.notify_all();
        }
    }

    async fn settled(&self, position: Position) -> Result<(), StoreError> {
        let mut synced = self.synced.subscribe();
        self.lock().want_sync();
        self.work.notify_all();
        let state = synced.wait_for(|state| state.answers(position.0)).await;
        let state = state.map_err(|_| StoreError {
            reason: "the activity log was dropped before the entry was synced".to_owned(),
        })?;
        state
            .verdict(position.0)
            .map_err(|reason| StoreError { reason })
    }
}

/// The folder to write in, its lock, and the end of its chain if that is one to go on with.
fn own_folder(
    options: &LogOptions,
    key: &Key,
    files: &Files,
) -> io::Result<(Folder, Lock, Option<ChainEnd>)> {
    if options.resumes
        && let Some(Resumed { folder, lock, end }) = resume::find(&options.dir, key, files)
    {
        return Ok((folder, lock, Some(end)));
    }
    let (folder, lock) = Folder::create(&folder::log_path(&options.dir), files)?;
    Ok((folder, lock, None))
}

fn first_entries(chain: &mut Chain, opened: Opened, dead: &[DeadWriter]) -> io::Result<()> {
    // Before the first segment, so that `verify` can take a missing file for tampering.
    chain.replace_head_file()?;
    chain.take(&Entry::Opened(opened))?;
    for dead in dead {
        for id in &dead.open_calls {
            chain.take(&Entry::Unknown(Unknown {
                id: *id,
                of: dead.folder.writer,
            }))?;
        }
        if let Some(damage) = &dead.damage {
            crate::log::damaged(dead.folder.writer, damage);
            chain.take(&told("record.damaged", damage))?;
        }
        if let Some(cut) = &dead.cut {
            chain.take(&told("record.cut", cut))?;
        }
    }
    // First, so that the head names no entry that a power cut can still take.
    chain.sync_now()?;
    chain.replace_head_file()
}

/// Seals dead writers.
// Only after the entries that close their calls are synced: a crash in between repeats the closing.
fn seal_all(chain: &Chain, dead: &[DeadWriter]) {
    for dead in dead {
        if let Err(error) = chain.seal(dead) {
            crate::log::dead_writer_not_sealed(dead.folder.writer, &error);
        }
    }
}

/// An event about the log itself.
fn told(name: &str, reason: &str) -> Entry {
    Entry::Event(Event {
        id: callgate_gate::CallId(Ulid::generate()),
        record_type: RecordType::System,
        name: name.to_owned(),
        server: None,
        reason: Some(reason.to_owned()),
        principal: None,
        decision: None,
        approval_id: None,
        tenant: None,
    })
}

fn take_written(
    chain: &mut Chain,
    step: CallStep,
    body: Result<Vec<u8>, serde_json::Error>,
) -> Result<Position, StoreError> {
    body.map_err(io::Error::from)
        .and_then(|body| chain.take_written(step, &body))
        .map(Position)
        .map_err(|error| refused(chain, &error))
}

fn refused(chain: &Chain, error: &io::Error) -> StoreError {
    StoreError {
        reason: format!("`{}`: {error}", chain.path().display()),
    }
}
