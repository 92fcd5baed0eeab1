//! What happens to calls. Arguments and results are never among what is told.

use std::time::Duration;

use callgate_gate::{ApprovalId, Attempt, Call, Fault, Ruling, Target};
use callgate_record::{Decision, Effect, Status};
use callgate_wire::methods;

use super::{Event, Shown, name};
use crate::{Failure, Latency, Metrics};

/// A call is on record and goes to its provider.
#[derive(Debug)]
pub struct CallStarted<'a> {
    /// The call.
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

    fn shown(&self) -> Shown<'_> {
        let Call { attempt, target } = self.call;
        decided(Self::NAME, attempt, target, Decision::Allow, self.ruling)
    }
}

/// What came of a call that went to its provider.
#[derive(Debug)]
pub struct CallFinished<'a> {
    /// What was received.
    pub attempt: &'a Attempt,
    /// What it was aimed at.
    pub target: &'a Target,
    /// How the record calls it.
    pub status: Status,
    /// What is known about its effect.
    pub effect: Effect,
    /// How long it took.
    pub latency: Latency,
    /// Why there is no result, in words that are safe to tell.
    pub error: Option<&'a CallError>,
}

/// What went wrong with a call: a stable word, and a message without anything of the server's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallError {
    /// The word.
    pub code: &'static str,
    /// The message.
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

    fn shown(&self) -> Shown<'_> {
        let shown = of_call(Self::NAME, self.attempt, self.target)
            .meta("status", self.status.as_str())
            .meta("effect", self.effect.as_str())
            .meta("duration_ms", milliseconds(self.latency.total))
            .meta("added_ms", milliseconds(self.latency.added()));
        match self.error {
            None => shown,
            Some(error) => Shown {
                reason: Some(error.message.clone()),
                ..shown
            }
            .meta("error", error.code),
        }
    }
}

/// One line per forwarded call, for whoever reads logs.
#[derive(Debug)]
pub struct ProxyToolCall<'a> {
    /// What it was aimed at.
    pub target: &'a Target,
    /// Characters of the result's text.
    pub result_length: usize,
    /// How long it took.
    pub duration: Duration,
    /// What went wrong.
    pub error: Option<&'a CallError>,
    /// What the operator is told beyond that.
    pub detail: Option<&'a str>,
}

impl Event for ProxyToolCall<'_> {
    const NAME: &'static str = "proxy.tool.call";
    const TOLD: bool = false;

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

/// One line per call of a built-in tool or a plugin, for whoever reads logs.
#[derive(Debug)]
pub struct ToolCall<'a> {
    /// What it was aimed at.
    pub target: &'a Target,
    /// How long it took.
    pub duration: Duration,
    /// What went wrong.
    pub error: Option<&'a CallError>,
}

impl Event for ToolCall<'_> {
    const NAME: &'static str = "tool call";
    const TOLD: bool = false;

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

/// An attempt that led nowhere ended. Nobody knows a tool or server of the name it asked for, so
/// the name is told and counted under no label.
#[derive(Debug)]
pub struct CallUnresolved<'a> {
    /// What was received.
    pub attempt: &'a Attempt,
    /// Why it led nowhere: the JSON-RPC code.
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

    fn shown(&self) -> Shown<'_> {
        let frame = &self.attempt.frame;
        let asked = frame.param("name").and_then(|asked| asked.as_str());
        Shown {
            command: asked.map(|asked| name(&asked).to_owned()),
            ..of_attempt(Self::NAME, self.attempt)
        }
        .meta("status", Status::Error.as_str())
        .meta("effect", Effect::None.as_str())
        .meta("code", self.code)
    }
}

/// A call was refused.
#[derive(Debug)]
pub struct Denied<'a> {
    /// What was received.
    pub attempt: &'a Attempt,
    /// What it was aimed at.
    pub target: &'a Target,
    /// The rule that refuses it.
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

    fn shown(&self) -> Shown<'_> {
        decided(
            Self::NAME,
            self.attempt,
            self.target,
            Decision::Deny,
            self.ruling,
        )
    }
}

/// A call needs a person's yes.
#[derive(Debug)]
pub struct ApprovalRequired<'a> {
    /// The call.
    pub call: &'a Call,
    /// The rule that asks for a person.
    pub ruling: &'a Ruling,
    /// What is asked for.
    pub approval: &'a ApprovalId,
    /// Where it is given.
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

    fn shown(&self) -> Shown<'_> {
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

/// A call was refused for its declared intent or its arguments, before policy was asked.
#[derive(Debug)]
pub struct IntentRefused<'a> {
    /// What was received.
    pub attempt: &'a Attempt,
    /// What it was aimed at, where that was found out.
    pub target: Option<&'a Target>,
    /// What is wrong with it. Its text may repeat what the caller wrote, and is not told.
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
            agent = name(&self.attempt.host.who.agent),
            server = self.target.map(|target| target.server().as_str()),
            tool = self.target.map(Target::name),
            code = self.fault.code(),
            "{}", Self::NAME
        );
    }

    fn count(&self, metrics: &Metrics) {
        if self.fault.is_of_intent() {
            metrics.decision(Decision::Deny);
        }
        metrics.call(self.target, self.status());
    }

    fn shown(&self) -> Shown<'_> {
        let shown = match self.target {
            Some(target) => of_call(Self::NAME, self.attempt, target),
            None => of_attempt(Self::NAME, self.attempt),
        };
        Shown {
            decision: Some(Decision::Deny.as_str()),
            reason: Some(self.fault.code().to_owned()),
            ..shown
        }
        .meta("status", self.status().as_str())
        .meta("code", self.fault.code())
    }
}

/// A declared intent is allowed, though the server's annotations say otherwise.
#[derive(Debug)]
pub struct IntentDoubtful<'a> {
    /// The call.
    pub call: &'a Call,
    /// What differs.
    pub warning: &'a str,
}

impl Event for IntentDoubtful<'_> {
    const NAME: &'static str = "intent.doubtful";
    const TOLD: bool = false;

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
        agent = name(&attempt.host.who.agent),
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
) -> Shown<'a> {
    Shown {
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
) -> Shown<'a> {
    Shown {
        server: Some(target.server().as_str()),
        tool: Some(target.label()),
        scope: Some(target.scope()),
        command: Some(format!("{}:{}", target.server(), name(&target.label()))),
        ..of_attempt(event, attempt)
    }
}

fn of_attempt<'a>(event: &'static str, attempt: &'a Attempt) -> Shown<'a> {
    let shown = Shown {
        record_id: Some(attempt.id),
        who: Some(&attempt.host.who),
        scope: Some(scope(attempt)),
        transport: attempt.door.transport.as_str(),
        ..Shown::new(event)
    };
    match attempt.frame.id() {
        Some(id) => shown.meta("request_id", name(id.raw())),
        None => shown,
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
