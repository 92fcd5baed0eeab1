//! finish: what happened is put on record and told, and the host gets its answer. Always the last
//! step.

use std::time::Duration;

use bytes::Bytes;
use callgate_gate::{Attempt, Fault, Ruling, Target, ToolSource};
use callgate_record::{Effect, Failed, Open, Outcome, Recorder, Status};
use callgate_wire::{Frame, Id, Pieces, RpcError, message, methods, quote};

use crate::{
    Events, Failure, Latency, Reply,
    events::calls::{CallError, CallFinished, CallUnresolved, ProxyToolCall, ToolCall},
    inspect::Inspected,
    resolve::Unresolved,
};

/// The rule named when a call cannot be put on record.
const NO_RECORD_RULE: &str = "deny:gateway:no_record";

/// The first line of what a host is told about a call that policy refuses.
pub const DENIED_HEADLINE: &str = "[callgate] Action denied by policy.";
/// The first line of what a host is told about a call that needs a person.
pub const APPROVAL_HEADLINE: &str = "[callgate] Action requires approval.";

/// A refusal, as it is told to the host.
#[derive(Debug)]
pub(crate) enum Refusal {
    Denied(Ruling),
    NeedsApproval(Ruling),
}

/// What the host gets, and why it is no good answer.
#[derive(Debug)]
pub(crate) struct Answer {
    /// `None` where the host wants no answer any more.
    pub(crate) frame: Option<Pieces>,
    pub(crate) error: Option<String>,
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
    let (frame, told) = match outcome {
        Ok((reply, read)) => {
            let told = Told::of_reply(&read);
            recorder.finished(open, answered(&reply, read, total)).await;
            let id = attempt.frame.id();
            (id.map(|id| reply.0.edit().id(id).pieces()), told)
        }
        Err(failure) => {
            let error = failure.to_rpc(attempt.frame.method().unwrap_or_default());
            recorder
                .finished(open, failed(&failure, &error, total))
                .await;
            let id = attempt.frame.id().filter(|_| wants_answer(&failure));
            let frame = id.map(|id| message::error(Some(id), &error).into());
            (frame, Told::of_failure(&failure))
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
    Answer { frame, error }
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
    let response = reply.0.result().or_else(|| reply.0.error());
    Outcome {
        status: read.status,
        effect: Effect::Done,
        duration_us: microseconds(total),
        response: response.map(|json| json.bytes()),
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
    recorder.refused(attempt, server, unresolved.status(), unresolved.failed());
    let code = error.code;
    events.emit(CallUnresolved { attempt, code });
    let id = attempt.frame.id();
    Answer {
        frame: id.map(|id| message::error(Some(id), error).into()),
        error: Some(format!("the request led nowhere ({code})")),
    }
}

/// Answers a call that was refused or held: a tool result where one can carry it, else an error.
pub(crate) fn refuse(request: &Frame, refusal: &Refusal) -> Answer {
    let (Refusal::Denied(ruling) | Refusal::NeedsApproval(ruling)) = refusal;
    Answer {
        frame: request
            .id()
            .map(|id| refusal_frame(request, id, refusal).into()),
        error: Some(ruling.rule.clone()),
    }
}

/// Answers a call whose intent or arguments do not hold: always a tool result, which the model can mend.
pub(crate) fn refuse_fault(request: &Frame, fault: &Fault) -> Answer {
    let (code, text) = (quote(fault.code()), quote(&fault.to_string()));
    let result = format!(
        r#"{{"content":[{{"type":"text","text":{text}}}],"structuredContent":{{"code":{code},"message":{text}}},"isError":true}}"#
    );
    let id = request.id();
    Answer {
        frame: id.map(|id| message::result(id, &result).into()),
        error: Some(fault.code().to_owned()),
    }
}

fn refusal_frame(request: &Frame, id: &Id, refusal: &Refusal) -> Bytes {
    let (headline, code, Ruling { rule, reason, .. }) = match refusal {
        Refusal::Denied(ruling) => (DENIED_HEADLINE, RpcError::DENIED, ruling),
        Refusal::NeedsApproval(ruling) => (APPROVAL_HEADLINE, RpcError::APPROVAL, ruling),
    };
    if request.method() == Some(methods::TOOLS_CALL) {
        let text = quote(&format!("{headline}\nReason: {reason}\nRule: {rule}"));
        let result = format!(r#"{{"content":[{{"type":"text","text":{text}}}],"isError":true}}"#);
        return message::result(id, &result);
    }
    let data = format!(r#"{{"rule":{},"reason":{}}}"#, quote(rule), quote(reason));
    message::error(
        Some(id),
        &RpcError {
            code,
            message: headline.to_owned(),
            data: Some(data),
        },
    )
}
