//! Another gateway that is asked about calls in place of rules, over one pool of connections.
//!
//! What it says is believed only where it can be understood; what counts when it cannot be asked at all is
//! the operator's choice. Nothing is ever asked twice: an answer may have used an approval up.

mod audit;

use std::time::Duration;

use bytes::Bytes;
use callgate_call::{Events, Guard, events::checks::FailedToAsk};
use callgate_gate::{
    ApprovalId, Call, Check, FIRST_TENANT, Kind,
    guard::{
        FailMode, GuardOptions, Guarded, Inquiry,
        message::{self, Answer},
    },
};
use callgate_record::Decision;
use callgate_wire::{Json, Pieces, Strictness};
use futures_util::future::BoxFuture;
use http::{Response, StatusCode};
use tokio::time::timeout;

use crate::{
    Endpoint, EndpointError,
    http::{Answered, Carried, HttpClient, HttpFailed, read_body},
};
use audit::Audit;

/// A longer answer than this is not read.
const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// Keys of a request's `_meta` under which a host names an approval.
const APPROVAL_KEYS: [&str; 2] = ["dev.callgate/approval_id", "dev.agentguard/approval_id"];

/// Why no guard can be asked.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// Its address cannot be used.
    #[error(transparent)]
    Address(#[from] EndpointError),
    /// There is no HTTP client.
    #[error("{0}")]
    Client(String),
}

/// Another gateway, asked over HTTP.
#[derive(Debug)]
pub struct RemoteGuard {
    client: HttpClient,
    check: Endpoint,
    options: GuardOptions,
    audit: Audit,
    events: Events,
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
enum Unasked {
    #[error("it does not answer within {0:?}")]
    Slow(Duration),
    #[error(transparent)]
    Http(#[from] HttpFailed),
    #[error("it answered {0}")]
    Status(StatusCode),
    #[error("it cannot be asked about the approval")]
    NoStatus,
}

/// An answer that ended before it was complete.
struct BrokeOff;

/// What one question came to.
enum Said {
    Answer(Answer),
    TooLarge,
    Unclear(&'static str),
}

impl RemoteGuard {
    /// A guard; what could not be asked is told through `events`.
    pub fn new(options: GuardOptions, events: Events) -> Result<Self, GuardError> {
        let client = HttpClient::new().map_err(|error| GuardError::Client(error.to_string()))?;
        Ok(Self {
            check: endpoint(&options, "check")?,
            audit: Audit::new(options.audit_file.clone()),
            client,
            options,
            events,
        })
    }

    async fn ask_all(&self, call: &Call, inquiries: Vec<Inquiry>) -> Guarded {
        let frame = &call.attempt.frame;
        let named = APPROVAL_KEYS.iter().find_map(|key| frame.meta(key));
        let named = named.and_then(|named| named.as_str());
        let mut guarded = Guarded::default();
        for inquiry in inquiries {
            // One decision covers all questions about a call: the later ones are asked under the first one's approval.
            let open = guarded.approval.as_ref().map(|(id, _)| id.as_str());
            let body = message::question(call, &inquiry, open.or(named.as_deref()));
            let check = match self.ask_one(body).await {
                Ok(Said::Answer(answer)) => {
                    let Answer {
                        kind,
                        rule,
                        reason,
                        approval,
                    } = answer;
                    if let (Kind::RequireApproval, Some((id, Some(url)))) = (kind, approval) {
                        guarded.approval.get_or_insert((id, url));
                    }
                    Check::of_guard(&inquiry.scope, kind, &rule, &reason)
                }
                Ok(Said::TooLarge) => Check::too_large_to_ask(),
                Ok(Said::Unclear(why)) => Check::invalid_response(why),
                Err(error) => self.failed(call, &error),
            };
            let is_no = check.kind == Kind::Deny;
            guarded.checks.push(check);
            if is_no {
                break;
            }
        }
        guarded
    }

    /// What counts for a call that could not be asked about.
    fn failed(&self, call: &Call, error: &Unasked) -> Check {
        let error = error.to_string();
        let check = self.options.fail_mode.check(&error);
        let decision = match check.kind {
            Kind::Allow => Decision::Allow,
            Kind::Confirm | Kind::RequireApproval | Kind::Deny => Decision::Deny,
        };
        self.events.emit(FailedToAsk {
            call,
            rule: &check.rule,
            error: &error,
            decision,
        });
        match self.options.fail_mode {
            FailMode::Deny | FailMode::Allow => {}
            FailMode::DenyWithAudit => self.audit.write(call, &check, &error),
        }
        check
    }

    async fn ask_one(&self, body: String) -> Result<Said, Unasked> {
        if body.len() > message::MAX_QUESTION_BYTES {
            return Ok(Said::TooLarge);
        }
        let carried = Carried::default();
        let asking = async {
            let body = Pieces::from(bytes::Bytes::from(body));
            let response = match self.client.post(&self.check, &carried, body).await {
                Err(HttpFailed::NotHttp(_)) => return Ok(Said::Unclear("it is not HTTP")),
                sent => sent?,
            };
            match response.status() {
                StatusCode::OK => {}
                StatusCode::PAYLOAD_TOO_LARGE => return Ok(Said::TooLarge),
                other if is_no_answer(other) => return Err(Unasked::Status(other)),
                _ => {
                    return Ok(Said::Unclear(
                        "its status is not one that a guard answers with",
                    ));
                }
            }
            Ok(match read(response).await {
                Ok(Some(body)) => Answer::read(&body).map_or_else(Said::Unclear, Said::Answer),
                Ok(None) => Said::Unclear("it is too long"),
                Err(BrokeOff) => Said::Unclear("it broke off"),
            })
        };
        let limit = self.options.timeout;
        timeout(limit, asking)
            .await
            .map_err(|_| Unasked::Slow(limit))?
    }

    async fn stands(&self, id: &ApprovalId) -> Result<bool, Unasked> {
        let place = endpoint(&self.options, &format!("status/{id}"));
        let place = place.map_err(|_| Unasked::NoStatus)?;
        let carried = Carried::default();
        let asking = async {
            let response = self.client.get(&place, &carried).await?;
            let body = read(response).await.map_err(|BrokeOff| Unasked::NoStatus)?;
            let body = body.unwrap_or_default();
            let json = Json::validate(&body, Strictness::Full).ok();
            let status = json.and_then(|json| json.get("status")?.as_str());
            Ok(status.as_deref() == Some("pending"))
        };
        let limit = self.options.timeout;
        timeout(limit, asking)
            .await
            .map_err(|_| Unasked::Slow(limit))?
    }
}

impl Guard for RemoteGuard {
    fn ask<'a>(&'a self, call: &'a Call, inquiries: Vec<Inquiry>) -> BoxFuture<'a, Guarded> {
        Box::pin(self.ask_all(call, inquiries))
    }

    fn is_pending<'a>(&'a self, id: &'a ApprovalId) -> BoxFuture<'a, bool> {
        Box::pin(async { self.stands(id).await.unwrap_or(true) })
    }
}

/// Whether a status says that the guard could not be asked: it is down, or does not know this gateway. Any other status that
/// is not an answer is one that cannot be understood.
fn is_no_answer(status: StatusCode) -> bool {
    let unknown_here = [
        StatusCode::UNAUTHORIZED,
        StatusCode::FORBIDDEN,
        StatusCode::NOT_FOUND,
    ];
    status.is_server_error() || unknown_here.contains(&status)
}

/// A route of the guard, for the tenant.
fn endpoint(options: &GuardOptions, route: &str) -> Result<Endpoint, EndpointError> {
    let base = options.url.trim_end_matches('/');
    let url = match options.tenant.as_str() {
        FIRST_TENANT => format!("{base}/v1/{route}"),
        tenant => format!("{base}/v1/t/{tenant}/{route}"),
    };
    let key = options.api_key.as_ref();
    let key = key.map(|key| ("Authorization".to_owned(), format!("Bearer {key}")));
    Endpoint::new(&url, key.as_slice(), false)
}

/// The body of an answer; `None` where it is too long.
async fn read(response: Response<Answered>) -> Result<Option<Bytes>, BrokeOff> {
    let body = read_body(response.into_body(), MAX_ANSWER_BYTES).await;
    body.map_err(|_| BrokeOff)
}
