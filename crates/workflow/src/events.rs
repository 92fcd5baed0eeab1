//! The events of a run, for its observers.

use callgate_agent::StepEvent;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{Status, Usage};

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The run started or resumed.
    RunStarted {
        run: String,
        workflow: String,
        /// Whether the run continues an earlier one.
        resumed: bool,
    },
    /// An attempt at a state started.
    StepStarted {
        step: String,
        /// Identifies the visit: the state, its visit number, and the loops and branches around it.
        key: String,
        /// Counted from one.
        attempt: u32,
    },
    /// An event of an agent's step.
    Agent { step: String, event: StepEvent },
    /// An attempt failed and another one follows.
    StepRetried {
        step: String,
        pause_ms: u64,
        why: String,
    },
    /// A state finished, after all its attempts.
    StepFinished {
        step: String,
        /// Identifies the visit: the state, its visit number, and the loops and branches around it.
        key: String,
        status: Status,
        exit_code: i64,
        duration_ms: u64,
        /// What its agent used.
        #[serde(skip_serializing_if = "Usage::is_empty")]
        usage: Usage,
        /// Empty unless the state failed.
        #[serde(skip_serializing_if = "String::is_empty")]
        error: String,
    },
    /// A resumed run reuses the result of a state that had finished before the interruption.
    StepKept {
        step: String,
        /// Identifies the visit: the state, its visit number, and the loops and branches around it.
        key: String,
    },
    /// The condition of a state did not hold, so it was not run.
    StepSkipped {
        step: String,
        /// Identifies the visit: the state, its visit number, and the loops and branches around it.
        key: String,
    },
    /// An action of a hook ended, or has something to say.
    Hook {
        /// The hook, such as `workflow_start` or `build.pre`.
        hook: String,
        /// What it says, or why it failed.
        message: String,
        failed: bool,
    },
    RunFinished {
        run: String,
        status: Status,
        /// The message of the terminal state, or why the run failed.
        #[serde(skip_serializing_if = "String::is_empty")]
        message: String,
        /// The outputs of the workflow.
        #[serde(skip_serializing_if = "Map::is_empty")]
        outputs: Map<String, Value>,
    },
}
