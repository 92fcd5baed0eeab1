//! The port of a run: who runs agents and operations. Behind it stands the gate.

use callgate_agent::{Step, StepEvent, relay::PluginTools};
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::Outcome;

/// A step for an agent, and the tools that it is to have.
#[derive(Debug, Clone)]
pub struct AgentTask {
    /// The state's name.
    pub state: String,
    /// The step. Where its tools come from is in it.
    pub step: Step,
    /// Operations of plugins that are tools of it.
    pub plugin_tools: Vec<PluginTools>,
}

/// An operation to run.
#[derive(Debug, Clone)]
pub struct OperationTask {
    /// The state's name.
    pub state: String,
    /// The plugin.
    pub plugin: String,
    /// Its operation.
    pub operation: String,
    /// What it is given.
    pub inputs: Map<String, Value>,
}

/// Why something was not done, or not to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// It failed; the text says why, with a code where there is one.
    #[error("{0}")]
    Failed(String),
    /// It took too long.
    #[error("{0}")]
    TimedOut(String),
    /// It was told to stop.
    #[error("it was stopped")]
    Stopped,
}

/// Who runs agents and operations.
pub trait StepRunner: Send + Sync {
    /// Runs an agent. Its tools are had as the task says before it is started, or it is not started.
    fn agent<'a>(
        &'a self,
        task: AgentTask,
        stop: CancellationToken,
        tell: &'a (dyn Fn(StepEvent) + Send + Sync),
    ) -> BoxFuture<'a, Result<Outcome, Failure>>;

    /// Runs an operation of a plugin, through the gate like any other call.
    fn operation<'a>(
        &'a self,
        task: OperationTask,
        stop: CancellationToken,
    ) -> BoxFuture<'a, Result<Outcome, Failure>>;
}
