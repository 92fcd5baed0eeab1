//! Sends one request per round to the model. `429` and `5xx` are retried after `Retry-After`, or with exponential
//! backoff.

use std::time::Duration;

use bytes::Bytes;
use callgate_outbound::{self as outbound, HttpError, ResponseBody, with_causes};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use serde_json::Value;

use super::{Answer, stream::Assembly, stream::whole, variable};
use crate::{StepEvent, StepFailed, step::Run};

const MAX_ATTEMPTS: u32 = 6;
/// The first pause without `Retry-After`; it doubles each time.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// A longer `Retry-After` fails the step at once.
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// The largest answer that is not streamed.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;
/// How much of an error response goes into the message.
const MAX_ERROR_CHARS: usize = 500;
/// The base URL if neither the option nor `OPENAI_BASE_URL` is set.
const DEFAULT_URL: &str = "https://api.openai.com/v1";

/// A client of one model.
pub(super) struct Client {
    client: outbound::Client,
    uri: Uri,
    key: Option<String>,
}

/// Why a request failed.
enum RequestFailure {
    /// Can be retried, after the server's `Retry-After` if there is one.
    Later(Option<Duration>, String),
    /// Retrying cannot help.
    Final(String),
}

impl Client {
    pub(super) fn new(run: &Run<'_>) -> Result<Self, StepFailed> {
        let options = &run.step.options;
        let base = options.base_url.clone();
        let base = base.or_else(|| variable(run, "OPENAI_BASE_URL"));
        let base = base.unwrap_or_else(|| DEFAULT_URL.to_owned());
        let uri = format!("{}/chat/completions", base.trim_end_matches('/'));
        let uri: Uri = uri.parse().map_err(|error| {
            StepFailed::Missing(format!("`{base}` is not a valid URL: {error}"))
        })?;
        let key = options.api_key.clone();
        let key = key.or_else(|| variable(run, "OPENAI_API_KEY"));
        let client = outbound::Client::new().map_err(unreachable)?;
        client.can_verify_certificates(&uri).map_err(unreachable)?;
        Ok(Self { client, uri, key })
    }

    /// Requests one answer of the model, with retries.
    pub(super) async fn complete(
        &self,
        request: &Value,
        run: &Run<'_>,
    ) -> Result<Answer, StepFailed> {
        let body = Bytes::from(request.to_string());
        let mut wait = FIRST_WAIT;
        for attempt in 1.. {
            let refusal = match self.once(body.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(refusal) => refusal,
            };
            match refusal {
                RequestFailure::Later(asked, why) if attempt < MAX_ATTEMPTS => {
                    let pause = asked.unwrap_or(wait);
                    if pause > LONGEST_WAIT {
                        let text = format!(
                            "{why}; the server asks to retry after {} s",
                            pause.as_secs()
                        );
                        return Err(StepFailed::Model(text));
                    }
                    let text = format!("{why}; trying again in {:.1} s", pause.as_secs_f64());
                    (run.tell)(StepEvent::Warning { text });
                    tokio::time::sleep(pause).await;
                    wait *= 2;
                }
                RequestFailure::Later(_, why) | RequestFailure::Final(why) => {
                    return Err(StepFailed::Model(why));
                }
            }
        }
        Err(StepFailed::Model("no attempt was made".to_owned()))
    }

    async fn once(&self, body: Bytes) -> Result<Answer, RequestFailure> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(&self.uri)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "text/event-stream, application/json");
        if let Some(key) = &self.key {
            request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
        }
        let request = request
            .body(Full::new(body))
            .map_err(|error| RequestFailure::Final(error.to_string()))?;
        let sent = self.client.send_to_url(request).await;
        let response = sent.map_err(|error| RequestFailure::Final(error.to_string()))?;
        let status = response.status();
        if !status.is_success() {
            return Err(refused(status, response).await);
        }
        let is_stream = response
            .headers()
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|value| value.starts_with("text/event-stream"));
        if is_stream {
            streamed(response).await.map_err(RequestFailure::Final)
        } else {
            let body = collected(response).await.map_err(RequestFailure::Final)?;
            unlabelled(&body).map_err(RequestFailure::Final)
        }
    }
}

async fn streamed(response: Response<ResponseBody>) -> Result<Answer, String> {
    let mut body = response.into_body();
    let mut assembly = Assembly::new();
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| format!("the stream broke off: {}", with_causes(&error)))?;
        if let Some(bytes) = frame.data_ref() {
            assembly.push(bytes)?;
        }
    }
    assembly.finish()
}

/// A body that is not declared to be a stream. Some servers stream all the same.
fn unlabelled(body: &[u8]) -> Result<Answer, String> {
    if body.trim_ascii_start().starts_with(b"data:") {
        let mut assembly = Assembly::new();
        assembly.push(body)?;
        return assembly.finish();
    }
    whole(body)
}

async fn collected(response: Response<ResponseBody>) -> Result<Bytes, String> {
    let body = outbound::read_body(response.into_body(), MAX_BODY_BYTES).await;
    body.map_err(|error| error.to_string())?
        .ok_or_else(|| format!("the answer is longer than {MAX_BODY_BYTES} bytes"))
}

async fn refused(status: StatusCode, response: Response<ResponseBody>) -> RequestFailure {
    let asked = retry_after(response.headers());
    let body = collected(response).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&body);
    let value: Value = serde_json::from_slice(&body).unwrap_or_default();
    let said = value.pointer("/error/message").and_then(Value::as_str);
    let said: String = said
        .unwrap_or(text.trim())
        .chars()
        .take(MAX_ERROR_CHARS)
        .collect();
    let why = format!("HTTP {}: {said}", status.as_u16());
    if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
        RequestFailure::Later(asked, why)
    } else {
        RequestFailure::Final(why)
    }
}

/// `Retry-After` is either seconds or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let then = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    let wait = then.duration_since(Timestamp::now());
    Some(Duration::try_from(wait).unwrap_or_default())
}

fn unreachable(error: HttpError) -> StepFailed {
    match error {
        HttpError::NoRoots(why) => {
            StepFailed::Model(format!("the root certificates cannot be loaded: {why}"))
        }
        other => StepFailed::Model(other.to_string()),
    }
}
