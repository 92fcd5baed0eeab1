//! Builds our own messages. Parameters called raw must be JSON text and are inserted as they are.

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
    /// Details as JSON text.
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
    /// This side failed.
    pub const INTERNAL: i64 = -32603;
    /// Policy denied a request whose answer cannot be a tool result.
    pub const DENIED: i64 = -32000;
    /// Policy requires approval for a request whose answer cannot be a tool result.
    pub const APPROVAL: i64 = -32001;
    /// The upstream is gone or did not answer in time.
    pub const UNAVAILABLE: i64 = -32002;
    /// The resource does not exist. The number equals [`Self::UNAVAILABLE`], which other methods use.
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// 2026-07-28: a header differs from the body.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// A URL has to be opened before the request can be served (handshake versions).
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// 2026-07-28: the client did not declare what the request needs.
    pub const MISSING_CAPABILITY: i64 = -32021;
    /// 2026-07-28: the request's protocol version is not supported.
    pub const UNSUPPORTED_VERSION: i64 = -32022;

    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> RpcError {
        RpcError {
            code,
            message: message.into(),
            data: None,
        }
    }

    /// Reads the error member of a reply; missing parts get defaults.
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
    pub const INITIALIZE: &str = "initialize";
    pub const INITIALIZED: &str = "notifications/initialized";
    /// Tests whether the other side is alive.
    pub const PING: &str = "ping";
    pub const CANCELLED: &str = "notifications/cancelled";
    /// Reports the progress of a request.
    pub const PROGRESS: &str = "notifications/progress";
    /// Carries a log line.
    pub const MESSAGE: &str = "notifications/message";
    /// Chooses which log lines are sent.
    pub const SET_LEVEL: &str = "logging/setLevel";
    pub const TOOLS_LIST: &str = "tools/list";
    pub const TOOLS_CALL: &str = "tools/call";
    pub const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
    pub const PROMPTS_LIST: &str = "prompts/list";
    pub const PROMPTS_GET: &str = "prompts/get";
    pub const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";
    pub const RESOURCES_LIST: &str = "resources/list";
    pub const RESOURCE_TEMPLATES_LIST: &str = "resources/templates/list";
    pub const RESOURCES_READ: &str = "resources/read";
    /// Subscribes to changes of a resource.
    pub const RESOURCES_SUBSCRIBE: &str = "resources/subscribe";
    pub const RESOURCES_UNSUBSCRIBE: &str = "resources/unsubscribe";
    pub const RESOURCES_CHANGED: &str = "notifications/resources/list_changed";
    pub const RESOURCE_UPDATED: &str = "notifications/resources/updated";
    pub const COMPLETE: &str = "completion/complete";
    /// 2025-11-25: requests the status of a task.
    pub const TASKS_GET: &str = "tasks/get";
    /// 2025-11-25: waits for the result of a task.
    pub const TASKS_RESULT: &str = "tasks/result";
    /// 2025-11-25: lists tasks.
    pub const TASKS_LIST: &str = "tasks/list";
    pub const TASKS_CANCEL: &str = "tasks/cancel";
    /// 2025-11-25: reports the status of a task.
    pub const TASK_STATUS: &str = "notifications/tasks/status";
    /// 2026-07-28: reports the state of a task.
    pub const TASK_STATE: &str = "notifications/tasks";
    /// Asks the host for its roots.
    pub const ROOTS_LIST: &str = "roots/list";
    pub const ROOTS_CHANGED: &str = "notifications/roots/list_changed";
    /// Asks the host for a completion of its model.
    pub const SAMPLING: &str = "sampling/createMessage";
    /// Asks the host for input of its user.
    pub const ELICITATION: &str = "elicitation/create";
    /// 2026-07-28: requests a server's versions and capabilities.
    pub const DISCOVER: &str = "server/discover";
    /// 2026-07-28: subscribes to change notifications.
    pub const LISTEN: &str = "subscriptions/listen";
    /// 2026-07-28: confirms which notifications will be sent.
    pub const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
    /// Reports that the interaction at an opened URL is complete; removed in 2026-07-28.
    pub const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";
}

pub fn request(id: &Id, method: &str, params_raw: Option<&str>) -> Bytes {
    let mut out = start(Some(id));
    out.push(',');
    push_call(&mut out, method, params_raw);
    out.into()
}

pub fn tool_call(id: &Id, tool: &str, arguments_raw: &str) -> Bytes {
    let mut params = String::from(r#"{"name":"#);
    quote_into(tool, &mut params);
    params.push_str(r#","arguments":"#);
    params.push_str(arguments_raw);
    params.push('}');
    request(id, methods::TOOLS_CALL, Some(&params))
}

pub fn notification(method: &str, params_raw: Option<&str>) -> Bytes {
    let mut out = String::from(r#"{"jsonrpc":"2.0","#);
    push_call(&mut out, method, params_raw);
    out.into()
}

pub fn result(id: &Id, raw: &str) -> Bytes {
    let mut out = start(Some(id));
    out.push_str(r#","result":"#);
    out.push_str(raw);
    out.push('}');
    out.into()
}

/// A successful reply around a shared result, which is not copied if it is large.
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

/// A failed reply; without an id if the request's own could not be read.
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
