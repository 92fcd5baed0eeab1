//! facts: what the policy needs to know about this call, looked up before it is decided. A call whose
//! policy needs nothing costs nothing here.
//!
//! What tokens did before is in a ledger. What the ledger cannot tell never widens: a limit is then used
//! up, an earlier call did not happen, and a budget is spent.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use arc_swap::ArcSwapOption;
use callgate_gate::{
    ApprovalId, Call, Cost, Digest, Facts, Leads, Needs, Policy, Prior, Protected, RateLimit,
    Reach, RealPath, Target, Who, fingerprint,
    guard::{Guarded, Inquiry},
};
use callgate_record::{Account, Counted, Ledger, LedgerError, Placing, Usage};
use futures_util::future::{Either, FutureExt as _, ready};
use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};

use crate::Guard;

use self::reserved::Reserved;

mod paths;
mod protected;
mod reserved;

pub use paths::real as real_path;
pub use protected::{is_another_name, reach};

/// How long finding out where paths lead may take. Later than that it is not known, and the call is
/// refused.
const PATHS_DEADLINE: Duration = Duration::from_secs(1);
/// How many calls may look at the file system at once; a folder that hangs holds no more threads.
const LOOKING_AT_ONCE: usize = 16;

/// What facts are made of.
#[derive(Debug)]
pub(crate) struct FactSources {
    /// Counts for the limits of policies. Without one, what needs a count is refused.
    ledger: OnceLock<Arc<dyn Ledger>>,
    looking: Arc<Semaphore>,
    /// Who is asked in place of rules.
    guard: ArcSwapOption<Box<dyn Guard>>,
}

/// Longer names of agents are cut where they are counted.
const MAX_AGENT_CHARS: usize = 128;

/// Whom a call of a host counts for.
pub(crate) fn account_of(who: &Who) -> Account {
    Account {
        owner: who.owner(),
        agent: None,
    }
}

/// Whom a question counts for that names an agent.
pub(crate) fn account_of_question(who: &Who, agent: Option<&str>) -> Account {
    let account = account_of(who);
    let agent = agent.filter(|agent| !agent.is_empty() && *agent != account.owner.principal);
    let cut = |agent: &str| {
        agent
            .chars()
            .take(MAX_AGENT_CHARS)
            .collect::<String>()
            .into()
    };
    Account {
        agent: agent.map(cut),
        ..account
    }
}

/// The facts of one call, and what was set aside for it.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) facts: Facts,
    /// Given back when the call does not happen.
    reserved: Option<Reserved>,
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
            ledger: OnceLock::new(),
            looking: Arc::new(Semaphore::new(LOOKING_AT_ONCE)),
            guard: ArcSwapOption::empty(),
        }
    }
}

impl FactSources {
    /// Counts in this ledger from now on. A path is given its ledger once, before the first call.
    pub(crate) fn set_ledger(&self, ledger: Arc<dyn Ledger>) {
        let _ = self.ledger.set(ledger);
    }

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
            let account = account_of(&call.attempt.host.who);
            self.look_up(call, &account, needs, policy.protected())
                .await
        })
        .await
    }

    /// Gathers these facts for a call.
    pub(crate) async fn look_up(
        &self,
        call: &Call,
        account: &Account,
        needs: Needs,
        protected: &Arc<Protected>,
    ) -> Gathered {
        let (owing, due) = self.paid_before(call, needs.rates).await;
        let counted = self.count(account, due).await;
        let mut facts = Facts {
            met: self.met(account, needs.prior).await.into_iter().collect(),
            used_up: counted.used_up.into_iter().collect(),
            ..Facts::default()
        };
        let reserved = match needs.cost {
            None => None,
            Some(cost) => {
                let (reserved, before) = self.reserve(account, cost).await;
                facts.spent = before;
                reserved
            }
        };
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
            taken: counted.taken,
            owing,
            noted: None,
        }
    }

    /// The limits that a call was counted against when it was held, and those that it was not.
    async fn paid_before(
        &self,
        call: &Call,
        rates: Vec<RateLimit>,
    ) -> (Vec<RateLimit>, Vec<RateLimit>) {
        let Some(ledger) = self.ledger.get().filter(|ledger| ledger.has_paid()) else {
            return (Vec::new(), rates);
        };
        if rates.is_empty() {
            return (Vec::new(), rates);
        }
        let paid = ledger.paid(fingerprint(&call.attempt, &call.target)).await;
        let paid = paid.unwrap_or_else(told);
        rates.into_iter().partition(|rate| paid.contains(rate))
    }

    /// Counts a request. Limits that cannot be counted are used up.
    async fn count(&self, account: &Account, limits: Vec<RateLimit>) -> Counted {
        if limits.is_empty() {
            return Counted::default();
        }
        let Some(ledger) = self.ledger.get() else {
            let used_up = limits;
            return Counted {
                used_up,
                ..Counted::default()
            };
        };
        match ledger.count(account, limits.clone()).await {
            Ok(counted) => counted,
            Err(error) => Counted {
                used_up: limits,
                ..told(error)
            },
        }
    }

    async fn met(&self, account: &Account, priors: Vec<Prior>) -> Vec<Prior> {
        match self.ledger.get() {
            Some(ledger) if !priors.is_empty() => {
                let met = ledger.met(account, priors).await;
                met.unwrap_or_else(told)
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// Sets aside what a call is said to cost, and says what was spent before: all there is, where that
    /// is not known.
    async fn reserve(&self, account: &Account, cost: Cost) -> (Option<Reserved>, f64) {
        let amount = match cost {
            Cost::Of(cost) => cost,
            Cost::Unsaid | Cost::Unreadable => 0.0,
        };
        let Some(ledger) = self.ledger.get() else {
            return (None, f64::INFINITY);
        };
        match ledger.reserve(&account.owner, amount).await {
            Ok(reservation) => {
                let before = reservation.before;
                (Some(Reserved::new(ledger.clone(), reservation)), before)
            }
            Err(error) => {
                told::<()>(error);
                (None, f64::INFINITY)
            }
        }
    }

    /// Notes that a call waits for a person, with what it has paid by then.
    pub(crate) async fn held(&self, call: &Call, gathered: &mut Gathered) {
        let paid: Vec<RateLimit> = [&gathered.taken[..], &gathered.owing].concat();
        let Some(ledger) = self.ledger.get().filter(|_| !paid.is_empty()) else {
            return;
        };
        let call = fingerprint(&call.attempt, &call.target);
        // A call that could not be noted pays again when it comes back.
        ledger.note_paid(call, paid).await.unwrap_or_else(told);
        gathered.noted = Some(call);
    }

    /// Counts a request after all that no person has approved. Returns `false` where a limit has no room for it: then
    /// the facts say so.
    pub(crate) async fn charge(&self, account: &Account, gathered: &mut Gathered) -> bool {
        let owing = std::mem::take(&mut gathered.owing);
        let counted = self.count(account, owing).await;
        gathered.taken.extend(counted.taken);
        gathered.facts.used_up.extend(counted.used_up);
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
        let account = account_of(&call.attempt.host.who);
        let met = self.met(&account, needs.prior).await;
        gathered.facts.met = met.into_iter().collect();
        if !needs.paths.is_empty() {
            gathered.facts.real_paths = self.real_paths(needs.paths).await;
        }
        self.reach(&mut gathered.facts, needs.leads, policy.protected())
            .await;
        if !needs.inquiries.is_empty() {
            gathered.facts.guard = self.ask_guard(call, needs.inquiries).await;
        }
    }

    /// Notes that a call is on record and goes on. `account` is made only where a rule looks back.
    pub(crate) fn allowed(
        &self,
        account: impl FnOnce() -> Account,
        target: &Target,
        policy: &Policy,
        gathered: Gathered,
    ) -> Placing<()> {
        if let Some(reserved) = gathered.reserved {
            reserved.keep();
        }
        let Some(ledger) = self.ledger.get() else {
            return Either::Left(ready(()));
        };
        let settled = gathered.noted.map(|call| ledger.settle_paid(call));
        let noted = match target {
            Target::Tool(tool) if policy.remembers() => {
                Some(ledger.note(&account(), tool.server.as_str(), tool.name.as_str()))
            }
            _ => None,
        };
        match (settled, noted) {
            (None, None) => Either::Left(ready(())),
            (None, Some(Either::Left(noted))) => {
                noted.into_inner().unwrap_or_else(told);
                Either::Left(ready(()))
            }
            (settled, noted) => {
                let both = async move {
                    for written in settled.into_iter().chain(noted) {
                        written.await.unwrap_or_else(told);
                    }
                };
                Either::Right(both.boxed())
            }
        }
    }

    /// What each token has used of its limits, by tenant and token.
    pub(crate) async fn usage(&self) -> Result<Vec<Usage>, LedgerError> {
        match self.ledger.get() {
            Some(ledger) => ledger.usage().await,
            None => Ok(Vec::new()),
        }
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

/// Tells the operator what the ledger could not do, and goes on with nothing.
fn told<T: Default>(error: LedgerError) -> T {
    crate::log::limits_not_read(&error);
    T::default()
}

#[cfg(test)]
mod tests {
    use callgate_gate::Owner;
    use callgate_record::{Reservation, Tallied};

    use super::*;

    /// A ledger that cannot be reached.
    #[derive(Debug)]
    struct Unreachable;

    fn unreachable<T>() -> Tallied<T> {
        Either::Left(ready(Err(LedgerError {
            reason: "connection refused".to_owned(),
        })))
    }

    impl Ledger for Unreachable {
        fn count(&self, _: &Account, _: Vec<RateLimit>) -> Tallied<Counted> {
            unreachable()
        }

        fn met(&self, _: &Account, _: Vec<Prior>) -> Tallied<Vec<Prior>> {
            unreachable()
        }

        fn note(&self, _: &Account, _: &str, _: &str) -> Tallied<()> {
            unreachable()
        }

        fn reserve(&self, _: &Owner, _: f64) -> Tallied<Reservation> {
            unreachable()
        }

        fn give_back(&self, _: Reservation) {}

        fn paid(&self, _: Digest) -> Tallied<Vec<RateLimit>> {
            unreachable()
        }

        fn note_paid(&self, _: Digest, _: Vec<RateLimit>) -> Tallied<()> {
            unreachable()
        }

        fn settle_paid(&self, _: Digest) -> Tallied<()> {
            unreachable()
        }

        fn usage(&self) -> Tallied<Vec<Usage>> {
            unreachable()
        }
    }

    #[tokio::test]
    async fn a_failing_ledger_counts_as_every_limit_reached() {
        let account = Account {
            owner: Owner {
                tenant: "local".to_owned(),
                principal: "a".to_owned(),
            },
            agent: None,
        };
        let limit = RateLimit {
            scope: "mcp_tool".into(),
            max_requests: 5,
            window: Duration::from_secs(60),
        };
        let prior = Prior {
            pattern: "*".into(),
            window: Duration::from_secs(60),
        };
        let broken = FactSources::default();
        broken.set_ledger(Arc::new(Unreachable));
        for facts in [FactSources::default(), broken] {
            let counted = facts.count(&account, vec![limit.clone()]).await;
            assert_eq!(counted.used_up, std::slice::from_ref(&limit));
            assert_eq!(counted.taken, []);
            assert_eq!(facts.met(&account, vec![prior.clone()]).await, []);
            let (reserved, spent) = facts.reserve(&account, Cost::Of(1.0)).await;
            assert!(reserved.is_none() && spent > f64::MAX);
        }
    }
}
