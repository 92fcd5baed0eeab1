//! What each token has spent in the last 24 hours, by what its hosts said that calls would cost. A new session is not a new
//! budget.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use callgate_gate::Owner;

use super::usage::Usages;

/// How long spending counts.
const COUNTS_FOR: Duration = Duration::from_secs(24 * 3600);
/// Spending is summed up over stretches of this length, and counts until the stretch is over.
const STRETCH: Duration = Duration::from_secs(3600);

/// The accounts of all tokens.
#[derive(Debug, Default)]
pub(super) struct Spending {
    accounts: Mutex<HashMap<Owner, Account>>,
}

/// What was spent since the beginning of each stretch, oldest first.
#[derive(Debug, Default)]
struct Account(VecDeque<(Instant, f64)>);

/// An amount that was set aside for a call before it was decided. Dropped, it is given back.
#[derive(Debug)]
pub(super) struct Reserved {
    /// What had been spent before.
    pub(super) before: f64,
    amount: f64,
    /// The stretch that it was booked in.
    since: Instant,
    owner: Owner,
    spending: Arc<Spending>,
}

impl Account {
    /// What counts now.
    fn spent(&mut self, now: Instant) -> f64 {
        let is_past = |(since, _): &(Instant, f64)| {
            now.saturating_duration_since(*since) >= COUNTS_FOR + STRETCH
        };
        while self.0.front().is_some_and(is_past) {
            self.0.pop_front();
        }
        self.0.iter().map(|(_, amount)| amount).sum()
    }

    /// Books an amount; the stretch that it is in.
    fn add(&mut self, amount: f64, now: Instant) -> Instant {
        match self.0.back_mut() {
            Some((since, booked)) if now.saturating_duration_since(*since) < STRETCH => {
                *booked += amount;
                *since
            }
            Some(_) | None => {
                self.0.push_back((now, amount));
                now
            }
        }
    }
}

impl Spending {
    /// Sets an amount aside. Calls that are decided at once see each other's.
    pub(super) fn reserve(
        spending: &Arc<Self>,
        owner: &Owner,
        amount: f64,
        now: Instant,
    ) -> Reserved {
        // A negative amount is refused by the policy; until then it counts as nothing.
        let amount = amount.max(0.0);
        let mut accounts = spending.lock();
        let (before, since) = match accounts.get_mut(owner) {
            None if amount <= 0.0 => (0.0, now),
            Some(account) if amount <= 0.0 => (account.spent(now), now),
            Some(account) => (account.spent(now), account.add(amount, now)),
            None => {
                let account = accounts.entry(owner.clone()).or_default();
                (0.0, account.add(amount, now))
            }
        };
        Reserved {
            before,
            amount,
            since,
            owner: owner.clone(),
            spending: spending.clone(),
        }
    }

    fn give_back(&self, reserved: &Reserved) {
        let mut accounts = self.lock();
        let account = accounts.get_mut(&reserved.owner);
        let stretch = account.and_then(|account| {
            let mut stretches = account.0.iter_mut();
            stretches.find(|(since, _)| *since == reserved.since)
        });
        if let Some((_, booked)) = stretch {
            *booked = (*booked - reserved.amount).max(0.0);
        }
    }

    /// Adds what each token has spent.
    pub(super) fn report(&self, now: Instant, all: &mut Usages) {
        for (owner, account) in self.lock().iter_mut() {
            all.of(owner).spent = account.spent(now);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Owner, Account>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reserved {
    /// The call happens: the amount is spent.
    pub(super) fn keep(mut self) {
        self.amount = 0.0;
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if self.amount > 0.0 {
            self.spending.give_back(self);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::counted;
    use super::*;

    #[test]
    fn what_is_not_kept_is_given_back() {
        let (spending, now) = (Arc::new(Spending::default()), Instant::now());
        let reserve = |token: &str, amount| {
            let owner = counted("local", token, None).owner;
            Spending::reserve(&spending, &owner, amount, now)
        };
        let first = reserve("a", 1.5);
        assert_eq!(first.before, 0.0);
        assert_eq!(reserve("a", 1.0).before, 1.5);
        first.keep();
        assert_eq!(reserve("a", 0.0).before, 1.5);
        assert_eq!(reserve("b", 0.0).before, 0.0);
        assert_eq!(reserve("a", -5.0).before, 1.5);
        assert_eq!(reserve("a", 0.0).before, 1.5);
    }

    #[test]
    fn spending_counts_for_a_day_and_takes_bounded_room() {
        let (spending, start) = (Arc::new(Spending::default()), Instant::now());
        let owner = counted("local", "a", None).owner;
        let hour = Duration::from_secs(3600);
        for n in 0..200 {
            Spending::reserve(&spending, &owner, 1.0, start + n * hour).keep();
        }
        let now = start + 199 * hour;
        assert_eq!(Spending::reserve(&spending, &owner, 0.0, now).before, 25.0);
        assert!(spending.lock()[&owner].0.len() <= 26);
        let later = now + 26 * hour;
        assert_eq!(Spending::reserve(&spending, &owner, 0.0, later).before, 0.0);
    }
}
