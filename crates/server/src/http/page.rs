//! The approvals page: a list that updates by itself, and one page per approval.
//!
//! A person logs in with a token or a one-time link and gets a cookie that browsers do not send from other sites. Every
//! form carries its session's CSRF token, scripts and styles load only from this gateway, and text written by an agent is
//! escaped, with hidden characters made visible.

mod logins;
mod render;

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Extension, Form, Json, Router,
    extract::{Path, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::{Html, IntoResponse, Redirect, Response},
    routing::{get, post},
};
use callgate_call::ApprovalService;
use callgate_gate::ApprovalId;
use callgate_record::{Answer, ApprovalFilter, DecisionChannel};
use callgate_wire::sse;
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use subtle::ConstantTimeEq;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    Shared, approval_routes, auth,
    auth::Reach,
    problem::Problem,
    stream::{event_stream, keep_alive},
};
use crate::Principal;
use logins::LoginSession;
pub use logins::Logins;

/// The limit of approvals in the list; older ones are left out.
const MAX_SHOWN: usize = 100;
/// The keep-alive interval of a quiet stream.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The content security policy: only resources from this gateway.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
                      img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

pub(super) fn routes(shared: &Arc<Shared>) -> Router<Arc<Shared>> {
    let links = Router::new()
        .route("/v1/login-links", post(make_link))
        .layer(middleware::from_fn_with_state(
            shared.clone(),
            auth::any_valid_token,
        ));
    Router::new()
        .route("/approvals", get(list))
        .route("/approvals/stream", get(follow))
        .route("/approvals/{id}", get(show).post(decide))
        .route("/login", get(login_form).post(log_in))
        .route("/login/{code}", get(confirm_link))
        .route("/logout", post(log_out))
        .route("/assets/page.css", get(style))
        .route("/assets/page.js", get(script))
        .layer(middleware::from_fn(with_security_headers))
        .merge(links)
}

/// Sets the headers that protect the page against framing, sniffing and foreign scripts.
async fn with_security_headers(request: axum::extract::Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // With `no-referrer`, browsers send forms with the origin `null`, which the origin check refuses.
        (header::REFERRER_POLICY, "same-origin"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

async fn style() -> impl IntoResponse {
    let kind = [(header::CONTENT_TYPE, "text/css; charset=utf-8")];
    (kind, include_str!("page/assets/page.css"))
}

async fn script() -> impl IntoResponse {
    let kind = [(header::CONTENT_TYPE, "text/javascript; charset=utf-8")];
    (kind, include_str!("page/assets/page.js"))
}

async fn list(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let (login_session, approval_service) = match authenticated(&shared, &headers, "/approvals") {
        Ok(authenticated) => authenticated,
        Err(response) => return *response,
    };
    let which = ApprovalFilter {
        status: None,
        tenant: Reach::of(&login_session.principal).into_tenant(),
    };
    // `false`: the list cannot be decided from, so showing it does not mark the approvals as seen.
    match approval_service.show_all(which, MAX_SHOWN, false).await {
        Ok(all) => Html(render::list(&login_session, &all).into_string()).into_response(),
        Err(error) => approval_routes::unavailable(&error).into_response(),
    }
}

async fn show(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    let Ok(id) = id.parse::<ApprovalId>() else {
        return not_found();
    };
    let place = format!("/approvals/{id}");
    let (login_session, approval_service) = match authenticated(&shared, &headers, &place) {
        Ok(authenticated) => authenticated,
        Err(response) => return *response,
    };
    let reach = Reach::of(&login_session.principal);
    match approval_routes::visible_to(approval_service, &reach, &id).await {
        Ok(Some(approval)) => {
            Html(render::one(&login_session, &approval).into_string()).into_response()
        }
        Ok(None) => not_found(),
        Err(problem) => problem.into_response(),
    }
}

#[derive(Deserialize)]
struct Decision {
    csrf: String,
    answer: Answer,
}

async fn decide(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Form(decision): Form<Decision>,
) -> Response {
    let Ok(id) = id.parse::<ApprovalId>() else {
        return not_found();
    };
    let place = format!("/approvals/{id}");
    let (login_session, approval_service) = match authenticated(&shared, &headers, &place) {
        Ok(authenticated) => authenticated,
        Err(response) => return *response,
    };
    if !is_own_form(&login_session, &decision.csrf) {
        return foreign_form();
    }
    let reach = Reach::of(&login_session.principal);
    let by = approval_routes::approver(&login_session.principal, reach, DecisionChannel::Page);
    match approval_routes::decide(approval_service, by, &id, decision.answer).await {
        Ok(()) => Redirect::to(&place).into_response(),
        Err(problem) => {
            let page = render::notice("Decision not accepted", problem.detail(), Some(&place));
            (problem.status(), Html(page.into_string())).into_response()
        }
    }
}

/// Notifies an open page of changes.
async fn follow(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let Ok((_, approval_service)) = authenticated(&shared, &headers, "/approvals") else {
        return StatusCode::UNAUTHORIZED.into_response();
    };
    let following = ChangeStream {
        changes: approval_service.changes(),
        close: shared.closing.close.clone(),
        greeted: false,
    };
    event_stream(stream::unfold(following, |mut following| async move {
        let event = following.next().await?;
        Some((Ok::<_, Infallible>(event), following))
    }))
}

struct ChangeStream {
    changes: watch::Receiver<u64>,
    close: CancellationToken,
    greeted: bool,
}

impl ChangeStream {
    async fn next(&mut self) -> Option<bytes::Bytes> {
        if !self.greeted {
            self.greeted = true;
            return Some(keep_alive());
        }
        tokio::select! {
            changed = self.changes.changed() => {
                changed.ok()?;
                let mut event = Vec::new();
                sse::encode(Some("changed"), None, b"{}", &mut event);
                Some(event.into())
            }
            () = tokio::time::sleep(HEARTBEAT) => Some(keep_alive()),
            () = self.close.cancelled() => None,
        }
    }
}

/// Creates a one-time login link for an approver or admin token.
async fn make_link(
    State(shared): State<Arc<Shared>>,
    Extension(principal): Extension<Arc<Principal>>,
) -> Result<Json<Value>, Problem> {
    let approval_service = approval_routes::service_for(&shared, &principal)?;
    let code = shared.logins.link(principal).map_err(|_| {
        let text = "the operating system's random number generator failed";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "no_random", text)
    })?;
    let url = format!("{}/login/{code}", approval_service.settings().base_url);
    Ok(Json(json!({ "url": url })))
}

async fn login_form() -> Html<String> {
    Html(render::login(None).into_string())
}

/// A link shows a button and does not log in by itself: programs that preview messages follow links too, and would use it
/// up.
async fn confirm_link(Path(code): Path<String>) -> Html<String> {
    Html(render::login(Some(&code)).into_string())
}

#[derive(Deserialize)]
struct Login {
    code: Option<String>,
    token: Option<String>,
    next: Option<String>,
}

async fn log_in(State(shared): State<Arc<Shared>>, Form(login): Form<Login>) -> Response {
    let principal = match (&login.code, &login.token) {
        (Some(code), _) => shared.logins.redeem(code),
        (None, Some(token)) => shared.tokens.holder(token.trim()),
        (None, None) => None,
    };
    let Some(principal) = principal.filter(|principal| principal.role.approves()) else {
        let why = "The link has expired or was already used, or the token is not an approver or admin token.";
        let page = render::notice("Login failed", why, Some("/login"));
        return (StatusCode::UNAUTHORIZED, Html(page.into_string())).into_response();
    };
    let Ok(cookie) = shared.logins.start_session(principal) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let next = login.next.as_deref().unwrap_or("/approvals");
    let mut response = Redirect::to(own_place(next)).into_response();
    // Judged by the configured URL: behind a TLS proxy the request itself arrives as plain HTTP.
    let is_https = shared
        .gateway
        .path
        .approval_service()
        .is_some_and(|approval_service| approval_service.settings().base_url.starts_with("https:"));
    if let Ok(cookie) = HeaderValue::from_str(&logins::set_cookie(&cookie, is_https)) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

#[derive(Deserialize)]
struct Logout {
    csrf: String,
}

async fn log_out(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Form(logout): Form<Logout>,
) -> Response {
    if let Some(login_session) = shared.logins.login_session(&headers) {
        // Logging out needs the CSRF token too, or any site could log approvers out.
        if !is_own_form(&login_session, &logout.csrf) {
            return foreign_form();
        }
        shared.logins.end_session(&headers);
    }
    Redirect::to("/login").into_response()
}

/// The login session and the approval service, or the response for a visitor without access.
fn authenticated<'s>(
    shared: &'s Shared,
    headers: &HeaderMap,
    place: &str,
) -> Result<(LoginSession, &'s ApprovalService), Box<Response>> {
    let Some(login_session) = shared.logins.login_session(headers) else {
        return Err(Box::new(unauthenticated(headers, place)));
    };
    // Checked on every request: a revoked token must not keep deciding through an open browser.
    if !shared.tokens.is_still_valid(&login_session.principal) {
        shared.logins.end_session(headers);
        return Err(Box::new(unauthenticated(headers, place)));
    }
    match approval_routes::service_for(shared, &login_session.principal) {
        Ok(approval_service) => Ok((login_session, approval_service)),
        Err(problem) => Err(Box::new(problem.into_response())),
    }
}

/// The response for a visitor without a session. A visitor who followed a link on another site may have one, but browsers
/// do not send its `SameSite=Strict` cookie; a click on this page sends it.
fn unauthenticated(headers: &HeaderMap, place: &str) -> Response {
    let from = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    let page = if from == Some(b"cross-site") {
        render::notice("Callgate", "Continue to the approval.", Some(place))
    } else {
        render::login_for(place)
    };
    (StatusCode::UNAUTHORIZED, Html(page.into_string())).into_response()
}

fn is_own_form(login_session: &LoginSession, given: &str) -> bool {
    // In constant time, like every comparison with a secret.
    bool::from(login_session.csrf.as_bytes().ct_eq(given.as_bytes()))
}

fn foreign_form() -> Response {
    let page = render::notice(
        "Decision not accepted",
        "The form belongs to another session. Reload the page and try again.",
        Some("/approvals"),
    );
    (StatusCode::FORBIDDEN, Html(page.into_string())).into_response()
}

fn not_found() -> Response {
    let page = render::notice(
        "Not found",
        "This approval does not exist.",
        Some("/approvals"),
    );
    (StatusCode::NOT_FOUND, Html(page.into_string())).into_response()
}

/// A path on this page. Anything else becomes the list, so that a login form cannot redirect to another site.
fn own_place(next: &str) -> &str {
    let id = next.strip_prefix("/approvals/");
    if id.is_some_and(|id| id.parse::<ApprovalId>().is_ok()) {
        next
    } else {
        "/approvals"
    }
}
