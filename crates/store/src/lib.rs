//! The embedded backend: append-only files, and a SQLite index of them. [`Embedded`] opens all of it.
//!
//! A data folder holds one log for many processes. Each process start is a writer with a folder
//! of its own, a lock that it holds while it lives, and a hash chain over numbered segments. A command that writes a few
//! entries goes on with the chain of one that has ended.
//!
//! ```text
//! activity/version            the format of the log, 1; a newer one is left alone
//! activity/key                32 random bytes that make keyed heads; 0600
//! activity/retain.lock        locked while segments are dropped, shared while all are read
//! activity/clock              how far retention believes the clock
//! activity/trash/<when>/      what age has dropped, for a day
//! activity/<writer>/lock      locked while the writer lives
//! activity/<writer>/000001.jsonl entries, one JSON line each
//! activity/<writer>/summary   what a start needs of a long chain: where it stood, and its open calls
//! activity/<writer>/head      the newest keyed head, so that a cut tail is found
//! activity/<writer>/sealed    the last head, once a later writer has closed a dead one's calls
//! index.sqlite                columns to search, and positions in the log; it can always be rebuilt from the log
//! index.seal                  the state of the index after filling, authenticated with the key
//! approvals.sqlite            questions and decisions about held calls; not a copy
//! tokens.json                 digests of tokens, and their roles and limits
//! ```
//!
//! - [`Log`] writes. [`Log::open`] also closes the open calls of dead writers.
//! - [`verify`] checks chains, heads and codes; [`heads`] gives the heads to keep elsewhere.
//! - [`Index`] is filled behind the log and answers queries; [`export`] streams it; [`Records`] fills the
//!   record's Archive port with both.
//! - [`ApprovalStore`] keeps approvals, and [`TokenFile`] tokens.
//! - Rates, history and spending are counted in this process ([`callgate_memory::MemoryLedger`]).
//! - [`retain`] drops old segments behind a checkpoint.
//!
//! A line can be checked with standard tools: the hash is over the line without its first
//! 75 bytes, `tail -n 1 000001.jsonl | cut -c76- | tr -d '\n' | sha256sum`.
//!
//! This room decides nothing about calls and redacts nothing: it stores the entries that it gets.

mod adopt;
mod approval_database;
mod archive;
mod backend;
mod disk;
mod export;
mod folder;
mod index;
mod key;
mod line;
mod log;
mod problem;
mod read;
mod resume;
mod retain;
mod segment;
mod summary;
mod tokens;
mod verify;
mod version;
mod writer;

pub use approval_database::ApprovalStore;
pub use archive::Records;
pub use backend::Embedded;
pub use disk::{Disk, RealDisk, SegmentFile};
pub use export::{ExportError, export};
pub use index::{CaughtUp, Index, IndexError, compare_index};
pub use key::KeyError;
pub use line::LineError;
pub use problem::{LogVerification, NamedBy, Problem};
pub use read::{ReadError, heads};
pub use retain::{RetainError, retain};
pub use segment::MAX_END_BYTES;
pub use tokens::TokenFile;
pub use verify::verify;
pub use version::VersionError;
pub use writer::{Durability, Log, LogOptions, OpenError};
