//! `POST /api/v1/tools/call`: tool calls by programs, with the tools of the `search` view.

use std::sync::Arc;

use axum::{
    body::{Body, to_bytes},
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use callgate_call::{AskFailed, Caller};
use callgate_gate::{CallerIdentity, Door, Host, Operation, Source, Transport};
use callgate_wire::{Era, Frame, Json, Strictness};
use futures_util::future::BoxFuture;
use ulid::Ulid;

use super::{super::Shared, outcome, problem::Problem};
use crate::{Principal, tool_request::ToolRequest};

/// The header by which the gateway's own command line identifies its calls.
const SOURCE: HeaderName = HeaderName::from_static("callgate-source");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Calls a tool: `{"tool_name": "call_tool_read", "arguments": {"name": "server:tool", "args": {}, "intent": {}}}`,
/// or the arguments alone.
#[utoipa::path(post, path = "/api/v1/tools/call", request_body = Object, responses(
    (status = 200, body = Object, description = "The tool's result"),
    (status = 403, body = Problem, description = "Refused by policy, token, pin, or the server's annotations"),
    (status = 404, body = Problem, description = "No such tool"),
    (status = 409, body = Problem, description = "The call needs an approval"),
    (status = 422, body = Problem, description = "Invalid intent or arguments"),
    (status = 429, body = Problem, description = "A rate or cost limit was reached"),
    (status = 502, body = Problem, description = "The server failed"),
    (status = 504, body = Problem, description = "The server did not answer in time"),
))]
pub(super) async fn call(
    State(shared): State<Arc<Shared>>,
    request: Request<Body>,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let principal = parts.extensions.get::<Arc<Principal>>().ok_or_else(|| {
        Problem::new(
            StatusCode::UNAUTHORIZED,
            "UNAUTHORIZED",
            "authentication required",
        )
    })?;
    let body = to_bytes(body, shared.bodies.limit).await.map_err(|_| {
        let what = "the request body is too large or incomplete";
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE", what)
    })?;
    let (tool, arguments) = tool_call(&body)?;
    let request_id = Ulid::generate().to_string();
    let ask = ToolRequest {
        tool,
        arguments,
        host: Arc::new(program(principal)),
        door: Door {
            source: source(&parts.headers),
            transport: Transport::Http,
        },
        // Nothing can be sent to the program before the answer, so a server's question fails at once.
        caller: Arc::new(Program),
        request_id: request_id.clone(),
    };
    let answer = shared.gateway.ask(ask).await.ok_or_else(|| {
        let what = "the call was cancelled or its answer is unreadable";
        Problem::new(StatusCode::BAD_GATEWAY, "UPSTREAM_ERROR", what)
    })?;
    let mut response = match outcome::of(&answer) {
        Ok(result) => {
            let kind = HeaderValue::from_static("application/json");
            ([(header::CONTENT_TYPE, kind)], Body::from(result)).into_response()
        }
        Err(problem) => problem.into_response(),
    };
    if let Ok(id) = HeaderValue::from_str(&request_id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    Ok(response)
}

/// The view's tool and its arguments. A body that names no tool is the arguments of the `call_tool_*` variant for its
/// declared operation.
fn tool_call(body: &[u8]) -> Result<(String, String), Problem> {
    let wrong = |detail: String| Problem::new(StatusCode::BAD_REQUEST, "INVALID_REQUEST", detail);
    let json = Json::validate(body, Strictness::Full)
        .map_err(|error| wrong(format!("the body is not valid JSON: {error}")))?;
    if !json.is_object() {
        return Err(wrong("the body must be a JSON object".to_owned()));
    }
    let named = ["tool_name", "tool"]
        .into_iter()
        .find_map(|key| json.get(key)?.as_str());
    // Frames to stdio servers are lines, so raw line breaks are replaced.
    let one_line = |json: Json<'_>| json.as_text().replace(['\n', '\r'], " ");
    if let Some(tool) = named {
        let arguments = json.get("arguments").or_else(|| json.get("args"));
        let arguments = arguments.map_or_else(|| "{}".to_owned(), one_line);
        return Ok((tool.into_owned(), arguments));
    }
    let intent = json
        .get("intent")
        .and_then(|intent| intent.get("operation_type"));
    let declared = intent.or_else(|| json.get("operation_type"));
    let declared = declared.and_then(|word| word.as_str());
    let operation = declared.as_deref().and_then(Operation::of);
    // Read is the safe default: the path refuses the call if the tool does more than read.
    let operation = operation.unwrap_or(Operation::Read);
    Ok((operation.call_tool().to_owned(), one_line(json)))
}

fn source(headers: &HeaderMap) -> Source {
    match headers.get(SOURCE).map(HeaderValue::as_bytes) {
        Some(b"cli") => Source::Cli,
        Some(_) | None => Source::Api,
    }
}

/// The program as a host: without client info, and with a session per request.
fn program(principal: &Principal) -> Host {
    let agent = if principal.names_agent {
        principal.name.as_str()
    } else {
        "api"
    };
    let identity = CallerIdentity {
        tenant: principal.tenant.clone(),
        principal: principal.name.clone(),
        agent: agent.to_owned(),
        session: Ulid::generate().to_string(),
        grant: principal.grant.clone(),
    };
    Host {
        identity,
        client_info: None,
        capabilities: "{}".to_owned(),
        era: Era::Handshake,
    }
}

/// The program's side of a call. It gets no notifications and cannot be asked.
#[derive(Debug)]
struct Program;

impl Caller for Program {
    fn notify(&self, _notification: Bytes) {}

    fn ask(&self, _request: Frame) -> BoxFuture<'_, Result<Frame, AskFailed>> {
        Box::pin(async { Err(AskFailed::NoWay) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_body_names_a_tool_or_holds_its_arguments() {
        let cases = [
            (
                r#"{"tool_name":"call_tool_write","arguments":{"name":"s:t"}}"#,
                ("call_tool_write", r#"{"name":"s:t"}"#),
            ),
            (
                r#"{"tool":"retrieve_tools","args":{"query":"x"}}"#,
                ("retrieve_tools", r#"{"query":"x"}"#),
            ),
            (
                r#"{"name":"s:t","intent":{"operation_type":"destructive"}}"#,
                (
                    "call_tool_destructive",
                    r#"{"name":"s:t","intent":{"operation_type":"destructive"}}"#,
                ),
            ),
            (
                r#"{"name":"s:t","operation_type":"write"}"#,
                (
                    "call_tool_write",
                    r#"{"name":"s:t","operation_type":"write"}"#,
                ),
            ),
            (r#"{"name":"s:t"}"#, ("call_tool_read", r#"{"name":"s:t"}"#)),
        ];
        for (body, (tool, arguments)) in cases {
            let found = tool_call(body.as_bytes()).unwrap();
            assert_eq!((found.0.as_str(), found.1.as_str()), (tool, arguments));
        }
        for wrong in ["", "[]", r#"{"a":1,"a":2}"#] {
            assert_eq!(
                tool_call(wrong.as_bytes()).unwrap_err().status,
                400,
                "{wrong}"
            );
        }
    }
}
