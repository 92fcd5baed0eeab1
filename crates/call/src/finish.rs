//! finish: what happened is put on record, and the host gets its answer. Always the last step.

use std::time::Instant;

use bytes::Bytes;
use callgate_gate::Target;
use callgate_record::{Effect, Failed, NotRecorded, Open, Outcome, Recorder};
use callgate_wire::{Frame, Id, RpcError, message, methods, quote};

use crate::{Failure, Reply, inspect::inspect, resolve::Unresolved};

/// The rule named when a call cannot be put on record.
const NO_RECORD_RULE: &str = "deny:gateway:no_record";

/// A refusal, as it is told to the host.
#[derive(Debug)]
pub(crate) enum Refusal {
    Denied { rule: String, reason: String },
    NeedsApproval { rule: String, reason: String },
}

impl Refusal {
    /// No record, no call. The host learns that, the operator learns why.
    pub(crate) fn not_recorded(error: &NotRecorded) -> Self {
        tracing::error!(name: "record.failed", error = %error, "call refused: it could not be put on record");
        Self::Denied {
            rule: NO_RECORD_RULE.to_owned(),
            reason: "the gateway cannot write its record, and no call is made without one"
                .to_owned(),
        }
    }
}

/// Ends a call that was forwarded. `None` where the host wants no answer any more.
pub(crate) async fn finish(recorder: &Recorder, ended: Ended<'_>) -> Option<Bytes> {
    let Ended {
        request,
        target,
        open,
        outcome,
        started,
    } = ended;
    let duration_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    let id = request.id()?;
    match outcome {
        Ok(reply) => {
            let read = inspect(&reply);
            let response = reply
                .0
                .result()
                .or_else(|| reply.0.error())
                .map(|json| json.bytes());
            log(target, &read.status, duration_us, read.text_length, None);
            let outcome = Outcome {
                status: read.status,
                effect: Effect::Done,
                duration_us,
                response,
                error: read.error,
            };
            recorder.finished(open, outcome).await;
            Some(reply.0.edit().id(id).finish())
        }
        Err(failure) => {
            let error = failure.to_rpc(request.method().unwrap_or_default());
            log(target, &failure.status(), duration_us, 0, Some(&failure));
            let kept = Failed {
                code: error.code,
                message: error.message.clone(),
            };
            let outcome = Outcome {
                status: failure.status(),
                effect: failure.effect(),
                duration_us,
                response: None,
                error: Some(kept),
            };
            recorder.finished(open, outcome).await;
            match failure {
                Failure::Cancelled { .. } => None,
                Failure::Unavailable { .. }
                | Failure::TimedOut { .. }
                | Failure::Busy { .. }
                | Failure::TooLarge { .. }
                | Failure::Broken => Some(message::error(Some(id), &error)),
            }
        }
    }
}

/// What [`finish`] needs to end a forwarded call.
pub(crate) struct Ended<'a> {
    pub(crate) request: &'a Frame,
    pub(crate) target: &'a Target,
    pub(crate) open: Open,
    pub(crate) outcome: Result<Reply, Failure>,
    pub(crate) started: Instant,
}

/// Ends an attempt that led nowhere.
pub(crate) fn finish_unresolved(recorder: &Recorder, unresolved: Unresolved) -> Option<Bytes> {
    let server = unresolved.server.as_ref().map(|server| server.as_str());
    recorder.refused(
        &unresolved.attempt,
        server,
        unresolved.status(),
        unresolved.failed(),
    );
    Some(message::error(
        Some(unresolved.attempt.frame.id()?),
        &unresolved.error,
    ))
}

/// Answers a call that was refused or held: a tool result where one can carry it, else an error.
pub(crate) fn refuse(request: &Frame, refusal: &Refusal) -> Option<Bytes> {
    let id: &Id = request.id()?;
    let (headline, code, rule, reason) = match refusal {
        Refusal::Denied { rule, reason } => (
            "[callgate] Action denied by policy.",
            RpcError::DENIED,
            rule,
            reason,
        ),
        Refusal::NeedsApproval { rule, reason } => (
            "[callgate] Action requires approval.",
            RpcError::APPROVAL,
            rule,
            reason,
        ),
    };
    if request.method() == Some(methods::TOOLS_CALL) {
        let text = quote(&format!("{headline}\nReason: {reason}\nRule: {rule}"));
        let result = format!(r#"{{"content":[{{"type":"text","text":{text}}}],"isError":true}}"#);
        return Some(message::result(id, &result));
    }
    let data = format!(r#"{{"rule":{},"reason":{}}}"#, quote(rule), quote(reason));
    Some(message::error(
        Some(id),
        &RpcError {
            code,
            message: headline.to_owned(),
            data: Some(data),
        },
    ))
}

fn log(
    target: &Target,
    status: &callgate_record::Status,
    duration_us: u64,
    text_length: usize,
    failure: Option<&Failure>,
) {
    let success = *status == callgate_record::Status::Success;
    let duration = duration_us as f64 / 1000.0;
    tracing::info!(
        name: "proxy.tool.call",
        server = %target.server(),
        tool = target.name(),
        resultLength = text_length,
        duration,
        status = if success { "SUCCESS" } else { "FAILED" },
        errorType = failure.map(Failure::code),
        errorMessage = failure.map(|failure| failure.to_string()),
        detail = failure.and_then(Failure::detail),
        "proxy.tool.call"
    );
}
