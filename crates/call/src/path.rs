//! The one path: the order of the steps, and who walks them.

mod drain;
mod enclosing;
mod entering;
mod holding;
mod pending;
mod questions;
mod refusing;
mod repeat;
mod rounds;

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use arc_swap::ArcSwapOption;
use callgate_gate::{Attempt, Consent, Permit, Verdict, decide};
use callgate_record::{Recorded, Recorder};
use callgate_wire::{Era, bridge};
use tokio_util::task::TaskTracker;

use crate::{
    Caller, Desk, Events, Exchange, Failure, Guard, InHand, Latency, Providers, Received, Registry,
    Reply, Spans, Telemetry,
    events::calls::{CallStarted, IntentDoubtful},
    facts::{Counted, FactSources, Usage},
    finish::{Answer, Ended, Refusal, finish, finish_unresolved, refuse},
    forward::forward,
    inspect::inspect,
    intent::{self, Schemas},
    parking::{Parking, Round},
    receive::{Begun, receive},
    resolve::{Unresolved, resolve},
    seal::SealKey,
    trace::CallSpan,
};
pub use drain::Patience;
use enclosing::Below;
pub use enclosing::{Enclosed, Enclosing};
use entering::Entered;
pub use pending::Pending;
use pending::Walked;
use questions::{About, Gated, carried};
use repeat::Rounds;
use rounds::OnRecord;

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
    desk: OnceLock<Desk>,
    parking: Parking,
    schemas: Schemas,
    tasks: TaskTracker,
    /// Why the last call could not be put on record; nothing once one could.
    record_trouble: ArcSwapOption<String>,
}

/// What the steps of one round know of the others.
struct Walk<'a> {
    span: &'a CallSpan,
    /// Those before it, where its host is asked in between.
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
                desk: OnceLock::new(),
                parking: Parking::new(key),
                schemas: Schemas::default(),
                tasks,
                record_trouble: ArcSwapOption::empty(),
            }),
        }
    }

    /// The same with a desk where people are asked. Without one, what needs a person is refused.
    #[must_use]
    pub fn asking_at(self, desk: Desk) -> Self {
        // A path is given its desk once, before anybody calls.
        let _ = self.shared.desk.set(desk);
        self
    }

    /// Another gateway is asked in place of rules from now on, or none is. The policy says whether it is.
    pub fn set_guard(&self, guard: Option<Box<dyn Guard>>) {
        self.shared.facts.set_guard(guard);
    }

    /// What each token has used of its limits since this process began, by tenant and token.
    pub fn usage(&self) -> Vec<Usage> {
        self.shared.facts.usage()
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
    pub fn desk(&self) -> Option<&Desk> {
        self.shared.desk.get()
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
        let answer = InHand::new(walking, self.shared.tasks.clone());
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
            None => self.steps(attempt, started, exchange, &span, None).await,
            Some(error) => {
                let nowhere = Unresolved::of_view(attempt, *error);
                finish_unresolved(&self.recorder, &self.telemetry.events, nowhere)
            }
        };
        span.end(started.elapsed(), answer.error.as_deref());
        drop(entered);
        (answer.frame, answer.code, answer.held)
    }

    async fn steps(
        self: &Arc<Self>,
        mut attempt: Attempt,
        started: Instant,
        exchange: Exchange,
        span: &CallSpan,
        rounds: Option<Box<Rounds>>,
    ) -> Answer {
        let events = &self.telemetry.events;
        if let Some(fault) = intent::stated(&attempt) {
            return self.faulted(&attempt, None, fault);
        }
        let round = match attempt.host.era {
            Era::Handshake => Round::First,
            Era::Stateless => match self.parking.round_of(&attempt) {
                Ok(round) => round,
                Err(error) => return self.no_round(attempt, error),
            },
        };
        match &round {
            Round::First => {}
            Round::Back(back) => attempt.frame = back.request.clone(),
            Round::Again { parent, .. } => attempt.parent = Some(*parent),
        }
        let resolving = resolve(&*self.providers, attempt);
        let call = match span.step("resolve").over(resolving).await {
            Ok(call) => call,
            Err(unresolved) => return finish_unresolved(&self.recorder, events, unresolved),
        };
        let (attempt, target) = (call.attempt.clone(), call.target.clone());
        span.aim(&target);
        let policy = self.providers.policy();
        if let Some(declared) = &attempt.declared {
            let holds = || intent::holds(declared, &call, &policy, &self.schemas);
            match span.step("intent").of(holds) {
                Ok(None) => {}
                Ok(Some(warning)) => events.emit(IntentDoubtful {
                    call: &call,
                    warning: &warning,
                }),
                Err(fault) => return self.faulted(&attempt, Some(&target), &fault),
            }
        }
        let gathering = self.facts.gather(&call, &policy);
        let mut gathered = span.step("facts").over(gathering).await;
        let facts = &gathered.facts;
        let verdict = span.step("decide").of(|| decide(call, &policy, facts));
        let verdict = match verdict {
            // It was let past its rate limit for the sake of an approval that it does not need any more.
            Verdict::Permit(permit) if gathered.owes_rate() => {
                let call = permit.into_call();
                let counted = Counted::call_of(&call.attempt.host.who);
                self.facts.charge(&counted, &mut gathered);
                decide(call, &policy, &gathered.facts)
            }
            verdict => verdict,
        };
        let earlier = match (&round, rounds.as_deref()) {
            (Round::Again { agreed, .. }, _) | (_, Some(Rounds { agreed, .. })) => agreed.as_ref(),
            (Round::First | Round::Back(_), None) => None,
        };
        let verdict = match (verdict, earlier) {
            // Who said yes to the call said yes to all of its rounds.
            (Verdict::Hold(held), Some(agreed)) => held.release(Consent::of_earlier_round(agreed)),
            (verdict, _) => verdict,
        };
        let permit = match verdict {
            Verdict::Permit(permit) => permit,
            // Boxed, so that calls which are not held do not carry the room for it.
            Verdict::Hold(held) => {
                let back = match &round {
                    Round::Back(back) => Some(back),
                    Round::First | Round::Again { .. } => None,
                };
                let keeping = self.held(held, &mut gathered, (&exchange, back), span);
                match Box::pin(keeping).await {
                    Ok(permit) => permit,
                    Err(answer) => return answer,
                }
            }
            Verdict::Deny(denied) => return self.denied(&denied, span),
        };
        if exchange.cancelled.is_cancelled() {
            return self.withdrawn(permit).await;
        }
        let agreed = permit.agreed().cloned();
        let recording = self.about_to_forward(permit);
        let (recorded, open) = match span.step("record").over(recording).await {
            Ok(recorded) => self.on_record(recorded),
            Err(error) => return self.not_recorded(&attempt, &target, &error),
        };
        let counted = || Counted::call_of(&attempt.host.who);
        self.facts.allowed(counted, &target, &policy, gathered);
        let (call, ruling) = (recorded.call(), recorded.ruling());
        events.emit(CallStarted { call, ruling });
        let on_record = Box::new(OnRecord {
            attempt,
            target,
            open,
            started,
            agreed,
        });
        let walk = Walk { span, rounds };
        match round {
            Round::First if on_record.attempt.host.era == Era::Handshake => {
                self.ask_meanwhile(recorded, exchange, on_record, walk)
                    .await
            }
            // Boxed like what is held.
            Round::First | Round::Back(_) => {
                Box::pin(self.first_round(recorded, exchange, on_record, span)).await
            }
            Round::Again { park, .. } => {
                let span = (park, span);
                Box::pin(self.next_round(recorded, exchange, on_record, span)).await
            }
        }
    }

    /// Forwards the call of a host that can be asked while it waits.
    async fn ask_meanwhile(
        self: &Arc<Self>,
        recorded: Recorded<Permit>,
        mut exchange: Exchange,
        round: Box<OnRecord>,
        walk: Walk<'_>,
    ) -> Answer {
        let Walk { span, rounds } = walk;
        let step = span.step("forward");
        exchange.trace = span.handed_on(&step, &round.attempt);
        let caller = exchange.caller.clone();
        let about = About::call(&round.attempt, round.target.server());
        exchange.caller = Gated::new(self, about, exchange.caller);
        let sent = Instant::now();
        let outcome = step
            .over(forward(&*self.providers, recorded, exchange))
            .await;
        let asking = outcome.as_ref().ok().filter(|reply| asks(reply)).cloned();
        let first = asking.is_some().then(|| {
            let server = round.target.server().clone();
            (round.attempt.clone(), server, round.agreed.clone())
        });
        let answer = self.put_on_record(round, sent, outcome, span).await;
        match (asking, first) {
            (Some(reply), Some((attempt, server, agreed))) => {
                let new = || Box::new(Rounds::of(&attempt, server, agreed));
                let rounds = rounds.unwrap_or_else(new);
                Box::pin(self.repeat(&attempt, rounds, &reply, caller, span)).await
            }
            (None, _) | (_, None) => answer,
        }
    }

    /// Ends a forwarded call.
    async fn put_on_record(
        &self,
        round: Box<OnRecord>,
        sent: Instant,
        outcome: Result<Reply, Failure>,
        span: &CallSpan,
    ) -> Answer {
        let latency = Latency {
            forwarded: sent.elapsed(),
            total: round.started.elapsed(),
        };
        let carried = match &outcome {
            Ok(reply) => carried(reply, round.attempt.host.era),
            Err(_) => Vec::new(),
        };
        let inspected = |reply| {
            let read = span.step("inspect").of(|| inspect(&reply));
            (reply, read)
        };
        let ended = Ended {
            attempt: &round.attempt,
            target: &round.target,
            open: round.open,
            outcome: outcome.map(inspected),
            latency,
        };
        let finishing = finish(&self.recorder, &self.telemetry.events, ended);
        let answer = span.step("finish").over(finishing).await;
        if carried.is_empty() {
            return answer;
        }
        let about = About::call(&round.attempt, round.target.server());
        match Box::pin(self.questions_in(&about, carried)).await {
            Ok(()) => answer,
            Err(ruling) => refuse(&round.attempt, &Refusal::Denied(&ruling)),
        }
    }

    /// A record that can be written again is no trouble any more.
    fn on_record<T>(&self, recorded: T) -> T {
        if self.record_trouble.load().is_some() {
            self.record_trouble.store(None);
        }
        recorded
    }
}

/// Whether a server answers with questions that its host has to be asked.
fn asks(reply: &Reply) -> bool {
    reply.era == Era::Stateless && bridge::asks(&reply.frame)
}
