//! The door's own replies: JSON bodies, and refusals as JSON-RPC errors with a matching status.

use std::convert::Infallible;

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use callgate_gate::Transport;
use callgate_wire::{Pieces, Rejected, RpcError, message};
use futures_util::stream;

use super::{
    Shared,
    body::{BodyError, Unread},
};

/// A response with a frame or batch as its body, unchanged.
pub(super) fn json(status: StatusCode, body: impl Into<Pieces>) -> Response {
    let body = body.into();
    let length = HeaderValue::from(body.len());
    // Several pieces are streamed so that hyper can write them with one `writev`. The length is set below in either case,
    // so the response is never chunked.
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

/// The reply to a body that could not be read. A slow client or a full budget is not counted as a frame error: the frame
/// was never seen.
pub(super) fn no_body(shared: &Shared, unread: &Unread) -> Response {
    let error = unread.error;
    let rpc_error = |code| RpcError::new(code, error.to_string());
    match error {
        BodyError::TooLarge | BodyError::Broken => refuse(
            shared,
            error.status(),
            &rpc_error(RpcError::INVALID_REQUEST),
            &unread.rejected,
        ),
        BodyError::Busy => unavailable(rpc_error(RpcError::INTERNAL)),
        BodyError::Slow => {
            let body = message::error(None, &rpc_error(RpcError::INVALID_REQUEST));
            let mut response = json(StatusCode::REQUEST_TIMEOUT, body);
            // The rest of the body may still arrive, so the connection cannot be reused.
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
            response
        }
    }
}

/// The reply to a request that arrives while the gateway drains.
pub(super) fn stopping() -> Response {
    let text = "the gateway is stopping";
    unavailable(RpcError::new(RpcError::INTERNAL, text))
}

/// A 503 that is safe to retry: `effect` says that nothing was done.
fn unavailable(error: RpcError) -> Response {
    let body = message::error(None, &error.with_data(r#"{"effect":"none"}"#));
    let mut response = json(StatusCode::SERVICE_UNAVAILABLE, body);
    let soon = HeaderValue::from_static("1");
    response.headers_mut().insert(header::RETRY_AFTER, soon);
    response
}

/// Refuses an invalid frame, and counts it.
pub(super) fn refuse(
    shared: &Shared,
    status: u16,
    error: &RpcError,
    rejected: &Rejected,
) -> Response {
    shared.gateway.frame_error(Transport::Http, &error.message);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    json(status, message::error(rejected.answered_id(), error))
}

/// Refuses a request before its frame is read.
pub(super) fn refuse_http(status: u16, why: &str) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    json(
        status,
        message::error(None, &RpcError::new(RpcError::INVALID_REQUEST, why)),
    )
}
