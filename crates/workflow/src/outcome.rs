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
        let mut seen = json!({
            "Output": self.output,
            "Stderr": self.stderr,
            "ExitCode": self.exit_code,
            "Status": self.status.as_str(),
            "Response": self.json.as_ref().unwrap_or(&text),
            "TokensInput": self.tokens_input,
            "TokensOutput": self.tokens_output,
        });
        // Left out if there is no JSON, so that using it is an error instead of an empty value.
        if let (Some(json), Some(members)) = (&self.json, seen.as_object_mut()) {
            members.insert("JSON".to_owned(), json.clone());
        }
        seen
    }
}

/// The members of `states.NAME`.
pub(crate) const MEMBERS: [&str; 8] = [
    "Output",
    "Stderr",
    "ExitCode",
    "Status",
    "Response",
    "JSON",
    "TokensInput",
    "TokensOutput",
];
