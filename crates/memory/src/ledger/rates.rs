//! How often each token has called, for the limits of a policy: exactly, in any stretch of time.
//!
//! There is one count for each token and limit, so tokens and the policy bound the table, and no client can fill it.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use callgate_gate::{Owner, RateLimit};
use callgate_record::{Account, RateUsage};

use super::usage::Usages;

/// A table of this size is swept of counts that have run out before it grows.
const SWEPT_AT: usize = 1024;

/// The calls that count against limits.
#[derive(Debug)]
pub(super) struct Rates {
    counts: Mutex<Counts>,
}

#[derive(Debug)]
struct Counts {
    table: HashMap<(RateLimit, Owner), Calls>,
    /// The size at which the table is swept next.
    sweep_at: usize,
}

/// The calls of one token, oldest first, with the agents that questions named.
type Calls = VecDeque<(Instant, Option<Arc<str>>)>;

impl Default for Rates {
    fn default() -> Self {
        let table = HashMap::new();
        let sweep_at = SWEPT_AT;
        Self {
            counts: Mutex::new(Counts { table, sweep_at }),
        }
    }
}

impl Rates {
    /// Counts a call, where the limit has room for it.
    pub(super) fn take(&self, limit: &RateLimit, account: &Account, now: Instant) -> bool {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.table.len() >= counts.sweep_at {
            // Counts of earlier policies and of tokens that rest.
            counts.table.retain(|(limit, _), calls| {
                forget_expired(limit, calls, now);
                !calls.is_empty()
            });
            counts.sweep_at = SWEPT_AT.max(2 * counts.table.len());
        }
        let key = (limit.clone(), account.owner.clone());
        let calls = counts.table.entry(key).or_default();
        forget_expired(limit, calls, now);
        let has_room = u64::try_from(calls.len()).is_ok_and(|count| count < limit.max_requests);
        if has_room {
            calls.push_back((now, account.agent.clone()));
        }
        has_room
    }

    /// Adds how much of each limit is used.
    pub(super) fn report(&self, now: Instant, all: &mut Usages) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for ((limit, owner), calls) in &mut counts.table {
            forget_expired(limit, calls, now);
            let mut agents = BTreeMap::new();
            for agent in calls.iter().filter_map(|(_, agent)| agent.as_deref()) {
                *agents.entry(agent.to_owned()).or_default() += 1;
            }
            all.of(owner).rates.push(RateUsage {
                scope: limit.scope.clone(),
                used: calls.len(),
                max_requests: limit.max_requests,
                window_seconds: limit.window.as_secs(),
                agents,
            });
        }
    }
}

fn forget_expired(limit: &RateLimit, calls: &mut Calls, now: Instant) {
    let is_past = |(at, _): &(Instant, _)| now.saturating_duration_since(*at) >= limit.window;
    while calls.front().is_some_and(is_past) {
        calls.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::tests::account;
    use super::*;

    fn limit(max_requests: u64) -> RateLimit {
        RateLimit {
            scope: "mcp_tool".into(),
            max_requests,
            window: Duration::from_secs(60),
        }
    }

    #[test]
    fn no_time_window_exceeds_the_rate_limit() {
        let (rates, start) = (Rates::default(), Instant::now());
        let take = |token, seconds| {
            let at = start + Duration::from_secs(seconds);
            rates.take(&limit(3), &account("local", token, None), at)
        };
        assert!(take("a", 0) && take("a", 30) && take("a", 59));
        assert!(!take("a", 59));
        assert!(take("b", 59));
        assert!(take("a", 60));
        assert!(!take("a", 61));
        assert!(take("a", 90));
    }

    #[test]
    fn agents_share_the_rate_limit_of_their_token() {
        let (rates, now) = (Rates::default(), Instant::now());
        let take = |agent| rates.take(&limit(3), &account("local", "gateway", agent), now);
        assert!(take(Some("x")) && take(Some("y")) && take(None));
        assert!(!take(Some("z")) && !take(Some("x")));
        assert!(rates.take(&limit(3), &account("acme", "gateway", Some("x")), now));
        let mut all = Usages::default();
        rates.report(now, &mut all);
        let of = &all.sorted()[1].rates[0];
        assert_eq!((of.used, of.max_requests), (3, 3));
        assert_eq!(
            of.agents,
            BTreeMap::from([("x".to_owned(), 1), ("y".to_owned(), 1)])
        );
    }

    #[test]
    fn a_full_rate_table_refuses_no_token() {
        let (rates, start) = (Rates::default(), Instant::now());
        for n in 0..3 * SWEPT_AT {
            assert!(rates.take(&limit(1), &account("local", &format!("t{n}"), None), start));
        }
        let later = start + Duration::from_secs(60);
        for n in 0..2 * SWEPT_AT {
            assert!(rates.take(&limit(1), &account("acme", &format!("t{n}"), None), later));
        }
        let counts = rates.counts.lock().unwrap();
        assert!(
            counts.table.len() <= 2 * SWEPT_AT,
            "expired counts are gone"
        );
    }
}
