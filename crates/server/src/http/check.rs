//! `/v1/check`: other gateways and programs ask whether a call may happen. A no is an answer like any
//! other; only what is no question, or is too long for one, is refused.

use std::sync::Arc;

use axum::{
    Extension, Router,
    body::{Body, to_bytes},
    extract::State,
    http::{HeaderValue, Request, StatusCode, header},
    middleware,
    response::{IntoResponse, Response},
    routing::post,
};
use callgate_call::NotChecked;
use callgate_gate::{
    Who,
    guard::message::{MAX_QUESTION_BYTES, Question},
};
use ulid::Ulid;

use super::{Shared, auth, auth::Reach, problem::Problem};
use crate::Principal;

/// What whoever asks is called where neither the token nor the question says it.
const ANONYMOUS: &str = "anonymous";

/// The routes of the API.
pub(super) fn routes(shared: &Arc<Shared>) -> Router<Arc<Shared>> {
    Router::new()
        .route("/v1/check", post(check))
        .route("/v1/t/{tenant}/check", post(check))
        .layer(middleware::from_fn_with_state(
            shared.clone(),
            auth::checkers_only,
        ))
}

async fn check(
    State(shared): State<Arc<Shared>>,
    Extension(principal): Extension<Arc<Principal>>,
    Extension(reach): Extension<Reach>,
    request: Request<Body>,
) -> Result<Response, Problem> {
    let body = to_bytes(request.into_body(), MAX_QUESTION_BYTES).await;
    let body = body.map_err(|_| {
        let text = format!("a question has at most {MAX_QUESTION_BYTES} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", text)
    })?;
    let question = Question::read(&body)
        .map_err(|bad| Problem::new(StatusCode::BAD_REQUEST, "bad_question", bad.to_string()))?;
    let who = who(&principal, reach, &question);
    let answer = shared.gateway.path.check(&question, who).await;
    let answer = answer.map_err(|error| unanswered(&error))?;
    let mut response = Body::from(answer.written()).into_response();
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}

/// On whose behalf it is asked. An agent that the question names is only the asker's word for it.
fn who(principal: &Principal, reach: Reach, question: &Question) -> Who {
    let own = principal.names_agent.then(|| principal.name.clone());
    let agent = question.agent.clone().filter(|agent| !agent.is_empty());
    Who {
        tenant: reach
            .into_tenant()
            .unwrap_or_else(|| principal.tenant.clone()),
        principal: principal.name.clone(),
        agent: agent.or(own).unwrap_or_else(|| ANONYMOUS.to_owned()),
        session: question
            .session
            .clone()
            .unwrap_or_else(|| Ulid::generate().to_string()),
        grant: principal.grant.clone(),
    }
}

fn unanswered(error: &NotChecked) -> Problem {
    match error {
        NotChecked::Unclear => {
            Problem::new(StatusCode::BAD_REQUEST, "bad_question", error.to_string())
        }
        NotChecked::NotRecorded(_) | NotChecked::NoApprovals(_) => {
            crate::log::check_not_answered(error);
            let text = format!("{error} right now; the log says why");
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", text)
        }
    }
}
