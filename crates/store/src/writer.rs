//! The log of one process: takes entries in order, keeps what it took, and owes what it must.
//!
//! One mutex orders everything, and under it there is one `write` per entry. A call that finds another one
//! writing leaves its entry to it. A thread of the log writes what is owed as soon as that is possible
//! again, and syncs for all who wait at once.

mod backlog;
mod chain;
mod keeper;
mod queue;
mod syncing;

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
};

use callgate_record::{
    Entry, Event, Head, Opened, Placing, Position, RecordType, Settling, Store, StoreError,
    Unknown, WriterId,
};
use futures_util::future::{Either, FutureExt, ready};
use tokio::sync::watch;
use ulid::Ulid;

use crate::{
    adopt::{self, Dead},
    disk::{Disk, RealDisk, private_folder},
    folder::{self, Folder, Lock},
    index::{self, IndexError},
    key::{Key, KeyError},
    line,
    version::{self, VersionError},
};
use chain::{Chain, ChainOptions, Step};
use keeper::Synced;
use queue::Queue;

/// When an entry counts as kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// When the kernel has it: it survives the death of this process, not a power cut.
    #[default]
    Process,
    /// When the device has it.
    Power,
}

/// How a log is written.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// The data folder.
    pub dir: PathBuf,
    /// When an entry counts as kept.
    pub durability: Durability,
    /// How large a segment may grow before the next one begins.
    pub segment_bytes: u64,
    /// How many entries there are between two keyed heads.
    pub head_every: u64,
    /// The version of the binary, for the opening entry.
    pub version: String,
}

impl LogOptions {
    /// The defaults for a log in `dir`.
    pub fn new(dir: impl Into<PathBuf>, version: impl Into<String>) -> Self {
        Self {
            dir: dir.into(),
            durability: Durability::Process,
            segment_bytes: 16 * 1024 * 1024,
            head_every: 1000,
            version: version.into(),
        }
    }
}

/// Why a log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The log is of a form that this version does not know.
    #[error(transparent)]
    Version(#[from] VersionError),
    /// The index is of a form that this version does not know.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The folder cannot be made or entered.
    #[error("the log in `{path}` cannot be set up: {source}")]
    NoFolder {
        /// The log's folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The key cannot be used.
    #[error(transparent)]
    NoKey(#[from] KeyError),
    /// The first entries cannot be written.
    #[error("the log in `{path}` cannot be written: {source}")]
    Unwritable {
        /// The log's folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A log that this process writes. Without [`Log::close`] it counts as died when it is dropped.
#[derive(Debug)]
pub struct Log {
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<()>>,
    dir: PathBuf,
    writer: WriterId,
    _lock: Lock,
}

/// What the log and its thread share.
#[derive(Debug)]
struct Shared {
    chain: Mutex<Chain>,
    queue: Queue,
    /// Told when something is owed, somebody waits for a sync, or the log is dropped.
    work: Condvar,
    synced: watch::Sender<Synced>,
    durability: Durability,
}

impl Log {
    /// Begins a writer in the data folder, and closes what dead writers left open.
    pub fn open(options: LogOptions) -> Result<Self, OpenError> {
        Self::open_on(options, Arc::new(RealDisk))
    }

    /// The same on another disk, for tests that make it fail.
    pub fn open_on(options: LogOptions, disk: Arc<dyn Disk>) -> Result<Self, OpenError> {
        let log = folder::log_path(&options.dir);
        let no_folder = |source| OpenError::NoFolder {
            path: log.clone(),
            source,
        };
        // Before anything is written: what belongs to a newer version is left as it is.
        version::check(&log)?;
        index::check(&options.dir)?;
        private_folder(&log).map_err(no_folder)?;
        version::settle(&log)?;
        let key = Key::load_or_create(&log)?;
        folder::sweep_unborn(&log).map_err(no_folder)?;
        let (folder, lock) = Folder::create(&log).map_err(no_folder)?;
        let survey = adopt::survey(&log, folder.writer).map_err(no_folder)?;
        let mut chain = Chain::new(ChainOptions {
            folder: folder.clone(),
            disk,
            key,
            segment_bytes: options.segment_bytes,
            head_every: options.head_every,
            durability: options.durability,
        });
        if let Err(source) = first_entries(&mut chain, &options.version, survey.heads, &survey.dead)
        {
            if chain.is_empty() {
                // Nothing was said in this writer's name, so nothing need be kept of it.
                let _ = fs::remove_dir_all(&folder.path);
            }
            return Err(OpenError::Unwritable { path: log, source });
        }
        for dead in &survey.dead {
            if let Err(error) = chain.seal(dead) {
                crate::log::dead_writer_not_sealed(dead.folder.writer, &error);
            }
        }
        let shared = Arc::new(Shared {
            chain: Mutex::new(chain),
            queue: Queue::default(),
            work: Condvar::new(),
            synced: watch::Sender::new(Synced::default()),
            durability: options.durability,
        });
        let keeper = keeper::start(Arc::clone(&shared)).map_err(no_folder)?;
        Ok(Self {
            shared,
            keeper: Some(keeper),
            dir: options.dir,
            writer: folder.writer,
            _lock: lock,
        })
    }

    /// The id of this process start.
    pub fn writer(&self) -> WriterId {
        self.writer
    }

    /// The data folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where this writer's chain stands.
    pub fn head(&self) -> Head {
        self.chain().head()
    }

    /// How many entries are kept in memory because they could not be written.
    pub fn owed(&self) -> usize {
        self.chain().owed()
    }

    /// Ends the chain in good order. What is owed must be written first; if it cannot be, the
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

    fn chain(&self) -> MutexGuard<'_, Chain> {
        self.shared.lock()
    }
}

impl Store for Log {
    fn append(&self, entry: &Entry) -> Result<Position, StoreError> {
        // Made before the chain is locked, so that others need not wait for it.
        let body = line::body(entry);
        take_written(&mut self.chain(), Step::of(entry), body)
    }

    fn append_owed(&self, entry: Entry) -> Option<Position> {
        let body = line::body(&entry).map_err(io::Error::from);
        let position = self.chain().take_owed(entry, body).map(Position);
        self.shared.tell_if_owed(position);
        position
    }

    fn place(&self, entry: &Entry) -> Placing<Result<Position, StoreError>> {
        let (step, body) = (Step::of(entry), line::body(entry));
        let lost = || {
            Err(StoreError {
                reason: "the entry was lost".to_owned(),
            })
        };
        self.shared
            .place(move |chain| take_written(chain, step, body), lost)
    }

    fn place_owed(&self, entry: Entry) -> Placing<Option<Position>> {
        let body = line::body(&entry).map_err(io::Error::from);
        let shared = Arc::clone(&self.shared);
        let job = move |chain: &mut Chain| {
            let position = chain.take_owed(entry, body).map(Position);
            shared.tell_if_owed(position);
            position
        };
        self.shared.place(job, || None)
    }

    fn settled(&self, position: Position) -> Settling<'_> {
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

    fn owed(&self) -> usize {
        self.owed()
    }

    fn close(&self) -> Result<(), StoreError> {
        self.close()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.chain().stop();
        self.shared.work.notify_all();
        if let Some(keeper) = self.keeper.take() {
            // The thread ends on its own; that it panicked was printed where it happened.
            let _ = keeper.join();
        }
    }
}

impl Shared {
    /// A chain is left whole by every function of it, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, Chain> {
        self.chain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An entry without a position is owed, and the log's thread has work.
    fn tell_if_owed(&self, position: Option<Position>) {
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
            reason: "the log was dropped".to_owned(),
        })?;
        state
            .verdict(position.0)
            .map_err(|reason| StoreError { reason })
    }
}

fn first_entries(
    chain: &mut Chain,
    version: &str,
    heads: Vec<Head>,
    dead: &[Dead],
) -> io::Result<()> {
    let opened = Opened {
        pid: std::process::id(),
        version: version.to_owned(),
        heads,
    };
    // The file is there before the first segment is: that it is missing later is never innocent.
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
            chain.take(&Entry::Event(Event {
                id: callgate_gate::CallId(Ulid::generate()),
                record_type: RecordType::System,
                name: "record.damaged".to_owned(),
                server: None,
                reason: Some(damage.clone()),
                principal: None,
                decision: None,
                approval_id: None,
                tenant: None,
            }))?;
        }
    }
    chain.replace_head_file()?;
    chain.sync_now()
}

fn take_written(
    chain: &mut Chain,
    step: Step,
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
