//! How often each agent has called, for the limits of a policy: exactly, in any stretch of time.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
    time::Instant,
};

use callgate_gate::{RateLimit, Who};

/// So many agents and scopes are counted at once. Beyond that the limit counts as used up.
const MAX_COUNTED: usize = 10_000;

type Key = (RateLimit, String, String);

/// The calls that count against limits.
#[derive(Debug, Default)]
pub(super) struct Rates {
    counted: Mutex<HashMap<Key, VecDeque<Instant>>>,
}

impl Rates {
    /// Counts a call, where the limit has room for it.
    pub(super) fn take(&self, limit: &RateLimit, who: &Who, now: Instant) -> bool {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (limit.clone(), who.tenant.clone(), who.agent.clone());
        if counted.len() >= MAX_COUNTED && !counted.contains_key(&key) {
            counted.retain(|(limit, ..), calls| {
                calls
                    .back()
                    .is_some_and(|last| now.saturating_duration_since(*last) < limit.window)
            });
            if counted.len() >= MAX_COUNTED {
                return false;
            }
        }
        let calls = counted.entry(key).or_default();
        while calls
            .front()
            .is_some_and(|first| now.saturating_duration_since(*first) >= limit.window)
        {
            calls.pop_front();
        }
        let has_room = u64::try_from(calls.len()).is_ok_and(|count| count < limit.max_requests);
        if has_room {
            calls.push_back(now);
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn no_stretch_of_time_has_more_than_the_limit() {
        let who = |agent: &str| Who {
            tenant: "local".into(),
            principal: "p".into(),
            agent: agent.into(),
            session: "s".into(),
            grant: callgate_gate::Grant::default(),
        };
        let limit = RateLimit {
            scope: "mcp_tool".into(),
            max_requests: 3,
            window: Duration::from_secs(60),
        };
        let (rates, start) = (Rates::default(), Instant::now());
        let take =
            |agent, seconds| rates.take(&limit, &who(agent), start + Duration::from_secs(seconds));
        assert!(take("a", 0) && take("a", 30) && take("a", 59));
        assert!(!take("a", 59));
        assert!(take("b", 59));
        assert!(take("a", 60));
        assert!(!take("a", 61));
        assert!(take("a", 90));
    }
}
