//! Events of calls. None has arguments or results: logs and listeners may be less protected than the record.

use std::time::Duration;

use callgate_gate::{ApprovalId, Attempt, Call, Fault, Ruling, Target};
use callgate_record::{Decision, Effect, Status};
use callgate_wire::methods;

use super::{Event, EventFields, name};
use crate::{Failure, Latency, Metrics};

/// A call was recorded and is sent to its provider.
#[derive(Debug)]
pub struct CallStarted<'a> {
    pub call: &'a Call,
    /// The rule that permits it.
    pub ruling: &'a Ruling,
}

impl Event for CallStarted<'_> {
    const NAME: &'static str = "call.started";

    fn log(&self) {
        let Call { attempt, target } = self.call;
        tracing::debug!(
            record_id = %attempt.id,
            server = %target.server(),
            tool = &*target.label(),
            rule = self.ruling.rule,
            "{}", Self::NAME
        );
    }

    fn count(&self, metrics: &Metrics) {
        metrics.decision(Decision::Allow);
    }

    fn fields(&self) -> EventFields<'_> {
        let Call { attempt, target } = self.call;
        decided(Self::NAME, attempt, target, Decision::Allow, self.ruling)
    }
}

/// A forwarded call ended.
#[derive(Debug)]
pub struct CallFinished<'a> {
    pub attempt: &'a Attempt,
    pub target: &'a Target,
    pub status: Status,
    pub effect: Effect,
    pub latency: Latency,
    /// Why the call did not succeed, without the server's own words.
    pub error: Option<&'a CallError>,
}

/// The error of a call: a stable code, and a message without the server's own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallError {
    pub code: &'static str,
    pub message: String,
}

impl From<&Failure> for CallError {
    fn from(failure: &Failure) -> Self {
        Self {
            code: failure.code(),
            message: failure.to_string(),
        }
    }
}

impl Event for CallFinished<'_> {
    const NAME: &'static str = "call.finished";

    fn log(&self) {
        tracing::debug!(
            record_id = %self.attempt.id,
            server = self.target.server().as_str(),
            tool = &*self.target.label(),
            status = self.status.as_str(),
            duration = milliseconds(self.latency.total),
            "{}", Self::NAME
        );
    }

    fn count(&self, metrics: &Metrics) {
        metrics.call(Some(self.target), self.status);
        metrics.latency(self.latency);
    }

    fn fields(&self) -> EventFields<'_> {
        let fields = of_call(Self::NAME, self.attempt, self.target)
            .meta("status", self.status.as_str())
            .meta("effect", self.effect.as_str())
            .meta("duration_ms", milliseconds(self.latency.total))
            .meta("added_ms", milliseconds(self.latency.added()));
        match self.error {
            None => fields,
            Some(error) => EventFields {
                reason: Some(error.message.clone()),
                ..fields
            }
            .meta("error", error.code),
        }
    }
}

/// The log line of a call to an upstream server.
#[derive(Debug)]
pub struct ProxyToolCall<'a> {
    pub target: &'a Target,
    /// Characters in the result's text blocks.
    pub result_length: usize,
    pub duration: Duration,
    pub error: Option<&'a CallError>,
    /// More about the error, for the operator.
    pub detail: Option<&'a str>,
}

impl Event for ProxyToolCall<'_> {
    const NAME: &'static str = "proxy.tool.call";
    const IS_DELIVERED: bool = false;

    fn log(&self) {
        tracing::info!(
            server = self.target.server().as_str(),
            tool = &*self.target.label(),
            resultLength = self.result_length,
            duration = milliseconds(self.duration),
            status = if self.error.is_none() {
                "SUCCESS"
            } else {
                "FAILED"
            },
            errorType = self.error.map(|error| error.code),
            errorMessage = self.error.map(|error| error.message.as_str()),
            detail = self.detail,
            "{}",
            Self::NAME
        );
    }
}

/// The log line of a call to a built-in tool or a plugin.
#[derive(Debug)]
pub struct ToolCall<'a> {
    pub target: &'a Target,
    pub duration: Duration,
    pub error: Option<&'a CallError>,
}

impl Event for ToolCall<'_> {
    const NAME: &'static str = "tool call";
    const IS_DELIVERED: bool = false;

    fn log(&self) {
        tracing::info!(
            tool = self.target.name(),
            source = self.target.source_text(),
            duration = milliseconds(self.duration),
            error = self.error.map(|error| error.message.as_str()),
            "{}",
            Self::NAME
        );
    }
}

/// An attempt could not be resolved. The requested name is the host's invention, so it is not a metric label.
#[derive(Debug)]
pub struct CallUnresolved<'a> {
    pub attempt: &'a Attempt,
    /// The JSON-RPC code of the error.
    pub code: i64,
}

impl Event for CallUnresolved<'_> {
    const NAME: &'static str = "call.finished";

    fn log(&self) {
        tracing::debug!(
            record_id = %self.attempt.id,
            status = Status::Error.as_str(),
            code = self.code,
            "{}", Self::NAME
        );
    }

    fn count(&self, metrics: &Metrics) {
        metrics.call(None, Status::Error);
    }

    fn fields(&self) -> EventFields<'_> {
        let frame = &self.attempt.frame;
        let asked = frame.param("name").and_then(|asked| asked.as_str());
        EventFields {
            command: asked.map(|asked| name(&asked).to_owned()),
            ..of_attempt(Self::NAME, self.attempt)
        }
        .meta("status", Status::Error.as_str())
        .meta("effect", Effect::None.as_str())
        .meta("code", self.code)
    }
}

/// A call was denied.
#[derive(Debug)]
pub struct Denied<'a> {
    pub attempt: &'a Attempt,
    pub target: &'a Target,
    pub ruling: &'a Ruling,
}

impl Event for Denied<'_> {
    const NAME: &'static str = "denied";

    fn log(&self) {
        log_decision(Self::NAME, self.attempt, self.target, self.ruling);
    }

    fn count(&self, metrics: &Metrics) {
        metrics.decision(Decision::Deny);
        metrics.call(Some(self.target), Status::Blocked);
    }

    fn fields(&self) -> EventFields<'_> {
        decided(
            Self::NAME,
            self.attempt,
            self.target,
            Decision::Deny,
            self.ruling,
        )
    }
}

/// A call needs approval.
#[derive(Debug)]
pub struct ApprovalRequired<'a> {
    pub call: &'a Call,
    /// The rule that requires approval.
    pub ruling: &'a Ruling,
    pub approval: &'a ApprovalId,
    /// The page where it is decided.
    pub url: &'a str,
}

impl Event for ApprovalRequired<'_> {
    const NAME: &'static str = "approval_required";

    fn log(&self) {
        let Call { attempt, target } = self.call;
        log_decision(Self::NAME, attempt, target, self.ruling);
    }

    fn count(&self, metrics: &Metrics) {
        metrics.decision(Decision::RequireApproval);
        metrics.call(Some(&self.call.target), Status::Blocked);
    }

    fn fields(&self) -> EventFields<'_> {
        let Call { attempt, target } = self.call;
        decided(
            Self::NAME,
            attempt,
            target,
            Decision::RequireApproval,
            self.ruling,
        )
        .meta("approval_id", self.approval.as_str())
        .meta("approval_url", self.url)
    }
}

/// A call was refused for its declared intent or its arguments. Policy was not asked.
#[derive(Debug)]
pub struct IntentRefused<'a> {
    pub attempt: &'a Attempt,
    /// `None` if the call was refused before its target was resolved.
    pub target: Option<&'a Target>,
    /// Only its code is reported: its text may repeat arguments.
    pub fault: &'a Fault,
}

impl IntentRefused<'_> {
    fn status(&self) -> Status {
        if self.fault.is_of_intent() {
            Status::Blocked
        } else {
            Status::Error
        }
    }
}

impl Event for IntentRefused<'_> {
    const NAME: &'static str = "denied";

    fn log(&self) {
        tracing::info!(
            record_id = %self.attempt.id,
            agent = name(&self.attempt.host.identity.agent),
            server = self.target.map(|target| target.server().as_str()),
            tool = self.target.map(Target::name),
            code = self.fault.code(),
            "{}", Self::NAME
        );
    }

    fn count(&self, metrics: &Metrics) {
        // Wrong arguments are an error of the call. A wrong intent is a refusal, and counts like one of policy.
        if self.fault.is_of_intent() {
            metrics.decision(Decision::Deny);
        }
        metrics.call(self.target, self.status());
    }

    fn fields(&self) -> EventFields<'_> {
        let fields = match self.target {
            Some(target) => of_call(Self::NAME, self.attempt, target),
            None => of_attempt(Self::NAME, self.attempt),
        };
        EventFields {
            decision: Some(Decision::Deny.as_str()),
            reason: Some(self.fault.code().to_owned()),
            ..fields
        }
        .meta("status", self.status().as_str())
        .meta("code", self.fault.code())
    }
}

/// A declared intent is allowed, though the server's annotations say otherwise.
#[derive(Debug)]
pub struct IntentDoubtful<'a> {
    pub call: &'a Call,
    pub warning: &'a str,
}

impl Event for IntentDoubtful<'_> {
    const NAME: &'static str = "intent.doubtful";
    const IS_DELIVERED: bool = false;

    fn log(&self) {
        let Call { attempt, target } = self.call;
        tracing::warn!(
            record_id = %attempt.id,
            server = %target.server(),
            tool = target.name(),
            warning = self.warning,
            "{}", Self::NAME
        );
    }
}

pub(super) fn log_decision(event: &str, attempt: &Attempt, target: &Target, ruling: &Ruling) {
    tracing::info!(
        record_id = %attempt.id,
        agent = name(&attempt.host.identity.agent),
        server = %target.server(),
        tool = &*target.label(),
        rule = ruling.rule,
        reason = ruling.reason,
        "{event}"
    );
}

pub(super) fn decided<'a>(
    event: &'static str,
    attempt: &'a Attempt,
    target: &'a Target,
    decision: Decision,
    ruling: &'a Ruling,
) -> EventFields<'a> {
    EventFields {
        decision: Some(decision.as_str()),
        rule: Some(&ruling.rule),
        reason: Some(ruling.reason.clone()),
        ..of_call(event, attempt, target)
    }
}

pub(super) fn of_call<'a>(
    event: &'static str,
    attempt: &'a Attempt,
    target: &'a Target,
) -> EventFields<'a> {
    EventFields {
        server: Some(target.server().as_str()),
        tool: Some(target.label()),
        scope: Some(target.scope()),
        command: Some(format!("{}:{}", target.server(), name(&target.label()))),
        ..of_attempt(event, attempt)
    }
}

fn of_attempt<'a>(event: &'static str, attempt: &'a Attempt) -> EventFields<'a> {
    let fields = EventFields {
        record_id: Some(attempt.id),
        identity: Some(&attempt.host.identity),
        scope: Some(scope(attempt)),
        transport: attempt.door.transport.as_str(),
        ..EventFields::new(event)
    };
    match attempt.frame.id() {
        // Cut, because a host can make its request ids as long as it likes.
        Some(id) => fields.meta("request_id", name(id.raw())),
        None => fields,
    }
}

fn scope(attempt: &Attempt) -> &'static str {
    match attempt.frame.method() {
        Some(methods::TOOLS_CALL) => "mcp_tool",
        Some(methods::PROMPTS_GET) => "mcp_prompt",
        Some(methods::RESOURCES_READ) => "mcp_resource",
        Some(_) | None => "mcp_method",
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1000.0
}
