//! The backend as a whole.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use callgate_record::{Backend, BackendError, Clock, SharedStores, Stores, SystemClock, WriterId};

use crate::{
    MemoryLedger, approval_table::MemoryApprovals, archive::MemoryArchive, journal::Journal,
    log::MemoryLog, tokens::MemoryTokens,
};

/// The state of one or several gateways of this process. Clones are the same state.
#[derive(Debug, Clone)]
pub struct Memory {
    journal: Shared,
    approvals: MemoryApprovals,
    tokens: Arc<MemoryTokens>,
    ledger: Arc<MemoryLedger>,
}

/// The journal, as the log, the archive and the approvals share it.
#[derive(Debug, Clone)]
pub(crate) struct Shared(Arc<Mutex<Journal>>);

impl Shared {
    /// A journal is left whole by every method of it, so a panic elsewhere does not spoil it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Journal> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    /// An empty one. Fails only where the operating system's random number generator does.
    pub fn new() -> Result<Self, BackendError> {
        Self::with_clock(Arc::new(SystemClock))
    }

    /// The same with another clock, for tests.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Result<Self, BackendError> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|error| BackendError {
            reason: format!("the operating system's random number generator failed: {error}"),
        })?;
        let journal = Shared(Arc::new(Mutex::new(Journal::new(key, clock))));
        Ok(Self {
            approvals: MemoryApprovals::new(journal.clone()),
            journal,
            tokens: Arc::default(),
            ledger: Arc::default(),
        })
    }

    fn archive(&self, writer: Option<WriterId>) -> Arc<MemoryArchive> {
        Arc::new(MemoryArchive::new(self.journal.clone(), writer))
    }
}

impl Backend for Memory {
    fn open(&self) -> Result<Stores, BackendError> {
        let log = MemoryLog::begin(self.journal.clone());
        let writer = Some(log.id());
        Ok(Stores {
            archive: self.archive(writer),
            approvals: Arc::new(self.approvals.of(writer)),
            tokens: self.tokens.clone(),
            ledger: self.ledger.clone(),
            log: Arc::new(log),
        })
    }

    fn shared(&self) -> Result<SharedStores, BackendError> {
        Ok(SharedStores {
            archive: self.archive(None),
            approvals: Arc::new(self.approvals.of(None)),
            tokens: self.tokens.clone(),
        })
    }
}
