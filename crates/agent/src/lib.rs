//! Agent steps: a coding agent is started for one task, and the gate is where its tools come from.
//!
//! [`Step::run`] starts one of four command-line agents, or talks to an OpenAI-compatible model itself.
//! A command-line agent starts its tool server on its own; what it starts is a thin [`relay`] into a private
//! socket of this process, so that every call walks the one path here, under the step's own span and
//! session. `cli::AgentCli` says what the rest of the crate needs to know about an agent; each agent implements it in
//! a file of its own, and is a line in `kind.rs`.
//!
//! This room decides nothing about calls, and believes no agent: a step without a served tool list or
//! without a final event has failed, whatever the exit code says. What it puts on the disk lies in a
//! private folder that goes with the step; a user's own configuration is never written to.

mod ask;
mod bypass;
mod claude;
mod cli;
mod codex;
mod door;
mod events;
mod failed;
mod folder;
mod gemini;
mod kind;
mod launch;
mod log;
mod openai;
mod opencode;
mod probe;
pub mod relay;
mod running;
pub mod scripted;
mod step;
#[cfg(test)]
mod testing;
mod verdict;

pub use events::{StepEvent, Tokens};
pub use failed::StepFailed;
pub use folder::sweep;
pub use kind::{AgentKind, UnknownAgent};
pub use probe::{ProbeReport, probe};
pub use step::{Options, Outcome, Proxy, Step, StepContext};
pub use verdict::{Verdict, Verdicts};
