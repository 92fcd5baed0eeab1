//! The events of a step, for its observers.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    bypass::NativeUse,
    seen::{CallCounts, EndedCall, SeenCall},
};

/// Tokens and cost, as the agent reports them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Tokens {
    pub input: u64,
    pub output: u64,
    /// In dollars; `None` if the agent does not report it.
    pub cost_usd: Option<f64>,
}

/// Something that happens during a step. Kept in its transcript.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StepEvent {
    Started {
        /// The step's id, which is also the session of its calls.
        step: String,
        provider: String,
        /// The beginning of the task, on one line.
        #[serde(default)]
        task: String,
    },
    /// A warning for the user.
    Warning {
        text: String,
    },
    Text {
        text: String,
    },
    /// The gate decided about a call. A held call that was decided by a person has a second such event.
    Call(SeenCall),
    /// A call that was sent has ended.
    CallEnded(EndedCall),
    /// The agent used a native tool, which did not pass the gate.
    Bypassed {
        tool: String,
    },
    /// The agent itself refused a native tool to its model.
    NativeRefused {
        tool: String,
    },
    Finished {
        /// `success`, or a code of [`StepFailed`](crate::StepFailed).
        status: String,
        /// Why the step failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        text: String,
        tokens: Tokens,
        #[serde(default)]
        calls: CallCounts,
        /// The calls that were refused, or that a person did not decide.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unmet: Vec<SeenCall>,
        #[serde(default)]
        duration_ms: u64,
    },
}

/// An event from an agent's output stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AgentEvent {
    /// Text of the agent. [`StepProgress`](crate::progress::StepProgress) decides what belongs to the final text.
    Text(String),
    /// A call of one of our tools, which the gate sees itself.
    Call,
    /// A use of a native tool; with an id, [`AgentEvent::NativeEnded`] follows.
    Native { id: Option<String>, used: NativeUse },
    /// A native tool that the agent refused to use.
    NativeRefused(NativeUse),
    /// The end of the use of a native tool.
    NativeEnded {
        id: String,
        /// What the agent told its model, if the use failed.
        error: Option<String>,
    },
    /// Tokens used since the last such event.
    Used(Tokens),
    /// The tokens of one round so far. A later report of a round replaces an earlier one, and the next
    /// [`AgentEvent::Used`] all of them.
    UsedInRound { id: String, tokens: Tokens },
    /// The final event.
    Done {
        /// The final text, if the event carries it.
        text: Option<String>,
        /// Why the agent failed; `None` after a success.
        error: Option<String>,
    },
    /// An error that does not end the step.
    Trouble(String),
}

impl Tokens {
    pub(crate) fn add(&mut self, other: Self) {
        self.input += other.input;
        self.output += other.output;
        self.cost_usd = match (self.cost_usd, other.cost_usd) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
    }
}

/// A reported tool call: ours, or native. With an id, a native use has an end of its own.
pub(crate) fn used(
    name: &str,
    prefixes: &[&str],
    arguments: Option<&Value>,
    id: Option<&str>,
) -> AgentEvent {
    if prefixes.iter().any(|prefix| name.starts_with(prefix)) {
        return AgentEvent::Call;
    }
    AgentEvent::Native {
        id: id.map(str::to_owned),
        used: native(name, arguments),
    }
}

pub(crate) fn native(name: &str, arguments: Option<&Value>) -> NativeUse {
    NativeUse {
        tool: name.to_owned(),
        arguments: arguments
            .filter(|value| value.is_object())
            .map(Value::to_string),
    }
}

pub(crate) fn number(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or(0)
}

pub(crate) fn text(value: &Value, path: &str) -> Option<String> {
    value
        .pointer(path)
        .and_then(Value::as_str)
        .map(str::to_owned)
}
