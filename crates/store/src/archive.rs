//! The record's Archive port, filled from the index of a data folder.

use std::{
    io::Write,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use callgate_gate::CallId;
use callgate_record::{Activity, ActivityFilter, Archive, ArchiveError, Format, Page, Summary};
use jiff::Timestamp;

use crate::{ExportError, Index, IndexError, export};

/// The records of a data folder. The index is opened when it is first asked, and kept.
#[derive(Debug)]
pub struct Records {
    dir: PathBuf,
    index: Mutex<Option<Index>>,
}

impl Records {
    /// Those of this data folder.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            index: Mutex::default(),
        }
    }

    /// Asks the index once it has all that is in the log.
    fn ask<T>(
        &self,
        ask: impl FnOnce(&mut Index) -> Result<T, IndexError>,
    ) -> Result<T, ArchiveError> {
        let mut kept = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let mut index = match kept.take() {
            Some(index) => index,
            None => Index::open(&self.dir).map_err(unreadable)?,
        };
        index.catch_up().map_err(unreadable)?;
        let answer = ask(&mut index).map_err(unreadable);
        *kept = Some(index);
        answer
    }
}

impl Archive for Records {
    fn page(&self, filter: &ActivityFilter) -> Result<Page, ArchiveError> {
        self.ask(|index| index.query(filter))
    }

    fn get(&self, id: CallId) -> Result<Option<Activity>, ArchiveError> {
        self.ask(|index| index.get(id))
    }

    fn export(
        &self,
        format: Format,
        filter: &ActivityFilter,
        out: &mut dyn Write,
    ) -> Result<u64, ArchiveError> {
        // A connection of its own: a slow reader keeps nobody else waiting.
        match export(&self.dir, format, filter, out) {
            Ok(count) => Ok(count),
            Err(ExportError::Index(error)) => Err(unreadable(error)),
            Err(ExportError::Unwritable(error)) => Err(error.into()),
        }
    }

    fn summary(&self, since: Timestamp, tenant: Option<&str>) -> Result<Summary, ArchiveError> {
        self.ask(|index| index.summary(since, tenant))
    }
}

fn unreadable(error: IndexError) -> ArchiveError {
    match error {
        IndexError::BadCursor { cursor } => ArchiveError::BadCursor { cursor },
        IndexError::Newer { .. }
        | IndexError::Version(_)
        | IndexError::Log(_)
        | IndexError::Database(_)
        | IndexError::Changed
        | IndexError::Differs
        | IndexError::Row(_) => ArchiveError::Unreadable {
            reason: error.to_string(),
        },
    }
}
