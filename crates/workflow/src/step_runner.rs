//! The port through which a run executes agents and operations. Its implementation puts the gate in between.

use std::sync::Arc;

use callgate_agent::{Spending, Step, StepEvent, relay::PluginTools};
use callgate_call::TraceContext;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::Outcome;

/// A step for an agent, with its plugin tools.
#[derive(Debug, Clone)]
pub struct AgentTask {
    pub state: String,
    pub step: Step,
    /// Plugin operations that the agent gets as tools.
    pub plugin_tools: Vec<PluginTools>,
    /// Tools of the configured servers that it gets, as patterns `SERVER:TOOL`.
    pub tools: Vec<String>,
    pub place: RunPlace,
}

/// Where in a run a task belongs.
#[derive(Debug, Clone)]
pub struct RunPlace {
    /// The trace context of its state.
    pub trace: Option<TraceContext>,
    /// The budget that it counts against.
    pub spending: Arc<Spending>,
}

/// An operation to run.
#[derive(Debug, Clone)]
pub struct OperationTask {
    pub state: String,
    pub plugin: String,
    pub operation: String,
    pub inputs: Map<String, Value>,
    pub place: RunPlace,
}

/// Why an agent or operation did not finish.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The text gives the reason, with a code if there is one.
    #[error("{0}")]
    Failed(String),
    #[error("{0}")]
    TimedOut(String),
    /// The run was stopped.
    #[error("it was stopped")]
    Stopped,
}

/// Runs agents and operations.
pub trait StepRunner: Send + Sync {
    /// Runs an agent. If its tools cannot be provided exactly as the task says, the agent is not started.
    fn agent<'a>(
        &'a self,
        task: AgentTask,
        stop: CancellationToken,
        tell: &'a (dyn Fn(StepEvent) + Send + Sync),
    ) -> BoxFuture<'a, Result<Outcome, Failure>>;

    /// Runs a plugin operation, through the gate like any other call.
    fn operation<'a>(
        &'a self,
        task: OperationTask,
        stop: CancellationToken,
    ) -> BoxFuture<'a, Result<Outcome, Failure>>;
}
