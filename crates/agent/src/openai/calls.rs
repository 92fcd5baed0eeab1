//! The calls of a round, through the gate: those that only read at once, the others one after the other.

use std::sync::Arc;

use bytes::Bytes;
use callgate_call::{AskFailed, Caller, Received, TraceContext};
use callgate_gate::{Door, Host, Source, Tool, Transport};
use callgate_server::Gateway;
use callgate_wire::{Frame, Id, Json, Strictness, message};
use futures_util::future::{BoxFuture, join_all};
use ulid::Ulid;

use super::Wanted;
use crate::step::Run;

/// The way of a model's calls to the gate.
pub(super) struct Calls {
    gateway: Gateway,
    host: Arc<Host>,
    trace: Option<TraceContext>,
}

impl Calls {
    pub(super) fn new(run: &Run<'_>) -> Self {
        Self {
            gateway: run.context.gateway.clone(),
            host: run.host(),
            trace: run.span.context(),
        }
    }

    /// The tools that the model is told of.
    pub(super) fn tools(&self) -> Vec<Arc<Tool>> {
        let providers = self.gateway.path().providers();
        let (catalog, policy) = (providers.catalog(), providers.policy());
        catalog
            .listed_to(&policy, &self.host.who)
            .cloned()
            .collect()
    }

    /// What each call has to say, in order.
    pub(super) async fn all(&self, wanted: &[Wanted]) -> Vec<String> {
        let tools = self.tools();
        let only_reads = |wanted: &Wanted| {
            let tool = tools.iter().find(|tool| tool.shown == wanted.name);
            tool.is_some_and(|tool| tool.hints.read_only == Some(true))
        };
        let mut results = Vec::with_capacity(wanted.len());
        let mut rest = wanted;
        while let Some(first) = rest.first() {
            let together = rest.iter().take_while(|wanted| only_reads(wanted)).count();
            if together == 0 {
                results.push(self.one(first).await);
                rest = &rest[1..];
            } else {
                results.extend(join_all(rest[..together].iter().map(|one| self.one(one))).await);
                rest = &rest[together..];
            }
        }
        results
    }

    async fn one(&self, wanted: &Wanted) -> String {
        let arguments = match wanted.arguments.trim() {
            "" => "{}",
            text => text,
        };
        let checked = Json::validate(arguments.as_bytes(), Strictness::Full);
        if let Err(error) = &checked {
            return format!("error: the arguments are no JSON: {error}");
        }
        let arguments = arguments.replace(['\n', '\r'], " ");
        let id = Id::string(&Ulid::generate().to_string());
        let request = message::tool_call(&id, &wanted.name, &arguments);
        let frame = match Frame::parse(request, Strictness::Full) {
            Ok(frame) => frame,
            Err(error) => return format!("error: {error}"),
        };
        let door = Door {
            source: Source::Agent,
            transport: Transport::Local,
        };
        let received = Received {
            trace: self.trace.clone(),
            ..Received::plain(frame, self.host.clone(), door)
        };
        let mut pending = self.gateway.path().start(received, Arc::new(Nobody));
        match pending.answer().await {
            Some(answer) => read(&answer.into_bytes()),
            None => "error: the call was cancelled".to_owned(),
        }
    }
}

/// What an answer says, as text for the model.
fn read(answer: &Bytes) -> String {
    let Ok(frame) = Frame::parse(answer.clone(), Strictness::Envelope) else {
        return "error: the answer cannot be read".to_owned();
    };
    if let Some(error) = frame.error() {
        let text = error.get("message").and_then(|text| text.as_str());
        return format!("error: {}", text.unwrap_or_default());
    }
    let Some(result) = frame.result() else {
        return "error: the answer has no result".to_owned();
    };
    let blocks = result
        .get("content")
        .into_iter()
        .flat_map(|blocks| blocks.elements());
    let text = |block: Json<'_>| match block.get("text").and_then(|text| text.as_str()) {
        Some(text) => text.into_owned(),
        None => block.as_text().to_owned(),
    };
    let text: Vec<String> = blocks.map(text).collect();
    let is_error = result.get("isError").and_then(|flag| flag.as_bool()) == Some(true);
    let mark = if is_error { "error: " } else { "" };
    format!("{mark}{}", text.join("\n"))
}

/// A model cannot be asked, and does not listen to progress.
#[derive(Debug)]
struct Nobody;

impl Caller for Nobody {
    fn notify(&self, _notification: Bytes) {}

    fn ask(&self, _request: Frame) -> BoxFuture<'_, Result<Frame, AskFailed>> {
        Box::pin(async { Err(AskFailed::NoWay) })
    }
}
