//! What the door says in its own name: refusals, each with the right status and as JSON-RPC.

use std::convert::Infallible;

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use callgate_gate::Transport;
use callgate_wire::{Pieces, RpcError, message};
use futures_util::stream;

use super::{Shared, body::BodyError};

/// A frame, or a batch of them, as it is.
pub(super) fn json(status: StatusCode, body: impl Into<Pieces>) -> Response {
    let body = body.into();
    let length = HeaderValue::from(body.len());
    let mut response = Response::new(match body.count() {
        0 | 1 => Body::from(body.into_bytes()),
        _ => Body::from_stream(stream::iter(body.into_iter().map(Ok::<_, Infallible>))),
    });
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, length);
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}

/// There is no body to answer. A client that is too slow, or too early, has done nothing wrong
/// with its frame, which nobody has seen.
pub(super) fn no_body(shared: &Shared, error: BodyError) -> Response {
    let told = |code| RpcError::new(code, error.to_string());
    match error {
        BodyError::TooLarge | BodyError::Broken => {
            refuse(shared, error.status(), &told(RpcError::INVALID_REQUEST))
        }
        BodyError::Busy => unavailable(told(RpcError::INTERNAL)),
        BodyError::Slow => {
            let told = message::error(None, &told(RpcError::INVALID_REQUEST));
            let mut response = json(StatusCode::REQUEST_TIMEOUT, told);
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
            response
        }
    }
}

/// What a call is told that comes while the gateway stops.
pub(super) fn stopping() -> Response {
    let text = "the gateway is stopping";
    unavailable(RpcError::new(RpcError::INTERNAL, text))
}

/// Not now, but soon: nothing was done, and it may be tried again.
fn unavailable(error: RpcError) -> Response {
    let told = message::error(None, &error.with_data(r#"{"effect":"none"}"#));
    let mut response = json(StatusCode::SERVICE_UNAVAILABLE, told);
    let soon = HeaderValue::from_static("1");
    response.headers_mut().insert(header::RETRY_AFTER, soon);
    response
}

/// A frame that is no frame: counted, and answered as JSON-RPC.
pub(super) fn refuse(shared: &Shared, status: u16, error: &RpcError) -> Response {
    shared.gateway.frame_error(Transport::Http, &error.message);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    json(status, message::error(None, error))
}

/// A request that is wrong before its frame is looked at.
pub(super) fn refuse_http(status: u16, why: &str) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    json(
        status,
        message::error(None, &RpcError::new(RpcError::INVALID_REQUEST, why)),
    )
}
