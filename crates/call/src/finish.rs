//! finish: what happened is put on record and told, and the host gets its answer. Always the last
//! step.

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

/// Who answers, in every door and era, as JSON text.
pub const SERVER_INFO: &str = concat!(
    r#"{"name":"callgate","version":""#,
    env!("CARGO_PKG_VERSION"),
    r#""}"#
);

/// The rule named when a call cannot be put on record.
const NO_RECORD_RULE: &str = "deny:gateway:no_record";

/// The first line of what a host is told about a call that policy refuses.
pub const DENIED_HEADLINE: &str = "[callgate] Action denied by policy.";
/// The first line of what a host is told about a call that needs a person.
pub const APPROVAL_HEADLINE: &str = "[callgate] Action requires approval.";

/// A refusal, as it is told to the host.
#[derive(Debug)]
pub(crate) enum Refusal<'a> {
    Denied(&'a Ruling),
    NeedsApproval {
        ruling: &'a Ruling,
        id: &'a ApprovalId,
        url: &'a str,
    },
}

/// What the host gets, and why it is no good answer.
#[derive(Debug)]
pub(crate) struct Answer {
    /// `None` where the host wants no answer any more.
    pub(crate) frame: Option<Pieces>,
    pub(crate) error: Option<String>,
    /// The code, where the answer is an error.
    pub(crate) code: Option<i64>,
    /// The approval that the call waits for, where it was held.
    pub(crate) held: Option<ApprovalId>,
}

impl Answer {
    /// A good answer.
    pub(crate) fn of(frame: Option<Bytes>) -> Self {
        Self {
            frame: frame.map(Pieces::from),
            error: None,
            code: None,
            held: None,
        }
    }
}

/// What [`finish`] needs to end a forwarded call.
pub(crate) struct Ended<'a> {
    pub(crate) attempt: &'a Attempt,
    pub(crate) target: &'a Target,
    pub(crate) open: Open,
    pub(crate) outcome: Result<(Reply, Inspected), Failure>,
    pub(crate) latency: Latency,
}

/// No record, no call. The host learns that, the operator learns why.
pub(crate) fn no_record() -> Ruling {
    Ruling::new(
        NO_RECORD_RULE,
        "the gateway cannot write its record, and no call is made without one",
    )
}

/// Ends a call that was forwarded.
pub(crate) async fn finish(recorder: &Recorder, events: &Events, ended: Ended<'_>) -> Answer {
    let Ended {
        attempt,
        target,
        open,
        outcome,
        latency,
    } = ended;
    let total = latency.total;
    let (frame, told, code) = match outcome {
        Ok((reply, read)) => {
            let told = Told::of_reply(&read);
            recorder.finished(open, answered(&reply, read, total)).await;
            let id = attempt.frame.id();
            let code = code_of(&reply);
            (id.map(|id| for_host(&reply, attempt, id)), told, code)
        }
        Err(failure) => {
            let error = failure.to_rpc(attempt.frame.method().unwrap_or_default());
            recorder
                .finished(open, failed(&failure, &error, total))
                .await;
            let id = attempt.frame.id().filter(|_| wants_answer(&failure));
            let frame = id.map(|id| message::error(Some(id), &error).into());
            (frame, Told::of_failure(&failure), Some(error.code))
        }
    };
    let error = told.error.as_ref();
    match target.source() {
        ToolSource::Server => events.emit(ProxyToolCall {
            target,
            result_length: told.text_length,
            duration: total,
            error,
            detail: told.detail.as_deref(),
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
        status: told.status,
        effect: told.effect,
        latency,
        error: told.error.as_ref(),
    });
    let error = told.error.map(|error| error.message);
    Answer {
        frame,
        error,
        code,
        held: None,
    }
}

/// How a call ended, as far as it is told to others than the host.
struct Told {
    status: Status,
    effect: Effect,
    text_length: usize,
    error: Option<CallError>,
    detail: Option<String>,
}

impl Told {
    fn of_reply(read: &Inspected) -> Self {
        Self {
            status: read.status,
            effect: Effect::Done,
            text_length: read.text_length,
            error: read.told.clone(),
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
        Failure::Cancelled { .. } => false,
        Failure::Unavailable { .. }
        | Failure::TimedOut { .. }
        | Failure::TooLarge { .. }
        | Failure::UnknownState
        | Failure::Broken => true,
    }
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Ends an attempt that led nowhere.
pub(crate) fn finish_unresolved(
    recorder: &Recorder,
    events: &Events,
    unresolved: Unresolved,
) -> Answer {
    let server = unresolved.server.as_ref().map(|server| server.as_str());
    let Unresolved { attempt, error, .. } = &unresolved;
    let error = &match attempt.host.era {
        Era::Handshake => error.clone(),
        Era::Stateless => bridge::own_error_for_stateless(error),
    };
    recorder.refused(attempt, server, unresolved.status, unresolved.failed());
    let code = error.code;
    events.emit(CallUnresolved { attempt, code });
    let id = attempt.frame.id();
    Answer {
        frame: id.map(|id| message::error(Some(id), error).into()),
        error: Some(format!("the request led nowhere ({code})")),
        code: Some(code),
        held: None,
    }
}

/// Answers a call that was refused or held: a tool result where one can carry it, else an error.
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

/// Answers a request that cannot go on with an error.
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

/// Answers a call whose server asked what its host did not answer: a tool's result where one can say so.
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

/// A reply under the host's id, as the host's era wants it.
fn for_host(reply: &Reply, attempt: &Attempt, id: &Id) -> Pieces {
    let frame = &reply.frame;
    let method = attempt.frame.method().unwrap_or_default();
    if let Some(asked) = url_asked(reply, attempt) {
        return for_stateless_host(message::result(id, &asked), method).into();
    }
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

/// What a handshake server asks a stateless host by a refusal, where that host can be asked.
fn url_asked(reply: &Reply, attempt: &Attempt) -> Option<String> {
    let crosses = reply.era == Era::Handshake && attempt.host.era == Era::Stateless;
    if !crosses || !may_ask(attempt.frame.method().unwrap_or_default()) {
        return None;
    }
    let declared = attempt.host.capabilities.as_bytes();
    let declared = Json::validate(declared, Strictness::Envelope).ok()?;
    declared.get("elicitation")?;
    bridge::asks_for_url(&reply.frame)
}

/// An answer of our own, as the host's era wants it.
fn of_our_own(attempt: &Attempt, answer: Bytes) -> Bytes {
    match attempt.host.era {
        Era::Handshake => answer,
        Era::Stateless => for_stateless_host(answer, attempt.frame.method().unwrap_or_default()),
    }
}

/// An answer of our own for a host of the stateless era.
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

/// Answers a call whose intent or arguments do not hold: always a tool result, which the model can mend.
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

/// A call whose host does not wait any more.
pub(crate) fn given_up(ruling: &Ruling) -> Answer {
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

/// The approval that a call needs, for hosts that read `_meta`: under our own keys, and under those of
/// gateways that hosts know already.
pub(crate) fn approval_meta(id: &ApprovalId, url: &str) -> String {
    let url = quote(url);
    let keys = |prefix| format!(r#""{prefix}/approval_id":"{id}","{prefix}/approval_url":{url}"#);
    format!(
        r#","_meta":{{{},{}}}"#,
        keys("dev.callgate"),
        keys("dev.agentguard")
    )
}

/// What a host is told about a call that needs a person.
pub(crate) fn approval_lines(ruling: &Ruling, id: &ApprovalId, url: &str) -> String {
    let reason = &ruling.reason;
    format!("{APPROVAL_HEADLINE}\nReason: {reason}\nApproval ID: {id}\nApprove at: {url}")
}
