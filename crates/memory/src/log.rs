//! The log of one gateway. Writes cannot fail, so there is never a backlog.

use callgate_record::{DurabilityWait, Entry, Head, Log, Position, Store, StoreError, WriterId};
use futures_util::future::{Either, ready};

use crate::backend::Shared;

/// One writer. If it is dropped without closing, it counts as crashed.
#[derive(Debug)]
pub(crate) struct MemoryLog {
    journal: Shared,
    writer: WriterId,
}

impl MemoryLog {
    /// Begins a writer, and closes what dead writers left open.
    pub(crate) fn begin(journal: Shared) -> Self {
        let writer = journal.lock().begin();
        Self { journal, writer }
    }

    pub(crate) fn id(&self) -> WriterId {
        self.writer
    }
}

impl Store for MemoryLog {
    fn append(&self, entry: &Entry) -> Result<Position, StoreError> {
        let appended = self.journal.lock().append(self.writer, entry);
        appended.map(Position).ok_or_else(|| StoreError {
            reason: "the activity log is closed".to_owned(),
        })
    }

    fn append_or_queue(&self, entry: Entry) -> Option<Position> {
        let appended = self.journal.lock().append(self.writer, &entry);
        appended.map(Position)
    }

    fn settled(&self, _position: Position) -> DurabilityWait<'_> {
        Either::Left(ready(Ok(())))
    }
}

impl Log for MemoryLog {
    fn writer(&self) -> WriterId {
        self.writer
    }

    fn head(&self) -> Head {
        self.journal.lock().head(self.writer)
    }

    fn backlog(&self) -> usize {
        0
    }

    fn close(&self) -> Result<(), StoreError> {
        self.journal.lock().close(self.writer);
        Ok(())
    }
}

impl Drop for MemoryLog {
    fn drop(&mut self) {
        self.journal.lock().died(self.writer);
    }
}
