//! The page for approvers: a list that follows what happens, and one page per approval.
//!
//! Whoever opens it logs in with a token, or with a one-time link that a holder of one was given, and
//! gets a cookie that no other site's pages can send. Every form carries a token of its session, nothing
//! is run that is not served from here, and what an agent wrote is shown as text with nothing hidden.

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
use callgate_record::{Answer, Way, Which};
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
pub use logins::Logins;
use logins::Visit;

/// Approvals on one page; older ones are left out.
const MAX_SHOWN: usize = 100;
/// How often a quiet stream shows that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// What the page may do: nothing but what is served from here.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
                      img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The routes of the page.
pub(super) fn routes(shared: &Arc<Shared>) -> Router<Arc<Shared>> {
    let links = Router::new()
        .route("/v1/login-links", post(make_link))
        .layer(middleware::from_fn_with_state(
            shared.clone(),
            auth::anyone_known,
        ));
    Router::new()
        .route("/approvals", get(list))
        .route("/approvals/stream", get(follow))
        .route("/approvals/{id}", get(show).post(decide))
        .route("/login", get(ask_for_token).post(log_in))
        .route("/login/{code}", get(ask_to_go_on))
        .route("/logout", post(log_out))
        .route("/assets/page.css", get(style))
        .route("/assets/page.js", get(script))
        .layer(middleware::from_fn(guarded))
        .merge(links)
}

/// Sets the headers that keep a page to itself.
async fn guarded(request: axum::extract::Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // With `no-referrer` browsers send forms with the origin `null`, which is nobody's.
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
    let (visit, approval_service) = match entered(&shared, &headers, "/approvals") {
        Ok(entered) => entered,
        Err(response) => return *response,
    };
    let which = Which {
        status: None,
        tenant: Reach::of(&visit.principal).into_tenant(),
    };
    // The list alone is not enough to decide by.
    match approval_service.show_all(which, MAX_SHOWN, false).await {
        Ok(all) => Html(render::list(&visit, &all).into_string()).into_response(),
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
    let (visit, approval_service) = match entered(&shared, &headers, &place) {
        Ok(entered) => entered,
        Err(response) => return *response,
    };
    let reach = Reach::of(&visit.principal);
    match approval_routes::visible_to(approval_service, &reach, &id).await {
        Ok(Some(approval)) => Html(render::one(&visit, &approval).into_string()).into_response(),
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
    let (visit, approval_service) = match entered(&shared, &headers, &place) {
        Ok(entered) => entered,
        Err(response) => return *response,
    };
    if !is_own_form(&visit, &decision.csrf) {
        return foreign_form();
    }
    let reach = Reach::of(&visit.principal);
    let by = approval_routes::by(&visit.principal, reach, Way::Page);
    match approval_routes::decide(approval_service, by, &id, decision.answer).await {
        Ok(()) => Redirect::to(&place).into_response(),
        Err(problem) => {
            let page = render::notice("This did not count", problem.detail(), Some(&place));
            (problem.status(), Html(page.into_string())).into_response()
        }
    }
}

/// Tells a page that something changed, as long as it is open.
async fn follow(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let Ok((_, approval_service)) = entered(&shared, &headers, "/approvals") else {
        return StatusCode::UNAUTHORIZED.into_response();
    };
    let following = Following {
        changes: approval_service.changes(),
        close: shared.closing.close.clone(),
        greeted: false,
    };
    event_stream(stream::unfold(following, |mut following| async move {
        let event = following.next().await?;
        Some((Ok::<_, Infallible>(event), following))
    }))
}

struct Following {
    changes: watch::Receiver<u64>,
    close: CancellationToken,
    greeted: bool,
}

impl Following {
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

/// Makes a one-time link for whoever asks with a token that may decide.
async fn make_link(
    State(shared): State<Arc<Shared>>,
    Extension(principal): Extension<Arc<Principal>>,
) -> Result<Json<Value>, Problem> {
    let approval_service = approval_routes::service_for(&shared, &principal)?;
    let code = shared.logins.link(principal).map_err(|_| {
        let text = "no random numbers can be had from the system";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "no_random", text)
    })?;
    let url = format!("{}/login/{code}", approval_service.settings().base_url);
    Ok(Json(json!({ "url": url })))
}

async fn ask_for_token() -> Html<String> {
    Html(render::login(None).into_string())
}

/// A link alone opens nothing, since programs that look into messages follow links too: a person has
/// to press a button.
async fn ask_to_go_on(Path(code): Path<String>) -> Html<String> {
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
        let why = "The link was used before or is too old, or the token is not an approver's.";
        let page = render::notice("No way in", why, Some("/login"));
        return (StatusCode::UNAUTHORIZED, Html(page.into_string())).into_response();
    };
    let Ok(cookie) = shared.logins.enter(principal) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let next = login.next.as_deref().unwrap_or("/approvals");
    let mut response = Redirect::to(own_place(next)).into_response();
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
    if let Some(visit) = shared.logins.visit(&headers) {
        if !is_own_form(&visit, &logout.csrf) {
            return foreign_form();
        }
        shared.logins.leave(&headers);
    }
    Redirect::to("/login").into_response()
}

/// Who visits, and the desk; or what is answered to whoever may not.
fn entered<'s>(
    shared: &'s Shared,
    headers: &HeaderMap,
    place: &str,
) -> Result<(Visit, &'s ApprovalService), Box<Response>> {
    let Some(visit) = shared.logins.visit(headers) else {
        return Err(Box::new(stranger(headers, place)));
    };
    if !shared.tokens.still_opens(&visit.principal) {
        shared.logins.leave(headers);
        return Err(Box::new(stranger(headers, place)));
    }
    match approval_routes::service_for(shared, &visit.principal) {
        Ok(approval_service) => Ok((visit, approval_service)),
        Err(problem) => Err(Box::new(problem.into_response())),
    }
}

/// Somebody without a session. Whoever came by a link on another site has a cookie that was not sent
/// along; one more step from here sends it.
fn stranger(headers: &HeaderMap, place: &str) -> Response {
    let from = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    let page = if from == Some(b"cross-site") {
        render::notice("Callgate", "Go on to the approval.", Some(place))
    } else {
        render::login_for(place)
    };
    (StatusCode::UNAUTHORIZED, Html(page.into_string())).into_response()
}

fn is_own_form(visit: &Visit, given: &str) -> bool {
    bool::from(visit.csrf.as_bytes().ct_eq(given.as_bytes()))
}

fn foreign_form() -> Response {
    let page = render::notice(
        "This did not count",
        "The form is not from this session; load the page again.",
        Some("/approvals"),
    );
    (StatusCode::FORBIDDEN, Html(page.into_string())).into_response()
}

fn not_found() -> Response {
    let page = render::notice(
        "Nothing here",
        "There is no such approval.",
        Some("/approvals"),
    );
    (StatusCode::NOT_FOUND, Html(page.into_string())).into_response()
}

/// A place on this page; anything else would lead elsewhere.
fn own_place(next: &str) -> &str {
    let id = next.strip_prefix("/approvals/");
    if id.is_some_and(|id| id.parse::<ApprovalId>().is_ok()) {
        next
    } else {
        "/approvals"
    }
}
