//! Who may come in: the agent's token opens `/mcp`, the admin's everything else.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::{Shared, listen::Peer};

/// The two credentials, kept as digests: comparing those takes the same time for every guess.
#[derive(Debug)]
pub struct Tokens {
    agent: [u8; 32],
    admin: [u8; 32],
}

impl Tokens {
    /// Takes the tokens as configured.
    pub fn new(agent: &str, admin: &str) -> Self {
        Self {
            agent: digest(agent),
            admin: digest(admin),
        }
    }
}

/// Who was let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Agent,
    Admin,
}

/// The name that calls with the agent's token run under.
pub(super) const AGENT_PRINCIPAL: &str = "agent";

/// Lets agents in.
#[expect(clippy::result_large_err, reason = "a refusal is an answer")]
pub(super) fn agents_only(tokens: &Tokens, headers: &HeaderMap) -> Result<(), Response> {
    match role(tokens, headers) {
        Some(Role::Agent) => Ok(()),
        Some(Role::Admin) => {
            let text = "the admin token does not make calls; use the agent token\n";
            Err((StatusCode::FORBIDDEN, text).into_response())
        }
        None => Err(unauthorized()),
    }
}

/// Lets admins in.
pub(super) async fn admins_only(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response {
    match role(&shared.tokens, request.headers()) {
        Some(Role::Admin) => next.run(request).await,
        Some(Role::Agent) => (
            StatusCode::FORBIDDEN,
            "the agent token may only use /mcp; use the admin token\n",
        )
            .into_response(),
        None => unauthorized(),
    }
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

fn role(tokens: &Tokens, headers: &HeaderMap) -> Option<Role> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let given = digest(token.trim());
    let is = |known: &[u8; 32]| bool::from(given.ct_eq(known));
    match (is(&tokens.agent), is(&tokens.admin)) {
        (true, _) => Some(Role::Agent),
        (false, true) => Some(Role::Admin),
        (false, false) => None,
    }
}

fn unauthorized() -> Response {
    let text = "a token is needed: send `Authorization: Bearer …` (see `callgate connect`)\n";
    let mut response = (StatusCode::UNAUTHORIZED, text).into_response();
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}
