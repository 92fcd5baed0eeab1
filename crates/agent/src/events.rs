//! What happens in a step, as whoever watches it is told.

use serde::Serialize;
use serde_json::Value;

/// Tokens and money, as the agent reports them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Tokens {
    /// Tokens that the model read.
    pub input: u64,
    /// Tokens that it wrote.
    pub output: u64,
    /// What it cost, in dollars, where the agent says so.
    pub cost_usd: Option<f64>,
}

/// Something that happened in a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StepEvent {
    /// The step began.
    Started {
        /// Its id, which is the session of its calls.
        step: String,
        /// The agent.
        provider: String,
    },
    /// Something that a person should know.
    Warning {
        /// It.
        text: String,
    },
    /// The agent said something.
    Text {
        /// It.
        text: String,
    },
    /// The agent uses a tool of ours.
    Call {
        /// Its shown name.
        tool: String,
    },
    /// The agent used a tool of its own: seen, and not gated.
    Bypassed {
        /// Its name.
        tool: String,
    },
    /// The step is over.
    Finished {
        /// `success`, or the code of what went wrong.
        status: String,
        /// The final text.
        text: String,
        /// What it used.
        tokens: Tokens,
    },
}

/// One line of an agent's event stream, as far as it matters here.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Said {
    /// Text; a later one replaces or continues it, as the agent has it.
    Text(String),
    /// A tool of ours is used.
    Call(String),
    /// A tool of the agent's own was used.
    Native {
        tool: String,
        arguments: Option<String>,
    },
    /// What was used so far; added up.
    Used(Tokens),
    /// The final event.
    Done {
        /// The final text, where the event has it.
        text: Option<String>,
        /// Why it failed, if it did.
        error: Option<String>,
    },
    /// Something went wrong that need not be the end.
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

/// A tool as an agent reports it: ours under its bare name, or native.
pub(crate) fn used(name: &str, prefixes: &[&str], arguments: Option<&Value>) -> Said {
    let ours = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix));
    match ours {
        Some(tool) => Said::Call(tool.to_owned()),
        None => Said::Native {
            tool: name.to_owned(),
            arguments: arguments
                .filter(|value| value.is_object())
                .map(Value::to_string),
        },
    }
}

/// A number in an event.
pub(crate) fn number(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or(0)
}

/// A text in an event.
pub(crate) fn text(value: &Value, path: &str) -> Option<String> {
    value
        .pointer(path)
        .and_then(Value::as_str)
        .map(str::to_owned)
}
