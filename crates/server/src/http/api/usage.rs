//! Token usage against rates and budgets.

use std::sync::Arc;

use axum::{Extension, Json, extract::State, http::StatusCode};
use callgate_call::Usage;
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    super::{Shared, auth::Reach},
    problem::Problem,
};

/// The usage of all visible tokens.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Used {
    /// One entry for each token, by tenant and token.
    #[schema(value_type = Vec<Object>)]
    usage: Vec<Usage>,
}

/// Shows what each token has used of its rates and budgets, and how much of its history is remembered.
#[utoipa::path(get, path = "/api/v1/usage", responses((status = 200, body = Used), (status = 401, body = Problem)))]
pub(super) async fn usage(
    State(shared): State<Arc<Shared>>,
    Extension(reach): Extension<Reach>,
) -> Result<Json<Used>, Problem> {
    let mut usage = shared.gateway.path.usage().await.map_err(|error| {
        crate::log::usage_not_read(&error);
        let detail = "could not read token usage; see the gateway's log";
        Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "LEDGER_UNAVAILABLE",
            detail,
        )
    })?;
    usage.retain(|one| reach.includes(Some(&one.tenant)));
    Ok(Json(Used { usage }))
}
