//! Protection against DNS rebinding: a web page whose name resolves to loopback must not reach the gateway.

use axum::{
    http::{HeaderMap, HeaderName, Request, StatusCode, header},
    response::{IntoResponse, Response},
};
use callgate_wire::http::{host_allowed, origin_allowed};

/// Refuses requests whose `Host` or `Origin` is neither loopback nor one of `hosts`.
#[expect(clippy::result_large_err, reason = "a refusal is an answer")]
pub(super) fn against_rebinding<B>(hosts: &[String], request: &Request<B>) -> Result<(), Response> {
    let headers = request.headers();
    let host =
        text(headers, header::HOST).or_else(|| request.uri().authority().map(|name| name.as_str()));
    // An `Origin` that is not text is refused. Treating it as absent would let a browser's request through.
    let origin_given = headers.contains_key(header::ORIGIN);
    let origin = text(headers, header::ORIGIN);
    let origin_fine = origin.is_some() || !origin_given;
    if host_allowed(host, hosts) && origin_fine && origin_allowed(origin, hosts) {
        return Ok(());
    }
    let text =
        "this Host or Origin is not allowed; to allow it, add it to `hosts` in the configuration\n";
    Err((StatusCode::FORBIDDEN, text).into_response())
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}
