//! Everything a gateway keeps, in the memory of one process.
//!
//! This room forbids files, databases and sockets: nothing of it outlives the process. It is for
//! embedders and tests, and the embedded backend takes its ledger from here. It is a crate and not a
//! module of `callgate-store` so that an embedder who wants nothing on disk builds no SQLite.

mod ledger;

pub use ledger::MemoryLedger;
