//! Approvals over HTTP: `/v1/approvals`, `/v1/approve/{id}`, `/v1/deny/{id}`, `/v1/status/{id}`, and the same for one
//! tenant below `/v1/t/{tenant}/`.
//!
//! Approvers and admins see and decide approvals. An agent token only sees the status of its own.

use std::sync::Arc;

use axum::{
    Extension, Json, Router,
    extract::{Path, Query, State},
    http::StatusCode,
    middleware,
    routing::{get, post},
};
use callgate_call::{ApprovalService, ApprovalSettings};
use callgate_gate::{ApprovalId, visible::summary};
use callgate_record::{
    Answer, Approval, ApprovalFilter, ApprovalStatus, Approver, CallVisibility, Check, Decision,
    DecisionChannel, HeldCallExcerpt, Resolution, ResolveApprovalError,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};

use super::{Shared, auth, auth::Reach, health, problem::Problem};
use crate::Principal;

/// The limit of approvals in one answer; older ones are left out.
const MAX_LISTED: usize = 500;

pub(super) fn routes(shared: &Arc<Shared>) -> Router<Arc<Shared>> {
    Router::new()
        .route("/v1/approvals", get(list))
        .route("/v1/approvals/{id}", get(one))
        .route("/v1/approve/{id}", post(approve))
        .route("/v1/deny/{id}", post(deny))
        .route("/v1/status/{id}", get(status))
        .route("/v1/t/{tenant}/approvals", get(list))
        .route("/v1/t/{tenant}/approvals/{id}", get(one))
        .route("/v1/t/{tenant}/approve/{id}", post(approve))
        .route("/v1/t/{tenant}/deny/{id}", post(deny))
        .route("/v1/t/{tenant}/status/{id}", get(status))
        .route("/v1/t/{tenant}/health", get(health::health))
        .layer(middleware::from_fn_with_state(
            shared.clone(),
            auth::any_valid_token,
        ))
}

/// The approval id of a path, with or without a tenant in it.
#[derive(Debug, Deserialize)]
struct ApprovalPath {
    id: String,
}

#[derive(Debug, Deserialize)]
struct StatusFilter {
    status: Option<ApprovalStatus>,
}

/// An approval in the API's form.
#[derive(Debug, Serialize)]
struct Row<'a> {
    id: &'a ApprovalId,
    status: ApprovalStatus,
    url: String,
    record_id: String,
    tenant: &'a str,
    principal: &'a str,
    agent: &'a str,
    session_id: &'a str,
    server: &'a str,
    tool: &'a str,
    arguments: Box<RawValue>,
    arguments_bytes: u64,
    arguments_whole: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    others: Option<Box<RawValue>>,
    sight: CallVisibility,
    summary: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    also: Vec<CoveredCall<'a>>,
    definition_sha256: Option<&'a str>,
    rule: &'a str,
    reason: &'a str,
    checks: &'a [Check],
    flags: &'a [String],
    asked_at: Timestamp,
    expires_at: Timestamp,
    resolution: Option<&'a Resolution>,
    used_by: Option<String>,
}

/// A further call that the same decision covers.
#[derive(Debug, Serialize)]
struct CoveredCall<'a> {
    tool: &'a str,
    arguments: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    others: Option<Box<RawValue>>,
    rule: &'a str,
    reason: &'a str,
}

async fn list(
    State(shared): State<Arc<Shared>>,
    Extension(principal): Extension<Arc<Principal>>,
    Extension(reach): Extension<Reach>,
    Query(wanted): Query<StatusFilter>,
) -> Result<Json<Value>, Problem> {
    let approval_service = service_for(&shared, &principal)?;
    let which = ApprovalFilter {
        status: wanted.status,
        tenant: reach.into_tenant(),
    };
    // `true`: each row shows the whole call, so a client may decide from the list. That marks them as seen.
    let found = approval_service.show_all(which, MAX_LISTED, true).await;
    let found = found.map_err(|error| unavailable(&error))?;
    let settings = approval_service.settings();
    let rows: Vec<Row<'_>> = found.iter().map(|one| Row::of(one, &settings)).collect();
    Ok(Json(json!({ "approvals": rows })))
}

async fn one(
    State(shared): State<Arc<Shared>>,
    Extension(principal): Extension<Arc<Principal>>,
    Extension(reach): Extension<Reach>,
    Path(ApprovalPath { id }): Path<ApprovalPath>,
) -> Result<Json<Value>, Problem> {
    let approval_service = service_for(&shared, &principal)?;
    let found = visible_to(approval_service, &reach, &parse_id(&id)?).await?;
    let approval = found.ok_or_else(unknown)?;
    Ok(Json(json!(Row::of(
        &approval,
        &approval_service.settings()
    ))))
}

/// An approval in the form for approvers; `None` outside of `reach`.
pub(super) async fn visible_to(
    approval_service: &ApprovalService,
    reach: &Reach,
    id: &ApprovalId,
) -> Result<Option<Approval>, Problem> {
    // Checked before the call is opened. Opening also marks the approval as seen, and after that no further question can
    // be added to it.
    let known = approval_service
        .get(id)
        .await
        .map_err(|error| unavailable(&error))?;
    let may_see = |approval: &Approval| reach.includes(Some(&approval.asking.tenant));
    if !known.as_ref().is_some_and(may_see) {
        return Ok(None);
    }
    approval_service
        .show(id)
        .await
        .map_err(|error| unavailable(&error))
}

async fn approve(
    shared: State<Arc<Shared>>,
    principal: Extension<Arc<Principal>>,
    reach: Extension<Reach>,
    named: Path<ApprovalPath>,
) -> Result<Json<Value>, Problem> {
    resolve(shared, (principal, reach), named, Answer::Approve).await
}

async fn deny(
    shared: State<Arc<Shared>>,
    principal: Extension<Arc<Principal>>,
    reach: Extension<Reach>,
    named: Path<ApprovalPath>,
) -> Result<Json<Value>, Problem> {
    resolve(shared, (principal, reach), named, Answer::Deny).await
}

async fn resolve(
    State(shared): State<Arc<Shared>>,
    (Extension(principal), Extension(reach)): (Extension<Arc<Principal>>, Extension<Reach>),
    Path(ApprovalPath { id }): Path<ApprovalPath>,
    answer: Answer,
) -> Result<Json<Value>, Problem> {
    let approval_service = service_for(&shared, &principal)?;
    let id = parse_id(&id)?;
    let by = approver(&principal, reach, DecisionChannel::Api);
    decide(approval_service, by, &id, answer).await?;
    Ok(Json(json!({"id": id, "status": answer.status()})))
}

async fn status(
    State(shared): State<Arc<Shared>>,
    Extension(principal): Extension<Arc<Principal>>,
    Extension(reach): Extension<Reach>,
    Path(ApprovalPath { id }): Path<ApprovalPath>,
) -> Result<Json<Value>, Problem> {
    let approval_service = shared
        .gateway
        .path
        .approval_service()
        .ok_or_else(no_approvals)?;
    let id = parse_id(&id)?;
    let found = approval_service
        .get(&id)
        .await
        .map_err(|error| unavailable(&error))?;
    let may_see = |approval: &Approval| {
        let asking = &approval.asking;
        reach.includes(Some(&asking.tenant))
            && (principal.role.approves() || asking.principal == principal.name)
    };
    let approval = found.filter(may_see).ok_or_else(unknown)?;
    // An approval that expired undecided counts as denied: the waiting program must not go ahead.
    let decision = match approval.status {
        ApprovalStatus::Pending => return Ok(Json(json!({"id": id, "status": "pending"}))),
        ApprovalStatus::Approved | ApprovalStatus::Used => Decision::Allow,
        ApprovalStatus::Denied | ApprovalStatus::Expired => Decision::Deny,
    };
    Ok(Json(json!({
        "id": id,
        "status": "resolved",
        "decision": decision,
        // The exact state besides the decision: a denied call and an expired one both read `DENY`.
        "state": approval.status,
    })))
}

/// The principal as the approver of a decision.
pub(super) fn approver(principal: &Principal, reach: Reach, way: DecisionChannel) -> Approver {
    Approver {
        principal: principal.name.clone(),
        person: None,
        tenant: reach.into_tenant(),
        way,
    }
}

/// Applies a decision, for the API and the page alike.
pub(super) async fn decide(
    approval_service: &ApprovalService,
    by: Approver,
    id: &ApprovalId,
    answer: Answer,
) -> Result<(), Problem> {
    match approval_service.resolve(id, answer, by).await {
        Ok(_) => Ok(()),
        Err(ResolveApprovalError::Unknown) => Err(unknown()),
        Err(error @ ResolveApprovalError::Settled(_)) => Err(Problem::new(
            StatusCode::CONFLICT,
            "approval_settled",
            error.to_string(),
        )),
        Err(error @ ResolveApprovalError::Unseen) => Err(Problem::new(
            StatusCode::CONFLICT,
            "approval_unreadable",
            error.to_string(),
        )),
        Err(error @ ResolveApprovalError::OwnCall) => Err(Problem::new(
            StatusCode::FORBIDDEN,
            "own_call",
            error.to_string(),
        )),
        Err(ResolveApprovalError::Store(error)) => Err(unavailable(&error)),
    }
}

/// The approval service, if this principal may decide approvals.
pub(super) fn service_for<'s>(
    shared: &'s Shared,
    principal: &Principal,
) -> Result<&'s ApprovalService, Problem> {
    if !principal.role.approves() {
        let text = "an agent token cannot see or decide approvals; use an approver or admin token";
        return Err(Problem::new(StatusCode::FORBIDDEN, "not_an_approver", text));
    }
    shared
        .gateway
        .path
        .approval_service()
        .ok_or_else(no_approvals)
}

fn parse_id(id: &str) -> Result<ApprovalId, Problem> {
    id.parse().map_err(|_| unknown())
}

fn unknown() -> Problem {
    let text = "there is no such approval";
    Problem::new(StatusCode::NOT_FOUND, "unknown_approval", text)
}

fn no_approvals() -> Problem {
    let text = "approvals are not available on this gateway";
    Problem::new(StatusCode::NOT_FOUND, "no_approvals", text)
}

pub(super) fn unavailable(error: &dyn std::error::Error) -> Problem {
    crate::log::approvals_unavailable(error);
    let text = "the approval store is unavailable; see the gateway's log";
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "approvals_unavailable",
        text,
    )
}

impl<'a> Row<'a> {
    fn of(approval: &'a Approval, settings: &ApprovalSettings) -> Self {
        let Approval {
            id,
            status,
            asking,
            sight,
            also,
            asked_at,
            expires_at,
            resolution,
            used_by,
        } = approval;
        let HeldCallExcerpt {
            record_id,
            tenant,
            principal,
            agent,
            session_id,
            server,
            tool,
            arguments,
            arguments_bytes,
            arguments_whole,
            others,
            definition,
            rule,
            reason,
            checks,
            flags,
        } = asking;
        Self {
            id,
            status: *status,
            url: settings.url(id),
            record_id: record_id.to_string(),
            tenant,
            principal,
            agent,
            session_id,
            server,
            tool,
            arguments: json_or_text(arguments),
            arguments_bytes: *arguments_bytes,
            arguments_whole: *arguments_whole,
            others: others.as_deref().map(json_or_text),
            sight: *sight,
            summary: summary(arguments),
            also: also.iter().map(CoveredCall::of).collect(),
            definition_sha256: definition.as_deref(),
            rule,
            reason,
            checks,
            flags,
            asked_at: *asked_at,
            expires_at: *expires_at,
            resolution: resolution.as_ref(),
            used_by: used_by.map(|call| call.to_string()),
        }
    }
}

impl<'a> CoveredCall<'a> {
    fn of(asking: &'a HeldCallExcerpt) -> Self {
        Self {
            tool: &asking.tool,
            arguments: json_or_text(&asking.arguments),
            others: asking.others.as_deref().map(json_or_text),
            rule: &asking.rule,
            reason: &asking.reason,
        }
    }
}

/// JSON unchanged, or a JSON string when truncation or redaction has made it invalid.
fn json_or_text(text: &str) -> Box<RawValue> {
    let null = || RawValue::NULL.to_owned();
    RawValue::from_string(text.to_owned())
        .or_else(|_| serde_json::value::to_raw_value(text))
        .unwrap_or_else(|_| null())
}
