//! Workflows: state machines in YAML whose steps are commands, agents and operations of plugins.
//!
//! [`read`] makes a [`Workflow`] of a file, or says everything that is wrong with it at once, each finding with a
//! code, a path and a place. [`Run`] walks one: it writes down each step that has ended before it goes on, so
//! that a run that was killed can be walked again without doing anything twice ([`Journal`]).
//!
//! This room starts no agent and calls no plugin itself. That is asked for through the [`StepRunner`] port, and
//! whoever is behind it puts the gate between an agent and its tools; a step whose tools cannot be had as the file
//! says fails, and its agent is never started. Commands are the author's own, and run below a warden.

mod events;
mod expression;
mod finding;
mod given;
mod journal;
mod model;
mod outcome;
mod plugins;
mod read;
mod run;
mod span;
mod step_runner;
mod template;
mod tree;

pub use events::Event;
pub use finding::{Code, Finding, Severity, explain};
pub use given::{BadInputs, given};
pub use journal::{Beginning, Journal, JournalError, RunReport, RunStatus, StepReport, runs};
pub use model::{
    Agent, Backoff, Body, Ending, Input, InputKind, Kind, Loop, Operation, OutputFormat, Parallel,
    Proxy, Retry, State, Strategy, Target, Transition, Workflow,
};
pub use outcome::{Outcome, Status};
pub use plugins::{Offer, Plugins, check_plugins};
pub use read::{Reading, Unreadable, read};
pub use run::{Ended, Run, RunError, Walk};
pub use step_runner::{AgentTask, Failure, OperationTask, StepRunner};
