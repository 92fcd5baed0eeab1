//! What each session has spent, by what its host said that calls would cost.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// So many sessions are kept account of. A further one counts as having spent everything.
const MAX_SESSIONS: usize = 100_000;
/// A session that has been still for so long may be forgotten, when there are too many.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(24 * 3600);

/// The accounts of all sessions.
#[derive(Debug, Default)]
pub(super) struct Spending {
    sessions: Mutex<HashMap<String, Account>>,
}

#[derive(Debug)]
struct Account {
    spent: f64,
    last: Instant,
}

/// An amount that was set aside for a call before it was decided. Dropped, it is given back.
#[derive(Debug)]
pub(super) struct Reserved {
    /// What had been spent before.
    pub(super) before: f64,
    amount: f64,
    session: String,
    spending: Arc<Spending>,
}

impl Spending {
    /// Sets an amount aside. Calls that are decided at once see each other's.
    pub(super) fn reserve(
        spending: &Arc<Self>,
        session: &str,
        amount: f64,
        now: Instant,
    ) -> Reserved {
        // A negative amount is refused by the policy; until then it counts as nothing.
        let amount = amount.max(0.0);
        let before = spending.add(session, amount, now);
        Reserved {
            before,
            amount,
            session: session.to_owned(),
            spending: spending.clone(),
        }
    }

    /// Adds to an account and says what was on it before.
    fn add(&self, session: &str, amount: f64, now: Instant) -> f64 {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(account) = sessions.get_mut(session) {
            let before = account.spent;
            account.spent = (before + amount).max(0.0);
            account.last = now;
            return before;
        }
        if amount <= 0.0 {
            return 0.0;
        }
        if sessions.len() >= MAX_SESSIONS {
            let is_recent =
                |account: &Account| now.saturating_duration_since(account.last) < FORGOTTEN_AFTER;
            sessions.retain(|_, account| is_recent(account));
            if sessions.len() >= MAX_SESSIONS {
                return f64::INFINITY;
            }
        }
        let account = Account {
            spent: amount,
            last: now,
        };
        sessions.insert(session.to_owned(), account);
        0.0
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
            self.spending
                .add(&self.session, -self.amount, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_kept_is_given_back() {
        let (spending, now) = (Arc::new(Spending::default()), Instant::now());
        let reserve = |session: &str, amount| Spending::reserve(&spending, session, amount, now);
        let first = reserve("a", 1.5);
        assert_eq!(first.before, 0.0);
        assert_eq!(reserve("a", 1.0).before, 1.5);
        first.keep();
        assert_eq!(reserve("a", 0.0).before, 1.5);
        assert_eq!(reserve("b", 0.0).before, 0.0);
        assert_eq!(reserve("a", -5.0).before, 1.5);
        assert_eq!(reserve("a", 0.0).before, 1.5);
    }
}
