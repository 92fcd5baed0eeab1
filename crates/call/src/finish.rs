//! finish: records the outcome, emits the event, and builds the answer for the host. Always the last step.

use std::time::Duration;

use bytes::Bytes;
use callgate_gate::{ApprovalId, Attempt, Fault, Ruling, Target, ToolSource};
use callgate_record::{Effect, Failed, Open, Outcome, Recorder, Status};
use callgate_wire::{
    Era, Frame, Id, Json, Pieces, RpcError, Strictness, bridge, message, methods, quote,
    stateless::may_ask,
};

use crate::{
    Events, Failure, Latency, Reply,
    events::calls::{CallError, CallFinished, CallUnresolved, ProxyToolCall, ToolCall},
    inspect::Inspected,
    resolve::Unresolved,
};

/// The `serverInfo` of every door and era, as JSON text.
pub const SERVER_INFO: &str = concat!(
    r#"{"name":"callgate","version":""#,
    env!("CARGO_PKG_VERSION"),
    r#""}"#
);

/// The rule of a call that cannot be recorded.
const NO_RECORD_RULE: &str = "deny:gateway:no_record";

/// The first line of the answer to a denied call.
pub const DENIED_HEADLINE: &str = "[callgate] Action denied by policy.";
/// The first line of the answer to a call that needs approval.
pub const APPROVAL_HEADLINE: &str = "[callgate] Action requires approval.";

/// Why a call is refused.
#[derive(Debug)]
pub(crate) enum Refusal<'a> {
    Denied(&'a Ruling),
    NeedsApproval {
        ruling: &'a Ruling,
        id: &'a ApprovalId,
        url: &'a str,
    },
}

/// The answer to the host, and what its door and span need to know about it.
#[derive(Debug)]
pub(crate) struct Answer {
    /// `None` if the host no longer wants an answer.
    pub(crate) frame: Option<Pieces>,
    /// Why the call did not succeed.
    pub(crate) error: Option<String>,
    /// The code of a JSON-RPC error. A tool result with `isError` has none.
    pub(crate) code: Option<i64>,
    /// The approval that a held call waits for.
    pub(crate) held: Option<ApprovalId>,
}

impl Answer {
    /// The answer to a call that succeeded.
    pub(crate) fn of(frame: Option<Bytes>) -> Self {
        Self {
            frame: frame.map(Pieces::from),
            error: None,
            code: None,
            held: None,
        }
    }
}

/// A forwarded call that has ended.
pub(crate) struct ForwardedCall<'a> {
    pub(crate) attempt: &'a Attempt,
    pub(crate) target: &'a Target,
    pub(crate) open: Open,
    pub(crate) outcome: Result<(Reply, Inspected), Failure>,
    pub(crate) latency: Latency,
}

/// The ruling for a call that cannot be recorded. It does not say why: the error is for the operator.
pub(crate) fn no_record() -> Ruling {
    Ruling::new(
        NO_RECORD_RULE,
        "the gateway cannot write its record, so it makes no calls",
    )
}

/// Ends a call that was forwarded.
pub(crate) async fn finish(
    recorder: &Recorder,
    events: &Events,
    ended: ForwardedCall<'_>,
) -> Answer {
    let ForwardedCall {
        attempt,
        target,
        open,
        outcome,
        latency,
    } = ended;
    let total = latency.total;
    let (frame, summary, code) = match outcome {
        Ok((reply, read)) => {
            let summary = CallSummary::of_reply(&read);
            // The record before the answer: what a host has seen is on record, even if the process dies right after.
            recorder.finished(open, answered(&reply, read, total)).await;
            let id = attempt.frame.id();
            let code = code_of(&reply);
            (id.map(|id| for_host(&reply, attempt, id)), summary, code)
        }
        Err(failure) => {
            let error = failure.to_rpc(attempt.frame.method().unwrap_or_default());
            recorder
                .finished(open, failed(&failure, &error, total))
                .await;
            let id = attempt.frame.id().filter(|_| wants_answer(&failure));
            let frame = id.map(|id| message::error(Some(id), &error).into());
            (frame, CallSummary::of_failure(&failure), Some(error.code))
        }
    };
    let error = summary.error.as_ref();
    match target.source() {
        ToolSource::Server => events.emit(ProxyToolCall {
            target,
            result_length: summary.text_length,
            duration: total,
            error,
            detail: summary.detail.as_deref(),
        }),
        ToolSource::Builtin | ToolSource::Plugin => events.emit(ToolCall {
            target,
            duration: total,
            error,
        }),
    }
    events.emit(CallFinished {
        attempt,
        target,
        status: summary.status,
        effect: summary.effect,
        latency,
        error: summary.error.as_ref(),
    });
    let error = summary.error.map(|error| error.message);
    Answer {
        frame,
        error,
        code,
        held: None,
    }
}

/// How a call ended, for events and metrics: without the server's own words, which may repeat arguments.
struct CallSummary {
    status: Status,
    effect: Effect,
    text_length: usize,
    error: Option<CallError>,
    detail: Option<String>,
}

impl CallSummary {
    fn of_reply(read: &Inspected) -> Self {
        Self {
            status: read.status,
            effect: Effect::Done,
            text_length: read.text_length,
            error: read.safe_error.clone(),
            detail: None,
        }
    }

    fn of_failure(failure: &Failure) -> Self {
        Self {
            status: failure.status(),
            effect: failure.effect(),
            text_length: 0,
            error: Some(failure.into()),
            detail: failure.detail().map(str::to_owned),
        }
    }
}

fn answered(reply: &Reply, read: Inspected, total: Duration) -> Outcome<'_> {
    let response = reply.frame.result().or_else(|| reply.frame.error());
    Outcome {
        status: read.status,
        effect: Effect::Done,
        duration_us: microseconds(total),
        response,
        error: read.error,
    }
}

fn failed(failure: &Failure, error: &RpcError, total: Duration) -> Outcome<'static> {
    Outcome {
        status: failure.status(),
        effect: failure.effect(),
        duration_us: microseconds(total),
        response: None,
        error: Some(Failed {
            code: error.code,
            message: error.message.clone(),
        }),
    }
}

fn wants_answer(failure: &Failure) -> bool {
    match failure {
        // By the specification a cancelled request gets no response.
        Failure::Cancelled { .. } => false,
        Failure::Unavailable { .. }
        | Failure::TimedOut { .. }
        | Failure::TooLarge { .. }
        | Failure::Unreadable { .. }
        | Failure::UnknownState
        | Failure::Broken => true,
    }
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Ends an attempt that could not be resolved.
pub(crate) fn finish_unresolved(
    recorder: &Recorder,
    events: &Events,
    unresolved: Unresolved,
) -> Answer {
    let server = unresolved.server.as_ref().map(|server| server.as_str());
    let Unresolved { attempt, error, .. } = &unresolved;
    let error = &match attempt.host.era {
        Era::Handshake => error.clone(),
        Era::Stateless => bridge::gateway_error_for_stateless(error),
    };
    recorder.refused(attempt, server, unresolved.status, unresolved.failed());
    let code = error.code;
    events.emit(CallUnresolved { attempt, code });
    let id = attempt.frame.id();
    Answer {
        frame: id.map(|id| message::error(Some(id), error).into()),
        error: Some(format!("the request could not be resolved ({code})")),
        code: Some(code),
        held: None,
    }
}

/// Answers a call that was refused or held: `tools/call` with a tool result, which the model sees, other methods with an error.
pub(crate) fn refuse(attempt: &Attempt, refusal: &Refusal<'_>) -> Answer {
    let request = &attempt.frame;
    let (Refusal::Denied(ruling) | Refusal::NeedsApproval { ruling, .. }) = refusal;
    let is_tool = request.method() == Some(methods::TOOLS_CALL);
    let code = match refusal {
        Refusal::Denied(_) => RpcError::DENIED,
        Refusal::NeedsApproval { .. } => RpcError::APPROVAL,
    };
    Answer {
        frame: request
            .id()
            .map(|id| of_our_own(attempt, refusal_frame(request, id, refusal)).into()),
        error: Some(ruling.rule.clone()),
        code: (!is_tool).then_some(code),
        held: match refusal {
            Refusal::Denied(_) => None,
            Refusal::NeedsApproval { id, .. } => Some((*id).clone()),
        },
    }
}

/// Answers a request with an error.
pub(crate) fn rejected(request: &Frame, error: &RpcError) -> Answer {
    let frame = request
        .id()
        .map(|id| message::error(Some(id), error).into());
    Answer {
        frame,
        error: Some(error.message.clone()),
        code: Some(error.code),
        held: None,
    }
}

/// Answers a call whose server asked what its host did not answer.
pub(crate) fn refused_rounds(request: &Frame, error: &RpcError) -> Answer {
    if request.method() != Some(methods::TOOLS_CALL) {
        return rejected(request, error);
    }
    let text = quote(&format!("[callgate] {}", error.message));
    let result = format!(r#"{{"content":[{{"type":"text","text":{text}}}],"isError":true}}"#);
    Answer {
        error: Some(error.message.clone()),
        ..Answer::of(request.id().map(|id| message::result(id, &result)))
    }
}

/// A reply under the host's id, in the form of the host's era.
fn for_host(reply: &Reply, attempt: &Attempt, id: &Id) -> Pieces {
    let frame = &reply.frame;
    let method = attempt.frame.method().unwrap_or_default();
    if let Some(asked) = url_asked(reply, attempt) {
        return for_stateless_host(message::result(id, &asked), method).into();
    }
    // Edited, not rebuilt: within an era every byte of a reply but its id reaches the host unchanged.
    let (told, edit) = match (reply.era, attempt.host.era) {
        (Era::Handshake, Era::Handshake) => (None, frame.edit()),
        (Era::Stateless, Era::Handshake) => (
            bridge::error_for_handshake(frame),
            bridge::reply_for_handshake(frame.edit()),
        ),
        (from, Era::Stateless) => {
            let told = match from {
                Era::Handshake => bridge::error_for_stateless(frame, method),
                Era::Stateless => None,
            };
            let edit = bridge::reply_for_stateless(frame.edit(), frame, method, SERVER_INFO);
            (told, edit)
        }
    };
    match told {
        Some(error) => message::error(Some(id), &error).into(),
        None => edit.id(id).pieces(),
    }
}

/// The questions that a handshake server asks by an error, as a result for a stateless host that can be asked.
fn url_asked(reply: &Reply, attempt: &Attempt) -> Option<String> {
    let crosses = reply.era == Era::Handshake && attempt.host.era == Era::Stateless;
    if !crosses || !may_ask(attempt.frame.method().unwrap_or_default()) {
        return None;
    }
    let declared = attempt.host.capabilities.as_bytes();
    let declared = Json::validate(declared, Strictness::Envelope).ok()?;
    // A host that cannot be asked gets the server's error instead.
    declared.get("elicitation")?;
    bridge::asks_for_url(&reply.frame)
}

/// An answer of the gateway in the form of the host's era.
fn of_our_own(attempt: &Attempt, answer: Bytes) -> Bytes {
    match attempt.host.era {
        Era::Handshake => answer,
        Era::Stateless => for_stateless_host(answer, attempt.frame.method().unwrap_or_default()),
    }
}

/// An answer of the gateway in the form of the stateless era.
pub fn for_stateless_host(answer: Bytes, method: &str) -> Bytes {
    match Frame::parse(answer.clone(), Strictness::Envelope) {
        Ok(frame) => {
            bridge::reply_for_stateless(frame.edit(), &frame, method, SERVER_INFO).finish()
        }
        Err(_) => answer,
    }
}

fn code_of(reply: &Reply) -> Option<i64> {
    let error = reply.frame.error()?;
    error.get("code").and_then(Json::as_i64)
}

/// Answers a call whose intent or arguments are wrong: always with a tool result, so that the model sees it and can correct the
/// call.
pub(crate) fn refuse_fault(attempt: &Attempt, fault: &Fault) -> Answer {
    let (code, text) = (quote(fault.code()), quote(&fault.to_string()));
    let result = format!(
        r#"{{"content":[{{"type":"text","text":{text}}}],"structuredContent":{{"code":{code},"message":{text}}},"isError":true}}"#
    );
    let id = attempt.frame.id();
    let frame = id.map(|id| of_our_own(attempt, message::result(id, &result)));
    Answer {
        error: Some(fault.code().to_owned()),
        ..Answer::of(frame)
    }
}

/// The end of a call whose host no longer waits: no answer.
pub(crate) fn cancelled_answer(ruling: &Ruling) -> Answer {
    Answer {
        error: Some(ruling.rule.clone()),
        ..Answer::of(None)
    }
}

fn refusal_frame(request: &Frame, id: &Id, refusal: &Refusal<'_>) -> Bytes {
    let (code, lines, data) = match refusal {
        Refusal::Denied(Ruling { rule, reason, .. }) => (
            RpcError::DENIED,
            format!("{DENIED_HEADLINE}\nReason: {reason}\nRule: {rule}"),
            String::new(),
        ),
        Refusal::NeedsApproval { ruling, id, url } => {
            let url_text = quote(url);
            (
                RpcError::APPROVAL,
                approval_lines(ruling, id, url),
                format!(r#","approval_id":"{id}","approval_url":{url_text}"#),
            )
        }
    };
    if request.method() == Some(methods::TOOLS_CALL) {
        let meta = match refusal {
            Refusal::Denied(_) => String::new(),
            Refusal::NeedsApproval { id, url, .. } => approval_meta(id, url),
        };
        let text = quote(&lines);
        let result =
            format!(r#"{{"content":[{{"type":"text","text":{text}}}],"isError":true{meta}}}"#);
        return message::result(id, &result);
    }
    let (Refusal::Denied(ruling) | Refusal::NeedsApproval { ruling, .. }) = refusal;
    let Ruling { rule, reason, .. } = ruling;
    let data = format!(
        r#"{{"rule":{},"reason":{}{data}}}"#,
        quote(rule),
        quote(reason)
    );
    // Hosts show the message of an error in one line; rule and reason are in its data.
    let headline = lines.lines().next().unwrap_or_default();
    message::error(
        Some(id),
        &RpcError {
            code,
            message: headline.to_owned(),
            data: Some(data),
        },
    )
}

/// The approval that a call needs, as `_meta`: under our own keys, and under those of AgentGuard, which hosts read already.
pub(crate) fn approval_meta(id: &ApprovalId, url: &str) -> String {
    let url = quote(url);
    let keys = |prefix| format!(r#""{prefix}/approval_id":"{id}","{prefix}/approval_url":{url}"#);
    format!(
        r#","_meta":{{{},{}}}"#,
        keys("dev.callgate"),
        keys("dev.agentguard")
    )
}

/// The text for a call that needs approval.
pub(crate) fn approval_lines(ruling: &Ruling, id: &ApprovalId, url: &str) -> String {
    let reason = &ruling.reason;
    format!("{APPROVAL_HEADLINE}\nReason: {reason}\nApproval ID: {id}\nApprove at: {url}")
}
