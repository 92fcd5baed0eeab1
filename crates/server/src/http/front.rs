//! The entry of the HTTP door: every request passes these checks, in this order.
//!
//! `/mcp` is matched by hand because nearly all requests are calls, and a router costs three boxed layers per request.
//! Everything else goes through a router.

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

#[derive(Debug, Clone)]
pub(super) struct Front {
    pub(super) shared: Arc<Shared>,
    /// The routes other than `/mcp`.
    pub(super) others: Router,
}

/// The view that a URL chooses.
enum RequestedView {
    /// The token's view, else the configured default.
    Usual,
    View(View),
}

impl Answers for Front {
    async fn answer(&self, request: Request<Incoming>, peer: Peer) -> Response {
        // Checked first: a rebinding page must reach no handler, not even those that need no token.
        let mut response = match dns_rebinding::against_rebinding(&self.shared.hosts, &request) {
            Err(refusal) => refusal,
            Ok(()) => self.route(request, peer).await,
        };
        // While the gateway drains, clients should reconnect elsewhere instead of reusing this connection.
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
            // Authenticated before the body is read: a stranger cannot make the gateway buffer anything.
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

    /// The view that a path chooses; `None` for paths outside of `/mcp`.
    fn view(&self, path: &str) -> Option<RequestedView> {
        match path {
            "/mcp" => Some(RequestedView::Usual),
            "/mcp/direct" => Some(RequestedView::View(View::Direct)),
            "/mcp/search" => Some(RequestedView::View(View::Search)),
            "/mcp/code" => Some(RequestedView::View(View::Code)),
            _ => None,
        }
    }

    async fn mcp(
        &self,
        request: Request<Incoming>,
        asked: RequestedView,
        principal: &Arc<Principal>,
    ) -> Response {
        let usual = || self.shared.gateway.views.default_view();
        let view = match asked {
            RequestedView::View(view) => view,
            RequestedView::Usual => principal.view.unwrap_or_else(usual),
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
