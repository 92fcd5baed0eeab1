//! Additional state of an agent step's door: the session of its calls, their trace context, whether the agent has
//! listed its tools, and the budget that its calls count against.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use callgate_call::TraceContext;
use callgate_wire::{Frame, methods};

/// The method that some agents send before they exit. It is not part of any protocol version.
pub(crate) const SHUTDOWN: &str = "shutdown";

#[derive(Clone)]
pub struct StepDoor {
    /// The step's id, which is the session of its calls.
    pub session: String,
    pub(crate) trace: Option<TraceContext>,
    listed: Arc<AtomicBool>,
    /// Counts a call; `false` if the step may not make it.
    admits: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl StepDoor {
    /// The door of a step, with the trace context that its calls continue.
    pub fn new(session: String, trace: Option<TraceContext>) -> Self {
        Self {
            session,
            trace,
            listed: Arc::default(),
            admits: None,
        }
    }

    /// Asks `admits` before each call. A call that it does not admit never begins: the step has a budget, and ends.
    #[must_use]
    pub fn admitting(mut self, admits: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.admits = Some(Arc::new(admits));
        self
    }

    /// Whether a request may begin.
    pub(crate) fn admits(&self, request: &Frame) -> bool {
        let is_call = request.method() == Some(methods::TOOLS_CALL);
        !is_call || self.admits.as_ref().is_none_or(|admits| admits())
    }

    /// Whether the agent has received a tool list.
    pub fn tools_were_listed(&self) -> bool {
        self.listed.load(Ordering::Acquire)
    }

    pub(crate) fn list_served(&self) {
        self.listed.store(true, Ordering::Release);
    }
}

impl fmt::Debug for StepDoor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepDoor")
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}
