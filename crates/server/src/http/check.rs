//! `/v1/check`: other gateways and programs ask whether a call is allowed. A denial is an ordinary answer; only malformed
//! and oversized questions are errors.

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
use callgate_call::CheckError;
use callgate_gate::{
    CallerIdentity,
    guard::message::{MAX_QUESTION_BYTES, Question},
};
use ulid::Ulid;

use super::{Shared, auth, auth::Reach, problem::Problem};
use crate::Principal;

/// The agent name when neither the token nor the question has one.
const ANONYMOUS: &str = "anonymous";

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
    // The limit of the protocol: an asking gateway denies a call whose question would be longer.
    let body = to_bytes(request.into_body(), MAX_QUESTION_BYTES).await;
    let body = body.map_err(|_| {
        let text = format!("the question exceeds the limit of {MAX_QUESTION_BYTES} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", text)
    })?;
    let question = Question::read(&body)
        .map_err(|bad| Problem::new(StatusCode::BAD_REQUEST, "bad_question", bad.to_string()))?;
    let identity = identity(&principal, reach, &question);
    let answer = shared.gateway.path.check(&question, identity).await;
    let answer = answer.map_err(|error| unanswered(&error))?;
    let mut response = Body::from(answer.written()).into_response();
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}

/// The identity that is checked. The agent and session are the asker's claims; tenant, principal and grant are the token's.
fn identity(principal: &Principal, reach: Reach, question: &Question) -> CallerIdentity {
    let own = principal.names_agent.then(|| principal.name.clone());
    let agent = question.agent.clone().filter(|agent| !agent.is_empty());
    CallerIdentity {
        tenant: reach
            .into_tenant()
            .unwrap_or_else(|| principal.tenant.clone()),
        principal: principal.name.clone(),
        // The named agent comes first, because a gateway asks for many agents with one token. They are counted
        // separately, within the limits of that token.
        agent: agent.or(own).unwrap_or_else(|| ANONYMOUS.to_owned()),
        session: question
            .session
            .clone()
            .unwrap_or_else(|| Ulid::generate().to_string()),
        grant: principal.grant.clone(),
    }
}

fn unanswered(error: &CheckError) -> Problem {
    match error {
        CheckError::Unclear => {
            Problem::new(StatusCode::BAD_REQUEST, "bad_question", error.to_string())
        }
        CheckError::NotRecorded(_) | CheckError::NoApprovals(_) => {
            crate::log::check_not_answered(error);
            let text = format!("{error} right now; see the gateway's log");
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", text)
        }
    }
}
