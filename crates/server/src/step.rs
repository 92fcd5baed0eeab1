//! Additional state of an agent step's door: the session of its calls, their trace context, and whether the agent has
//! listed its tools.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use callgate_call::TraceContext;

/// The method that some agents send before they exit. It is not part of any protocol version.
pub(crate) const SHUTDOWN: &str = "shutdown";

#[derive(Debug, Clone)]
pub struct StepDoor {
    /// The step's id, which is the session of its calls.
    pub session: String,
    pub(crate) trace: Option<TraceContext>,
    listed: Arc<AtomicBool>,
}

impl StepDoor {
    /// The door of a step, with the trace context that its calls continue.
    pub fn new(session: String, trace: Option<TraceContext>) -> Self {
        Self {
            session,
            trace,
            listed: Arc::default(),
        }
    }

    /// Whether the agent has received a tool list.
    pub fn tools_were_listed(&self) -> bool {
        self.listed.load(Ordering::Acquire)
    }

    pub(crate) fn list_served(&self) {
        self.listed.store(true, Ordering::Release);
    }
}
