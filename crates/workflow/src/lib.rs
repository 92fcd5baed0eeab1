//! Workflows: state machines in YAML whose steps are commands, agents and operations of plugins.
//!
//! [`read`] parses a file into a [`Workflow`], or reports all its problems at once, each with a code, a path and a
//! position. [`Run`] executes one: it records each finished step before it continues, so a killed run can be resumed
//! without repeating finished steps ([`Journal`]).
//!
//! This room starts no agents and calls no plugins itself: the [`StepRunner`] port does, and its implementation puts
//! the gate between an agent and its tools. If the tools cannot be provided exactly as the file says, the step fails
//! and its agent is never started. Commands are trusted like the workflow itself, and run below a warden.

mod arithmetic;
mod beside;
mod events;
mod expression;
mod files;
mod finding;
mod given;
mod journal;
mod model;
mod outcome;
mod plan;
mod plugins;
mod read;
mod run;
mod skills;
mod span;
mod step_runner;
mod template;
mod tree;

pub use beside::Sources;
pub use events::Event;
pub use files::check_files;
pub use finding::{Code, Finding, Severity, explain};
pub use given::{BadInputs, given};
pub use journal::{
    Journal, JournalError, NewRun, Resumption, RunReport, RunStatus, StepReport, runs,
};
pub use model::{
    Agent, Backoff, Body, Call, Ending, Input, InputKind, Kind, Loop, Operation, Output,
    OutputFormat, Parallel, Proxy, Retry, State, Strategy, Target, Transition, Workflow,
};
pub use outcome::{Exit, Outcome, Status, Turn, Usage};
pub use plan::{PlannedHook, PlannedState, plan};
pub use plugins::{PluginOffer, Plugins, check_plugins};
pub use read::{Reading, Unreadable, read, read_with, schema};
pub use run::{Run, RunContext, RunEnd, RunError};
pub use step_runner::{AgentTask, Failure, OperationTask, RunPlace, StepRunner};
