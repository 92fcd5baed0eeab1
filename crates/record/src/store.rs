//! The ports of a log: storing entries, and ending a writer's chain.

use futures_util::future::{BoxFuture, Either, Ready, ready};

use crate::{Entry, Head, WriterId};

/// An entry's number in its writer's chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(pub u64);

/// Why an entry could not be stored. The message is for the operator.
#[derive(Debug, thiserror::Error)]
#[error("could not write the activity log: {reason}")]
pub struct StoreError {
    /// The path or place, and the system's error.
    pub reason: String,
}

/// The result of writing an entry: ready at once, or a future of the thread that writes it.
// Not always a boxed future: the uncontended write is the common case and needs no allocation.
pub type Placing<T> = Either<Ready<T>, BoxFuture<'static, T>>;

/// A wait for durability, which is often over already.
pub type DurabilityWait<'a> =
    Either<Ready<Result<(), StoreError>>, BoxFuture<'a, Result<(), StoreError>>>;

/// Stores entries in order, and never loses one that it took.
pub trait Store: Send + Sync + std::fmt::Debug {
    /// Takes an entry about something that has not happened yet. After `Ok` the entry survives a crash of this
    /// process; after `Err` nothing of it remains, and the thing must not happen.
    // Refused while the backlog cannot be written: an entry must not overtake an older one.
    fn append(&self, entry: &Entry) -> Result<Position, StoreError>;

    /// Takes an entry about something that has happened already. It cannot be refused: an entry that cannot be written
    /// now joins the backlog, which is written before any new entry is taken. No position means that it is there.
    fn append_or_queue(&self, entry: Entry) -> Option<Position>;

    /// [`Store::append`] for async callers. The entry is taken even when the future is dropped.
    // A host can disconnect at any time, which drops the future; the record must not depend on that.
    fn place(&self, entry: &Entry) -> Placing<Result<Position, StoreError>> {
        Either::Left(ready(self.append(entry)))
    }

    /// [`Store::append_or_queue`] for async callers.
    fn place_or_queue(&self, entry: Entry) -> Placing<Option<Position>> {
        Either::Left(ready(self.append_or_queue(entry)))
    }

    /// Waits until everything up to `position` is as durable as the configuration asks.
    fn settled(&self, position: Position) -> DurabilityWait<'_>;
}

/// The chain that one process writes. A log that is dropped without [`Log::close`] counts as crashed: the next writer
/// closes its open calls as `unknown`.
pub trait Log: Store {
    /// The id of this process start.
    fn writer(&self) -> WriterId;

    /// The last entry of this writer's chain.
    fn head(&self) -> Head;

    /// The length of the backlog: entries in memory that could not be written.
    fn backlog(&self) -> usize;

    /// Ends the chain with a closing entry. The backlog must be written first; if it cannot be, the log stays open.
    /// Closing twice does nothing. Blocks.
    fn close(&self) -> Result<(), StoreError>;

    /// What is wrong with the place of the log, if anything is.
    fn trouble(&self) -> Option<String> {
        None
    }
}
