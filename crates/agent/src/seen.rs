//! The calls of a step as the gate decided them: read from the entries of the record, so that what people are shown and
//! what is on record cannot differ.

use std::collections::{BTreeMap, BTreeSet};

use callgate_gate::{ServerName, visible::summary};
use callgate_record::{Body, CallEntry, Decision, Entry, Finished, Status};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::StepEvent;

/// How much of a failed call's answer is shown.
const ERROR_CHARS: usize = 200;
/// The most calls that are listed at the end of a step.
const MAX_UNMET: usize = 50;

/// What became of a call before it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallDecision {
    Allowed,
    /// Allowed by a person.
    Approved,
    /// Waits for a person, or needs one.
    Held,
    Refused,
    Cancelled,
    /// It was no call: its name or its arguments are wrong.
    Failed,
}

/// A call of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeenCall {
    /// The id of its record.
    pub call: String,
    /// The bare name of a built-in tool, else `server:tool`.
    pub tool: String,
    /// Its arguments on one line, without secrets.
    pub arguments: String,
    pub decision: CallDecision,
    /// Why it was refused or held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The rule that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The approval that it waits for or used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// Whether the agent waits for a person's decision. Otherwise it was told that one is needed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits: bool,
}

/// How a call ended that was sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndedCall {
    /// The id of its record.
    pub call: String,
    /// `success`, `error`, `unknown` or `rejected`.
    pub status: String,
    pub duration_ms: f64,
    /// Why it failed, on one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The event about an entry of a step's session; `None` for what the step knows already.
pub(crate) fn event(entry: &Entry) -> Option<StepEvent> {
    match entry {
        // The agent's own report of its native tools, which `progress.rs` tells.
        Entry::Refused(call) if is_native(call) => None,
        Entry::Refused(call) | Entry::Held(call) | Entry::Forwarding(call) => {
            Some(StepEvent::Call(seen(entry, call)))
        }
        Entry::Finished(finished) => Some(StepEvent::CallEnded(ended(finished))),
        Entry::Opened(_)
        | Entry::Closed {}
        | Entry::Checked(_)
        | Entry::Unknown(_)
        | Entry::Head(_)
        | Entry::Checkpoint(_)
        | Entry::Event(_) => None,
    }
}

fn is_native(call: &CallEntry) -> bool {
    call.server.as_deref() == Some(call.agent.as_str())
}

fn seen(entry: &Entry, call: &CallEntry) -> SeenCall {
    let tool = call.tool.clone().unwrap_or_default();
    let error = call.error.as_ref().map(|error| error.message.clone());
    SeenCall {
        call: call.id.to_string(),
        tool: match call.server.as_deref() {
            None => tool,
            Some(server) if server == ServerName::builtin().as_str() => tool,
            Some(server) => format!("{server}:{tool}"),
        },
        arguments: call.arguments.as_ref().map(shown).unwrap_or_default(),
        decision: decision(entry, call),
        reason: error.or_else(|| call.reason.clone()),
        rule: call.rule.clone(),
        approval: call.approval_id.as_ref().map(ToString::to_string),
        waits: matches!(entry, Entry::Held(_)) && call.status == Some(Status::Pending),
    }
}

fn decision(entry: &Entry, call: &CallEntry) -> CallDecision {
    match (entry, call.status, call.decision) {
        (Entry::Forwarding(_), ..) if call.approval_id.is_some() => CallDecision::Approved,
        (Entry::Forwarding(_), ..) => CallDecision::Allowed,
        (Entry::Held(_), ..) => CallDecision::Held,
        (_, Some(Status::Cancelled), _) => CallDecision::Cancelled,
        // Not decided in time: an approver can still decide, for a repeated call.
        (_, _, Some(Decision::RequireApproval)) => CallDecision::Held,
        (_, Some(Status::Error), None) => CallDecision::Failed,
        _ => CallDecision::Refused,
    }
}

fn shown(body: &Body) -> String {
    let value = body.value.as_ref().map(|value| value.get());
    summary(value.or(body.text.as_deref()).unwrap_or_default())
}

fn ended(finished: &Finished) -> EndedCall {
    let has_failed = finished.status != Status::Success;
    let error = finished.error.as_ref().map(|error| error.message.clone());
    let error = error.or_else(|| answer(finished.response.as_ref()?));
    EndedCall {
        call: finished.id.to_string(),
        status: finished.status.as_str().to_owned(),
        duration_ms: finished.duration_us as f64 / 1000.0,
        error: error.filter(|_| has_failed).map(|text| one_line(&text)),
    }
}

/// The first text of an answer.
fn answer(body: &Body) -> Option<String> {
    let result: Value = serde_json::from_str(body.value.as_ref()?.get()).ok()?;
    let text = result.pointer("/content/0/text")?.as_str()?;
    Some(text.to_owned())
}

fn one_line(text: &str) -> String {
    let text = text.trim().replace(['\n', '\r', '\t'], " ");
    text.chars().take(ERROR_CHARS).collect()
}

/// How many calls a step made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallCounts {
    /// All calls that reached the gate.
    pub made: u64,
    pub refused: u64,
    /// Calls that needed a person.
    pub held: u64,
}

/// Adds up the calls of a step.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) counts: CallCounts,
    /// The last decision about each call that did not get through, by its record.
    unmet: BTreeMap<String, SeenCall>,
    known: BTreeSet<String>,
}

impl Tally {
    pub(crate) fn note(&mut self, call: &SeenCall) {
        let is_new = self.known.insert(call.call.clone());
        self.counts.made += u64::from(is_new);
        match call.decision {
            CallDecision::Allowed | CallDecision::Failed => {
                self.unmet.remove(&call.call);
            }
            CallDecision::Approved => {
                // A held call that the agent repeated once it was approved.
                self.unmet
                    .retain(|_, unmet| unmet.approval != call.approval);
            }
            CallDecision::Held | CallDecision::Refused | CallDecision::Cancelled => {
                let before = self.unmet.insert(call.call.clone(), call.clone());
                let was_held = before.is_some_and(|before| before.decision == CallDecision::Held);
                self.counts.refused += u64::from(call.decision == CallDecision::Refused);
                self.counts.held += u64::from(call.decision == CallDecision::Held && !was_held);
            }
        }
    }

    /// The calls that were refused or stayed held, in order.
    pub(crate) fn unmet(&self) -> Vec<SeenCall> {
        let stayed = |call: &&SeenCall| call.decision != CallDecision::Cancelled;
        let unmet = self.unmet.values().filter(stayed);
        unmet.take(MAX_UNMET).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str, decision: CallDecision, approval: Option<&str>) -> SeenCall {
        SeenCall {
            call: id.to_owned(),
            tool: "Bash".to_owned(),
            arguments: "{}".to_owned(),
            decision,
            reason: None,
            rule: None,
            approval: approval.map(str::to_owned),
            waits: false,
        }
    }

    #[test]
    fn a_repeated_call_that_was_approved_is_not_unmet() {
        let mut tally = Tally::default();
        tally.note(&call("1", CallDecision::Held, Some("ap_1")));
        tally.note(&call("2", CallDecision::Refused, None));
        tally.note(&call("3", CallDecision::Allowed, None));
        let ids = |tally: &Tally| -> Vec<String> {
            let unmet = tally.unmet().into_iter();
            unmet.map(|call| call.call).collect()
        };
        assert_eq!(ids(&tally), ["1", "2"]);
        tally.note(&call("4", CallDecision::Approved, Some("ap_1")));
        assert_eq!(ids(&tally), ["2"]);
        let counts = CallCounts {
            made: 4,
            refused: 1,
            held: 1,
        };
        assert_eq!(tally.counts, counts);
    }

    #[test]
    fn a_call_that_was_held_and_then_approved_counts_once() {
        let mut tally = Tally::default();
        tally.note(&call("1", CallDecision::Held, Some("ap_1")));
        tally.note(&call("1", CallDecision::Approved, Some("ap_1")));
        assert_eq!((tally.counts.made, tally.counts.held), (1, 1));
        assert_eq!(tally.unmet(), []);
    }
}
