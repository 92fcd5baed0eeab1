//! What each token has spent in the last 24 hours, by what its hosts said that calls would cost. A new session is not a new
//! budget.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use callgate_gate::Owner;
use callgate_record::Reservation;

use super::usage::Usages;

/// How long spending counts.
const COUNTS_FOR: Duration = Duration::from_secs(24 * 3600);
/// Spending is summed up over stretches of this length, and counts until the stretch is over.
const STRETCH: Duration = Duration::from_secs(3600);

/// The bookings of all tokens.
#[derive(Debug, Default)]
pub(super) struct Spending {
    books: Mutex<HashMap<Owner, Bookings>>,
}

/// What one token spent in each stretch, oldest first.
#[derive(Debug, Default)]
struct Bookings {
    stretches: VecDeque<Stretch>,
    /// The number of the newest stretch.
    newest: u64,
}

#[derive(Debug)]
struct Stretch {
    number: u64,
    since: Instant,
    booked: f64,
}

impl Bookings {
    fn spent(&mut self, now: Instant) -> f64 {
        let is_past = |stretch: &Stretch| {
            now.saturating_duration_since(stretch.since) >= COUNTS_FOR + STRETCH
        };
        while self.stretches.front().is_some_and(is_past) {
            self.stretches.pop_front();
        }
        self.stretches.iter().map(|stretch| stretch.booked).sum()
    }

    /// Books an amount; returns the number of its stretch.
    fn add(&mut self, amount: f64, now: Instant) -> u64 {
        match self.stretches.back_mut() {
            Some(last) if now.saturating_duration_since(last.since) < STRETCH => {
                last.booked += amount;
                last.number
            }
            Some(_) | None => {
                self.newest += 1;
                self.stretches.push_back(Stretch {
                    number: self.newest,
                    since: now,
                    booked: amount,
                });
                self.newest
            }
        }
    }
}

impl Spending {
    /// Sets an amount aside. Calls that are decided at once see each other's.
    pub(super) fn reserve(&self, owner: &Owner, amount: f64, now: Instant) -> Reservation {
        // A negative amount is refused by the policy; until then it counts as nothing.
        let amount = amount.max(0.0);
        let mut books = self.lock();
        let (before, booking) = match books.get_mut(owner) {
            None if amount <= 0.0 => (0.0, 0),
            Some(bookings) if amount <= 0.0 => (bookings.spent(now), 0),
            Some(bookings) => (bookings.spent(now), bookings.add(amount, now)),
            None => {
                let bookings = books.entry(owner.clone()).or_default();
                (0.0, bookings.add(amount, now))
            }
        };
        Reservation {
            owner: owner.clone(),
            before,
            amount,
            booking,
        }
    }

    /// Frees what was set aside.
    pub(super) fn give_back(&self, reservation: &Reservation) {
        let mut books = self.lock();
        let bookings = books.get_mut(&reservation.owner);
        let stretch = bookings.and_then(|bookings| {
            let mut stretches = bookings.stretches.iter_mut();
            stretches.find(|stretch| stretch.number == reservation.booking)
        });
        if let Some(stretch) = stretch {
            stretch.booked = (stretch.booked - reservation.amount).max(0.0);
        }
    }

    /// Adds what each token has spent.
    pub(super) fn report(&self, now: Instant, all: &mut Usages) {
        for (owner, bookings) in self.lock().iter_mut() {
            all.of(owner).spent = bookings.spent(now);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Owner, Bookings>> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::account;
    use super::*;

    #[test]
    fn released_spending_is_available_again() {
        let (spending, now) = (Spending::default(), Instant::now());
        let reserve = |token: &str, amount| {
            spending.reserve(&account("local", token, None).owner, amount, now)
        };
        assert_eq!(reserve("a", 1.5).before, 0.0);
        let second = reserve("a", 1.0);
        assert_eq!(second.before, 1.5);
        spending.give_back(&second);
        assert_eq!(reserve("a", 0.0).before, 1.5);
        assert_eq!(reserve("b", 0.0).before, 0.0);
        assert_eq!(reserve("a", -5.0).before, 1.5);
        assert_eq!(reserve("a", 0.0).before, 1.5);
    }

    #[test]
    fn spending_counts_for_a_day_in_bounded_memory() {
        let (spending, start) = (Spending::default(), Instant::now());
        let owner = account("local", "a", None).owner;
        let hour = Duration::from_secs(3600);
        for n in 0..200 {
            spending.reserve(&owner, 1.0, start + n * hour);
        }
        let now = start + 199 * hour;
        assert_eq!(spending.reserve(&owner, 0.0, now).before, 25.0);
        assert!(spending.lock()[&owner].stretches.len() <= 26);
        let later = now + 26 * hour;
        assert_eq!(spending.reserve(&owner, 0.0, later).before, 0.0);
    }
}
