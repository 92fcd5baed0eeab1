//! The record's Archive port over the log and the index of a data folder.

use std::{
    io::Write,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use callgate_gate::CallId;
use callgate_record::{
    Activity, ActivityFilter, Archive, ArchiveError, CatchUp, Caveats, Clock, ClockTrust, DiskUse,
    Format, Head, KeyedHead, Page, Restored, Retained, RetentionLimits, Summary, SystemClock,
    TellProgress, Verification,
};
use jiff::Timestamp;

use crate::{
    Durability, ExportError, Index, IndexError, Log, RealDisk, compare_index,
    disk::Files,
    export, heads, index,
    retain::{self, retain},
    verify,
};

/// The records of a data folder. The index is opened by the first query, and stays open.
#[derive(Debug)]
pub struct Records {
    dir: PathBuf,
    /// The chain that checkpoints are written to.
    log: Option<Arc<Log>>,
    clock: Arc<dyn Clock>,
    files: Files,
    index: Mutex<Option<Index>>,
    looked: Mutex<Option<Looked>>,
    /// Who is told how far the index is.
    progress: OnceLock<TellProgress>,
}

/// What there was when retention looked.
#[derive(Debug, Clone, Copy)]
struct Looked {
    used: DiskUse,
    /// Bytes that this process had written.
    written: u64,
}

impl Records {
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        let files = Files {
            disk: Arc::new(RealDisk),
            durability: Durability::Process,
        };
        Self::on(dir, Arc::new(SystemClock), files)
    }

    /// The same with another clock, and with other files for what retention keeps.
    pub(crate) fn on(dir: impl Into<PathBuf>, clock: Arc<dyn Clock>, files: Files) -> Self {
        Self {
            dir: dir.into(),
            log: None,
            clock,
            files,
            index: Mutex::default(),
            looked: Mutex::default(),
            progress: OnceLock::new(),
        }
    }

    /// Those of the data folder that `log` writes to; old ones can be dropped.
    pub fn written_by(log: Arc<Log>) -> Self {
        Self {
            log: Some(log.clone()),
            ..Self::on(log.dir(), log.shared_clock(), log.files().clone())
        }
    }

    fn opened_index(&self) -> MutexGuard<'_, Option<Index>> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the index once it has all that is in the log.
    fn ask<T>(
        &self,
        ask: impl FnOnce(&mut Index) -> Result<T, IndexError>,
    ) -> Result<T, ArchiveError> {
        // Taken out and put back at the end: after an error the index is opened again.
        let mut kept = self.opened_index();
        let mut index = match kept.take() {
            Some(index) => index,
            None => {
                let mut index = Index::open(&self.dir).map_err(unreadable)?;
                index.tell_progress(self.progress.get().cloned());
                index
            }
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
        // A connection of its own: a slow reader does not block other queries.
        let progress = self.progress.get().cloned();
        match export(&self.dir, progress, format, filter, out) {
            Ok(count) => Ok(count),
            Err(ExportError::Index(error)) => Err(unreadable(error)),
            Err(ExportError::Unwritable(error)) => Err(error.into()),
        }
    }

    fn summary(&self, since: Timestamp, tenant: Option<&str>) -> Result<Summary, ArchiveError> {
        self.ask(|index| index.summary(since, tenant))
    }

    fn verify(&self, exported: Option<&[Head]>) -> Result<Verification, ArchiveError> {
        let found = verify(&self.dir, exported).map_err(|error| ArchiveError::Unreadable {
            reason: error.to_string(),
        })?;
        let compared = compare_index(&self.dir);
        let (differed, not_compared) = match compared {
            Ok(differed) => (differed, None),
            // The index is not evidence.
            Err(error @ IndexError::NoRoom { .. }) => (None, Some(error.to_string())),
            Err(error) => return Err(unreadable(error)),
        };
        let mut verification = Verification {
            writers: found.writers,
            entries: found.entries,
            problems: found.problems.iter().map(ToString::to_string).collect(),
            index_differed: differed
                .map(|what| format!("index.sqlite differed from the activity log: {what}")),
            notes: Vec::new(),
        };
        verification.note_extent(&found.dropped);
        verification.notes.extend(not_compared);
        Ok(verification)
    }

    fn heads(&self) -> Result<Vec<KeyedHead>, ArchiveError> {
        heads(&self.dir).map_err(|error| ArchiveError::Unreadable {
            reason: error.to_string(),
        })
    }

    fn retain(&self, limits: RetentionLimits) -> Result<Retained, ArchiveError> {
        let not_dropped = |reason: String| ArchiveError::NotDropped { reason };
        let log = self.log.as_ref().ok_or_else(|| {
            not_dropped("a process without a log of its own cannot drop old records".to_owned())
        })?;
        let retained = retain(log, limits).map_err(|error| not_dropped(error.to_string()))?;
        *self.looked.lock().unwrap_or_else(PoisonError::into_inner) = Some(Looked {
            used: self.disk_use()?,
            written: log.written_bytes(),
        });
        Ok(retained)
    }

    fn wants_room(&self, limits: RetentionLimits) -> bool {
        let looked = *self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(log), Some(looked)) = (&self.log, looked) else {
            return false;
        };
        let index = index::bytes(&self.dir);
        let grown = log.written_bytes().saturating_sub(looked.written);
        let grown_in_all = grown + index.saturating_sub(looked.used.index);
        let total = looked.used.log + looked.used.trash + grown + index;
        let budget = retain::Budget::of(limits);
        grown_in_all > budget.step && total > budget.high
    }

    fn disk_use(&self) -> Result<DiskUse, ArchiveError> {
        retain::disk_use(&self.dir).map_err(|error| ArchiveError::Unreadable {
            reason: error.to_string(),
        })
    }

    fn restore(&self) -> Result<Restored, ArchiveError> {
        retain::restore(&self.dir, self.clock.now(), &self.files).map_err(|error| {
            ArchiveError::NotDropped {
                reason: error.to_string(),
            }
        })
    }

    fn clock(&self) -> Result<Option<ClockTrust>, ArchiveError> {
        Ok(retain::clock(&self.dir))
    }

    fn confirm_clock(&self) -> Result<(), ArchiveError> {
        retain::confirm_clock(&self.dir, self.clock.now(), &self.files).map_err(|error| {
            ArchiveError::NotDropped {
                reason: error.to_string(),
            }
        })
    }

    // A connection of its own: queries are answered meanwhile.
    fn catch_up(&self, make_way: &dyn Fn() -> bool) -> Result<CatchUp, ArchiveError> {
        let mut index = Index::open(&self.dir).map_err(unreadable)?;
        let is_complete = match index.catch_up_until(make_way) {
            Ok(done) => !done.stopped,
            // The rebuild must be reported even though filling failed afterwards.
            Err(error) if index.was_rebuilt() => {
                crate::log::rebuilt_index_not_filled(&error);
                false
            }
            Err(error) => return Err(unreadable(error)),
        };
        Ok(CatchUp {
            is_complete,
            was_rebuilt: index.was_rebuilt(),
        })
    }

    fn tell_progress(&self, tell: TellProgress) {
        // One caller: the command that waits.
        let _ = self.progress.set(tell);
    }

    fn caveats(&self) -> Result<Caveats, ArchiveError> {
        self.ask(|index| {
            Ok(Caveats {
                index_rebuilt: index.was_rebuilt(),
                damaged_entries: index.damaged()?,
            })
        })
    }
}

fn unreadable(error: IndexError) -> ArchiveError {
    match error {
        IndexError::BadCursor { cursor } => ArchiveError::BadCursor { cursor },
        IndexError::Newer { .. }
        | IndexError::Version(_)
        | IndexError::Log(_)
        | IndexError::NoRoom { .. }
        | IndexError::Database(_)
        | IndexError::Changed
        | IndexError::Differs
        | IndexError::Row(_) => ArchiveError::Unreadable {
            reason: error.to_string(),
        },
    }
}
