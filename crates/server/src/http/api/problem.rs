//! Errors of the API: problem details (RFC 9457) with a stable code.

use axum::{
    body::{Body, to_bytes},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// The content type of a problem.
const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");
/// The limit for a converted error's text.
const MAX_TEXT_BYTES: usize = 4096;

#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(super) struct Problem {
    /// Always `about:blank`; the code identifies the problem.
    pub(super) r#type: &'static str,
    /// The name of the status.
    pub(super) title: &'static str,
    /// The HTTP status.
    pub(super) status: u16,
    /// What happened, for a person or a model.
    pub(super) detail: String,
    /// A stable code.
    pub(super) code: String,
    /// Additional members, for example the rule.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub(super) more: Box<serde_json::Map<String, Value>>,
    /// After how many seconds the same request can succeed.
    #[serde(skip)]
    retry_after_s: Option<u64>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        Self {
            r#type: "about:blank",
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: detail.into(),
            code: code.to_owned(),
            more: Box::default(),
            retry_after_s: None,
        }
    }

    /// An invalid query parameter.
    pub(super) fn parameter(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "INVALID_PARAMETER", detail)
    }

    pub(super) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    pub(super) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.more.insert(key.to_owned(), value.into());
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::BAD_REQUEST);
        let mut response = (status, axum::Json(&self)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, PROBLEM_JSON);
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// Converts error responses of other layers, such as authentication and routing, to problems.
pub(super) async fn in_one_form(response: Response) -> Response {
    let status = response.status();
    let is_problem = response.headers().get(header::CONTENT_TYPE) == Some(&PROBLEM_JSON);
    if is_problem || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let (parts, body) = response.into_parts();
    let text = to_bytes(body, MAX_TEXT_BYTES).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let code = match status {
        StatusCode::UNAUTHORIZED => "UNAUTHORIZED",
        StatusCode::FORBIDDEN => "FORBIDDEN",
        StatusCode::METHOD_NOT_ALLOWED => "METHOD_NOT_ALLOWED",
        StatusCode::NOT_FOUND => "NOT_FOUND",
        _ => "INVALID_REQUEST",
    };
    let problem = Problem::new(status, code, text.trim()).into_response();
    let (mut own, body) = problem.into_parts();
    // Headers such as `WWW-Authenticate` and `Allow` belong to the refusal and are kept.
    for (name, value) in &parts.headers {
        if name != header::CONTENT_TYPE && name != header::CONTENT_LENGTH {
            own.headers.insert(name, value.clone());
        }
    }
    Response::from_parts(own, Body::new(body))
}
