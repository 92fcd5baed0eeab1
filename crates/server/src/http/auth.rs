//! Who may come in: an agent's token opens `/mcp` and `/v1/check`, an approver's the approvals, an admin's
//! everything but `/mcp`. Each sees its own tenant; only whoever runs the gateway sees all of them.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use callgate_gate::{Digest, FIRST_TENANT, Role};
use subtle::ConstantTimeEq;

use super::{Shared, dns_rebinding, listen::Peer};
use crate::{Keyring, Principal, principal::Pass};

/// What somebody on this machine is called who needs no token.
const LOOPBACK: &str = "loopback";

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
        let known =
            |token: &str, principal: Principal| (Digest::of(token.as_bytes()), Arc::new(principal));
        Self {
            agent: known(agent, Principal::new(Role::Agent.as_str(), Role::Agent)),
            admin: known(admin, Principal::operator()),
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
    /// Whether a principal who came in once may still come in.
    pub(super) fn still_opens(&self, principal: &Principal) -> bool {
        self.pass(principal).is_valid()
    }

    /// What tells whether a principal's token is still valid, for whatever outlasts a request.
    pub(super) fn pass(&self, principal: &Principal) -> Pass {
        let configured = [&self.agent.1, &self.admin.1];
        match &self.others {
            Some(others) if configured.iter().all(|known| ***known != *principal) => {
                Pass::kept(others.clone(), &principal.name)
            }
            Some(_) | None => Pass::default(),
        }
    }
}

/// How far somebody sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reach {
    /// Every tenant.
    All,
    /// This one.
    Tenant(String),
}

impl Reach {
    /// How far somebody sees where no tenant is named.
    pub(super) fn of(principal: &Principal) -> Self {
        if principal.operates {
            Self::All
        } else {
            Self::Tenant(principal.tenant.clone())
        }
    }

    /// The only tenant that is seen.
    pub(super) fn into_tenant(self) -> Option<String> {
        match self {
            Self::All => None,
            Self::Tenant(tenant) => Some(tenant),
        }
    }

    /// Whether something of a tenant is seen.
    pub(super) fn includes(&self, tenant: Option<&str>) -> bool {
        match self {
            Self::All => true,
            Self::Tenant(own) => tenant == Some(own),
        }
    }

    /// How far somebody sees at a place, which may name a tenant. What is not theirs is not there.
    fn at(shared: &Shared, principal: &Principal, path: &str) -> Option<Self> {
        let named = path
            .strip_prefix("/v1/t/")
            .and_then(|rest| rest.split('/').next());
        let Some(named) = named else {
            return Some(Self::of(principal));
        };
        let is_there = shared.gateway.path.providers().policy().knows_tenant(named);
        let is_theirs = principal.operates || principal.tenant == named;
        (is_there && is_theirs).then(|| Self::Tenant(named.to_owned()))
    }
}

/// Whoever sent a request, as long as their tenant is there.
#[expect(clippy::result_large_err, reason = "a refusal is an answer")]
fn known(shared: &Shared, headers: &HeaderMap) -> Result<Arc<Principal>, Response> {
    let principal = principal(&shared.tokens, headers).ok_or_else(unauthorized)?;
    let tenant = principal.tenant.as_str();
    let is_there = tenant == FIRST_TENANT
        || shared
            .gateway
            .path
            .providers()
            .policy()
            .knows_tenant(tenant);
    is_there.then_some(principal).ok_or_else(nowhere)
}

/// Says who it is and how far they see, and lets them in.
async fn enter(
    shared: &Shared,
    principal: Arc<Principal>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(reach) = Reach::at(shared, &principal, request.uri().path()) else {
        return nowhere();
    };
    request.extensions_mut().insert(principal);
    request.extensions_mut().insert(reach);
    next.run(request).await
}

/// Lets agents in.
#[expect(clippy::result_large_err, reason = "a refusal is an answer")]
pub(super) fn agents_only(
    shared: &Shared,
    headers: &HeaderMap,
) -> Result<Arc<Principal>, Response> {
    let principal = known(shared, headers)?;
    match principal.role {
        Role::Agent => Ok(principal),
        Role::Approver => Err(forbidden("an approver's token does not make calls")),
        Role::Admin => Err(forbidden(
            "the admin token does not make calls; use the agent token",
        )),
    }
}

/// Lets admins in, and says who it is.
pub(super) async fn admins_only(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response {
    let principal = match known(&shared, request.headers()) {
        Ok(principal) => principal,
        Err(refusal) => return refusal,
    };
    match principal.role {
        Role::Admin => enter(&shared, principal, request, next).await,
        Role::Approver => forbidden("an approver's token may only use the approvals"),
        Role::Agent => forbidden("the agent token may only use /mcp; use the admin token"),
    }
}

/// Lets everybody in who has a token, and says who it is; what they may do is for others to say.
pub(super) async fn anyone_known(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response {
    match known(&shared, request.headers()) {
        Ok(principal) => enter(&shared, principal, request, next).await,
        Err(refusal) => refusal,
    }
}

/// Lets in whoever asks about calls: those who make them, admins, and everybody on this machine where it is
/// configured.
pub(super) async fn checkers_only(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response {
    let principal = match known(&shared, request.headers()) {
        Ok(principal) => principal,
        Err(_) if shared.open_check && is_from_here(&request) => {
            Arc::new(Principal::new(LOOPBACK, Role::Agent))
        }
        Err(refusal) => return refusal,
    };
    match principal.role {
        Role::Agent | Role::Admin => enter(&shared, principal, request, next).await,
        Role::Approver => forbidden("an approver's token may only use the approvals"),
    }
}

/// Lets whoever scrapes metrics in: admins, and everybody on this machine where it is configured.
pub(super) async fn scrapers_only(
    shared: State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response {
    if shared.open_metrics && is_from_here(&request) {
        return next.run(request).await;
    }
    match known(&shared, request.headers()) {
        // What is counted is counted over all tenants, and belongs to the first.
        Ok(principal) if principal.role == Role::Admin && principal.tenant != FIRST_TENANT => {
            forbidden("the gateway's metrics are not a tenant's")
        }
        Ok(_) | Err(_) => admins_only(shared, request, next).await,
    }
}

/// Whether a program of this machine sent a request. One that a proxy here passed on may come from anywhere.
fn is_from_here(request: &Request) -> bool {
    let peer = request.extensions().get::<Peer>();
    let is_local = peer.is_some_and(|Peer(address)| address.is_loopback());
    // Under another name than this machine's own it came from somewhere else, too.
    let own_name = dns_rebinding::against_rebinding(&[], request).is_ok();
    is_local
        && own_name
        && !request
            .headers()
            .keys()
            .any(|name| is_of_proxy(name.as_str()))
}

/// Whether proxies write this header. Names of headers are in lower case here.
fn is_of_proxy(name: &str) -> bool {
    const NAMES: [&str; 6] = [
        "via",
        "forwarded",
        "cdn-loop",
        "x-real-ip",
        "x-host",
        "x-scheme",
    ];
    const STARTS: [&str; 9] = [
        "x-forwarded",
        "forwarded-",
        "x-original-",
        "x-envoy-",
        "x-proxy",
        "proxy-",
        "cf-",
        "x-amz",
        "x-rewrite-",
    ];
    const ENDS: [&str; 5] = [
        "client-ip",
        "clientip",
        "connecting-ip",
        "user-ip",
        "remote-ip",
    ];
    NAMES.contains(&name)
        || STARTS.iter().any(|start| name.starts_with(start))
        || ENDS.iter().any(|end| name.ends_with(end))
}

fn principal(tokens: &Tokens, headers: &HeaderMap) -> Option<Arc<Principal>> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    tokens.holder(token.trim())
}

/// What is another tenant's, or nobody's, is not there.
fn nowhere() -> Response {
    (StatusCode::NOT_FOUND, "there is no such tenant\n").into_response()
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
