//! `/mcp` for 2026-07-28: every POST is independent. There are no sessions; closing a response stream cancels its request.

use std::sync::Arc;

use axum::{
    http::{HeaderMap, HeaderName, StatusCode, header},
    response::{IntoResponse, Response},
};
use callgate_call::Providers;
use callgate_gate::{Door, Source, Tool, Transport, View};
use callgate_wire::{
    Era, Frame, FrameKind, ProtocolVersion, RpcError, check_headers, check_params, message,
    methods, stateless::Claims,
};
use ulid::Ulid;

use super::{
    Shared,
    mcp::{UrlAndHeaders, VERSION_HEADER, answer, text, trace_of},
    replies::json,
};
use crate::{Principal, session::Session};

/// Whether a GET or DELETE claims this version, which only has POST.
pub(super) fn is_claimed(headers: &HeaderMap) -> bool {
    text(headers, VERSION_HEADER) == Some(ProtocolVersion::V2026_07_28.as_str())
}

/// The answer to GET and DELETE of this version.
pub(super) fn post_only() -> Response {
    (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "POST")]).into_response()
}

/// POST of a frame of this version.
pub(super) async fn post(
    shared: &Shared,
    principal: &Arc<Principal>,
    view: View,
    headers: &HeaderMap,
    frame: Frame,
) -> Response {
    match frame.kind() {
        FrameKind::Request => {}
        // Without a session there is nothing that a notification or reply could refer to. It is accepted, as the
        // protocol requires, and ignored.
        FrameKind::Notification | FrameKind::Result | FrameKind::Error => {
            return StatusCode::ACCEPTED.into_response();
        }
    }
    if let Err(error) = check(shared, headers, &frame) {
        return json(StatusCode::BAD_REQUEST, message::error(frame.id(), &error));
    }
    let door = Door {
        source: Source::Mcp,
        transport: Transport::Http,
    };
    // A session per request, so that everything behind it works the same for both eras.
    let id = Ulid::generate().to_string();
    let session = Session::new(shared.gateway.clone(), door, principal.clone(), id)
        .closing(shared.closing.drain.clone());
    let session = match frame.method() {
        // Only a subscription outlives its request, so only there can the token be revoked meanwhile.
        Some(methods::LISTEN) => session.with_pass(shared.tokens.pass(principal)),
        Some(_) | None => session,
    };
    let trace = trace_of(headers);
    let url_and_headers = UrlAndHeaders {
        view,
        trace,
        session: None,
    };
    answer(shared, &session, frame, url_and_headers, Era::Stateless).await
}

/// The HTTP status that this version requires for an error code.
pub(super) fn status_of(era: Era, code: Option<i64>) -> StatusCode {
    match (era, code) {
        (
            Era::Stateless,
            Some(
                RpcError::HEADER_MISMATCH
                | RpcError::MISSING_CAPABILITY
                | RpcError::UNSUPPORTED_VERSION,
            ),
        ) => StatusCode::BAD_REQUEST,
        (Era::Stateless, Some(RpcError::METHOD_NOT_FOUND)) => StatusCode::NOT_FOUND,
        (Era::Stateless | Era::Handshake, _) => StatusCode::OK,
    }
}

/// Checks that the headers match the body and that the body has the required claims.
fn check(shared: &Shared, headers: &HeaderMap, frame: &Frame) -> Result<(), RpcError> {
    let find = |name: &str| {
        let name = HeaderName::try_from(name).ok()?;
        headers.get(name)?.to_str().ok()
    };
    // A proxy may route or filter by these headers. If they disagreed with the body, it would judge another call
    // than the one that runs.
    check_headers(frame, find)?;
    Claims::read(frame)?;
    let providers = &**shared.gateway.path.providers();
    match called(providers, frame) {
        Some(tool) => check_params(frame, &tool.param_headers, find),
        None => Ok(()),
    }
}

fn called(providers: &dyn Providers, frame: &Frame) -> Option<Arc<Tool>> {
    if frame.method() != Some(methods::TOOLS_CALL) {
        return None;
    }
    let name = frame.param("name")?.as_str()?;
    providers.catalog().tool(&name).cloned()
}
