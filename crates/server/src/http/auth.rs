//! Who may come in: an agent's token opens `/mcp`, an approver's the approvals, an admin's everything
//! but `/mcp`.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use callgate_gate::{Digest, Role};
use subtle::ConstantTimeEq;

use super::{Shared, listen::Peer};
use crate::{Keyring, Principal};

/// The credentials, kept as digests: comparing those takes the same time for every guess.
#[derive(Debug)]
pub struct Tokens {
    agent: (Digest, Arc<Principal>),
    admin: (Digest, Arc<Principal>),
    others: Option<Arc<dyn Keyring>>,
}

impl Tokens {
    /// Takes the two tokens as configured.
    pub fn new(agent: &str, admin: &str) -> Self {
        let known = |token: &str, role: Role| {
            let principal = Principal::new(role.as_str(), role);
            (Digest::of(token.as_bytes()), Arc::new(principal))
        };
        Self {
            agent: known(agent, Role::Agent),
            admin: known(admin, Role::Admin),
            others: None,
        }
    }

    /// The same, and others besides.
    #[must_use]
    pub fn and(mut self, others: Arc<dyn Keyring>) -> Self {
        self.others = Some(others);
        self
    }

    /// Whoever holds a token. The two configured ones are looked at first, so that only others cost a
    /// look at where they are kept.
    pub(super) fn holder(&self, token: &str) -> Option<Arc<Principal>> {
        let given = Digest::of(token.as_bytes());
        let is = |known: &Digest| bool::from(given.as_bytes().ct_eq(known.as_bytes()));
        match (is(&self.agent.0), is(&self.admin.0)) {
            (true, _) => Some(self.agent.1.clone()),
            (false, true) => Some(self.admin.1.clone()),
            (false, false) => self.others.as_ref()?.holder(&given),
        }
    }
}

impl Tokens {
    /// Whether somebody who came in once may still come in.
    pub(super) fn still_opens(&self, principal: &Principal) -> bool {
        let others = self.others.as_ref();
        *principal == *self.admin.1 || others.is_some_and(|others| others.is_valid(&principal.name))
    }
}

/// Lets agents in.
#[expect(clippy::result_large_err, reason = "a refusal is an answer")]
pub(super) fn agents_only(
    tokens: &Tokens,
    headers: &HeaderMap,
) -> Result<Arc<Principal>, Response> {
    let principal = principal(tokens, headers).ok_or_else(unauthorized)?;
    match principal.role {
        Role::Agent => Ok(principal),
        Role::Approver => Err(forbidden("an approver's token does not make calls")),
        Role::Admin => Err(forbidden(
            "the admin token does not make calls; use the agent token",
        )),
    }
}

/// Lets admins in.
pub(super) async fn admins_only(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(principal) = principal(&shared.tokens, request.headers()) else {
        return unauthorized();
    };
    match principal.role {
        Role::Admin => next.run(request).await,
        Role::Approver => forbidden("an approver's token may only use the approvals"),
        Role::Agent => forbidden("the agent token may only use /mcp; use the admin token"),
    }
}

/// Lets everybody in who has a token, and says who it is; what they may do is for others to say.
pub(super) async fn anyone_known(
    State(shared): State<Arc<Shared>>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(principal) = principal(&shared.tokens, request.headers()) else {
        return unauthorized();
    };
    request.extensions_mut().insert(principal);
    next.run(request).await
}

/// Lets whoever scrapes metrics in: admins, and everybody on this machine where it is configured.
pub(super) async fn scrapers_only(
    shared: State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response {
    let peer = request.extensions().get::<Peer>();
    let from_here = peer.is_some_and(|Peer(address)| address.is_loopback());
    if shared.open_metrics && from_here {
        return next.run(request).await;
    }
    admins_only(shared, request, next).await
}

fn principal(tokens: &Tokens, headers: &HeaderMap) -> Option<Arc<Principal>> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    tokens.holder(token.trim())
}

fn forbidden(text: &str) -> Response {
    (StatusCode::FORBIDDEN, format!("{text}\n")).into_response()
}

fn unauthorized() -> Response {
    let text = "a token is needed: send `Authorization: Bearer …` (see `callgate connect`)\n";
    let mut response = (StatusCode::UNAUTHORIZED, text).into_response();
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}
