//! The front of the HTTP door: what every request passes, in this order, before anything else looks
//! at it.
//!
//! Calls come by the thousand, so `/mcp` is told apart here by hand; everything else goes through a
//! router.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    http::{HeaderValue, Method, Request, StatusCode, header},
    response::{IntoResponse, Response},
};
use hyper::{body::Incoming, service::Service};
use hyper_util::service::TowerToHyperService;

use super::{
    Shared, auth, guard,
    listen::{Answers, Peer},
    mcp,
};
use crate::Principal;

/// The front of a door.
#[derive(Debug, Clone)]
pub(super) struct Front {
    pub(super) shared: Arc<Shared>,
    /// Everything but `/mcp`.
    pub(super) others: Router,
}

impl Answers for Front {
    async fn answer(&self, request: Request<Incoming>, peer: Peer) -> Response {
        let mut response = match guard::against_rebinding(&self.shared.hosts, &request) {
            Err(refusal) => refusal,
            Ok(()) => self.route(request, peer).await,
        };
        // While the gateway stops, each answer is the last one on its connection.
        if self.shared.closing.drain.is_cancelled() {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        response
    }
}

impl Front {
    async fn route(&self, mut request: Request<Incoming>, peer: Peer) -> Response {
        if matches!(request.uri().path(), "/mcp" | "/mcp/direct") {
            return match auth::agents_only(&self.shared.tokens, request.headers()) {
                Err(refusal) => refusal,
                Ok(principal) => self.mcp(request, &principal).await,
            };
        }
        request.extensions_mut().insert(peer);
        let others = TowerToHyperService::new(self.others.clone());
        let Ok(response) = others.call(request.map(Body::new)).await;
        response
    }

    async fn mcp(&self, request: Request<Incoming>, principal: &Arc<Principal>) -> Response {
        match *request.method() {
            Method::POST => mcp::post(&self.shared, principal, request).await,
            Method::GET => mcp::get(&self.shared, principal, request.headers()),
            Method::DELETE => mcp::delete(&self.shared, principal, request.headers()),
            _ => {
                let allowed = [(header::ALLOW, "GET, POST, DELETE")];
                (StatusCode::METHOD_NOT_ALLOWED, allowed).into_response()
            }
        }
    }
}
