//! facts: gathers what the policy needs to know about a call before it is decided. A policy that needs nothing costs nothing
//! here.
//!
//! The ledger has what tokens did before. A ledger that fails never allows more: limits then count as used up, earlier calls
//! as not made, and budgets as spent.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use arc_swap::ArcSwapOption;
use callgate_gate::{
    ApprovalId, Call, CallerIdentity, Cost, Digest, Facts, Needs, Policy, Prior, Protected,
    ProtectedCandidates, RateLimit, Reach, RealPath, Target, fingerprint,
    guard::{GuardAnswers, Inquiry},
};
use callgate_record::{Account, Counted, Ledger, LedgerError, Placing, Usage};
use futures_util::future::{Either, FutureExt as _, ready};
use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};

use crate::Guard;

use self::reserved::ReservedAmount;

mod paths;
mod protected;
mod reserved;

pub use paths::real as real_path;
pub use protected::{is_another_name, reach};

/// The deadline for resolving a call's paths. After it they are unknown, and a rule on paths denies the call.
const PATHS_DEADLINE: Duration = Duration::from_secs(1);
/// How many calls resolve paths at once. A network folder that hangs can block this many threads and no more.
const MAX_PATH_LOOKUPS: usize = 16;

/// The sources of facts.
#[derive(Debug)]
pub(crate) struct FactSources {
    /// Counts for the limits of policies. Unset, every limit counts as used up.
    ledger: OnceLock<Arc<dyn Ledger>>,
    path_lookups: Arc<Semaphore>,
    /// The gateway that is asked instead of evaluating rules.
    guard: ArcSwapOption<Box<dyn Guard>>,
}

/// Names of agents are cut to this length for counting: they come from outside and are keys of the ledger.
const MAX_AGENT_CHARS: usize = 128;

/// The account that a host's call counts for: its tenant and token, never a name that the client gives itself.
pub(crate) fn account_of(identity: &CallerIdentity) -> Account {
    Account {
        owner: identity.owner(),
        agent: None,
    }
}

/// The account that a question counts for, which may name an agent.
pub(crate) fn account_of_question(identity: &CallerIdentity, agent: Option<&str>) -> Account {
    let account = account_of(identity);
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

/// The facts of one call, and what was reserved and counted for it.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) facts: Facts,
    /// Released when the call does not happen.
    reserved: Option<ReservedAmount>,
    /// The limits that this request was counted against now.
    taken: Vec<RateLimit>,
    /// The limits that this call was counted against when it was held. If it is approved, it is not counted again.
    owing: Vec<RateLimit>,
    /// The fingerprint under which the ledger noted what a held call has paid.
    noted: Option<Digest>,
}

impl Gathered {
    /// Whether the call was let past a limit in case it is approved.
    pub(crate) fn owes_rate(&self) -> bool {
        !self.owing.is_empty()
    }
}

impl Default for FactSources {
    fn default() -> Self {
        Self {
            ledger: OnceLock::new(),
            path_lookups: Arc::new(Semaphore::new(MAX_PATH_LOOKUPS)),
            guard: ArcSwapOption::empty(),
        }
    }
}

impl FactSources {
    /// Sets the ledger, once, before the first call.
    pub(crate) fn set_ledger(&self, ledger: Arc<dyn Ledger>) {
        let _ = self.ledger.set(ledger);
    }

    /// Gathers the facts that `policy` needs for a call.
    pub(crate) async fn gather(&self, call: &Call, policy: &Policy) -> Gathered {
        let needs = policy.needs(call);
        if needs.is_empty() {
            let mut gathered = Gathered::default();
            // Found while the needs were computed; without them `decide` would search the arguments again.
            gathered.facts.leads = needs.leads;
            return gathered;
        }
        // Boxed to keep the future of calls that need no facts small.
        Box::pin(async {
            let account = account_of(&call.attempt.host.identity);
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
        // Counted before deciding: two calls at once must not both find room for one.
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

    /// Splits limits into those that a call was counted against when it was held, and the others.
    async fn paid_before(
        &self,
        call: &Call,
        rates: Vec<RateLimit>,
    ) -> (Vec<RateLimit>, Vec<RateLimit>) {
        // Asked first, because the fingerprint of a call costs more than this.
        let Some(ledger) = self.ledger.get().filter(|ledger| ledger.has_paid()) else {
            return (Vec::new(), rates);
        };
        if rates.is_empty() {
            return (Vec::new(), rates);
        }
        let paid = ledger.paid(fingerprint(&call.attempt, &call.target)).await;
        let paid = paid.unwrap_or_else(report);
        rates.into_iter().partition(|rate| paid.contains(rate))
    }

    /// Counts a request. Limits that cannot be counted are reported as used up.
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
                ..report(error)
            },
        }
    }

    async fn met(&self, account: &Account, priors: Vec<Prior>) -> Vec<Prior> {
        match self.ledger.get() {
            Some(ledger) if !priors.is_empty() => {
                let met = ledger.met(account, priors).await;
                met.unwrap_or_else(report)
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// Reserves a call's cost and returns what was spent before: infinity if that is unknown, so that no budget has room.
    async fn reserve(&self, account: &Account, cost: Cost) -> (Option<ReservedAmount>, f64) {
        let amount = match cost {
            Cost::Of(cost) => cost,
            // Nothing to reserve, but the amount spent before is needed all the same.
            Cost::Unsaid | Cost::Unreadable => 0.0,
        };
        let Some(ledger) = self.ledger.get() else {
            return (None, f64::INFINITY);
        };
        match ledger.reserve(&account.owner, amount).await {
            Ok(reservation) => {
                let before = reservation.before;
                (
                    Some(ReservedAmount::new(ledger.clone(), reservation)),
                    before,
                )
            }
            Err(error) => {
                report::<()>(error);
                (None, f64::INFINITY)
            }
        }
    }

    /// Notes in the ledger what a held call has paid, so that it is not counted again when it returns.
    pub(crate) async fn held(&self, call: &Call, gathered: &mut Gathered) {
        let paid: Vec<RateLimit> = [&gathered.taken[..], &gathered.owing].concat();
        let Some(ledger) = self.ledger.get().filter(|_| !paid.is_empty()) else {
            return;
        };
        let call = fingerprint(&call.attempt, &call.target);
        // If this fails, the call is counted again when it returns: too strict, never too loose.
        ledger.note_paid(call, paid).await.unwrap_or_else(report);
        gathered.noted = Some(call);
    }

    /// Counts a request that was let past its limits and is not approved. `false` if a limit has no room; the facts then have it
    /// as used up.
    pub(crate) async fn charge(&self, account: &Account, gathered: &mut Gathered) -> bool {
        let owing = std::mem::take(&mut gathered.owing);
        let counted = self.count(account, owing).await;
        gathered.taken.extend(counted.taken);
        gathered.facts.used_up.extend(counted.used_up);
        gathered.facts.used_up.is_empty()
    }

    /// Sets or removes the guard.
    pub(crate) fn set_guard(&self, guard: Option<Box<dyn Guard>>) {
        self.guard.store(guard.map(Arc::new));
    }

    /// Whether an approval at the guard is undecided.
    pub(crate) async fn is_pending_elsewhere(&self, id: &ApprovalId) -> bool {
        match self.guard.load_full() {
            Some(guard) => guard.is_pending(id).await,
            // The guard was removed while the call waited. Its approval can no longer be found, so the call waits until its
            // time is over.
            None => true,
        }
    }

    async fn ask_guard(&self, call: &Call, inquiries: Vec<Inquiry>) -> Option<Box<GuardAnswers>> {
        let guard = self.guard.load_full()?;
        Some(Box::new(guard.ask(call, inquiries).await))
    }

    /// Gathers again what may have changed while a call waited: history, paths and the guard's answer.
    pub(crate) async fn refresh(&self, call: &Call, policy: &Policy, gathered: &mut Gathered) {
        // Not rates and costs: it is still one request, and it was counted when it came.
        let needs = policy.needs(call);
        let account = account_of(&call.attempt.host.identity);
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

    /// Notes that a call is recorded and goes on. `account` is called only if a rule uses the history.
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
            // A ledger in memory is done at once. Boxing a future for it would cost an allocation per call.
            (None, Some(Either::Left(noted))) => {
                noted.into_inner().unwrap_or_else(report);
                Either::Left(ready(()))
            }
            (settled, noted) => {
                let both = async move {
                    for written in settled.into_iter().chain(noted) {
                        written.await.unwrap_or_else(report);
                    }
                };
                Either::Right(both.boxed())
            }
        }
    }

    pub(crate) async fn usage(&self) -> Result<Vec<Usage>, LedgerError> {
        match self.ledger.get() {
            Some(ledger) => ledger.usage().await,
            None => Ok(Vec::new()),
        }
    }

    async fn real_paths(&self, asked: Vec<String>) -> HashMap<String, RealPath> {
        self.inspect_paths(asked, RealPath::Unknown, paths::real)
            .await
    }

    /// Finds out whether a call's paths lead to protected places.
    async fn reach(
        &self,
        facts: &mut Facts,
        leads: Option<ProtectedCandidates>,
        protected: &Arc<Protected>,
    ) {
        let asked = leads
            .as_ref()
            .map(ProtectedCandidates::paths)
            .unwrap_or_default();
        facts.leads = leads;
        if !asked.is_empty() {
            let protected = protected.clone();
            let reach = move |path: &str| protected::reach(path, &protected);
            facts.reached = self.inspect_paths(asked, Reach::Unknown, reach).await;
        }
    }

    /// Inspects paths in the file system. Those without a result before the deadline are `unknown`.
    async fn inspect_paths<T: Clone + Send + 'static>(
        &self,
        asked: Vec<String>,
        unknown: T,
        see: impl Fn(&str) -> T + Send + 'static,
    ) -> HashMap<String, T> {
        let lookup = async {
            let permit = self.path_lookups.clone().acquire_owned().await.ok()?;
            let asked = asked.clone();
            let found = spawn_blocking(move || {
                // Held by the thread, not by this future: a lookup that hangs after its deadline still counts as one.
                let _permit = permit;
                let seen = |path: String| {
                    let seen = see(&path);
                    (path, seen)
                };
                asked.into_iter().map(seen).collect()
            });
            found.await.ok()
        };
        match timeout(PATHS_DEADLINE, lookup).await {
            Ok(Some(found)) => found,
            Ok(None) | Err(_) => asked
                .into_iter()
                .map(|path| (path, unknown.clone()))
                .collect(),
        }
    }
}

/// Logs that the ledger failed, and continues with an empty result.
fn report<T: Default>(error: LedgerError) -> T {
    crate::log::limits_not_read(&error);
    T::default()
}

#[cfg(test)]
mod tests {
    use callgate_gate::Owner;
    use callgate_record::{LedgerFuture, Reservation};

    use super::*;

    /// A ledger that cannot be reached.
    #[derive(Debug)]
    struct Unreachable;

    fn unreachable<T>() -> LedgerFuture<T> {
        Either::Left(ready(Err(LedgerError {
            reason: "connection refused".to_owned(),
        })))
    }

    impl Ledger for Unreachable {
        fn count(&self, _: &Account, _: Vec<RateLimit>) -> LedgerFuture<Counted> {
            unreachable()
        }

        fn met(&self, _: &Account, _: Vec<Prior>) -> LedgerFuture<Vec<Prior>> {
            unreachable()
        }

        fn note(&self, _: &Account, _: &str, _: &str) -> LedgerFuture<()> {
            unreachable()
        }

        fn reserve(&self, _: &Owner, _: f64) -> LedgerFuture<Reservation> {
            unreachable()
        }

        fn give_back(&self, _: Reservation) {}

        fn paid(&self, _: Digest) -> LedgerFuture<Vec<RateLimit>> {
            unreachable()
        }

        fn note_paid(&self, _: Digest, _: Vec<RateLimit>) -> LedgerFuture<()> {
            unreachable()
        }

        fn settle_paid(&self, _: Digest) -> LedgerFuture<()> {
            unreachable()
        }

        fn usage(&self) -> LedgerFuture<Vec<Usage>> {
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
