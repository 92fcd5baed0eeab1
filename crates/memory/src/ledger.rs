//! The record's Ledger port over tables of this process.
//!
//! A restart forgets earlier calls, so that a rule that asks for one is not met; it also forgets counts
//! and spending, so that limits start from zero.

mod history;
mod paid;
mod rates;
mod spending;
mod usage;

use std::time::Instant;

use callgate_gate::{Digest, Owner, Prior, RateLimit};
use callgate_record::{Account, Counted, Ledger, LedgerFuture, Reservation, Usage};
use futures_util::future::{Either, ready};

use self::{history::History, paid::Paid, rates::Rates, spending::Spending, usage::Usages};

/// Counts of one process.
#[derive(Debug, Default)]
pub struct MemoryLedger {
    rates: Rates,
    history: History,
    spending: Spending,
    paid: Paid,
}

impl Ledger for MemoryLedger {
    fn count(&self, account: &Account, limits: Vec<RateLimit>) -> LedgerFuture<Counted> {
        let now = Instant::now();
        let (taken, used_up) = limits
            .into_iter()
            .partition(|limit| self.rates.take(limit, account, now));
        at_once(Counted { taken, used_up })
    }

    fn met(&self, account: &Account, mut priors: Vec<Prior>) -> LedgerFuture<Vec<Prior>> {
        let now = Instant::now();
        priors.retain(|prior| self.history.has(account, prior, now));
        at_once(priors)
    }

    fn note(&self, account: &Account, server: &str, tool: &str) -> LedgerFuture<()> {
        self.history.note(account, (server, tool), Instant::now());
        at_once(())
    }

    fn reserve(&self, owner: &Owner, amount: f64) -> LedgerFuture<Reservation> {
        at_once(self.spending.reserve(owner, amount, Instant::now()))
    }

    fn give_back(&self, reservation: Reservation) {
        self.spending.give_back(&reservation);
    }

    fn has_paid(&self) -> bool {
        !self.paid.is_empty()
    }

    fn paid(&self, call: Digest) -> LedgerFuture<Vec<RateLimit>> {
        at_once(self.paid.by(&call))
    }

    fn note_paid(&self, call: Digest, limits: Vec<RateLimit>) -> LedgerFuture<()> {
        self.paid.note(call, limits, Instant::now());
        at_once(())
    }

    fn settle_paid(&self, call: Digest) -> LedgerFuture<()> {
        self.paid.settle(&call);
        at_once(())
    }

    fn usage(&self) -> LedgerFuture<Vec<Usage>> {
        let now = Instant::now();
        let mut all = Usages::default();
        self.rates.report(now, &mut all);
        self.history.report(&mut all);
        self.spending.report(now, &mut all);
        at_once(all.sorted())
    }
}

fn at_once<T>(answer: T) -> LedgerFuture<T> {
    Either::Left(ready(Ok(answer)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A token of a tenant, asking for an agent.
    pub(super) fn account(tenant: &str, token: &str, agent: Option<&str>) -> Account {
        Account {
            owner: Owner {
                tenant: tenant.to_owned(),
                principal: token.to_owned(),
            },
            agent: agent.map(Into::into),
        }
    }
}
