//! Which tools each token has been allowed to call, and when last.
//!
//! A full table forgets the oldest calls of the token that fills it, then of the token that has most in the same tenant.
//! A rule that asks for a forgotten call is not met.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use callgate_gate::{Owner, Prior};
use callgate_record::Account;

use super::usage::Usages;

/// How many calls are remembered for each token, and for each tenant.
const PER_TOKEN: usize = 10_000;
const PER_TENANT: usize = 100_000;
/// Calls of longer names are not remembered: questions of other gateways can name anything.
const MAX_NAME_BYTES: usize = 512;

/// Server and tool.
type Name = (String, String);

/// The allowed calls of all tokens, as far as rules can ask for them.
#[derive(Debug, Default)]
pub(super) struct History {
    tenants: Mutex<HashMap<String, Tenant>>,
}

/// The calls of one tenant's tokens.
#[derive(Debug, Default)]
struct Tenant {
    tokens: HashMap<String, Calls>,
    count: usize,
}

/// The calls of one token, by the agent that questions named.
#[derive(Debug, Default)]
struct Calls {
    agents: HashMap<Option<Arc<str>>, HashMap<Name, Instant>>,
    count: usize,
}

impl Calls {
    /// Forgets the older half; how many that were.
    fn forget_older_half(&mut self) -> usize {
        let mut times: Vec<Instant> = self
            .agents
            .values()
            .flat_map(HashMap::values)
            .copied()
            .collect();
        let middle = times.len() / 2;
        let (_, cut, _) = times.select_nth_unstable(middle);
        let cut = *cut;
        for calls in self.agents.values_mut() {
            calls.retain(|_, at| *at > cut);
        }
        self.agents.retain(|_, calls| !calls.is_empty());
        let left = self.agents.values().map(HashMap::len).sum();
        let forgotten = self.count - left;
        self.count = left;
        forgotten
    }
}

impl History {
    pub(super) fn note(&self, account: &Account, (server, tool): (&str, &str), now: Instant) {
        if server.len() + tool.len() > MAX_NAME_BYTES {
            return;
        }
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        let tenant = tenants.entry(account.owner.tenant.clone()).or_default();
        let token = tenant
            .tokens
            .entry(account.owner.principal.clone())
            .or_default();
        let calls = token.agents.entry(account.agent.clone()).or_default();
        let name = (server.to_owned(), tool.to_owned());
        if calls.insert(name, now).is_some() {
            return;
        }
        token.count += 1;
        tenant.count += 1;
        if token.count > PER_TOKEN {
            tenant.count -= token.forget_older_half();
        }
        if tenant.count > PER_TENANT
            && let Some(largest) = tenant.tokens.values_mut().max_by_key(|calls| calls.count)
        {
            tenant.count -= largest.forget_older_half();
        }
    }

    /// Whether such a call was allowed in time.
    pub(super) fn has(&self, account: &Account, prior: &Prior, now: Instant) -> bool {
        let tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        let tenant = tenants.get(&account.owner.tenant);
        let token = tenant.and_then(|tenant| tenant.tokens.get(&account.owner.principal));
        let calls = token.and_then(|token| token.agents.get(&account.agent));
        calls.is_some_and(|calls| {
            calls.iter().any(|((server, tool), at)| {
                now.saturating_duration_since(*at) <= prior.window && prior.is_met_by(server, tool)
            })
        })
    }

    /// Adds how much is remembered of each token.
    pub(super) fn report(&self, all: &mut Usages) {
        let tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        for (tenant, tokens) in tenants.iter() {
            for (principal, calls) in &tokens.tokens {
                let (tenant, principal) = (tenant.clone(), principal.clone());
                all.of(&Owner { tenant, principal }).history = calls.count;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::tests::account;
    use super::*;

    fn prior(pattern: &str) -> Prior {
        Prior {
            pattern: pattern.into(),
            window: Duration::from_secs(60),
        }
    }

    #[test]
    fn history_counts_a_tokens_own_recent_calls() {
        let (history, start) = (History::default(), Instant::now());
        let a = account("local", "a", None);
        assert!(!history.has(&a, &prior("read_*"), start));
        history.note(&a, ("fs", "read_file"), start);
        let later = start + Duration::from_secs(60);
        for pattern in ["read_*", "fs:*", "*:read_file", "*"] {
            assert!(history.has(&a, &prior(pattern), later), "{pattern}");
        }
        assert!(!history.has(&a, &prior("git:*"), later));
        for other in [
            account("local", "b", None),
            account("acme", "a", None),
            account("local", "a", Some("x")),
        ] {
            assert!(!history.has(&other, &prior("read_*"), later), "{other:?}");
        }
        assert!(!history.has(&a, &prior("read_*"), later + Duration::from_secs(1)));
    }

    #[test]
    fn a_token_that_fills_the_history_evicts_only_its_own_calls() {
        let (history, start) = (History::default(), Instant::now());
        let (neighbour, acme) = (account("local", "b", None), account("acme", "c", None));
        history.note(&neighbour, ("fs", "read"), start);
        history.note(&acme, ("fs", "read"), start);
        for n in 0..3 * PER_TOKEN {
            let at = start + Duration::from_micros(n as u64);
            history.note(
                &account("local", "a", Some(&format!("agent-{n}"))),
                ("fs", "read"),
                at,
            );
        }
        let last = account("local", "a", Some(&format!("agent-{}", 3 * PER_TOKEN - 1)));
        for kept in [&neighbour, &acme, &last] {
            assert!(history.has(kept, &prior("read"), start), "{kept:?}");
        }
        assert!(!history.has(
            &account("local", "a", Some("agent-0")),
            &prior("read"),
            start
        ));
        let tenants = history.tenants.lock().unwrap();
        assert!(tenants["local"].count <= PER_TOKEN + 1);
        let summed: usize = tenants["local"]
            .tokens
            .values()
            .map(|calls| calls.count)
            .sum();
        assert_eq!(tenants["local"].count, summed);
    }
}
