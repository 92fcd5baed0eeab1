//! The HTTP door: Streamable HTTP of both eras on `/mcp`, health, questions of other gateways, approvals for
//! approvers, and for the admin the servers' state, events and metrics.

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

use std::sync::Arc;

use axum::{Json, Router, extract::State, middleware, routing::get};
use callgate_record::Archive;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use auth::Tokens;
pub use page::Logins;

use crate::{Gateway, gateway::ServerRow};
use body::{Allowance, Pace};
use front::Front;
use listen::ConnectionLimits;
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
    /// Who is logged in to the page.
    pub logins: Arc<Logins>,
    /// Whether `/metrics` needs no token from this machine.
    pub open_metrics: bool,
    /// Whether `/v1/check` needs none.
    pub open_check: bool,
    /// What is on record, for the API; without it the API says that there is none.
    pub archive: Option<Arc<dyn Archive>>,
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
#[derive(Debug)]
struct Shared {
    gateway: Gateway,
    tokens: Tokens,
    hosts: Vec<String>,
    sessions: Sessions,
    bodies: Allowance,
    closing: Closing,
    logins: Arc<Logins>,
    open_metrics: bool,
    open_check: bool,
    archive: Option<Arc<dyn Archive>>,
}

impl HttpDoor {
    /// Serves until it is closed.
    pub async fn serve(self, listener: TcpListener, closing: Closing) {
        let bodies = Allowance {
            limit: self.body_bytes,
            budget: self.gateway.inflight.clone(),
            pace: Pace::default(),
        };
        let shared = Arc::new(Shared {
            gateway: self.gateway,
            tokens: self.tokens,
            hosts: self.hosts,
            sessions: Sessions::default(),
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
        listen::serve(
            listener,
            front,
            ConnectionLimits::new(self.connections),
            closing.close,
        )
        .await;
        shared.sessions.end_all();
    }
}

/// Everything but `/mcp`: for whoever watches over the gateway, and for admins.
fn others(shared: &Arc<Shared>) -> Router {
    let admins = Router::new()
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
    Router::new()
        .route("/healthz", get(health::health))
        .route("/v1/health", get(health::health))
        .route("/readyz", get(health::ready))
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
