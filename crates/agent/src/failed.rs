//! Why a step failed.

use std::{io, path::PathBuf, time::Duration};

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub enum StepFailed {
    #[error("the step could not be set up: {0}")]
    Setup(#[from] io::Error),
    /// The box of the agent could not be opened.
    #[error("{0}")]
    Boxed(#[from] callgate_boxes::BoxNotOpened),
    /// The agent's program could not be started.
    #[error("`{program}` could not be started: {reason}")]
    NotStarted { program: String, reason: String },
    /// A file in the work folder would let the agent bypass the gate, and the agent has no option to ignore it.
    #[error("`{}` {why}; remove it, or run the step without `--mode additive`", .path.display())]
    ProjectFile {
        path: PathBuf,
        /// What the agent would do with it.
        why: String,
    },
    /// The login that the agent stored has to be renewed, which a step never does.
    #[error(
        "the login of `{program}` has expired; run `{program}` once to renew it, or set an API key in the environment"
    )]
    LoginExpired { program: String },
    /// The agent never listed its tools, so nothing it did passed the gate. Most agents report success even then.
    #[error("the agent's tools were never listed: its tool server did not start{}", last_output(.stderr))]
    NoTools {
        /// The last lines of its stderr.
        stderr: String,
    },
    /// The agent exited without its final event.
    #[error("the agent ended without a final event ({how}){}", last_output(.stderr))]
    NoFinalEvent {
        /// How the program ended.
        how: String,
        /// The tail of its stderr, or the last error that it reported.
        stderr: String,
    },
    /// The agent reported a failure.
    #[error("the agent failed: {0}")]
    Agent(String),
    #[error("the step was stopped after {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("the step was stopped")]
    Stopped,
    /// The step used more than it may.
    #[error("{0}")]
    OverBudget(String),
    /// The model does not stop calling tools.
    #[error("USER.MCP_PROXY.INFINITE_LOOP_GUARD: {0}")]
    LoopGuard(String),
    /// A setting is missing.
    #[error("{0}")]
    Missing(String),
    /// The model could not be reached, or its answer was invalid.
    #[error("the model request failed: {0}")]
    Model(String),
}

fn last_output(stderr: &str) -> String {
    match stderr.trim() {
        "" => String::new(),
        text => format!("; last output: {text}"),
    }
}

impl StepFailed {
    /// A stable code for logs and records.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Setup(_) => "SETUP",
            Self::Boxed(_) => "BOX",
            Self::NotStarted { .. } => "NOT_STARTED",
            Self::ProjectFile { .. } => "PROJECT_FILE",
            Self::LoginExpired { .. } => "LOGIN_EXPIRED",
            Self::NoTools { .. } => "NO_TOOLS",
            Self::NoFinalEvent { .. } => "NO_FINAL_EVENT",
            Self::Agent(_) => "AGENT",
            Self::TimedOut(_) => "TIMEOUT",
            Self::Stopped => "STOPPED",
            Self::OverBudget(_) => "OVER_BUDGET",
            Self::LoopGuard(_) => "USER.MCP_PROXY.INFINITE_LOOP_GUARD",
            Self::Missing(_) => "MISSING",
            Self::Model(_) => "MODEL",
        }
    }
}
