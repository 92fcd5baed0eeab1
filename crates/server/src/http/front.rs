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
use callgate_gate::View;
use hyper::{body::Incoming, service::Service};
use hyper_util::service::TowerToHyperService;

use super::{
    Shared, auth, dns_rebinding,
    listen::{Answers, Peer},
    mcp, stateless,
};
use crate::Principal;

/// The front of a door.
#[derive(Debug, Clone)]
pub(super) struct Front {
    pub(super) shared: Arc<Shared>,
    /// Everything but `/mcp`.
    pub(super) others: Router,
}

/// The view that a URL asks for.
enum Asked {
    /// The one that the caller's token names, else the configured one.
    Usual,
    /// This one.
    View(View),
}

impl Answers for Front {
    async fn answer(&self, request: Request<Incoming>, peer: Peer) -> Response {
        let mut response = match dns_rebinding::against_rebinding(&self.shared.hosts, &request) {
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
        if let Some(view) = self.view(request.uri().path()) {
            return match auth::agents_only(&self.shared, request.headers()) {
                Err(refusal) => refusal,
                Ok(principal) => self.mcp(request, view, &principal).await,
            };
        }
        request.extensions_mut().insert(peer);
        let others = TowerToHyperService::new(self.others.clone());
        let Ok(response) = others.call(request.map(Body::new)).await;
        response
    }

    /// What a URL asks for; `None` where it is not MCP's.
    fn view(&self, path: &str) -> Option<Asked> {
        match path {
            "/mcp" => Some(Asked::Usual),
            "/mcp/direct" => Some(Asked::View(View::Direct)),
            "/mcp/search" => Some(Asked::View(View::Search)),
            "/mcp/code" => Some(Asked::View(View::Code)),
            _ => None,
        }
    }

    async fn mcp(
        &self,
        request: Request<Incoming>,
        asked: Asked,
        principal: &Arc<Principal>,
    ) -> Response {
        let usual = || self.shared.gateway.views.default_view();
        let view = match asked {
            Asked::View(view) => view,
            Asked::Usual => principal.view.unwrap_or_else(usual),
        };
        match *request.method() {
            Method::POST => mcp::post(&self.shared, principal, view, request).await,
            Method::GET | Method::DELETE if stateless::is_claimed(request.headers()) => {
                stateless::post_only()
            }
            Method::GET => mcp::get(&self.shared, principal, request.headers()),
            Method::DELETE => mcp::delete(&self.shared, principal, request.headers()),
            _ => {
                let allowed = [(header::ALLOW, "GET, POST, DELETE")];
                (StatusCode::METHOD_NOT_ALLOWED, allowed).into_response()
            }
        }
    }
}
