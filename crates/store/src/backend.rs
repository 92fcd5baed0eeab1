//! The embedded backend as a whole: one data folder.

use std::{path::PathBuf, sync::Arc};

use callgate_memory::MemoryLedger;
use callgate_record::{Backend, BackendError, SharedStores, Stores};

use crate::{ApprovalStore, Disk, Log, LogOptions, RealDisk, Records, TokenFile, disk::Files};

/// A data folder, and how its log is written. Several processes may open the same folder.
#[derive(Debug, Clone)]
pub struct Embedded {
    options: LogOptions,
    disk: Arc<dyn Disk>,
}

impl Embedded {
    /// A backend in the data folder that the options name.
    pub fn new(options: LogOptions) -> Self {
        Self::on(options, Arc::new(RealDisk))
    }

    /// The same on another disk, for tests that make it fail.
    pub fn on(options: LogOptions, disk: Arc<dyn Disk>) -> Self {
        Self { options, disk }
    }

    fn dir(&self) -> PathBuf {
        self.options.dir.clone()
    }
}

impl Backend for Embedded {
    fn open(&self) -> Result<Stores, BackendError> {
        let opened = Log::open_on(self.options.clone(), Arc::clone(&self.disk));
        let log = Arc::new(opened.map_err(|error| BackendError {
            reason: error.to_string(),
        })?);
        Ok(Stores {
            archive: Arc::new(Records::written_by(log.clone())),
            approvals: Arc::new(ApprovalStore::new(self.dir(), Some(log.writer()))),
            tokens: Arc::new(TokenFile::new(self.dir())),
            ledger: Arc::new(MemoryLedger::default()),
            log,
        })
    }

    fn shared(&self) -> Result<SharedStores, BackendError> {
        Ok(SharedStores {
            archive: Arc::new(Records::on(
                self.dir(),
                self.options.clock.clone(),
                Files {
                    disk: self.disk.clone(),
                    durability: self.options.durability,
                },
            )),
            approvals: Arc::new(ApprovalStore::new(self.dir(), None)),
            tokens: Arc::new(TokenFile::new(self.dir())),
        })
    }
}
