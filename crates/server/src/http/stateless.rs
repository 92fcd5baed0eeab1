//! `/mcp` for 2026-07-28: each POST stands for itself. There are no sessions; a response stream that is
//! closed cancels its request.

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

/// Whether a request without a body is of this form. It knows POST alone.
pub(super) fn is_claimed(headers: &HeaderMap) -> bool {
    text(headers, VERSION_HEADER) == Some(ProtocolVersion::V2026_07_28.as_str())
}

/// What GET and DELETE are answered in this form.
pub(super) fn post_only() -> Response {
    (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "POST")]).into_response()
}

/// POST of a frame that claims this form.
pub(super) async fn post(
    shared: &Shared,
    principal: &Arc<Principal>,
    view: View,
    headers: &HeaderMap,
    frame: Frame,
) -> Response {
    match frame.kind() {
        FrameKind::Request => {}
        // Nothing that is said without wanting an answer means anything here.
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
    let id = Ulid::generate().to_string();
    let session = Session::new(shared.gateway.clone(), door, principal.clone(), id)
        .closing(shared.closing.drain.clone());
    let session = match frame.method() {
        Some(methods::LISTEN) => session.with_pass(shared.tokens.pass(principal)),
        Some(_) | None => session,
    };
    let trace = trace_of(headers);
    let url_and_headers = UrlAndHeaders { view, trace };
    answer(shared, &session, frame, url_and_headers, Era::Stateless).await
}

/// The status that goes with an error of this form.
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

/// Sees that the headers say what the body says, and that the body says what it must.
fn check(shared: &Shared, headers: &HeaderMap, frame: &Frame) -> Result<(), RpcError> {
    let find = |name: &str| {
        let name = HeaderName::try_from(name).ok()?;
        headers.get(name)?.to_str().ok()
    };
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
