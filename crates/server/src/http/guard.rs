//! Against DNS rebinding: a web page must not reach a gateway on loopback under its own name.

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use callgate_wire::http::{host_allowed, origin_allowed};

use super::Shared;

/// Refuses requests whose `Host` or `Origin` is neither loopback nor configured.
pub(super) async fn against_rebinding(
    State(shared): State<Shared>,
    request: Request,
    next: Next,
) -> Response {
    let headers = request.headers();
    let host =
        text(headers, header::HOST).or_else(|| request.uri().authority().map(|name| name.as_str()));
    let origin_given = headers.contains_key(header::ORIGIN);
    let origin = text(headers, header::ORIGIN);
    let origin_fine = origin.is_some() || !origin_given;
    if host_allowed(host, &shared.hosts) && origin_fine && origin_allowed(origin, &shared.hosts) {
        return next.run(request).await;
    }
    let text = "this Host or Origin is not served; add it to `hosts` in the configuration if it should be\n";
    (StatusCode::FORBIDDEN, text).into_response()
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}
