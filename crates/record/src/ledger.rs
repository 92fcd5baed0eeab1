//! What tokens have done and spent, as far as policies limit it, and the port of the backend that counts.
//!
//! A ledger has a clock of its own, so no method takes a time: several gateways on one ledger must agree.
//! An error never allows more: a caller treats it as a limit that is used up, an earlier call that did not happen,
//! and a budget that is spent.

use std::{collections::BTreeMap, sync::Arc};

use callgate_gate::{Digest, Owner, Prior, RateLimit};
use serde::{Deserialize, Serialize};

use crate::Placing;

/// Whom a call counts for: its token, and in a question of another gateway the agent that the question
/// names. Agents are counted apart below their token and share its limits, because their names are the
/// asker's word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The tenant and the token.
    pub owner: Owner,
    /// The agent that a question named.
    pub agent: Option<Arc<str>>,
}

/// What became of a request that was counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted {
    /// The limits that it now counts against.
    pub taken: Vec<RateLimit>,
    /// The limits that had no room for it; it does not count against these.
    pub used_up: Vec<RateLimit>,
}

/// An amount that is set aside for a call until the call is made or given up.
#[derive(Debug, Clone, PartialEq)]
pub struct Reservation {
    /// The account that pays.
    pub owner: Owner,
    /// What it had spent in the last 24 hours, other reservations included.
    pub before: f64,
    pub amount: f64,
    /// The ledger's id of the booking.
    pub booking: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    pub tenant: String,
    /// The token's name, or the local user.
    pub token: String,
    /// Its rates, one for each limit that it has used.
    pub rates: Vec<RateUsage>,
    /// How many of its allowed calls are remembered for rules that ask for earlier calls.
    pub history: usize,
    /// The declared cost of its calls in the last 24 hours.
    pub spent: f64,
}

/// How much of a rate limit is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateUsage {
    /// The policy scope of the limit.
    pub scope: String,
    /// The calls that count now.
    pub used: usize,
    /// How many there may be.
    pub max_requests: u64,
    /// In how many seconds.
    pub window_seconds: u64,
    /// The agents that questions named, with their parts of `used`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub agents: BTreeMap<String, usize>,
}

/// Why something could not be counted. The message is for the operator.
#[derive(Debug, thiserror::Error)]
#[error("ledger unavailable: {reason}")]
pub struct LedgerError {
    pub reason: String,
}

/// What a ledger answers: at once where the tables are in this process, else as a future.
pub type LedgerFuture<T> = Placing<Result<T, LedgerError>>;

/// Counts for the limits of policies. Everything belongs to an [`Owner`]: a tenant that fills its tables
/// makes the ledger forget entries of that tenant and of no other.
pub trait Ledger: Send + Sync + std::fmt::Debug {
    /// Counts one request against each limit that has room for it. Exact under races: in any stretch of
    /// a limit's window at most `max_requests` requests of an owner were taken.
    fn count(&self, account: &Account, limits: Vec<RateLimit>) -> LedgerFuture<Counted>;

    /// Which of these earlier calls were allowed in time.
    fn met(&self, account: &Account, priors: Vec<Prior>) -> LedgerFuture<Vec<Prior>>;

    /// Remembers an allowed call for [`Ledger::met`].
    fn note(&self, account: &Account, server: &str, tool: &str) -> LedgerFuture<()>;

    /// Sets an amount aside. Calls that are decided at the same time see each other's; a negative amount
    /// counts as nothing.
    fn reserve(&self, owner: &Owner, amount: f64) -> LedgerFuture<Reservation>;

    /// The call did not happen: the amount is free again. A backend that cannot do this at once does it
    /// later, or lets the booking lapse with its day.
    fn give_back(&self, reservation: Reservation);

    /// Whether any held call may have paid; `false` spares callers the work of naming their call.
    // The default never skips a payment; it only costs lookups.
    fn has_paid(&self) -> bool {
        true
    }

    /// The limits that a held call was counted against when it asked.
    fn paid(&self, call: Digest) -> LedgerFuture<Vec<RateLimit>>;

    /// A held call was counted against these limits, and is not counted again once it is approved.
    fn note_paid(&self, call: Digest, limits: Vec<RateLimit>) -> LedgerFuture<()>;

    /// The held call runs: the next one like it pays again.
    fn settle_paid(&self, call: Digest) -> LedgerFuture<()>;

    /// What each token has used, by tenant and token.
    fn usage(&self) -> LedgerFuture<Vec<Usage>>;
}
