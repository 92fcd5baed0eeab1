//! The outcome of a state.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    #[default]
    Success,
    Failure,
}

impl Status {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
        }
    }
}

/// The outcome of a state, as templates and conditions see it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub status: Status,
    /// A command's stdout, an agent's final text, or an operation's result.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
    /// A command's stderr, or why the state failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr: String,
    /// A command's exit code; for other states 0, or 1 after a failure.
    #[serde(default)]
    pub exit_code: i64,
    /// The output parsed as JSON, if the state asks for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<Value>,
    /// Input tokens of an agent's model.
    #[serde(default)]
    pub tokens_input: u64,
    /// Output tokens of an agent's model.
    #[serde(default)]
    pub tokens_output: u64,
    /// What the agent of this state used, in all attempts.
    #[serde(default, skip_serializing_if = "Usage::is_empty")]
    pub usage: Usage,
    /// Where a loop was left to, if one of its states led out of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// The conversation with an agent so far, if it can be continued.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Turn>,
}

/// What agents used, as they report it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// The ids of their steps: the names of their transcripts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// Calls that reached the gate.
    #[serde(default)]
    pub calls: u64,
    #[serde(default)]
    pub tokens_input: u64,
    #[serde(default)]
    pub tokens_output: u64,
    /// In dollars; absent if no agent reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

impl Usage {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub fn add(&mut self, other: &Self) {
        self.agents.extend(other.agents.iter().cloned());
        self.calls += other.calls;
        self.tokens_input += other.tokens_input;
        self.tokens_output += other.tokens_output;
        self.cost_usd = match (self.cost_usd, other.cost_usd) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
    }
}

/// Where a state of a loop's body led out of the loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    State(String),
    End {
        status: Status,
        message: String,
        exit_code: Option<u8>,
    },
}

/// A prompt, and what an agent answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    pub prompt: String,
    pub answer: String,
}

impl Outcome {
    pub fn success(output: impl Into<String>) -> Self {
        Self {
            output: output.into(),
            ..Self::default()
        }
    }

    pub fn failure(why: impl Into<String>) -> Self {
        Self {
            status: Status::Failure,
            stderr: why.into(),
            exit_code: 1,
            ..Self::default()
        }
    }

    pub fn has_failed(&self) -> bool {
        self.status == Status::Failure
    }

    /// The value of `states.NAME` in templates and conditions.
    pub(crate) fn seen(&self) -> Value {
        let text = Value::String(self.output.clone());
        let response = self.json.clone().or_else(|| structured(&self.output));
        let mut seen = json!({
            "Output": self.output,
            "Stderr": self.stderr,
            "ExitCode": self.exit_code,
            "Status": self.status.as_str(),
            "Response": response.as_ref().unwrap_or(&text),
            "TokensInput": self.tokens_input,
            "TokensOutput": self.tokens_output,
            "TokensUsed": self.tokens_input.saturating_add(self.tokens_output),
            "TokensEstimated": false,
        });
        // Left out if there is none, so that using it is an error instead of an empty value.
        if let (Some(data), Some(members)) = (response, seen.as_object_mut()) {
            members.insert("Data".to_owned(), data);
        }
        if let (Some(json), Some(members)) = (&self.json, seen.as_object_mut()) {
            members.insert("JSON".to_owned(), json.clone());
        }
        seen
    }
}

/// An output that is a JSON object or list. Other JSON is more likely meant as text.
fn structured(output: &str) -> Option<Value> {
    let text = output.trim();
    let is_likely = text.starts_with(['{', '[']) && text.ends_with(['}', ']']);
    is_likely.then(|| serde_json::from_str(text).ok())?
}

/// The members of `states.NAME`.
pub(crate) const MEMBERS: [&str; 11] = [
    "Output",
    "Stderr",
    "ExitCode",
    "Status",
    "Response",
    "JSON",
    "TokensInput",
    "TokensOutput",
    "TokensUsed",
    "TokensEstimated",
    "Data",
];

/// The right spelling of a member in lower case.
pub(crate) fn right_case(member: &str) -> Option<&'static str> {
    Some(match member {
        "output" => "Output",
        "stderr" => "Stderr",
        "exit_code" | "exitcode" => "ExitCode",
        "status" => "Status",
        "response" => "Response",
        "json" => "JSON",
        "data" => "Data",
        "tokens" | "tokens_used" | "tokensused" => "TokensUsed",
        "tokens_input" | "tokensinput" => "TokensInput",
        "tokens_output" | "tokensoutput" => "TokensOutput",
        "tokens_estimated" | "tokensestimated" => "TokensEstimated",
        _ => return None,
    })
}
