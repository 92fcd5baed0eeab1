//! The bundle of ports that a gateway keeps its state behind, and how a backend opens it.
//!
//! | port | what it keeps | how it answers |
//! |---|---|---|
//! | [`Log`] | entries, in order | [`crate::Store::place`] and [`crate::Store::settled`]: at once, or as a future |
//! | [`Archive`] | answers about entries | blocks; callers are on a blocking thread |
//! | [`Approvals`] | held calls and decisions | blocks; callers are on a blocking thread |
//! | [`Tokens`] | digests of tokens | reads at once, changes block |
//! | [`Ledger`] | rates, history, spending | at once, or as a future |
//!
//! Three kinds of state are not in the bundle, because no second backend could keep them yet:
//!
//! - Sessions and parked calls are tasks and sockets of one process, and what a host carries between the
//!   rounds of a call is sealed and brought by the host. What several gateways behind one address need is
//!   a directory: which gateway holds a session or a parked call.
//! - Pins are `callgate.lock`, a file that people review and merge in version control; gate's port `PinStore` is in front
//!   of it, and the file belongs to the configuration.
//! - The definitions that servers listed last are a cache of one machine; a lost one costs a slow list.

use std::sync::Arc;

use crate::{Approvals, Archive, Ledger, Log, Tokens};

/// The state of one gateway process.
#[derive(Debug, Clone)]
pub struct Stores {
    /// The chain that this process writes.
    pub log: Arc<dyn Log>,
    /// What all processes have on record.
    pub archive: Arc<dyn Archive>,
    /// Held calls. Claims are made in the name of `log`.
    pub approvals: Arc<dyn Approvals>,
    /// Tokens besides the two of the configuration.
    pub tokens: Arc<dyn Tokens>,
    /// Counts for the limits of policies.
    pub ledger: Arc<dyn Ledger>,
}

/// The part for commands that make no calls: without a log of their own, so that reading the record
/// leaves no trace in it. [`Archive::retain`] needs a log and fails here.
#[derive(Debug, Clone)]
pub struct SharedStores {
    /// What all processes have on record.
    pub archive: Arc<dyn Archive>,
    pub approvals: Arc<dyn Approvals>,
    /// Tokens besides the two of the configuration.
    pub tokens: Arc<dyn Tokens>,
}

/// Why a backend cannot be opened. The message is for the operator.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct BackendError {
    /// The path or place, and the system's error.
    pub reason: String,
}

/// One place where state is kept: a folder, a database, the memory of this process. It can be opened
/// several times, by several processes where the place allows it, and all see the same state.
pub trait Backend: Send + Sync + std::fmt::Debug {
    /// Begins a writer, which also closes the calls that dead writers left open. Blocks.
    fn open(&self) -> Result<Stores, BackendError>;

    /// Opens what needs no writer. Blocks.
    fn shared(&self) -> Result<SharedStores, BackendError>;
}
