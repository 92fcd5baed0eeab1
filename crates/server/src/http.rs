//! The HTTP door: Streamable HTTP on `/mcp`, health, and for the admin the servers' state, events
//! and metrics.

mod auth;
mod body;
mod guard;
mod health;
mod listen;
mod mcp;
mod replies;
mod sessions;
mod stream;
mod telemetry;

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{Request, State},
    http::{HeaderValue, header},
    middleware::{self, Next},
    response::Response,
    routing::get,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use auth::Tokens;

use crate::{Gateway, gateway::ServerRow};
use body::{Allowance, Pace};
use listen::Terms;
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
    /// Connections at once.
    pub connections: usize,
    /// Whether `/metrics` needs no token from this machine.
    pub open_metrics: bool,
}

/// How a door is closed, in two steps.
#[derive(Debug, Clone, Default)]
pub struct Closing {
    /// New calls are refused from now on, and calls under way go on.
    pub drain: CancellationToken,
    /// Connections end: last answers are written, and what does not go is cut off.
    pub close: CancellationToken,
}

/// What the handlers share.
#[derive(Debug, Clone)]
struct Shared {
    gateway: Gateway,
    tokens: Arc<Tokens>,
    hosts: Arc<[String]>,
    sessions: Arc<Sessions>,
    bodies: Allowance,
    closing: Closing,
    open_metrics: bool,
}

impl HttpDoor {
    /// Serves until it is closed.
    pub async fn serve(self, listener: TcpListener, closing: Closing) {
        let bodies = Allowance {
            limit: self.body_bytes,
            budget: self.gateway.inflight.clone(),
            pace: Pace::default(),
        };
        let shared = Shared {
            gateway: self.gateway,
            tokens: Arc::new(self.tokens),
            hosts: self.hosts.into(),
            sessions: Arc::default(),
            bodies,
            closing: closing.clone(),
            open_metrics: self.open_metrics,
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
        let admins = Router::new()
            .route("/api/v1/servers", get(servers))
            .route("/events", get(telemetry::events))
            .layer(middleware::from_fn_with_state(
                shared.clone(),
                auth::admins_only,
            ));
        let metrics = Router::new()
            .route("/metrics", get(telemetry::metrics))
            .layer(middleware::from_fn_with_state(
                shared.clone(),
                auth::scrapers_only,
            ));
        let app = Router::new()
            .route("/healthz", get(health::health))
            .route("/v1/health", get(health::health))
            .route("/readyz", get(health::ready))
            .merge(agents)
            .merge(admins)
            .merge(metrics)
            .layer(middleware::from_fn_with_state(
                shared.clone(),
                guard::against_rebinding,
            ))
            .layer(middleware::from_fn_with_state(shared.clone(), say_goodbye))
            .with_state(shared.clone());
        listen::serve(listener, app, Terms::new(self.connections), closing.close).await;
        shared.sessions.end_all();
    }
}

/// While the gateway stops, each answer is the last one on its connection.
async fn say_goodbye(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    if shared.closing.drain.is_cancelled() {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    response
}

async fn servers(State(shared): State<Shared>) -> Json<Vec<ServerRow>> {
    Json(shared.gateway.status.rows())
}
