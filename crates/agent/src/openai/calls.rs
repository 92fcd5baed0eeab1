//! Makes the calls of a round through the gate: read-only ones concurrently, the others in order.

use std::sync::Arc;

use bytes::Bytes;
use callgate_call::{Received, TraceContext};
use callgate_gate::{Door, Host, Source, Tool, Transport};
use callgate_server::Gateway;
use callgate_wire::{Frame, Id, Json, Strictness, message};
use futures_util::future::join_all;
use ulid::Ulid;

use super::ToolCall;
use crate::{Spending, step::Run, unattended::Unattended};

/// Makes a model's calls at the gate.
pub(super) struct GateCalls {
    gateway: Gateway,
    host: Arc<Host>,
    trace: Option<TraceContext>,
    spending: Arc<Spending>,
}

impl GateCalls {
    pub(super) fn new(run: &Run<'_>) -> Self {
        Self {
            gateway: run.context.gateway.clone(),
            host: run.host(),
            trace: run.span.context(),
            spending: run.spending.clone(),
        }
    }

    /// The tools that are offered to the model.
    pub(super) fn tools(&self) -> Vec<Arc<Tool>> {
        let providers = self.gateway.path().providers();
        let (catalog, policy) = (providers.catalog(), providers.policy());
        catalog
            .listed_to(&policy, &self.host.identity)
            .cloned()
            .collect()
    }

    /// Makes all calls and returns their results in order. Adjacent read-only calls run concurrently; any other call
    /// runs alone. Of an answer that `is_cut`, only calls with arguments run: a cut could have removed them.
    pub(super) async fn all(&self, requested: &[ToolCall], is_cut: bool) -> Vec<String> {
        let tools = self.tools();
        let only_reads = |requested: &ToolCall| {
            let tool = tools.iter().find(|tool| tool.shown == requested.name);
            tool.is_some_and(|tool| tool.hints.read_only == Some(true))
        };
        let mut results = Vec::with_capacity(requested.len());
        let mut rest = requested;
        while let Some(first) = rest.first() {
            let together = rest
                .iter()
                .take_while(|requested| only_reads(requested))
                .count();
            if together == 0 {
                results.push(self.one(first, is_cut).await);
                rest = &rest[1..];
            } else {
                results.extend(
                    join_all(rest[..together].iter().map(|one| self.one(one, is_cut))).await,
                );
                rest = &rest[together..];
            }
        }
        results
    }

    async fn one(&self, requested: &ToolCall, is_cut: bool) -> String {
        if !self.spending.admits_call() {
            return "error: the budget has no room for this call".to_owned();
        }
        let arguments = match requested.arguments.trim() {
            "" if is_cut => return "error: the answer was cut off before the arguments".to_owned(),
            "" => "{}",
            text => text,
        };
        if let Err(error) = Json::validate(arguments.as_bytes(), Strictness::Full) {
            return format!("error: the arguments are not valid JSON: {error}");
        }
        if !arguments.starts_with('{') {
            return "error: the arguments are not a JSON object".to_owned();
        }
        let arguments = arguments.replace(['\n', '\r'], " ");
        let id = Id::string(&Ulid::generate().to_string());
        let request = message::tool_call(&id, &requested.name, &arguments);
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
        let mut pending = self.gateway.path().start(received, Arc::new(Unattended));
        match pending.answer().await {
            Some(answer) => read(&answer.into_bytes()),
            None => "error: the call was cancelled".to_owned(),
        }
    }
}

/// A response as text for the model.
fn read(answer: &Bytes) -> String {
    let Ok(frame) = Frame::parse(answer.clone(), Strictness::Envelope) else {
        return "error: the answer is not a valid JSON-RPC message".to_owned();
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
