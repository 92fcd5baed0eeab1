//! The API's OpenAPI description, generated from its handlers.

use axum::Json;
use utoipa::{
    Modify, OpenApi,
    openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme},
};

use super::{activity, calls, problem::Problem, usage};

#[derive(OpenApi)]
#[openapi(
    info(title = "Callgate", description = "Queries of the activity log, and tool calls by programs."),
    paths(activity::list, activity::show, activity::export, activity::summary, calls::call, usage::usage),
    components(schemas(Problem, activity::Listed, usage::Used)),
    modifiers(&Bearer)
)]
struct Description;

/// Adds the security scheme: every route needs an admin token.
struct Bearer;

impl Modify for Bearer {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        if let Some(components) = description.components.as_mut() {
            components.add_security_scheme("admin", scheme);
        }
        let needed = SecurityRequirement::new("admin", std::iter::empty::<String>());
        description.security = Some(vec![needed]);
    }
}

pub(super) async fn openapi() -> Json<utoipa::openapi::OpenApi> {
    Json(Description::openapi())
}
