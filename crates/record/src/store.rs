//! The port that a store fills: what the record asks of whoever keeps it.

use futures_util::future::{BoxFuture, Either, Ready, ready};

use crate::{Entry, Head, WriterId};

/// Where an entry stands in its writer's chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(pub u64);

/// Why an entry could not be kept. The message is for the operator.
#[derive(Debug, thiserror::Error)]
#[error("the record cannot be written: {reason}")]
pub struct StoreError {
    /// What went wrong, with the place and the system's own words.
    pub reason: String,
}

/// What comes of an entry: known at once, or told by whoever writes it.
pub type Placing<T> = Either<Ready<T>, BoxFuture<'static, T>>;

/// The end of a wait, which is often there already.
pub type Settling<'a> =
    Either<Ready<Result<(), StoreError>>, BoxFuture<'a, Result<(), StoreError>>>;

/// Keeps entries in order, and never loses one that it took.
pub trait Store: Send + Sync + std::fmt::Debug {
    /// Takes an entry for something that has not happened yet. After `Ok` the entry survives the
    /// death of this process; after `Err` nothing of it remains and the thing must not happen.
    /// It is also refused while an owed entry could not be written.
    fn append(&self, entry: &Entry) -> Result<Position, StoreError>;

    /// Takes an entry for something that has happened already. It cannot be refused: what
    /// cannot be written now is kept, and written before anything else is taken.
    fn append_owed(&self, entry: Entry) -> Option<Position>;

    /// [`Store::append`] for those who can wait without keeping a thread. The entry is taken whether what is
    /// returned is waited for or not.
    fn place(&self, entry: &Entry) -> Placing<Result<Position, StoreError>> {
        Either::Left(ready(self.append(entry)))
    }

    /// [`Store::append_owed`] for those who can wait without keeping a thread.
    fn place_owed(&self, entry: Entry) -> Placing<Option<Position>> {
        Either::Left(ready(self.append_owed(entry)))
    }

    /// Waits until everything up to `position` is as durable as the configuration asks.
    fn settled(&self, position: Position) -> Settling<'_>;
}

/// The chain that one process writes. A log that is dropped without [`Log::close`] counts as died: the
/// next writer closes its open calls as `unknown`.
pub trait Log: Store {
    /// The id of this process start.
    fn writer(&self) -> WriterId;

    /// Where this writer's chain stands.
    fn head(&self) -> Head;

    /// How many entries wait in memory because they could not be written.
    fn owed(&self) -> usize;

    /// Ends the chain in good order. What is owed must be written first; if it cannot be, the log stays
    /// open. Closing twice does nothing. Blocks.
    fn close(&self) -> Result<(), StoreError>;
}
