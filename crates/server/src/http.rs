//! The HTTP door: Streamable HTTP on `/mcp`, health, and the servers' state for the admin.

mod auth;
mod body;
mod guard;
mod mcp;
mod sessions;
mod stream;

use std::{future::IntoFuture, sync::Arc};

use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    middleware,
    response::{IntoResponse, Response},
    routing::get,
    serve::ListenerExt,
};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use auth::Tokens;

use crate::{Gateway, gateway::ServerRow};
use sessions::Sessions;

/// The HTTP door.
#[derive(Debug)]
pub struct HttpDoor {
    /// What is behind it.
    pub gateway: Gateway,
    /// Who may come in.
    pub tokens: Tokens,
    /// Largest body of a request.
    pub body_bytes: usize,
    /// Names under which we may be reached besides loopback.
    pub hosts: Vec<String>,
}

/// What the handlers share.
#[derive(Debug, Clone)]
struct Shared {
    gateway: Gateway,
    tokens: Arc<Tokens>,
    hosts: Arc<[String]>,
    sessions: Arc<Sessions>,
    body_bytes: usize,
    stop: CancellationToken,
}

impl HttpDoor {
    /// Serves until `stop` fires; then lets what is under way end.
    pub async fn serve(
        self,
        listener: TcpListener,
        stop: CancellationToken,
    ) -> std::io::Result<()> {
        let shared = Shared {
            gateway: self.gateway,
            tokens: Arc::new(self.tokens),
            hosts: self.hosts.into(),
            sessions: Arc::default(),
            body_bytes: self.body_bytes,
            stop: stop.clone(),
        };
        let agents = Router::new()
            .route("/mcp", get(mcp::get).post(mcp::post).delete(mcp::delete))
            .route(
                "/mcp/direct",
                get(mcp::get).post(mcp::post).delete(mcp::delete),
            )
            .layer(middleware::from_fn_with_state(
                shared.clone(),
                auth::agents_only,
            ));
        let admins = Router::new().route("/api/v1/servers", get(servers)).layer(
            middleware::from_fn_with_state(shared.clone(), auth::admins_only),
        );
        let app = Router::new()
            .route("/healthz", get(health))
            .route("/v1/health", get(health))
            .route("/readyz", get(ready))
            .merge(agents)
            .merge(admins)
            .layer(middleware::from_fn_with_state(
                shared.clone(),
                guard::against_rebinding,
            ))
            .with_state(shared.clone());
        // Without it a streamed answer waits for the other side's delayed acknowledgement.
        let listener = listener.tap_io(|socket| {
            let _ = socket.set_nodelay(true);
        });
        let served = axum::serve(listener, app).with_graceful_shutdown(stop.cancelled_owned());
        let ended = served.into_future().await;
        shared.sessions.end_all();
        ended
    }
}

/// `ok`, or `degraded` with a reason for each server that is not.
async fn health(State(shared): State<Shared>) -> Response {
    let rows = shared.gateway.status.rows();
    let reason = |row: &ServerRow| match (&*row.status, &row.reason) {
        ("ok" | "starting", _) => None,
        (status, Some(reason)) => Some(format!("server {} is {status}: {reason}", row.name)),
        (status, None) => Some(format!("server {} is {status}", row.name)),
    };
    let reasons: Vec<String> = rows.iter().filter_map(reason).collect();
    let status = if reasons.is_empty() { "ok" } else { "degraded" };
    Json(json!({"status": status, "reasons": reasons})).into_response()
}

/// Ready once the first round of connects has settled.
async fn ready(State(shared): State<Shared>) -> StatusCode {
    let starting = shared
        .gateway
        .status
        .rows()
        .iter()
        .any(|row| row.status == "starting");
    if starting {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::OK
    }
}

async fn servers(State(shared): State<Shared>) -> Json<Vec<ServerRow>> {
    Json(shared.gateway.status.rows())
}
