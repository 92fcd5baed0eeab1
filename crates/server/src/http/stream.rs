//! Server-sent events as response bodies.

use std::convert::Infallible;

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, header},
    response::Response,
};
use bytes::Bytes;
use callgate_wire::sse;
use futures_util::Stream;

pub(super) fn event_stream(
    events: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static,
) -> Response {
    let mut response = Response::new(Body::from_stream(events));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, no-transform"),
    );
    headers.insert(
        // nginx buffers responses unless told otherwise, which would hold back progress and questions.
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
    response
}

/// One message as an event. An empty message becomes a keep-alive.
pub(super) fn event(message: &[u8]) -> Bytes {
    if message.is_empty() {
        return keep_alive();
    }
    let mut out = Vec::with_capacity(message.len() + 32);
    sse::encode(Some("message"), None, message, &mut out);
    out.into()
}

/// A comment that keeps the connection open through idle proxies.
pub(super) fn keep_alive() -> Bytes {
    let mut out = Vec::new();
    sse::comment("", &mut out);
    out.into()
}
