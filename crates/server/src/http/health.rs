//! `/healthz` and `/readyz`, for monitoring. They need no token.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;

use super::Shared;
use crate::{Gateway, gateway::ServerRow};

/// `ok`, or `degraded` with the reasons. Both are answered with 200: a restart would fix none of the reasons, so an
/// orchestrator must not restart a degraded gateway.
pub(super) async fn health(State(shared): State<Arc<Shared>>) -> Response {
    let reasons = reasons(&shared.gateway);
    let status = if reasons.is_empty() { "ok" } else { "degraded" };
    let config = shared.gateway.status.reloads();
    Json(json!({"status": status, "reasons": reasons, "config": config})).into_response()
}

/// Ready when every server's first connect has succeeded or failed, until the gateway drains.
pub(super) async fn ready(State(shared): State<Arc<Shared>>) -> StatusCode {
    let rows = shared.gateway.status.rows();
    let starting = rows.iter().any(|row| row.status == "starting");
    // Not ready while draining, so that a load balancer sends new hosts elsewhere.
    if starting || shared.closing.drain.is_cancelled() {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::OK
    }
}

fn reasons(gateway: &Gateway) -> Vec<String> {
    let rows = gateway.status.rows();
    let mut reasons: Vec<String> = rows.iter().filter_map(reason).collect();
    reasons.extend(gateway.path.record_trouble());
    match gateway.status.record_backlog() {
        0 => {}
        owed => reasons.push(format!("{owed} record entries are waiting to be written")),
    }
    reasons.extend(gateway.status.complaints());
    reasons
}

fn reason(row: &ServerRow) -> Option<String> {
    match (&*row.status, &row.reason) {
        ("ok" | "starting", _) => None,
        (status, Some(reason)) => Some(format!("server {} is {status}: {reason}", row.name)),
        (status, None) => Some(format!("server {} is {status}", row.name)),
    }
}
