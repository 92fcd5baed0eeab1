//! The one path: the order of the steps, and the task that runs them. A door calls [`CallPath::start`] and gets a
//! [`Pending`]. The task that polls the `Pending`, usually the door's own, runs the steps: no task is spawned for a call.
//! When the door drops the `Pending` before the answer is ready, the call is cancelled and the rest of it moves to a task of
//! the path, so that `finish` still writes the outcome to the record.
//!
//! `Shared::run` receives a call, and `Shared::steps` has the other steps in the order of the table in ARCHITECTURE.md: resolve,
//! intent, facts, decide, hold, record (`until_recorded`), and forward, which ends with inspect and finish. During `forward`, the provider sends the host notifications and questions
//! through the [`Caller`] that the door passed to `start`.

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
use callgate_record::{Clock, Ledger, LedgerError, Recorded, Recorder, Usage};
use tokio_util::task::TaskTracker;

use crate::{
    ApprovalService, Caller, CallerDriven, Events, Exchange, Guard, Providers, Received, Registry,
    Spans, Telemetry,
    events::calls::IntentDoubtful,
    facts::{FactSources, Gathered, account_of},
    finish::{Answer, finish_unresolved},
    intent::{self, Schemas},
    parking::{Parking, Round},
    receive::{ReceivedAttempt, receive},
    resolve::{Unresolved, resolve},
    seal::SealKey,
    trace::CallSpan,
};
pub use drain::DrainDeadlines;
use entering::InFlight;
use pending::PathOutput;
pub use pending::Pending;
use repeat::Rounds;
use rounds::RecordedRound;
use script_run::ParentRun;
pub use script_run::{ScriptRun, ScriptRunEnd};

/// The path that every call takes, from every door. Cheap to clone.
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
    /// Unset where the gateway has no approvals; a call that needs one is then denied.
    approval_service: OnceLock<ApprovalService>,
    parking: Parking,
    schemas: Schemas,
    tasks: TaskTracker,
    /// Why the last write of a record entry failed; `None` after the next successful one. Health checks read it.
    record_trouble: ArcSwapOption<String>,
}

/// What the steps of one call share.
struct CallContext<'a> {
    started: Instant,
    exchange: Exchange,
    span: &'a CallSpan,
    /// The earlier rounds of a call that is repeated with the host's answers (`path/repeat.rs`).
    rounds: Option<Box<Rounds>>,
}

impl CallPath {
    /// A path to `providers` that records with `recorder` and reports to `telemetry`. The states that hosts carry between
    /// the rounds of a call are sealed with a random key, so they do not outlive this process.
    pub fn new(providers: Arc<dyn Providers>, recorder: Recorder, telemetry: Telemetry) -> Self {
        Self::with_seal_key(&SealKey::random(), providers, recorder, telemetry)
    }

    /// [`CallPath::new`] with a key that outlives this process.
    pub fn with_seal_key(
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

    /// Sets the clock by which states that hosts carry expire, for simulations.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        self.shared.parking.set_clock(clock);
        self
    }

    /// Sets the approval service. Without one, a call that needs approval is denied.
    #[must_use]
    pub fn with_approvals(self, approval_service: ApprovalService) -> Self {
        // Set once, before the first call; a second service would be ignored.
        let _ = self.shared.approval_service.set(approval_service);
        self
    }

    /// Sets or removes the guard: the gateway that is asked instead of evaluating rules. The policy decides whether it is asked.
    pub fn set_guard(&self, guard: Option<Box<dyn Guard>>) {
        self.shared.facts.set_guard(guard);
    }

    /// Sets the ledger that counts for rate limits, history and budgets. Without one, every limit counts as used up.
    #[must_use]
    pub fn with_ledger(self, ledger: Arc<dyn Ledger>) -> Self {
        self.shared.facts.set_ledger(ledger);
        self
    }

    /// The usage of each token, by tenant and token.
    pub async fn usage(&self) -> Result<Vec<Usage>, LedgerError> {
        self.shared.facts.usage().await
    }

    pub fn providers(&self) -> &Arc<dyn Providers> {
        &self.shared.providers
    }

    /// The calls in flight.
    pub fn registry(&self) -> &Registry {
        &self.shared.registry
    }

    /// The recorder, for entries outside of calls.
    pub fn recorder(&self) -> &Recorder {
        &self.shared.recorder
    }

    /// Why the last write of a record entry failed; `None` after the next successful one.
    pub fn record_trouble(&self) -> Option<String> {
        let trouble = self.shared.record_trouble.load();
        trouble.as_deref().cloned()
    }

    pub fn approval_service(&self) -> Option<&ApprovalService> {
        self.shared.approval_service.get()
    }

    pub fn events(&self) -> &Events {
        &self.shared.telemetry.events
    }

    pub fn spans(&self) -> &Spans {
        &self.shared.telemetry.spans
    }

    /// Accepts a call. From here on it can be cancelled through the registry, and draining waits for it. Nothing runs before
    /// the `Pending` is polled.
    pub fn start(&self, received: Received, caller: Arc<dyn Caller>) -> Pending {
        self.start_under(received, caller, None)
    }

    /// [`CallPath::start`] for a call that a script makes.
    fn start_under(
        &self,
        received: Received,
        caller: Arc<dyn Caller>,
        parent_run: Option<ParentRun>,
    ) -> Pending {
        let entered = match self.enter(&received) {
            Ok(entered) => entered,
            Err(refused) => return *refused,
        };
        // One token for the registry, the door and the steps: a cancellation by the host, a dropped `Pending` and
        // the end of draining all reach the call in one way.
        let cancelled = entered.0.cancelled.clone();
        let exchange = Exchange {
            caller,
            cancelled: cancelled.clone(),
            trace: None,
        };
        let running = self
            .shared
            .clone()
            .run(received, exchange, parent_run, entered);
        let answer = CallerDriven::new(running, self.shared.tasks.clone());
        Pending {
            answer,
            code: None,
            held: None,
            cancelled,
        }
    }
}

impl Shared {
    /// Runs an accepted call to its answer. One function instead of a block around it: a nested future would be copied twice
    /// (docs/notes/hot-path.md).
    async fn run(
        self: Arc<Self>,
        received: Received,
        exchange: Exchange,
        parent_run: Option<ParentRun>,
        entered: InFlight,
    ) -> PathOutput {
        let ReceivedAttempt {
            mut attempt,
            nowhere,
            started,
            trace,
        } = receive(received);
        if let Some(ParentRun { parent, via }) = parent_run {
            attempt.parent = Some(parent);
            attempt.via = via;
        }
        let span = self.telemetry.spans.call(&attempt, trace);
        let answer = match nowhere {
            None => {
                let context = CallContext {
                    started,
                    exchange,
                    span: &span,
                    rounds: None,
                };
                self.steps(attempt, context).await
            }
            // The view knows no such name. The attempt is recorded all the same: probing for tools must leave a trace.
            Some(error) => {
                let nowhere = Unresolved::of_view(attempt, *error);
                finish_unresolved(&self.recorder, &self.telemetry.events, nowhere)
            }
        };
        span.end(started.elapsed(), answer.error.as_deref());
        // Last: draining waits for this, and the log must not be closed before the call's end is written.
        drop(entered);
        (answer.frame, answer.code, answer.held)
    }

    /// The steps in their order. Each step passes its result to the next one or ends the call with an answer.
    async fn steps(self: &Arc<Self>, attempt: Attempt, mut context: CallContext<'_>) -> Answer {
        match self.until_recorded(attempt, &mut context).await {
            Ok((recorded, recorded_round, round)) => {
                self.forward(recorded, recorded_round, round, context).await
            }
            Err(answer) => answer,
        }
    }

    /// The steps from resolve to record: all of them come before anything is sent.
    async fn until_recorded(
        self: &Arc<Self>,
        attempt: Attempt,
        context: &mut CallContext<'_>,
    ) -> Result<(Recorded<Permit>, Box<RecordedRound>, Round), Answer> {
        // Before resolve, because a malformed declaration is wrong for every target.
        self.check_declaration(&attempt)?;
        // Before resolve as well: a host that returns with a sealed state means the request that it made first, and that
        // request is resolved and decided again.
        let (attempt, round) = self.find_round(attempt)?;
        let call = self.resolve(attempt, context.span).await?;
        // One snapshot for intent, facts, decide and record: a reload in between must not mix two policies in one verdict.
        let policy = self.providers.policy();
        self.check_intent(&call, &policy, context.span)?;
        let (verdict, mut gathered) = self.decide(call, &policy, context.span).await;
        let permit = self.hold(verdict, &mut gathered, &round, context).await?;
        let (recorded, recorded_round) = self.record(permit, gathered, &policy, context).await?;
        Ok((recorded, recorded_round, round))
    }

    /// Ends a call whose declared intent is malformed.
    fn check_declaration(&self, attempt: &Attempt) -> Result<(), Answer> {
        match intent::declaration_fault(attempt) {
            Some(fault) => Err(self.faulted(attempt, None, fault)),
            None => Ok(()),
        }
    }

    /// resolve: finds the target.
    async fn resolve(&self, attempt: Attempt, span: &CallSpan) -> Result<Call, Answer> {
        let resolving = resolve(&*self.providers, attempt);
        match span.step("resolve").around(resolving).await {
            Ok(call) => {
                span.set_target(&call.target);
                Ok(call)
            }
            Err(unresolved) => {
                let events = &self.telemetry.events;
                Err(finish_unresolved(&self.recorder, events, unresolved))
            }
        }
    }

    /// intent: checks the declaration against the tool as it is now.
    fn check_intent(&self, call: &Call, policy: &Policy, span: &CallSpan) -> Result<(), Answer> {
        let Some(declared) = &call.attempt.declared else {
            return Ok(());
        };
        let check = || intent::check(declared, call, policy, &self.schemas);
        match span.step("intent").run(check) {
            Ok(None) => {}
            Ok(Some(warning)) => self.telemetry.events.emit(IntentDoubtful {
                call,
                warning: &warning,
            }),
            Err(fault) => return Err(self.faulted(&call.attempt, Some(&call.target), &fault)),
        }
        Ok(())
    }

    /// facts and decide: gathers what the policy needs to know, and evaluates it.
    async fn decide(&self, call: Call, policy: &Policy, span: &CallSpan) -> (Verdict, Gathered) {
        let gathering = self.facts.gather(&call, policy);
        let mut gathered = span.step("facts").around(gathering).await;
        let facts = &gathered.facts;
        let verdict = span.step("decide").run(|| decide(call, policy, facts));
        match verdict {
            // The call was not counted, because an earlier hold had paid for it. It needs no approval any more, so it
            // counts like any other call, and the limit may now deny it.
            Verdict::Permit(permit) if gathered.owes_rate() => {
                let call = permit.into_call();
                let account = account_of(&call.attempt.host.identity);
                // Boxed to keep the common path's future small.
                Box::pin(self.facts.charge(&account, &mut gathered)).await;
                (decide(call, policy, &gathered.facts), gathered)
            }
            verdict => (verdict, gathered),
        }
    }

    /// hold: waits for a person, unless an approval of an earlier round covers the call.
    async fn hold(
        self: &Arc<Self>,
        verdict: Verdict,
        gathered: &mut Gathered,
        round: &Round,
        context: &CallContext<'_>,
    ) -> Result<Permit, Answer> {
        // A person is asked once per call. `release` still compares the approval with the call, so an approval of one call
        // cannot release another one.
        let earlier = match (round, context.rounds.as_deref()) {
            (Round::Later { agreed, .. }, _) | (_, Some(Rounds { agreed, .. })) => agreed.as_ref(),
            (Round::First | Round::Returned(_), None) => None,
        };
        let verdict = match (verdict, earlier) {
            (Verdict::Hold(held), Some(agreed)) => held.release(Consent::of_earlier_round(agreed)),
            (verdict, _) => verdict,
        };
        match verdict {
            Verdict::Permit(permit) => Ok(permit),
            Verdict::Hold(held) => {
                let returning = match round {
                    Round::Returned(returning) => Some(returning),
                    Round::First | Round::Later { .. } => None,
                };
                let holding = self.wait_for_person(
                    held,
                    gathered,
                    (&context.exchange, returning),
                    context.span,
                );
                // Boxed to keep the future of calls that are not held small.
                Box::pin(holding).await
            }
            Verdict::Deny(denied) => Err(self.denied(&denied, context.span)),
        }
    }
}
