//! What happens in a run, as whoever watches it is told.

use callgate_agent::StepEvent;
use serde::Serialize;

use crate::Status;

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The run began, or goes on.
    RunStarted {
        /// Its id.
        run: String,
        /// The workflow.
        workflow: String,
        /// Whether it was begun before.
        resumed: bool,
    },
    /// A state was begun.
    StepStarted {
        /// Its name.
        step: String,
        /// Which visit of it, in which loop and branch.
        key: String,
        /// Which attempt, counted from one.
        attempt: u32,
    },
    /// Something in an agent's state.
    Agent {
        /// The state's name.
        step: String,
        /// It.
        event: StepEvent,
    },
    /// A state failed and is tried again.
    StepRetried {
        /// Its name.
        step: String,
        /// How long the pause is.
        pause_ms: u64,
        /// Why it failed.
        why: String,
    },
    /// A state is over.
    StepFinished {
        /// Its name.
        step: String,
        /// Which visit of it, in which loop and branch.
        key: String,
        /// Whether it worked.
        status: Status,
        /// Its exit code.
        exit_code: i64,
        /// How long it took.
        duration_ms: u64,
        /// Why it failed, if it did.
        #[serde(skip_serializing_if = "String::is_empty")]
        error: String,
    },
    /// A state was over before the run was interrupted, and is not done again.
    StepKept {
        /// Its name.
        step: String,
        /// Which visit of it, in which loop and branch.
        key: String,
    },
    /// The run is over.
    RunFinished {
        /// Its id.
        run: String,
        /// Whether it worked.
        status: Status,
        /// What is to be said about it.
        #[serde(skip_serializing_if = "String::is_empty")]
        message: String,
    },
}
