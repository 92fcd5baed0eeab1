//! The one path: the order of the steps, and who walks them.
//!
//! A door calls [`CallPath::start`] and polls the [`Pending`] that it gets; polling that walks the steps, in the door's own
//! task. When the door stops polling and drops it, the call is cancelled, and what is left of it (above all `finish`)
//! becomes a task of the path. `forward` polls the provider, which asks the host's questions through the [`Caller`] that
//! the door handed in.

mod drain;
mod entering;
mod forwarding;
mod holding;
mod pending;
mod questions;
mod recording;
mod refusing;
mod repeat;
mod rounds;
mod script_run;

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use arc_swap::ArcSwapOption;
use callgate_gate::{Attempt, Call, Consent, Permit, Policy, Verdict, decide};
use callgate_record::{Ledger, LedgerError, Recorded, Recorder, Usage};
use tokio_util::task::TaskTracker;

use crate::{
    ApprovalService, Caller, CallerDriven, Events, Exchange, Guard, Providers, Received, Registry,
    Spans, Telemetry,
    events::calls::IntentDoubtful,
    facts::{FactSources, Gathered, account_of},
    finish::{Answer, finish_unresolved},
    intent::{self, Schemas},
    parking::{Parking, Round},
    receive::{Begun, receive},
    resolve::{Unresolved, resolve},
    seal::SealKey,
    trace::CallSpan,
};
pub use drain::Patience;
use entering::Entered;
pub use pending::Pending;
use pending::Walked;
use repeat::Rounds;
use rounds::OnRecord;
use script_run::Below;
pub use script_run::{ScriptRun, ScriptRunEnd};

/// The way of every call, whatever door it came through.
#[derive(Debug, Clone)]
pub struct CallPath {
    pub(crate) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) providers: Arc<dyn Providers>,
    recorder: Recorder,
    telemetry: Telemetry,
    registry: Arc<Registry>,
    pub(crate) facts: FactSources,
    /// Where people are asked about held calls.
    approval_service: OnceLock<ApprovalService>,
    parking: Parking,
    schemas: Schemas,
    tasks: TaskTracker,
    /// Why the last call could not be put on record; nothing once one could.
    record_trouble: ArcSwapOption<String>,
}

/// What all steps of a call share.
struct Walk<'a> {
    started: Instant,
    exchange: Exchange,
    span: &'a CallSpan,
    /// The rounds before this one, where the host is asked in between.
    rounds: Option<Box<Rounds>>,
}

impl CallPath {
    /// A path over `providers` that puts everything on record with `recorder` and tells of it
    /// through `telemetry`. What hosts carry between the rounds of a call is sealed with a key that
    /// only this process has.
    pub fn new(providers: Arc<dyn Providers>, recorder: Recorder, telemetry: Telemetry) -> Self {
        Self::sealing_with(&SealKey::random(), providers, recorder, telemetry)
    }

    /// The same with a key that outlives this process.
    pub fn sealing_with(
        key: &SealKey,
        providers: Arc<dyn Providers>,
        recorder: Recorder,
        telemetry: Telemetry,
    ) -> Self {
        let registry = Arc::new(Registry::default());
        let tasks = TaskTracker::new();
        Self {
            shared: Arc::new(Shared {
                providers,
                recorder,
                telemetry,
                registry,
                facts: FactSources::default(),
                approval_service: OnceLock::new(),
                parking: Parking::new(key),
                schemas: Schemas::default(),
                tasks,
                record_trouble: ArcSwapOption::empty(),
            }),
        }
    }

    /// The same with a desk where people are asked. Without one, what needs a person is refused.
    #[must_use]
    pub fn asking_at(self, approval_service: ApprovalService) -> Self {
        // A path is given its desk once, before anybody calls.
        let _ = self.shared.approval_service.set(approval_service);
        self
    }

    /// Another gateway is asked in place of rules from now on, or none is. The policy says whether it is.
    pub fn set_guard(&self, guard: Option<Box<dyn Guard>>) {
        self.shared.facts.set_guard(guard);
    }

    /// The same with a ledger that counts for the limits of policies. Without one, what needs a count is
    /// refused.
    #[must_use]
    pub fn counting_in(self, ledger: Arc<dyn Ledger>) -> Self {
        self.shared.facts.set_ledger(ledger);
        self
    }

    /// What each token has used of its limits, by tenant and token.
    pub async fn usage(&self) -> Result<Vec<Usage>, LedgerError> {
        self.shared.facts.usage().await
    }

    /// What can be called.
    pub fn providers(&self) -> &Arc<dyn Providers> {
        &self.shared.providers
    }

    /// The calls under way.
    pub fn registry(&self) -> &Registry {
        &self.shared.registry
    }

    /// The recorder, for what happens outside of calls.
    pub fn recorder(&self) -> &Recorder {
        &self.shared.recorder
    }

    /// Why the last call could not be put on record; nothing once one could.
    pub fn record_trouble(&self) -> Option<String> {
        let trouble = self.shared.record_trouble.load();
        trouble.as_deref().cloned()
    }

    /// Where people are asked about held calls.
    pub fn approval_service(&self) -> Option<&ApprovalService> {
        self.shared.approval_service.get()
    }

    /// Where what happens is told.
    pub fn events(&self) -> &Events {
        &self.shared.telemetry.events
    }

    /// Makes spans, where somebody wants them.
    pub fn spans(&self) -> &Spans {
        &self.shared.telemetry.spans
    }

    /// Takes a call: from now on it can be cancelled, and draining waits for it.
    pub fn start(&self, received: Received, caller: Arc<dyn Caller>) -> Pending {
        self.start_below(received, caller, None)
    }

    /// The same for a call that is a part of something.
    fn start_below(
        &self,
        received: Received,
        caller: Arc<dyn Caller>,
        below: Option<Below>,
    ) -> Pending {
        let entered = match self.enter(&received) {
            Ok(entered) => entered,
            Err(refused) => return *refused,
        };
        let cancelled = entered.0.cancelled.clone();
        let exchange = Exchange {
            caller,
            cancelled: cancelled.clone(),
            trace: None,
        };
        let walking = self.shared.clone().walk(received, exchange, below, entered);
        let answer = CallerDriven::new(walking, self.shared.tasks.clone());
        Pending {
            answer,
            code: None,
            held: None,
            cancelled,
        }
    }
}

impl Shared {
    /// The whole way of a call that was taken in. It keeps its place until it has its answer.
    async fn walk(
        self: Arc<Self>,
        received: Received,
        exchange: Exchange,
        below: Option<Below>,
        entered: Entered,
    ) -> Walked {
        let Begun {
            mut attempt,
            nowhere,
            started,
            trace,
        } = receive(received);
        if let Some(Below { parent, via }) = below {
            attempt.parent = Some(parent);
            attempt.via = via;
        }
        let span = self.telemetry.spans.call(&attempt, trace);
        let answer = match nowhere {
            None => {
                let walk = Walk {
                    started,
                    exchange,
                    span: &span,
                    rounds: None,
                };
                self.steps(attempt, walk).await
            }
            Some(error) => {
                let nowhere = Unresolved::of_view(attempt, *error);
                finish_unresolved(&self.recorder, &self.telemetry.events, nowhere)
            }
        };
        span.end(started.elapsed(), answer.error.as_deref());
        drop(entered);
        (answer.frame, answer.code, answer.held)
    }

    /// The steps in their order. Each hands on to the next, or ends the call with an answer.
    async fn steps(self: &Arc<Self>, attempt: Attempt, mut walk: Walk<'_>) -> Answer {
        match self.up_to_record(attempt, &mut walk).await {
            Ok((recorded, on_record, round)) => {
                self.forward(recorded, on_record, round, walk).await
            }
            Err(answer) => answer,
        }
    }

    async fn up_to_record(
        self: &Arc<Self>,
        attempt: Attempt,
        walk: &mut Walk<'_>,
    ) -> Result<(Recorded<Permit>, Box<OnRecord>, Round), Answer> {
        self.read_intent(&attempt)?;
        let (attempt, round) = self.find_round(attempt)?;
        let call = self.resolve(attempt, walk.span).await?;
        let policy = self.providers.policy();
        self.hold_to_intent(&call, &policy, walk.span)?;
        let (verdict, mut gathered) = self.decide(call, &policy, walk.span).await;
        let permit = self.permit(verdict, &mut gathered, &round, walk).await?;
        let (recorded, on_record) = self.record(permit, gathered, &policy, walk).await?;
        Ok((recorded, on_record, round))
    }

    /// A declaration that cannot be read ends the call before anything is looked up.
    fn read_intent(&self, attempt: &Attempt) -> Result<(), Answer> {
        match intent::stated(attempt) {
            Some(fault) => Err(self.faulted(attempt, None, fault)),
            None => Ok(()),
        }
    }

    /// resolve: what is called.
    async fn resolve(&self, attempt: Attempt, span: &CallSpan) -> Result<Call, Answer> {
        let resolving = resolve(&*self.providers, attempt);
        match span.step("resolve").over(resolving).await {
            Ok(call) => {
                span.aim(&call.target);
                Ok(call)
            }
            Err(unresolved) => {
                let events = &self.telemetry.events;
                Err(finish_unresolved(&self.recorder, events, unresolved))
            }
        }
    }

    /// intent: what a call declares holds for the tool as it is now.
    fn hold_to_intent(&self, call: &Call, policy: &Policy, span: &CallSpan) -> Result<(), Answer> {
        let Some(declared) = &call.attempt.declared else {
            return Ok(());
        };
        let holds = || intent::holds(declared, call, policy, &self.schemas);
        match span.step("intent").of(holds) {
            Ok(None) => {}
            Ok(Some(warning)) => self.telemetry.events.emit(IntentDoubtful {
                call,
                warning: &warning,
            }),
            Err(fault) => return Err(self.faulted(&call.attempt, Some(&call.target), &fault)),
        }
        Ok(())
    }

    /// facts and decide: what policy says to the call, and what it was told for that.
    async fn decide(&self, call: Call, policy: &Policy, span: &CallSpan) -> (Verdict, Gathered) {
        let gathering = self.facts.gather(&call, policy);
        let mut gathered = span.step("facts").over(gathering).await;
        let facts = &gathered.facts;
        let verdict = span.step("decide").of(|| decide(call, policy, facts));
        match verdict {
            // It was let past its rate limit for the sake of an approval that it does not need any more.
            Verdict::Permit(permit) if gathered.owes_rate() => {
                let call = permit.into_call();
                let account = account_of(&call.attempt.host.who);
                // Boxed to keep the common path's future small.
                Box::pin(self.facts.charge(&account, &mut gathered)).await;
                (decide(call, policy, &gathered.facts), gathered)
            }
            verdict => (verdict, gathered),
        }
    }

    /// hold: a call that needs a person waits, unless the person's yes to an earlier round covers it.
    async fn permit(
        self: &Arc<Self>,
        verdict: Verdict,
        gathered: &mut Gathered,
        round: &Round,
        walk: &Walk<'_>,
    ) -> Result<Permit, Answer> {
        let earlier = match (round, walk.rounds.as_deref()) {
            (Round::Again { agreed, .. }, _) | (_, Some(Rounds { agreed, .. })) => agreed.as_ref(),
            (Round::First | Round::Back(_), None) => None,
        };
        let verdict = match (verdict, earlier) {
            (Verdict::Hold(held), Some(agreed)) => held.release(Consent::of_earlier_round(agreed)),
            (verdict, _) => verdict,
        };
        match verdict {
            Verdict::Permit(permit) => Ok(permit),
            Verdict::Hold(held) => {
                let back = match round {
                    Round::Back(back) => Some(back),
                    Round::First | Round::Again { .. } => None,
                };
                let keeping = self.held(held, gathered, (&walk.exchange, back), walk.span);
                // Boxed, so that calls which are not held do not carry the room for it.
                Box::pin(keeping).await
            }
            Verdict::Deny(denied) => Err(self.denied(&denied, walk.span)),
        }
    }
}
