//! Why a step failed.

use std::{io, path::PathBuf, time::Duration};

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub enum StepFailed {
    /// What the step needs could not be set up.
    #[error("the step could not be set up: {0}")]
    Setup(#[from] io::Error),
    /// The agent's program could not be started.
    #[error("`{program}` could not be started: {reason}")]
    NotStarted {
        /// The program.
        program: String,
        /// What the system said.
        reason: String,
    },
    /// A file of the work folder would steer the agent past the gate, and the agent cannot be told to ignore it.
    #[error("`{}` {why}; remove it, or run the step without `--mode additive`", .path.display())]
    ProjectFile {
        /// The file.
        path: PathBuf,
        /// What the agent would do with it.
        why: String,
    },
    /// The agent never asked for its tools, so none of what it did was behind the gate.
    #[error("the agent's tools were never listed: its tool server did not come up")]
    NoTools,
    /// The agent ended without saying that it was done.
    #[error("the agent ended without a final event ({how}){}", said(.stderr))]
    NoFinalEvent {
        /// How the program ended.
        how: String,
        /// The end of what it wrote to stderr.
        stderr: String,
    },
    /// The agent says that it failed.
    #[error("the agent failed: {0}")]
    Agent(String),
    /// The step took too long.
    #[error("the step was stopped after {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The step was told to stop.
    #[error("the step was stopped")]
    Stopped,
    /// The model goes round in circles.
    #[error("USER.MCP_PROXY.INFINITE_LOOP_GUARD: {0}")]
    LoopGuard(String),
    /// A setting is missing.
    #[error("{0}")]
    Missing(String),
    /// The model could not be reached, or answered what nobody can use.
    #[error("the model: {0}")]
    Model(String),
}

fn said(stderr: &str) -> String {
    match stderr.trim() {
        "" => String::new(),
        text => format!("; it said: {text}"),
    }
}

impl StepFailed {
    /// A stable word for logs and records.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Setup(_) => "SETUP",
            Self::NotStarted { .. } => "NOT_STARTED",
            Self::ProjectFile { .. } => "PROJECT_FILE",
            Self::NoTools => "NO_TOOLS",
            Self::NoFinalEvent { .. } => "NO_FINAL_EVENT",
            Self::Agent(_) => "AGENT",
            Self::TimedOut(_) => "TIMEOUT",
            Self::Stopped => "STOPPED",
            Self::LoopGuard(_) => "USER.MCP_PROXY.INFINITE_LOOP_GUARD",
            Self::Missing(_) => "MISSING",
            Self::Model(_) => "MODEL",
        }
    }
}
