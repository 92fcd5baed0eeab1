//! The calls of one run. Each is one call for the path, below the run's record; what a held run did before it was
//! held is answered from what was kept.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU32, Ordering},
};

use callgate_call::{AskFailed, Caller, Received, ScriptRun};
use callgate_code::{HostCall, HostCalls, Outcome, Reply};
use callgate_gate::{Door, Host, Source};
use callgate_wire::{Era, Frame, Id, Strictness, message};
use futures_util::future::BoxFuture;

use super::{
    AskedAt, arguments,
    held::{HeldRun, Made},
    introspect,
    packs::{OWN, Packs},
    value::{outcome, raised, value},
};
use crate::{Gateway, view::results};

/// How much of a run's results is kept for it to go on with.
const MAX_KEPT_BYTES: usize = 32 * 1024 * 1024;

/// What the calls of a run share.
pub(super) struct Inner {
    pub(super) gateway: Gateway,
    at: AskedAt,
    /// The host as inner calls see it: of the era in which a call is one round.
    host: Arc<Host>,
    script_run: ScriptRun,
    packs: Packs,
    state: Mutex<State>,
    number: AtomicU32,
}

struct State {
    run: HeldRun,
    /// What was made before the run was held, and not asked for again yet.
    before: Vec<Made>,
    /// How much is kept of what was made; `None` once it is too much, and nothing is kept any more.
    kept_bytes: Option<usize>,
    /// Blocks that are no text, for the run's reply.
    blocks: Vec<String>,
    waits: Vec<Waiting>,
}

/// A call that waits for an approval.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    pub(super) tool: String,
    pub(super) approval: String,
    /// What the host is told about it.
    pub(super) told: String,
}

impl Inner {
    pub(super) fn new(
        gateway: Gateway,
        at: AskedAt,
        script_run: ScriptRun,
        packs: Packs,
        mut run: HeldRun,
    ) -> Self {
        let host = match at.host.era {
            Era::Handshake => at.host.clone(),
            Era::Stateless => Arc::new(Host {
                era: Era::Handshake,
                capabilities: "{}".to_owned(),
                ..Host::clone(&at.host)
            }),
        };
        let before = std::mem::take(&mut run.calls);
        Self {
            gateway,
            at,
            host,
            script_run,
            packs,
            state: Mutex::new(State {
                run,
                before,
                kept_bytes: Some(0),
                blocks: Vec::new(),
                waits: Vec::new(),
            }),
            number: AtomicU32::new(0),
        }
    }

    /// The host that asked for the run.
    pub(super) fn asker(&self) -> &Host {
        &self.at.host
    }

    /// The blocks of all results that are no text.
    pub(super) fn blocks(&self) -> Vec<String> {
        self.state().blocks.clone()
    }

    /// The run as it is to be kept, and what it waits for.
    pub(super) fn held(&self) -> (Option<HeldRun>, Vec<Waiting>) {
        let mut state = self.state();
        let waits = state.waits.clone();
        if state.kept_bytes.is_none() {
            return (None, waits);
        }
        let mut run = state.run.clone();
        // What was not asked for again may be asked for the next time.
        let before = std::mem::take(&mut state.before);
        run.calls.extend(before);
        (Some(run), waits)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(&self, call: HostCall) -> Reply {
        if call.pack.is_empty() {
            return Reply::Outcome(self.function(&call));
        }
        if OWN.contains(&call.pack.as_str()) {
            let answering = introspect::answer(&self.gateway, &self.host, &self.packs, &call);
            return Reply::Outcome(answering.await);
        }
        let tool = match self.packs.tool(&call.pack, &call.tool) {
            Ok(tool) => tool,
            Err(text) => return Reply::Outcome(raised("AttributeError", &text)),
        };
        let arguments = match arguments::named(&tool, call.args.get(), call.kwargs.get()) {
            Ok(arguments) => arguments,
            Err(text) => return Reply::Outcome(raised("TypeError", &text)),
        };
        let name = tool.canonical.clone();
        if let Some(outcome) = self.made_before(&name, &arguments) {
            return Reply::Outcome(outcome);
        }
        let via = call.via.map(Into::into);
        self.make(name, arguments, via).await
    }

    /// Makes a call.
    async fn make(&self, name: String, arguments: String, via: Option<Arc<str>>) -> Reply {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let id = Id::string(&format!("{}/{number}", self.script_run.id()));
        let request = message::tool_call(&id, &name, &arguments);
        let frame = match Frame::parse(request, Strictness::Full) {
            Ok(frame) => frame,
            Err(error) => {
                let text = format!("the arguments cannot be sent: {error}");
                return Reply::Outcome(raised("TypeError", &text));
            }
        };
        let door = Door {
            source: Source::Code,
            ..self.at.door
        };
        let received = Received::plain(frame, self.host.clone(), door);
        let caller: Arc<dyn Caller> = match self.at.host.era {
            Era::Handshake => self.at.caller.clone(),
            Era::Stateless => Arc::new(Nobody),
        };
        let mut pending = self.script_run.call(received, caller, via);
        let answer = pending.answer().await;
        let approval = pending.held().cloned();
        let answer = answer.map(|answer| Frame::parse(answer.into_bytes(), Strictness::Envelope));
        let Some(Ok(reply)) = answer else {
            return Reply::Outcome(raised("RuntimeError", "the call was cancelled"));
        };
        let mut blocks = Vec::new();
        let outcome = outcome(&reply, &mut blocks);
        let mut state = self.state();
        if let Some(approval) = approval {
            let told = match outcome {
                Outcome::Raised { message, .. } => message,
                Outcome::Value(_) => String::new(),
            };
            state.waits.push(Waiting {
                tool: name,
                approval: approval.to_string(),
                told,
            });
            return Reply::Stop;
        }
        state.blocks.extend(blocks.iter().cloned());
        state.keep(Made {
            tool: name,
            arguments,
            outcome: outcome.clone(),
            blocks,
        });
        Reply::Outcome(outcome)
    }

    /// What the same call gave before the run was held; each is used once.
    fn made_before(&self, tool: &str, arguments: &str) -> Option<Outcome> {
        let mut state = self.state();
        let same = |made: &Made| made.tool == tool && made.arguments == arguments;
        let at = state.before.iter().position(same)?;
        let made = state.before.remove(at);
        state.blocks.extend(made.blocks.iter().cloned());
        let outcome = made.outcome.clone();
        state.keep(made);
        Some(outcome)
    }

    /// A function of no pack.
    fn function(&self, call: &HostCall) -> Outcome {
        let mut arguments: serde_json::Map<_, _> =
            serde_json::from_str(call.kwargs.get()).unwrap_or_default();
        let by_place: Vec<serde_json::Value> =
            serde_json::from_str(call.args.get()).unwrap_or_default();
        let names = ["handle", "offset", "limit", "search"];
        for (name, given) in names.into_iter().zip(by_place) {
            arguments.insert(name.to_owned(), given);
        }
        match results::answer(&self.gateway, &self.at.host, &arguments.into()) {
            Ok(json) => value(json),
            Err(unanswered) => raised("ValueError", &unanswered.text),
        }
    }
}

impl State {
    /// Keeps what a call gave, in case the run is held. A run with too much of it can be run, and not be held.
    fn keep(&mut self, made: Made) {
        let Some(kept) = self.kept_bytes else { return };
        let kept = kept + made.len();
        if kept > MAX_KEPT_BYTES {
            self.kept_bytes = None;
            self.run.calls = Vec::new();
        } else {
            self.kept_bytes = Some(kept);
            self.run.calls.push(made);
        }
    }
}

impl HostCalls for Inner {
    fn call(&self, call: HostCall) -> BoxFuture<'_, Reply> {
        Box::pin(self.answer(call))
    }
}

/// A host that cannot be asked in the middle of a script.
#[derive(Debug)]
struct Nobody;

impl Caller for Nobody {
    fn notify(&self, _notification: bytes::Bytes) {}

    fn ask(&self, _request: Frame) -> BoxFuture<'_, Result<Frame, AskFailed>> {
        Box::pin(async { Err(AskFailed::NoWay) })
    }
}
