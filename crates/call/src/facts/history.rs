//! Which tools an agent has been allowed to call, and when last.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Instant,
};

use callgate_gate::{Prior, Who};

/// So many agents are remembered. The calls of further ones are not, so their conditions are not met.
const MAX_AGENTS: usize = 10_000;
/// So many tools of each.
const MAX_TOOLS: usize = 10_000;

/// Server and tool.
type Name = (String, String);

/// The allowed calls of all agents, as far as rules can ask for them.
#[derive(Debug, Default)]
pub(super) struct History {
    agents: Mutex<HashMap<(String, String), HashMap<Name, Instant>>>,
}

impl History {
    /// Remembers an allowed call.
    pub(super) fn note(&self, who: &Who, (server, tool): (&str, &str), now: Instant) {
        let mut agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (who.tenant.clone(), who.agent.clone());
        if agents.len() >= MAX_AGENTS && !agents.contains_key(&key) {
            return;
        }
        let tools = agents.entry(key).or_default();
        let name = (server.to_owned(), tool.to_owned());
        if tools.len() < MAX_TOOLS || tools.contains_key(&name) {
            tools.insert(name, now);
        }
    }

    /// Whether an agent was allowed such a call in time.
    pub(super) fn has(&self, who: &Who, prior: &Prior, now: Instant) -> bool {
        let agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        let tools = agents.get(&(who.tenant.clone(), who.agent.clone()));
        tools.is_some_and(|tools| {
            tools.iter().any(|((server, tool), at)| {
                now.saturating_duration_since(*at) <= prior.window && prior.is_met_by(server, tool)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_the_agents_own_calls_count_and_only_for_a_while() {
        let who = |agent: &str| Who {
            tenant: "local".into(),
            principal: "p".into(),
            agent: agent.into(),
            session: "s".into(),
            grant: callgate_gate::Grant::default(),
        };
        let prior = |pattern: &str| Prior {
            pattern: pattern.into(),
            window: Duration::from_secs(60),
        };
        let (history, start) = (History::default(), Instant::now());
        assert!(!history.has(&who("a"), &prior("read_*"), start));
        history.note(&who("a"), ("fs", "read_file"), start);
        let later = start + Duration::from_secs(60);
        for pattern in ["read_*", "fs:*", "*:read_file", "*"] {
            assert!(history.has(&who("a"), &prior(pattern), later), "{pattern}");
        }
        assert!(!history.has(&who("a"), &prior("git:*"), later));
        assert!(!history.has(&who("b"), &prior("read_*"), later));
        assert!(!history.has(&who("a"), &prior("read_*"), later + Duration::from_secs(1)));
    }
}
