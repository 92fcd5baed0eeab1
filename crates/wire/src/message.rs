//! Messages of our own making. What is passed as raw must be JSON text; it is put in as it is.

use bytes::Bytes;

use crate::escape::quote_into;
use crate::id::Id;
use crate::json::Json;
use crate::pieces::{COPIED_BYTES, Pieces};

/// The error member of a failed reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    /// The code, one of this type's constants or another's own.
    pub code: i64,
    /// One sentence, safe for a client and a model to see.
    pub message: String,
    /// JSON text with particulars.
    pub data: Option<String>,
}

impl RpcError {
    /// The text is not JSON, or not JSON that all readers understand alike.
    pub const PARSE_ERROR: i64 = -32700;
    /// JSON, but not a message that may be sent now.
    pub const INVALID_REQUEST: i64 = -32600;
    /// No such method here.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The method's parameters are wrong.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The fault is on this side.
    pub const INTERNAL: i64 = -32603;
    /// Policy refused, and no tool result can say so.
    pub const DENIED: i64 = -32000;
    /// Policy asks for a person, and no tool result can say so.
    pub const APPROVAL: i64 = -32001;
    /// The upstream is gone or did not answer in time.
    pub const UNAVAILABLE: i64 = -32002;
    /// There is no such resource; the number is that of [`Self::UNAVAILABLE`], on other methods.
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// 2026-07-28: a header differs from the body.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// A URL has to be opened before the request can be served (handshake versions).
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// 2026-07-28: the client did not declare what the request needs.
    pub const MISSING_CAPABILITY: i64 = -32021;
    /// 2026-07-28: the request's protocol version is not spoken here.
    pub const UNSUPPORTED_VERSION: i64 = -32022;

    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> RpcError {
        RpcError {
            code,
            message: message.into(),
            data: None,
        }
    }

    /// Reads the error member of a reply, however little of it is there.
    pub fn read(error: Json<'_>) -> RpcError {
        let message = error.get("message").and_then(Json::as_str);
        RpcError {
            code: error.get("code").and_then(Json::as_i64).unwrap_or_default(),
            message: message.unwrap_or_default().into_owned(),
            data: error.get("data").map(|data| data.as_text().to_owned()),
        }
    }

    /// The same error with JSON text as its data.
    pub fn with_data(mut self, raw: impl Into<String>) -> RpcError {
        self.data = Some(raw.into());
        self
    }
}

/// Names of the protocol's methods.
pub mod methods {
    /// Opens a session.
    pub const INITIALIZE: &str = "initialize";
    /// Closes the handshake.
    pub const INITIALIZED: &str = "notifications/initialized";
    /// Asks whether the other side is there.
    pub const PING: &str = "ping";
    /// Withdraws a request.
    pub const CANCELLED: &str = "notifications/cancelled";
    /// Tells how far a request is.
    pub const PROGRESS: &str = "notifications/progress";
    /// Carries a log line.
    pub const MESSAGE: &str = "notifications/message";
    /// Chooses which log lines are sent.
    pub const SET_LEVEL: &str = "logging/setLevel";
    /// Lists tools.
    pub const TOOLS_LIST: &str = "tools/list";
    /// Calls a tool.
    pub const TOOLS_CALL: &str = "tools/call";
    /// Tells that the list of tools changed.
    pub const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
    /// Lists prompts.
    pub const PROMPTS_LIST: &str = "prompts/list";
    /// Fetches a prompt.
    pub const PROMPTS_GET: &str = "prompts/get";
    /// Tells that the list of prompts changed.
    pub const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";
    /// Lists resources.
    pub const RESOURCES_LIST: &str = "resources/list";
    /// Lists resource templates.
    pub const RESOURCE_TEMPLATES_LIST: &str = "resources/templates/list";
    /// Reads a resource.
    pub const RESOURCES_READ: &str = "resources/read";
    /// Asks to be told of a resource's changes.
    pub const RESOURCES_SUBSCRIBE: &str = "resources/subscribe";
    /// Takes that back.
    pub const RESOURCES_UNSUBSCRIBE: &str = "resources/unsubscribe";
    /// Tells that the list of resources changed.
    pub const RESOURCES_CHANGED: &str = "notifications/resources/list_changed";
    /// Tells that a resource changed.
    pub const RESOURCE_UPDATED: &str = "notifications/resources/updated";
    /// Completes an argument.
    pub const COMPLETE: &str = "completion/complete";
    /// 2025-11-25: asks how a task stands.
    pub const TASKS_GET: &str = "tasks/get";
    /// 2025-11-25: waits for what came of a task.
    pub const TASKS_RESULT: &str = "tasks/result";
    /// 2025-11-25: lists tasks.
    pub const TASKS_LIST: &str = "tasks/list";
    /// Withdraws a task.
    pub const TASKS_CANCEL: &str = "tasks/cancel";
    /// 2025-11-25: tells how a task stands.
    pub const TASK_STATUS: &str = "notifications/tasks/status";
    /// Asks the host for its roots.
    pub const ROOTS_LIST: &str = "roots/list";
    /// Tells that the host's roots changed.
    pub const ROOTS_CHANGED: &str = "notifications/roots/list_changed";
    /// Asks the host's model.
    pub const SAMPLING: &str = "sampling/createMessage";
    /// Asks the host's user.
    pub const ELICITATION: &str = "elicitation/create";
    /// 2026-07-28: asks what a server speaks and offers.
    pub const DISCOVER: &str = "server/discover";
    /// 2026-07-28: asks to be told of changes.
    pub const LISTEN: &str = "subscriptions/listen";
    /// 2026-07-28: says which changes will be told.
    pub const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
    /// Tells that what an address was opened for is done; gone in 2026-07-28.
    pub const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";
}

/// A request.
pub fn request(id: &Id, method: &str, params_raw: Option<&str>) -> Bytes {
    let mut out = start(Some(id));
    out.push(',');
    push_call(&mut out, method, params_raw);
    out.into()
}

/// A call of a tool.
pub fn tool_call(id: &Id, tool: &str, arguments_raw: &str) -> Bytes {
    let mut params = String::from(r#"{"name":"#);
    quote_into(tool, &mut params);
    params.push_str(r#","arguments":"#);
    params.push_str(arguments_raw);
    params.push('}');
    request(id, methods::TOOLS_CALL, Some(&params))
}

/// A notification.
pub fn notification(method: &str, params_raw: Option<&str>) -> Bytes {
    let mut out = String::from(r#"{"jsonrpc":"2.0","#);
    push_call(&mut out, method, params_raw);
    out.into()
}

/// A successful reply.
pub fn result(id: &Id, raw: &str) -> Bytes {
    let mut out = start(Some(id));
    out.push_str(r#","result":"#);
    out.push_str(raw);
    out.push('}');
    out.into()
}

/// The same, around a result that others have too: a large one is not copied.
pub fn result_around(id: &Id, raw: Bytes) -> Pieces {
    let mut out = start(Some(id)).into_bytes();
    out.extend_from_slice(br#","result":"#);
    if raw.len() > COPIED_BYTES {
        let end = Bytes::from_static(b"}");
        return [Bytes::from(out), raw, end].into_iter().collect();
    }
    out.extend_from_slice(&raw);
    out.push(b'}');
    Bytes::from(out).into()
}

/// A failed reply; without an id where the request's own could not be read.
pub fn error(id: Option<&Id>, error: &RpcError) -> Bytes {
    let mut out = start(id);
    out.push_str(r#","error":{"code":"#);
    out.push_str(&error.code.to_string());
    out.push_str(r#","message":"#);
    quote_into(&error.message, &mut out);
    if let Some(data) = &error.data {
        out.push_str(r#","data":"#);
        out.push_str(data);
    }
    out.push_str("}}");
    out.into()
}

fn start(id: Option<&Id>) -> String {
    let mut out = String::with_capacity(128);
    out.push_str(r#"{"jsonrpc":"2.0","id":"#);
    out.push_str(id.map_or("null", Id::raw));
    out
}

fn push_call(out: &mut String, method: &str, params_raw: Option<&str>) {
    out.push_str(r#""method":"#);
    quote_into(method, out);
    if let Some(params) = params_raw {
        out.push_str(r#","params":"#);
        out.push_str(params);
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, FrameKind};
    use crate::scan::Strictness;

    #[test]
    fn a_large_result_is_shared_and_a_small_one_copied() {
        for (length, pieces) in [(0, 1), (COPIED_BYTES - 2, 1), (COPIED_BYTES - 1, 3)] {
            let raw = Bytes::from(format!("\"{}\"", "x".repeat(length)));
            let whole = result_around(&Id::number(7), raw.clone());
            assert_eq!(whole.count(), pieces);
            let text = std::str::from_utf8(&raw).expect("it is ours");
            assert_eq!(whole.into_bytes(), result(&Id::number(7), text));
        }
    }

    #[test]
    fn built_messages_parse_back() {
        let id = Id::string("a\"b");
        let failure = RpcError::new(RpcError::DENIED, "no \"x\"").with_data(r#"{"rule":1}"#);
        let cases = [
            (
                request(&Id::number(7), methods::PING, None),
                FrameKind::Request,
                r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#,
            ),
            (
                request(&id, "x", Some("{}")),
                FrameKind::Request,
                r#"{"jsonrpc":"2.0","id":"a\"b","method":"x","params":{}}"#,
            ),
            (
                notification("n", Some(r#"{"a":1}"#)),
                FrameKind::Notification,
                r#"{"jsonrpc":"2.0","method":"n","params":{"a":1}}"#,
            ),
            (
                result(&id, "[]"),
                FrameKind::Result,
                r#"{"jsonrpc":"2.0","id":"a\"b","result":[]}"#,
            ),
            (
                error(None, &failure),
                FrameKind::Error,
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no \"x\"","data":{"rule":1}}}"#,
            ),
        ];
        for (built, kind, expected) in cases {
            assert_eq!(built, expected);
            let frame = Frame::parse(built, Strictness::Full).expect("our own frames are valid");
            assert_eq!(frame.kind(), kind);
        }
    }
}
