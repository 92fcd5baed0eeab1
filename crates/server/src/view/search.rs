//! The `search` view: a few tools that find, describe and call all others. Calls go through one tool per kind of operation.

mod calling;
mod describe;
mod retrieve;
mod search_index;
mod signature;
mod tools;

use std::{future::ready, sync::Arc};

use callgate_call::Reading;
use callgate_gate::{Host, Operation};
use callgate_wire::{Frame, Json, RpcError, methods, quote};
use serde_json::Value;

use super::{Interpreted, results};
use crate::Gateway;

pub(crate) use retrieve::{Filters, Query, retrieve, shortened};
pub(crate) use search_index::SearchIndex;
pub(crate) use signature::signature;

/// The error for `call_tool`, which models guess from the names of its variants.
pub(crate) const NO_CALL_TOOL: &str = "Tool 'call_tool' not found. Use call_tool_read, call_tool_write, or call_tool_destructive with matching intent.operation_type. See retrieve_tools for annotations and recommendations.";

const RETRIEVE: &str = "retrieve_tools";
const DESCRIBE: &str = "describe_tool";
const READ_RESULT: &str = "read_result";

/// The view's own tools, whose description names the connected servers.
pub(super) async fn list(gateway: &Gateway, host: &Host) -> String {
    let providers = &**gateway.path.providers();
    // A list without the first servers' tools would be cached by hosts that list only once.
    providers.first_connect(None).await;
    tools::list(providers, host, &gateway.views.settings())
}

/// Interprets a request in this view.
pub(super) fn take(gateway: &Gateway, host: &Arc<Host>, frame: Frame) -> Interpreted {
    let plain = |frame| Interpreted::Call {
        frame,
        reading: Reading::Plain,
        shape: None,
    };
    if frame.method() != Some(methods::TOOLS_CALL) {
        return plain(frame);
    }
    let name = frame.param("name").and_then(|name| name.as_str());
    let Some(name) = name.map(|name| name.into_owned()) else {
        return plain(frame);
    };
    let variant = Operation::ALL
        .into_iter()
        .find(|operation| operation.call_tool() == name);
    if let Some(variant) = variant {
        return calling::take(gateway, host, frame, variant);
    }
    match name.as_str() {
        RETRIEVE => own(gateway, host, &frame, |gateway, host, arguments| {
            Box::pin(retrieve::answer(gateway, host, arguments))
        }),
        DESCRIBE => own(gateway, host, &frame, |gateway, host, arguments| {
            Box::pin(describe::answer(gateway, host, arguments))
        }),
        READ_RESULT => own(gateway, host, &frame, |gateway, host, arguments| {
            Box::pin(ready(results::answer(&gateway, &host, &arguments)))
        }),
        "call_tool" => unknown_tool(frame, NO_CALL_TOOL),
        other => {
            let known: Vec<&str> = tools::NAMES.to_vec();
            let text = format!(
                "unknown tool `{other}`; tools: {}. Other tools are called by call_tool_*",
                known.join(", ")
            );
            unknown_tool(frame, &text)
        }
    }
}

type ViewAnswer = futures_util::future::BoxFuture<'static, Result<String, ViewError>>;

/// Why one of the view's own tools failed.
#[derive(Debug)]
pub(crate) struct ViewError {
    pub(crate) code: &'static str,
    /// The message for the caller.
    pub(crate) text: String,
}

impl ViewError {
    pub(crate) fn new(code: &'static str, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { code, text }
    }

    pub(crate) fn arguments(text: impl Into<String>) -> Self {
        Self::new("INVALID_ARGUMENTS", text)
    }
}

/// Answers one of the view's own tools. Errors are tool results too: models see and correct those, while many hosts do not
/// show them JSON-RPC errors.
fn own(
    gateway: &Gateway,
    host: &Arc<Host>,
    frame: &Frame,
    answer: impl FnOnce(Gateway, Arc<Host>, Value) -> ViewAnswer,
) -> Interpreted {
    let arguments = frame.param("arguments").map_or("{}", Json::as_text);
    // `Null` fits none of the tools' parameters, so unreadable arguments end in INVALID_ARGUMENTS like wrong ones.
    let arguments = serde_json::from_str(arguments).unwrap_or(Value::Null);
    let answering = answer(gateway.clone(), host.clone(), arguments);
    Interpreted::Own(Box::pin(async move {
        Ok(match answering.await {
            Ok(text) => text_result(&text),
            Err(ViewError { code, text }) => fault_result(code, &text),
        })
    }))
}

pub(crate) fn text_result(text: &str) -> String {
    let text = quote(text);
    format!(r#"{{"content":[{{"type":"text","text":{text}}}]}}"#)
}

/// An error result with its code as structured content.
pub(crate) fn fault_result(code: &str, text: &str) -> String {
    let (code, text) = (quote(code), quote(text));
    format!(
        r#"{{"content":[{{"type":"text","text":{text}}}],"structuredContent":{{"code":{code},"message":{text}}},"isError":true}}"#
    )
}

fn unknown_tool(frame: Frame, text: &str) -> Interpreted {
    // Goes to the path all the same, which records the attempt before it answers with this error.
    let error = RpcError::new(RpcError::INVALID_PARAMS, text);
    Interpreted::Call {
        frame,
        reading: Reading::Nowhere(Box::new(error)),
        shape: None,
    }
}
