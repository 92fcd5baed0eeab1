//! The events of a step, for its observers.

use serde::Serialize;
use serde_json::Value;

/// Tokens and cost, as the agent reports them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Tokens {
    pub input: u64,
    pub output: u64,
    /// In dollars; `None` if the agent does not report it.
    pub cost_usd: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StepEvent {
    Started {
        /// The step's id, which is also the session of its calls.
        step: String,
        provider: String,
    },
    /// A warning for the user.
    Warning {
        text: String,
    },
    Text {
        text: String,
    },
    /// The agent calls one of our tools.
    Call {
        /// The name that the agent was shown.
        tool: String,
    },
    /// The agent used a native tool, which did not pass the gate.
    Bypassed {
        tool: String,
    },
    Finished {
        /// `success`, or a code of [`StepFailed`](crate::StepFailed).
        status: String,
        text: String,
        tokens: Tokens,
    },
}

/// An event from an agent's output stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AgentEvent {
    /// Text of the agent. [`StepProgress`](crate::running::StepProgress) decides what belongs to the final text.
    Text(String),
    /// A call of one of our tools.
    Call(String),
    /// A use of a native tool.
    Native {
        tool: String,
        arguments: Option<String>,
    },
    /// Tokens used since the last such event.
    Used(Tokens),
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

/// A reported tool call: ours, without the prefix, or native.
pub(crate) fn used(name: &str, prefixes: &[&str], arguments: Option<&Value>) -> AgentEvent {
    let ours = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix));
    match ours {
        Some(tool) => AgentEvent::Call(tool.to_owned()),
        None => AgentEvent::Native {
            tool: name.to_owned(),
            arguments: arguments
                .filter(|value| value.is_object())
                .map(Value::to_string),
        },
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
