//! facts: what the policy needs to know about this call, looked up before it is decided. A call whose
//! policy needs nothing costs nothing here.
//!
//! What is remembered lives in this process. A restart forgets earlier calls, so that a rule that asks
//! for one is not met; it also forgets counts and spending, so that limits begin anew.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use callgate_gate::{
    ApprovalId, Call, Cost, Digest, Facts, Leads, Needs, Owner, Policy, Protected, RateLimit,
    Reach, RealPath, Target, Who, fingerprint,
    guard::{Guarded, Inquiry},
};
use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};

use crate::Guard;

use self::{history::History, paid::Paid, rates::Rates, spending::Spending};

mod history;
mod paid;
mod paths;
mod protected;
mod rates;
mod spending;
mod usage;

pub use paths::real as real_path;
pub use protected::{is_another_name, reach};
pub use usage::{RateUsage, Usage};

/// How long finding out where paths lead may take. Later than that it is not known, and the call is
/// refused.
const PATHS_DEADLINE: Duration = Duration::from_secs(1);
/// How many calls may look at the file system at once; a folder that hangs holds no more threads.
const LOOKING_AT_ONCE: usize = 16;

/// What facts are made of.
#[derive(Debug)]
pub(crate) struct FactSources {
    history: History,
    rates: Rates,
    paid: Paid,
    spending: Arc<Spending>,
    looking: Arc<Semaphore>,
    /// Who is asked in place of rules.
    guard: ArcSwapOption<Box<dyn Guard>>,
}

/// Whom a call counts for: its token, and in a question of another gateway the agent that the question names. Agents are
/// counted apart below their token and share its limits, because their names are the asker's word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Counted {
    owner: Owner,
    agent: Option<Arc<str>>,
}

/// Longer names of agents are cut where they are counted.
const MAX_AGENT_CHARS: usize = 128;

impl Counted {
    /// A call that a host makes.
    pub(crate) fn call_of(who: &Who) -> Self {
        let owner = who.owner();
        Self { owner, agent: None }
    }

    /// A question that names an agent.
    pub(crate) fn question_of(who: &Who, agent: Option<&str>) -> Self {
        let counted = Self::call_of(who);
        let agent = agent.filter(|agent| !agent.is_empty() && *agent != counted.owner.principal);
        let cut = |agent: &str| {
            agent
                .chars()
                .take(MAX_AGENT_CHARS)
                .collect::<String>()
                .into()
        };
        Self {
            agent: agent.map(cut),
            ..counted
        }
    }
}

/// The facts of one call, and what was set aside for it.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) facts: Facts,
    /// Given back when the call does not happen.
    reserved: Option<spending::Reserved>,
    /// The limits that this request was counted against.
    taken: Vec<RateLimit>,
    /// The limits that this call was counted against when it was held; a yes lets it run without being counted again.
    owing: Vec<RateLimit>,
    /// The held call that what it paid was noted for.
    noted: Option<Digest>,
}

impl Gathered {
    /// Whether the call was let past a limit because it may have been approved.
    pub(crate) fn owes_rate(&self) -> bool {
        !self.owing.is_empty()
    }
}

impl Default for FactSources {
    fn default() -> Self {
        Self {
            history: History::default(),
            rates: Rates::default(),
            paid: Paid::default(),
            spending: Arc::default(),
            looking: Arc::new(Semaphore::new(LOOKING_AT_ONCE)),
            guard: ArcSwapOption::empty(),
        }
    }
}

impl FactSources {
    /// Gathers the facts that `policy` needs for a call.
    pub(crate) async fn gather(&self, call: &Call, policy: &Policy) -> Gathered {
        let needs = policy.needs(call);
        if needs.is_empty() {
            let mut gathered = Gathered::default();
            gathered.facts.leads = needs.leads;
            return gathered;
        }
        // Boxed to keep the future of calls that need no facts small.
        Box::pin(async {
            let counted = Counted::call_of(&call.attempt.host.who);
            self.look_up(call, &counted, needs, policy.protected())
                .await
        })
        .await
    }

    /// Gathers these facts for a call.
    pub(crate) async fn look_up(
        &self,
        call: &Call,
        counted: &Counted,
        needs: Needs,
        protected: &Arc<Protected>,
    ) -> Gathered {
        let now = Instant::now();
        let met = |prior: &_| self.history.has(counted, prior, now);
        let (owing, due) = self.paid_before(call, needs.rates);
        let (taken, used_up): (Vec<_>, Vec<_>) = due
            .into_iter()
            .partition(|rate| self.rates.take(rate, counted, now));
        let mut facts = Facts {
            met: needs.prior.into_iter().filter(met).collect(),
            used_up: used_up.into_iter().collect(),
            ..Facts::default()
        };
        let reserved = needs.cost.map(|cost| {
            let cost = match cost {
                Cost::Of(cost) => cost,
                Cost::Unsaid | Cost::Unreadable => 0.0,
            };
            Spending::reserve(&self.spending, &counted.owner, cost, now)
        });
        facts.spent = reserved.as_ref().map_or(0.0, |reserved| reserved.before);
        if !needs.paths.is_empty() {
            facts.real_paths = self.real_paths(needs.paths).await;
        }
        self.reach(&mut facts, needs.leads, protected).await;
        if !needs.inquiries.is_empty() {
            facts.guard = self.ask_guard(call, needs.inquiries).await;
        }
        Gathered {
            facts,
            reserved,
            taken,
            owing,
            noted: None,
        }
    }

    /// The limits that a call was counted against when it was held, and those that it was not.
    fn paid_before(&self, call: &Call, rates: Vec<RateLimit>) -> (Vec<RateLimit>, Vec<RateLimit>) {
        if rates.is_empty() || self.paid.is_empty() {
            return (Vec::new(), rates);
        }
        let paid = self.paid.by(&fingerprint(&call.attempt, &call.target));
        rates.into_iter().partition(|rate| paid.contains(rate))
    }

    /// Notes that a call waits for a person, with what it has paid by then.
    pub(crate) fn held(&self, call: &Call, gathered: &mut Gathered) {
        let paid: Vec<RateLimit> = [&gathered.taken[..], &gathered.owing].concat();
        if !paid.is_empty() {
            let call = fingerprint(&call.attempt, &call.target);
            self.paid.note(call, paid, Instant::now());
            gathered.noted = Some(call);
        }
    }

    /// Counts a request after all that nobody has approved. Returns `false` where a limit has no room for it: then
    /// the facts say so.
    pub(crate) fn charge(&self, counted: &Counted, gathered: &mut Gathered) -> bool {
        let now = Instant::now();
        for rate in std::mem::take(&mut gathered.owing) {
            if self.rates.take(&rate, counted, now) {
                gathered.taken.push(rate);
            } else {
                gathered.facts.used_up.insert(rate);
            }
        }
        gathered.facts.used_up.is_empty()
    }

    /// Another gateway is asked in place of rules from now on, or none is.
    pub(crate) fn set_guard(&self, guard: Option<Box<dyn Guard>>) {
        self.guard.store(guard.map(Arc::new));
    }

    /// Whether nobody has decided about an approval at the guard yet.
    pub(crate) async fn is_pending_elsewhere(&self, id: &ApprovalId) -> bool {
        match self.guard.load_full() {
            Some(guard) => guard.is_pending(id).await,
            None => true,
        }
    }

    async fn ask_guard(&self, call: &Call, inquiries: Vec<Inquiry>) -> Option<Box<Guarded>> {
        let guard = self.guard.load_full()?;
        Some(Box::new(guard.ask(call, inquiries).await))
    }

    /// Looks again at what may have changed while a call waited. It is still one request, so it counts
    /// and costs nothing more.
    pub(crate) async fn look_again(&self, call: &Call, policy: &Policy, gathered: &mut Gathered) {
        let needs = policy.needs(call);
        let counted = Counted::call_of(&call.attempt.host.who);
        let now = Instant::now();
        let met = |prior: &_| self.history.has(&counted, prior, now);
        gathered.facts.met = needs.prior.into_iter().filter(met).collect();
        if !needs.paths.is_empty() {
            gathered.facts.real_paths = self.real_paths(needs.paths).await;
        }
        self.reach(&mut gathered.facts, needs.leads, policy.protected())
            .await;
        if !needs.inquiries.is_empty() {
            gathered.facts.guard = self.ask_guard(call, needs.inquiries).await;
        }
    }

    /// Notes that a call is on record and goes on. `counted` is made only where a rule looks back.
    pub(crate) fn allowed(
        &self,
        counted: impl FnOnce() -> Counted,
        target: &Target,
        policy: &Policy,
        gathered: Gathered,
    ) {
        if let Some(reserved) = gathered.reserved {
            reserved.keep();
        }
        if let Some(call) = gathered.noted {
            self.paid.settle(&call);
        }
        if policy.remembers()
            && let Target::Tool(tool) = target
        {
            let (server, name) = (tool.server.as_str(), tool.name.as_str());
            self.history
                .note(&counted(), (server, name), Instant::now());
        }
    }

    /// What each token has used of its limits, by tenant and token.
    pub(crate) fn usage(&self) -> Vec<Usage> {
        let now = Instant::now();
        let mut all = usage::Usages::default();
        self.rates.report(now, &mut all);
        self.history.report(&mut all);
        self.spending.report(now, &mut all);
        all.sorted()
    }

    async fn real_paths(&self, asked: Vec<String>) -> HashMap<String, RealPath> {
        self.look(asked, RealPath::Unknown, paths::real).await
    }

    /// Looks whether what a call leads to is protected.
    async fn reach(&self, facts: &mut Facts, leads: Option<Leads>, protected: &Arc<Protected>) {
        let asked = leads.as_ref().map(Leads::paths).unwrap_or_default();
        facts.leads = leads;
        if !asked.is_empty() {
            let protected = protected.clone();
            let reach = move |path: &str| protected::reach(path, &protected);
            facts.reached = self.look(asked, Reach::Unknown, reach).await;
        }
    }

    /// Looks at the file system, for so long and no longer. What was not seen by then is `unknown`.
    async fn look<T: Clone + Send + 'static>(
        &self,
        asked: Vec<String>,
        unknown: T,
        see: impl Fn(&str) -> T + Send + 'static,
    ) -> HashMap<String, T> {
        let looking = async {
            let permit = self.looking.clone().acquire_owned().await.ok()?;
            let asked = asked.clone();
            let found = spawn_blocking(move || {
                let _permit = permit;
                let seen = |path: String| {
                    let seen = see(&path);
                    (path, seen)
                };
                asked.into_iter().map(seen).collect()
            });
            found.await.ok()
        };
        match timeout(PATHS_DEADLINE, looking).await {
            Ok(Some(found)) => found,
            Ok(None) | Err(_) => asked
                .into_iter()
                .map(|path| (path, unknown.clone()))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A token of a tenant, asking for an agent.
    pub(super) fn counted(tenant: &str, token: &str, agent: Option<&str>) -> Counted {
        Counted {
            owner: Owner {
                tenant: tenant.to_owned(),
                principal: token.to_owned(),
            },
            agent: agent.map(Into::into),
        }
    }
}
