//! The one path: the order of the steps, and who walks them.

use std::{
    future::ready,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use callgate_gate::{Attempt, Call, Denied, Fault, Hold, Target, Verdict, decide};
use callgate_record::{NotRecorded, Recorder};
use callgate_wire::{Id, Pieces, RpcError, message};
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Caller, Events, Exchange, InHand, Latency, Providers, Received, Registry, Spans, Telemetry,
    events::{
        self,
        calls::{ApprovalRequired, CallStarted, IntentDoubtful, IntentRefused},
        gateway::RecordFailed,
    },
    facts::FactSources,
    finish::{Answer, Ended, Refusal, finish, finish_unresolved, no_record, refuse, refuse_fault},
    forward::forward,
    hold::hold,
    inspect::inspect,
    intent::{self, Schemas},
    receive::{Begun, receive},
    resolve::{Unresolved, resolve},
    trace::CallSpan,
};

/// The way of every call, whatever door it came through.
#[derive(Debug, Clone)]
pub struct CallPath {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    providers: Arc<dyn Providers>,
    recorder: Recorder,
    telemetry: Telemetry,
    registry: Arc<Registry>,
    facts: FactSources,
    schemas: Schemas,
    tasks: TaskTracker,
    /// Why the last call could not be put on record; nothing once one could.
    record_trouble: ArcSwapOption<String>,
}

/// How long draining waits.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For calls to end by themselves.
    pub calls: Duration,
    /// For cancelled calls to end.
    pub cancelled: Duration,
}

impl From<Duration> for Patience {
    /// So long for calls, and five seconds for those that are then cancelled.
    fn from(calls: Duration) -> Self {
        Self {
            calls,
            cancelled: Duration::from_secs(5),
        }
    }
}

/// A call under way, from the door's side: whoever waits for the answer walks the steps. Dropping it
/// cancels the call, which then ends in a task of the path.
#[derive(Debug)]
pub struct Pending {
    answer: InHand<Option<Pieces>>,
    cancelled: CancellationToken,
}

impl CallPath {
    /// A path over `providers` that puts everything on record with `recorder` and tells of it
    /// through `telemetry`.
    pub fn new(providers: Arc<dyn Providers>, recorder: Recorder, telemetry: Telemetry) -> Self {
        let registry = Arc::new(Registry::default());
        let tasks = TaskTracker::new();
        Self {
            shared: Arc::new(Shared {
                providers,
                recorder,
                telemetry,
                registry,
                facts: FactSources::default(),
                schemas: Schemas::default(),
                tasks,
                record_trouble: ArcSwapOption::empty(),
            }),
        }
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
        let session = received.host.who.session.clone();
        let invalid = |text: &str| RpcError::new(RpcError::INVALID_REQUEST, text);
        let Some(id) = received.frame.id().cloned() else {
            return self.refuse(None, &invalid("a call needs an id"));
        };
        // Counted before it is looked whether calls are still taken: draining waits for it, or it
        // sees that draining has begun.
        let counted = self.shared.tasks.token();
        if self.shared.tasks.is_closed() {
            let error = RpcError::new(RpcError::INTERNAL, "the gateway is stopping");
            return self.refuse(Some(&id), &error.with_data(r#"{"effect":"none"}"#));
        }
        let Some(place) = self.shared.registry.enter(&session, &id) else {
            let error = invalid("a request of this id is still under way");
            return self.refuse(Some(&id), &error);
        };
        let cancelled = place.cancelled.clone();
        let exchange = Exchange {
            caller,
            cancelled: cancelled.clone(),
            trace: None,
        };
        let shared = self.shared.clone();
        let walking = async move {
            let answer = shared.walk(received, exchange).await;
            drop((place, counted));
            answer
        };
        let answer = InHand::new(walking, self.shared.tasks.clone());
        Pending { answer, cancelled }
    }

    /// Answers a call before it began.
    fn refuse(&self, id: Option<&Id>, error: &RpcError) -> Pending {
        let answer = Some(message::error(id, error).into());
        Pending {
            answer: InHand::new(ready(answer), self.shared.tasks.clone()),
            cancelled: CancellationToken::new(),
        }
    }

    /// Takes no more calls, and lets those under way end, as long as `patience` says. Then it
    /// cancels what is left and waits for its records, but not for ever: says how many calls
    /// were given up. Whoever writes the record next closes those as `unknown`.
    pub async fn drain(&self, patience: impl Into<Patience>) -> usize {
        let patience = patience.into();
        let tasks = &self.shared.tasks;
        tasks.close();
        if timeout(patience.calls, tasks.wait()).await.is_ok() {
            return 0;
        }
        self.shared.registry.cancel_all();
        if timeout(patience.cancelled, tasks.wait()).await.is_ok() {
            return 0;
        }
        let given_up = self.shared.registry.len();
        tracing::warn!(
            name: "drain.gave_up",
            calls = given_up,
            "calls that do not heed their cancellation are given up; their outcome is unknown"
        );
        given_up
    }
}

impl Shared {
    async fn walk(&self, received: Received, exchange: Exchange) -> Option<Pieces> {
        let Begun {
            attempt,
            nowhere,
            started,
            trace,
        } = receive(received);
        let span = self.telemetry.spans.call(&attempt, trace);
        let answer = match nowhere {
            None => self.steps(attempt, started, exchange, &span).await,
            Some(error) => {
                let nowhere = Unresolved::of_view(attempt, *error);
                finish_unresolved(&self.recorder, &self.telemetry.events, nowhere)
            }
        };
        span.end(started.elapsed(), answer.error.as_deref());
        answer.frame
    }

    async fn steps(
        &self,
        attempt: Attempt,
        started: Instant,
        exchange: Exchange,
        span: &CallSpan,
    ) -> Answer {
        let events = &self.telemetry.events;
        if let Some(fault) = intent::stated(&attempt) {
            return self.faulted(&attempt, None, fault);
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
        let gathered = span.step("facts").over(gathering).await;
        let facts = &gathered.facts;
        let verdict = span.step("decide").of(|| decide(call, &policy, facts));
        let permit = match verdict {
            Verdict::Permit(permit) => permit,
            Verdict::Hold(held) => return self.held(&held, span).await,
            Verdict::Deny(denied) => return self.denied(&denied, span),
        };
        let recording = self.recorder.forwarding(permit);
        let (recorded, open) = match span.step("record").over(recording).await {
            Ok(recorded) => self.on_record(recorded),
            Err(error) => return self.not_recorded(&attempt, &target, &error),
        };
        self.facts.allowed(&attempt, &target, &policy, gathered);
        let (call, ruling) = (recorded.call(), recorded.ruling());
        events.emit(CallStarted { call, ruling });
        let step = span.step("forward");
        let exchange = Exchange {
            trace: span.handed_on(&step, &attempt),
            ..exchange
        };
        let sent = Instant::now();
        let outcome = step
            .over(forward(&*self.providers, recorded, exchange))
            .await;
        let latency = Latency {
            forwarded: sent.elapsed(),
            total: started.elapsed(),
        };
        let inspected = |reply| {
            let read = span.step("inspect").of(|| inspect(&reply));
            (reply, read)
        };
        let ended = Ended {
            attempt: &attempt,
            target: &target,
            open,
            outcome: outcome.map(inspected),
            latency,
        };
        let finishing = finish(&self.recorder, events, ended);
        span.step("finish").over(finishing).await
    }

    async fn held(&self, held: &Hold, span: &CallSpan) -> Answer {
        let (call, ruling) = (held.call(), held.ruling());
        match span.step("hold").over(hold(&self.recorder, held)).await {
            Ok(refusal) => {
                let events = &self.telemetry.events;
                events.emit(ApprovalRequired { call, ruling });
                refuse(&call.attempt.frame, &refusal)
            }
            Err(error) => self.not_recorded(&call.attempt, &call.target, &error),
        }
    }

    /// Ends an attempt whose intent or arguments do not hold: nothing was asked, nothing is sent.
    fn faulted(&self, attempt: &Attempt, target: Option<&Target>, fault: &Fault) -> Answer {
        self.recorder.faulted(attempt, target, fault);
        self.telemetry.events.emit(IntentRefused {
            attempt,
            target,
            fault,
        });
        refuse_fault(&attempt.frame, fault)
    }

    fn denied(&self, denied: &Denied, span: &CallSpan) -> Answer {
        let _step = span.step("finish");
        self.recorder.denied(denied);
        let Call { attempt, target } = denied.call();
        let ruling = denied.ruling();
        self.telemetry.events.emit(events::calls::Denied {
            attempt,
            target,
            ruling,
        });
        refuse(&attempt.frame, &Refusal::Denied(ruling.clone()))
    }

    /// A record that can be written again is no trouble any more.
    fn on_record<T>(&self, recorded: T) -> T {
        if self.record_trouble.load().is_some() {
            self.record_trouble.store(None);
        }
        recorded
    }

    fn not_recorded(&self, attempt: &Attempt, target: &Target, error: &NotRecorded) -> Answer {
        let events = &self.telemetry.events;
        let error = error.to_string();
        events.emit(RecordFailed { error: &error });
        self.record_trouble.store(Some(Arc::new(error)));
        let ruling = no_record();
        events.emit(events::calls::Denied {
            attempt,
            target,
            ruling: &ruling,
        });
        refuse(&attempt.frame, &Refusal::Denied(ruling))
    }
}

impl Pending {
    /// Lets the call go on by itself, for a door that may be kept from waiting: by a host that does not
    /// read what it asked for.
    pub fn hand_over(&mut self) {
        self.answer.hand_over();
    }

    /// Waits for the answer; `None` when the host asked for none any more.
    pub async fn answer(&mut self) -> Option<Pieces> {
        (&mut self.answer).await
    }

    /// The same for whoever is a future already.
    pub fn poll_answer(&mut self, context: &mut Context<'_>) -> Poll<Option<Pieces>> {
        Pin::new(&mut self.answer).poll(context)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.cancelled.cancel();
    }
}
