//! Authentication: an agent token opens `/mcp` and `/v1/check`, an approver token the approvals, an admin token everything
//! but `/mcp`. Each sees its own tenant; only the operator's token sees all of them.

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
use crate::{Principal, TokenLookup, principal::Pass};

/// The principal of a local program that needs no token.
const LOOPBACK: &str = "loopback";

/// The credentials, stored as digests and compared in constant time.
#[derive(Debug)]
pub struct Tokens {
    agent: (Digest, Arc<Principal>),
    admin: (Digest, Arc<Principal>),
    others: Option<Arc<dyn TokenLookup>>,
}

impl Tokens {
    /// The gateway's own agent and admin tokens.
    pub fn new(agent: &str, admin: &str) -> Self {
        let known =
            |token: &str, principal: Principal| (Digest::of(token.as_bytes()), Arc::new(principal));
        Self {
            agent: known(agent, Principal::new(Role::Agent.as_str(), Role::Agent)),
            admin: known(admin, Principal::operator()),
            others: None,
        }
    }

    /// Adds the stored tokens.
    #[must_use]
    pub fn and(mut self, others: Arc<dyn TokenLookup>) -> Self {
        self.others = Some(others);
        self
    }

    /// The principal of a token; `None` when it is unknown. The gateway's own tokens are checked first, so only others cost a
    /// lookup in the store.
    pub(super) fn holder(&self, token: &str) -> Option<Arc<Principal>> {
        let given = Digest::of(token.as_bytes());
        let is = |known: &Digest| bool::from(given.as_bytes().ct_eq(known.as_bytes()));
        // Both comparisons always run, so the time does not reveal which token was nearly right.
        match (is(&self.agent.0), is(&self.admin.0)) {
            (true, _) => Some(self.agent.1.clone()),
            (false, true) => Some(self.admin.1.clone()),
            (false, false) => self.others.as_ref()?.holder(&given),
        }
    }
}

impl Tokens {
    /// Whether a principal that was authenticated before is still valid.
    pub(super) fn is_still_valid(&self, principal: &Principal) -> bool {
        self.pass(principal).is_valid()
    }

    /// The pass that re-checks a principal's token, for streams and other things that outlast a request.
    pub(super) fn pass(&self, principal: &Principal) -> Pass {
        let configured = [&self.agent.1, &self.admin.1];
        match &self.others {
            Some(others) if configured.iter().all(|known| ***known != *principal) => {
                Pass::stored(others.clone(), &principal.name)
            }
            Some(_) | None => Pass::default(),
        }
    }
}

/// Which tenants a principal sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reach {
    All,
    Tenant(String),
}

impl Reach {
    /// The reach of a principal when the path names no tenant.
    pub(super) fn of(principal: &Principal) -> Self {
        if principal.is_operator {
            Self::All
        } else {
            Self::Tenant(principal.tenant.clone())
        }
    }

    /// The only visible tenant; `None` for all.
    pub(super) fn into_tenant(self) -> Option<String> {
        match self {
            Self::All => None,
            Self::Tenant(tenant) => Some(tenant),
        }
    }

    /// Whether a tenant is visible. Data without a tenant is visible only to the operator.
    pub(super) fn includes(&self, tenant: Option<&str>) -> bool {
        match self {
            Self::All => true,
            Self::Tenant(own) => tenant == Some(own),
        }
    }

    /// The reach of a principal at a path that may name a tenant; `None` when it may not see that tenant.
    fn at(shared: &Shared, principal: &Principal, path: &str) -> Option<Self> {
        let named = path
            .strip_prefix("/v1/t/")
            .and_then(|rest| rest.split('/').next());
        let Some(named) = named else {
            return Some(Self::of(principal));
        };
        let is_there = shared.gateway.path.providers().policy().knows_tenant(named);
        let is_theirs = principal.is_operator || principal.tenant == named;
        (is_there && is_theirs).then(|| Self::Tenant(named.to_owned()))
    }
}

/// The principal of a request, if its tenant still exists.
#[expect(clippy::result_large_err, reason = "a refusal is an answer")]
fn authenticate(shared: &Shared, headers: &HeaderMap) -> Result<Arc<Principal>, Response> {
    let principal = principal(&shared.tokens, headers).ok_or_else(unauthorized)?;
    let tenant = principal.tenant.as_str();
    // A stored token can outlive its tenant in the configuration. Without a policy for the tenant it opens nothing.
    let is_there = tenant == FIRST_TENANT
        || shared
            .gateway
            .path
            .providers()
            .policy()
            .knows_tenant(tenant);
    is_there.then_some(principal).ok_or_else(no_such_tenant)
}

/// Stores principal and reach with the request and runs it.
async fn enter(
    shared: &Shared,
    principal: Arc<Principal>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(reach) = Reach::at(shared, &principal, request.uri().path()) else {
        return no_such_tenant();
    };
    request.extensions_mut().insert(principal);
    request.extensions_mut().insert(reach);
    next.run(request).await
}

/// Admits agent tokens only.
#[expect(clippy::result_large_err, reason = "a refusal is an answer")]
pub(super) fn agents_only(
    shared: &Shared,
    headers: &HeaderMap,
) -> Result<Arc<Principal>, Response> {
    let principal = authenticate(shared, headers)?;
    match principal.role {
        Role::Agent => Ok(principal),
        Role::Approver => Err(forbidden(
            "an approver token cannot make calls; use an agent token",
        )),
        Role::Admin => Err(forbidden(
            "an admin token cannot make calls; use an agent token",
        )),
    }
}

/// Admits admin tokens only.
pub(super) async fn admins_only(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response {
    let principal = match authenticate(&shared, request.headers()) {
        Ok(principal) => principal,
        Err(refusal) => return refusal,
    };
    match principal.role {
        Role::Admin => enter(&shared, principal, request, next).await,
        Role::Approver => forbidden("an approver token can only access approvals"),
        Role::Agent => forbidden("an agent token cannot use this endpoint; use an admin token"),
    }
}

/// Admits every valid token. The handlers check what its role permits.
pub(super) async fn any_valid_token(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response {
    match authenticate(&shared, request.headers()) {
        Ok(principal) => enter(&shared, principal, request, next).await,
        Err(refusal) => refusal,
    }
}

/// Admits agent and admin tokens, and local programs without one if that is configured.
pub(super) async fn checkers_only(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response {
    let principal = match authenticate(&shared, request.headers()) {
        Ok(principal) => principal,
        Err(_) if shared.open_check && is_local_program(&request) => {
            Arc::new(Principal::new(LOOPBACK, Role::Agent))
        }
        Err(refusal) => return refusal,
    };
    match principal.role {
        Role::Agent | Role::Admin => enter(&shared, principal, request, next).await,
        Role::Approver => forbidden("an approver token can only access approvals"),
    }
}

/// Admits admin tokens, and local programs without one if that is configured.
pub(super) async fn scrapers_only(
    shared: State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response {
    if shared.open_metrics && is_local_program(&request) {
        return next.run(request).await;
    }
    match authenticate(&shared, request.headers()) {
        // Metrics are counted over all tenants, so a single tenant's admin must not read them.
        Ok(principal) if principal.role == Role::Admin && principal.tenant != FIRST_TENANT => {
            forbidden("metrics cover all tenants; a tenant's admin token cannot read them")
        }
        Ok(_) | Err(_) => admins_only(shared, request, next).await,
    }
}

/// Whether a program on this machine sent a request. A request forwarded by a local proxy may come from anywhere.
fn is_local_program(request: &Request) -> bool {
    let peer = request.extensions().get::<Peer>();
    let is_local = peer.is_some_and(|Peer(address)| address.is_loopback());
    // Any other host name means a proxy or a DNS-rebinding page, even if the peer is loopback.
    let own_name = dns_rebinding::against_rebinding(&[], request).is_ok();
    is_local
        && own_name
        && !request
            .headers()
            .keys()
            .any(|name| is_of_proxy(name.as_str()))
}

/// Whether proxies add this header. Expects a lower-case name, as `HeaderName` provides.
fn is_of_proxy(name: &str) -> bool {
    // A list of known headers can miss one; it is only a second line of defence behind the configuration switch.
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

/// The same answer for another tenant's data and for a missing tenant, so that names cannot be probed.
fn no_such_tenant() -> Response {
    (StatusCode::NOT_FOUND, "there is no such tenant\n").into_response()
}

fn forbidden(text: &str) -> Response {
    (StatusCode::FORBIDDEN, format!("{text}\n")).into_response()
}

fn unauthorized() -> Response {
    let text = "authentication required: send `Authorization: Bearer …` (see `callgate connect`)\n";
    let mut response = (StatusCode::UNAUTHORIZED, text).into_response();
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}
