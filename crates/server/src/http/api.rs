//! `/api/v1`: the record and tool calls, for admins. Errors are problem details with a code.

mod activity;
mod calls;
mod description;
mod filter;
mod outcome;
mod problem;
mod usage;

use std::sync::Arc;

use axum::{
    Router, middleware,
    routing::{get, post},
};

use super::{Shared, auth};

/// The routes below `/api/v1`.
pub(super) fn routes(shared: &Arc<Shared>) -> Router<Arc<Shared>> {
    Router::new()
        .route("/api/v1/servers", get(super::servers))
        .route("/api/v1/activity", get(activity::list))
        .route("/api/v1/activity/export", get(activity::export))
        .route("/api/v1/activity/summary", get(activity::summary))
        .route("/api/v1/activity/{id}", get(activity::show))
        .route("/api/v1/tools/call", post(calls::call))
        .route("/api/v1/usage", get(usage::usage))
        .route("/api/v1/openapi.json", get(description::openapi))
        .layer(middleware::from_fn_with_state(
            shared.clone(),
            auth::admins_only,
        ))
        // The outermost layer, so that refusals of the authentication layer are converted too.
        .layer(middleware::map_response(problem::in_one_form))
}
