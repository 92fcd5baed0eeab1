//! What came of a state.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Whether something worked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It did.
    #[default]
    Success,
    /// It did not.
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

/// What came of a state: what templates and conditions see of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Whether it worked.
    pub status: Status,
    /// What a command wrote to stdout, an agent said in the end, or an operation answered.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
    /// What a command wrote to stderr, or why something failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr: String,
    /// A command's exit code; of all else 0, or 1 where it failed.
    #[serde(default)]
    pub exit_code: i64,
    /// The output as JSON, where it was to be that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<Value>,
    /// Tokens that an agent's model read.
    #[serde(default)]
    pub tokens_input: u64,
    /// Tokens that it wrote.
    #[serde(default)]
    pub tokens_output: u64,
}

impl Outcome {
    /// One that worked.
    pub fn success(output: impl Into<String>) -> Self {
        Self {
            output: output.into(),
            ..Self::default()
        }
    }

    /// One that did not, and why.
    pub fn failure(why: impl Into<String>) -> Self {
        Self {
            status: Status::Failure,
            stderr: why.into(),
            exit_code: 1,
            ..Self::default()
        }
    }

    /// Whether it did not work.
    pub fn has_failed(&self) -> bool {
        self.status == Status::Failure
    }

    /// As templates and conditions see it.
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
        // Without it the key is missing, which is an error where it is used.
        if let (Some(json), Some(members)) = (&self.json, seen.as_object_mut()) {
            members.insert("JSON".to_owned(), json.clone());
        }
        seen
    }
}

/// The members that a state's result has.
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
