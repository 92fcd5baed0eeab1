//! The calls of one run. Each takes the path as a child of the run's record. Calls that a held run made before are answered
//! from their stored results.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU32, Ordering},
};

use callgate_call::{AskFailed, Caller, Received, ScriptRun};
use callgate_code::{CallReply, HostCall, HostCalls, Outcome};
use callgate_gate::{Door, Host, Source};
use callgate_wire::{Era, Frame, Id, Strictness, message};
use futures_util::future::BoxFuture;

use super::{
    RequestOrigin, arguments,
    held::{CompletedCall, HeldRun},
    introspect,
    packs::{OWN, Packs},
    value::{outcome, raised, value},
};
use crate::{Gateway, view::results};

/// The limit of stored results per run; a run beyond it cannot be resumed.
const MAX_STORED_BYTES: usize = 32 * 1024 * 1024;

/// The state that the calls of a run share.
pub(super) struct RunCalls {
    pub(super) gateway: Gateway,
    at: RequestOrigin,
    /// The host for the script's calls, always of the handshake era, in which a call is never answered with questions.
    host: Arc<Host>,
    script_run: ScriptRun,
    packs: Packs,
    state: Mutex<State>,
    number: AtomicU32,
}

struct State {
    run: HeldRun,
    /// Calls from before the run was held that the script has not repeated yet.
    before: Vec<CompletedCall>,
    /// The size of the stored results; `None` after it exceeded the limit.
    stored_bytes: Option<usize>,
    /// Blocks that are not text, for the run's reply.
    blocks: Vec<String>,
    held_calls: Vec<HeldCall>,
}

/// A call that waits for an approval.
#[derive(Debug, Clone)]
pub(super) struct HeldCall {
    pub(super) tool: String,
    pub(super) approval: String,
    /// The message for the host.
    pub(super) message: String,
}

impl RunCalls {
    pub(super) fn new(
        gateway: Gateway,
        at: RequestOrigin,
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
                stored_bytes: Some(0),
                blocks: Vec::new(),
                held_calls: Vec::new(),
            }),
            number: AtomicU32::new(0),
        }
    }

    /// The host that started the run.
    pub(super) fn asker(&self) -> &Host {
        &self.at.host
    }

    /// The blocks of all results that are not text.
    pub(super) fn blocks(&self) -> Vec<String> {
        self.state().blocks.clone()
    }

    /// The run to store, and the calls that it waits for.
    pub(super) fn held(&self) -> (Option<HeldRun>, Vec<HeldCall>) {
        let mut state = self.state();
        let held_calls = state.held_calls.clone();
        if state.stored_bytes.is_none() {
            return (None, held_calls);
        }
        let mut run = state.run.clone();
        // A run can be held again before it has repeated all earlier calls; the rest is stored for the next time.
        let before = std::mem::take(&mut state.before);
        run.calls.extend(before);
        (Some(run), held_calls)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(&self, call: HostCall) -> CallReply {
        if call.pack.is_empty() {
            return CallReply::Outcome(self.function(&call));
        }
        if OWN.contains(&call.pack.as_str()) {
            let answering = introspect::answer(&self.gateway, &self.host, &self.packs, &call);
            return CallReply::Outcome(answering.await);
        }
        let tool = match self.packs.tool(&call.pack, &call.tool) {
            Ok(tool) => tool,
            Err(text) => return CallReply::Outcome(raised("AttributeError", &text)),
        };
        let arguments = match arguments::named(&tool, call.args.get(), call.kwargs.get()) {
            Ok(arguments) => arguments,
            Err(text) => return CallReply::Outcome(raised("TypeError", &text)),
        };
        let name = tool.canonical.clone();
        if let Some(outcome) = self.stored_outcome(&name, &arguments) {
            return CallReply::Outcome(outcome);
        }
        let via = call.via.map(Into::into);
        self.make(name, arguments, via).await
    }

    async fn make(&self, name: String, arguments: String, via: Option<Arc<str>>) -> CallReply {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let id = Id::string(&format!("{}/{number}", self.script_run.id()));
        let request = message::tool_call(&id, &name, &arguments);
        let frame = match Frame::parse(request, Strictness::Full) {
            Ok(frame) => frame,
            Err(error) => {
                let text = format!("could not send the arguments: {error}");
                return CallReply::Outcome(raised("TypeError", &text));
            }
        };
        let door = Door {
            source: Source::Code,
            ..self.at.door
        };
        let received = Received::plain(frame, self.host.clone(), door);
        // A stateless host can only be asked in the run's own answer, which the script does not produce yet.
        let caller: Arc<dyn Caller> = match self.at.host.era {
            Era::Handshake => self.at.caller.clone(),
            Era::Stateless => Arc::new(UnreachableHost),
        };
        let mut pending = self.script_run.call(received, caller, via);
        let answer = pending.answer().await;
        let approval = pending.held().cloned();
        let answer = answer.map(|answer| Frame::parse(answer.into_bytes(), Strictness::Envelope));
        let Some(Ok(reply)) = answer else {
            return CallReply::Outcome(raised("RuntimeError", "the call was cancelled"));
        };
        let mut blocks = Vec::new();
        let outcome = outcome(&reply, &mut blocks);
        let mut state = self.state();
        if let Some(approval) = approval {
            let message = match outcome {
                Outcome::Raised { message, .. } => message,
                Outcome::Value(_) => String::new(),
            };
            state.held_calls.push(HeldCall {
                tool: name,
                approval: approval.to_string(),
                message,
            });
            // The worker stops instead of waiting: a person may take an hour, and workers are few.
            return CallReply::Stop;
        }
        state.blocks.extend(blocks.iter().cloned());
        state.store(CompletedCall {
            tool: name,
            arguments,
            outcome: outcome.clone(),
            blocks,
        });
        CallReply::Outcome(outcome)
    }

    /// The stored outcome of an identical earlier call. Each is used once, so repeated calls get their own outcomes.
    fn stored_outcome(&self, tool: &str, arguments: &str) -> Option<Outcome> {
        let mut state = self.state();
        // Matched by content and not by position: concurrent calls may arrive in another order this time.
        let same = |made: &CompletedCall| made.tool == tool && made.arguments == arguments;
        let at = state.before.iter().position(same)?;
        let made = state.before.remove(at);
        state.blocks.extend(made.blocks.iter().cloned());
        let outcome = made.outcome.clone();
        state.store(made);
        Some(outcome)
    }

    /// A function outside of packs; `read_result` is the only one.
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
    /// Stores a call's outcome in case the run is held. A run over the limit continues, but cannot be resumed.
    fn store(&mut self, made: CompletedCall) {
        let Some(stored) = self.stored_bytes else {
            return;
        };
        let stored = stored + made.len();
        if stored > MAX_STORED_BYTES {
            // All or nothing: resuming with a part of the results would repeat the other calls.
            self.stored_bytes = None;
            self.run.calls = Vec::new();
        } else {
            self.stored_bytes = Some(stored);
            self.run.calls.push(made);
        }
    }
}

impl HostCalls for RunCalls {
    fn call(&self, call: HostCall) -> BoxFuture<'_, CallReply> {
        Box::pin(self.answer(call))
    }
}

/// A caller for stateless hosts, which cannot be asked in the middle of a script.
#[derive(Debug)]
struct UnreachableHost;

impl Caller for UnreachableHost {
    fn notify(&self, _notification: bytes::Bytes) {}

    fn ask(&self, _request: Frame) -> BoxFuture<'_, Result<Frame, AskFailed>> {
        Box::pin(async { Err(AskFailed::NoWay) })
    }
}
