//! Everything a gateway keeps, in the memory of one process.
//!
//! This room forbids files, databases and sockets: nothing of it outlives the process. It is for
//! embedders and tests, and the embedded backend takes its ledger from here. It is a crate and not a
//! module of `callgate-store` so that an embedder who wants nothing on disk builds no SQLite.
//!
//! - [`Memory`] is the backend. Everything that opens the same `Memory` sees the same state; a second
//!   gateway in the same process is a second writer.
//! - [`MemoryLedger`] counts rates, history and spending.
//!
//! Entries are folded into records as they come, and only the hash of each entry stays beside them:
//! a person is shown records, and nothing outside this process could change an entry in between.

mod approval_table;
mod archive;
mod backend;
mod journal;
mod ledger;
mod log;
mod tokens;

pub use backend::Memory;
pub use ledger::MemoryLedger;
