//! The HTTP door: Streamable HTTP of both eras on `/mcp`, health, checks for other gateways, approvals for approvers, and
//! server status, events and metrics for admins.

mod api;
mod approval_routes;
mod auth;
mod body;
mod check;
mod dns_rebinding;
mod front;
mod health;
mod listen;
mod mcp;
mod page;
mod problem;
mod replies;
mod sessions;
mod stateless;
mod stream;
mod telemetry;

use std::{sync::Arc, time::Duration};

use axum::{Json, Router, extract::State, middleware, routing::get};
use callgate_record::Archive;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use auth::Tokens;
pub use page::Logins;

use crate::{Gateway, gateway::ServerRow};
use body::{BodyDeadlines, BodyLimits};
use front::Front;
use listen::ConnectionLimits;
use sessions::Sessions;

#[derive(Debug)]
pub struct HttpDoor {
    pub gateway: Gateway,
    pub tokens: Tokens,
    /// The limit of a request body, in bytes.
    pub body_bytes: usize,
    /// Host names that requests may use, in addition to loopback.
    pub hosts: Vec<String>,
    /// The limit of open connections.
    pub connections: usize,
    /// How long a session may go without a request or open stream.
    pub session_idle: Duration,
    /// The login sessions of the approvals page.
    pub logins: Arc<Logins>,
    /// Whether `/metrics` is open without a token to programs on this machine.
    pub open_metrics: bool,
    /// Whether `/v1/check` is open without a token to programs on this machine.
    pub open_check: bool,
    /// The record that the API reads; without it the API answers that there is none.
    pub archive: Option<Arc<dyn Archive>>,
}

/// The two steps of closing a door.
#[derive(Debug, Clone, Default)]
pub struct Closing {
    /// Refuses new calls and lets those in flight finish.
    pub drain: CancellationToken,
    /// Closes connections after their last answers, and cuts off those that do not finish.
    pub close: CancellationToken,
}

/// The state that the handlers share.
#[derive(Debug)]
struct Shared {
    gateway: Gateway,
    tokens: Tokens,
    hosts: Vec<String>,
    sessions: Sessions,
    bodies: BodyLimits,
    closing: Closing,
    logins: Arc<Logins>,
    open_metrics: bool,
    open_check: bool,
    archive: Option<Arc<dyn Archive>>,
}

impl HttpDoor {
    /// Serves until `closing.close` fires.
    pub async fn serve(self, listener: TcpListener, closing: Closing) {
        let bodies = BodyLimits {
            limit: self.body_bytes,
            budget: self.gateway.inflight.clone(),
            pace: BodyDeadlines::default(),
        };
        let shared = Arc::new(Shared {
            gateway: self.gateway,
            tokens: self.tokens,
            hosts: self.hosts,
            sessions: Sessions::new(self.session_idle),
            bodies,
            closing: closing.clone(),
            logins: self.logins,
            open_metrics: self.open_metrics,
            open_check: self.open_check,
            archive: self.archive,
        });
        let front = Front {
            shared: shared.clone(),
            others: others(&shared),
        };
        let stop = closing.close.clone();
        let serving = listen::serve(
            listener,
            front,
            ConnectionLimits::new(self.connections),
            closing.close,
        );
        tokio::join!(serving, shared.sessions.sweep(stop));
        // After the last connection: a session that ends earlier would cancel calls whose answers are being written.
        shared.sessions.end_all();
    }
}

/// The routes other than `/mcp`.
fn others(shared: &Arc<Shared>) -> Router {
    let admins = Router::new()
        .route("/events", get(telemetry::events))
        .layer(middleware::from_fn_with_state(
            shared.clone(),
            auth::admins_only,
        ));
    // Not with the admin routes: a scraper may be allowed without a token (`open_on_loopback`).
    let metrics = Router::new()
        .route("/metrics", get(telemetry::metrics))
        .layer(middleware::from_fn_with_state(
            shared.clone(),
            auth::scrapers_only,
        ));
    Router::new()
        .route("/healthz", get(health::health))
        .route("/v1/health", get(health::health))
        .route("/readyz", get(health::ready))
        // Health is open to all; each group below checks its own credentials.
        .merge(api::routes(shared))
        .merge(admins)
        .merge(approval_routes::routes(shared))
        .merge(check::routes(shared))
        .merge(page::routes(shared))
        .merge(metrics)
        .with_state(shared.clone())
}

async fn servers(State(shared): State<Arc<Shared>>) -> Json<Vec<ServerRow>> {
    Json(shared.gateway.status.rows())
}
