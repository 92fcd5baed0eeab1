//! A remote guard: another gateway that decides about calls in place of rules.
//!
//! An answer that cannot be understood is a denial. If the guard cannot be reached, the operator's fail mode
//! decides. No question is sent twice: the first answer may have used up an approval.

mod audit;

use std::time::Duration;

use bytes::Bytes;
use callgate_call::{Events, Guard, events::checks::GuardUnavailable};
use callgate_gate::{
    ApprovalId, Call, Check, FIRST_TENANT, Kind,
    guard::{
        FailMode, GuardAnswers, GuardOptions, Inquiry,
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
    http::{HttpClient, HttpError, RequestHeaders, ResponseBody, read_body},
};
use audit::UncheckedCallLog;

/// Longer answers are not read, and so are denials.
const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// Keys of a request's `_meta` under which a host names an approval.
const APPROVAL_KEYS: [&str; 2] = ["dev.callgate/approval_id", "dev.agentguard/approval_id"];

/// Why a guard could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// The address is unusable.
    #[error(transparent)]
    Address(#[from] EndpointError),
    /// The HTTP client could not be created.
    #[error("{0}")]
    Client(String),
}

#[derive(Debug)]
pub struct RemoteGuard {
    client: HttpClient,
    check: Endpoint,
    options: GuardOptions,
    audit: UncheckedCallLog,
    events: Events,
}

/// Why the guard could not be asked.
#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error("it did not answer within {0:?}")]
    Slow(Duration),
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("it answered {0}")]
    Status(StatusCode),
    #[error("it did not report the approval's status")]
    NoStatus,
}

struct IncompleteAnswer;

/// The outcome of one question.
enum Outcome {
    Answer(Answer),
    TooLarge,
    Invalid(&'static str),
}

impl RemoteGuard {
    /// A guard that reports failed questions through `events`.
    pub fn new(options: GuardOptions, events: Events) -> Result<Self, GuardError> {
        let client = HttpClient::new().map_err(|error| GuardError::Client(error.to_string()))?;
        Ok(Self {
            check: endpoint(&options, "check")?,
            audit: UncheckedCallLog::new(options.audit_file.clone()),
            client,
            options,
            events,
        })
    }

    async fn ask_all(&self, call: &Call, inquiries: Vec<Inquiry>) -> GuardAnswers {
        let frame = &call.attempt.frame;
        let named = APPROVAL_KEYS.iter().find_map(|key| frame.meta(key));
        let named = named.and_then(|named| named.as_str());
        let mut guarded = GuardAnswers::default();
        for inquiry in inquiries {
            // One decision covers all questions about a call, so later ones use the approval of the first.
            let open = guarded.approval.as_ref().map(|(id, _)| id.as_str());
            let body = message::question(call, &inquiry, open.or(named.as_deref()));
            let check = match self.ask_one(body).await {
                Ok(Outcome::Answer(answer)) => {
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
                Ok(Outcome::TooLarge) => Check::too_large_to_ask(),
                Ok(Outcome::Invalid(why)) => Check::invalid_response(why),
                Err(error) => self.failed(call, &error),
            };
            // A denial decides the call, so the remaining questions are not sent.
            let is_no = check.kind == Kind::Deny;
            guarded.checks.push(check);
            if is_no {
                break;
            }
        }
        guarded
    }

    /// Applies the fail mode to a call that the guard could not be asked about.
    fn failed(&self, call: &Call, error: &AskError) -> Check {
        let error = error.to_string();
        let check = self.options.fail_mode.check(&error);
        let decision = match check.kind {
            Kind::Allow => Decision::Allow,
            Kind::Confirm | Kind::RequireApproval | Kind::Deny => Decision::Deny,
        };
        self.events.emit(GuardUnavailable {
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

    async fn ask_one(&self, body: String) -> Result<Outcome, AskError> {
        // A cut question would ask about another call, so this one is refused in every fail mode.
        if body.len() > message::MAX_QUESTION_BYTES {
            return Ok(Outcome::TooLarge);
        }
        let carried = RequestHeaders::default();
        let asking = async {
            let body = Pieces::from(bytes::Bytes::from(body));
            let response = match self.client.post(&self.check, &carried, body).await {
                // Something answered, so this is an answer that cannot be understood and not an absent guard.
                Err(HttpError::NotHttp(_)) => return Ok(Outcome::Invalid("it is not HTTP")),
                sent => sent?,
            };
            match response.status() {
                StatusCode::OK => {}
                StatusCode::PAYLOAD_TOO_LARGE => return Ok(Outcome::TooLarge),
                other if is_no_answer(other) => return Err(AskError::Status(other)),
                _ => return Ok(Outcome::Invalid("its HTTP status is unexpected")),
            }
            Ok(match read(response).await {
                Ok(Some(body)) => {
                    Answer::read(&body).map_or_else(Outcome::Invalid, Outcome::Answer)
                }
                Ok(None) => Outcome::Invalid("it exceeds the size limit"),
                Err(IncompleteAnswer) => Outcome::Invalid("it is incomplete"),
            })
        };
        let limit = self.options.timeout;
        timeout(limit, asking)
            .await
            .map_err(|_| AskError::Slow(limit))?
    }

    async fn is_undecided(&self, id: &ApprovalId) -> Result<bool, AskError> {
        let place = endpoint(&self.options, &format!("status/{id}"));
        let place = place.map_err(|_| AskError::NoStatus)?;
        let carried = RequestHeaders::default();
        let asking = async {
            let response = self.client.get(&place, &carried).await?;
            let body = read(response)
                .await
                .map_err(|IncompleteAnswer| AskError::NoStatus)?;
            let body = body.unwrap_or_default();
            let json = Json::validate(&body, Strictness::Full).ok();
            let status = json.and_then(|json| json.get("status")?.as_str());
            Ok(status.as_deref() == Some("pending"))
        };
        let limit = self.options.timeout;
        timeout(limit, asking)
            .await
            .map_err(|_| AskError::Slow(limit))?
    }
}

impl Guard for RemoteGuard {
    fn ask<'a>(&'a self, call: &'a Call, inquiries: Vec<Inquiry>) -> BoxFuture<'a, GuardAnswers> {
        Box::pin(self.ask_all(call, inquiries))
    }

    fn is_pending<'a>(&'a self, id: &'a ApprovalId) -> BoxFuture<'a, bool> {
        // An unreachable guard does not end an approval: the host keeps waiting and asks again.
        Box::pin(async { self.is_undecided(id).await.unwrap_or(true) })
    }
}

/// Whether a status means that the guard could not be asked: it is down or does not know this gateway. Any
/// other error status counts as an answer that cannot be understood.
fn is_no_answer(status: StatusCode) -> bool {
    let unknown_here = [
        StatusCode::UNAUTHORIZED,
        StatusCode::FORBIDDEN,
        StatusCode::NOT_FOUND,
    ];
    status.is_server_error() || unknown_here.contains(&status)
}

/// A route of the guard for the configured tenant.
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

/// The body of an answer; `None` if it is too long.
async fn read(response: Response<ResponseBody>) -> Result<Option<Bytes>, IncompleteAnswer> {
    let body = read_body(response.into_body(), MAX_ANSWER_BYTES).await;
    body.map_err(|_| IncompleteAnswer)
}
