//! What tokens have used of their limits.

use std::sync::Arc;

use axum::{Extension, Json, extract::State};
use callgate_call::Usage;
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    super::{Shared, auth::Reach},
    problem::Problem,
};

/// The figures of all tokens that are seen.
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
) -> Json<Used> {
    let mut usage = shared.gateway.path.usage();
    usage.retain(|one| reach.includes(Some(&one.tenant)));
    Json(Used { usage })
}
