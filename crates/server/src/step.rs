//! What the door of an agent's step knows besides: whose calls these are, where they stand in a trace, and
//! whether the agent has asked for its tools.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use callgate_call::TraceContext;

/// The method by which some agents say goodbye; no version of the protocol has it.
pub(crate) const SHUTDOWN: &str = "shutdown";

/// The door of an agent's step.
#[derive(Debug, Clone)]
pub struct StepDoor {
    /// The step's id, which is the session of its calls.
    pub session: String,
    pub(crate) trace: Option<TraceContext>,
    listed: Arc<AtomicBool>,
}

impl StepDoor {
    /// The door of a step that stands there in a trace.
    pub fn new(session: String, trace: Option<TraceContext>) -> Self {
        Self {
            session,
            trace,
            listed: Arc::default(),
        }
    }

    /// Whether a list of tools was served.
    pub fn was_listed(&self) -> bool {
        self.listed.load(Ordering::Acquire)
    }

    pub(crate) fn list_served(&self) {
        self.listed.store(true, Ordering::Release);
    }
}
