//! Agent steps: run a coding agent for one task, with its tools routed through the gate.
//!
//! [`Step::run`] starts one of four command-line agents, or drives an OpenAI-compatible model itself. A command-line
//! agent starts its own tool server: a thin [`relay`] into a private socket of this process, so every call takes the
//! one call path here, under the step's span and session. `cli::AgentCli` is what the rest of the crate needs to know
//! about an agent; each agent implements it in a file of its own and is one line in `kind.rs`.
//!
//! This room makes no decisions about calls and does not trust agents: a step whose tools were never listed, or
//! without a final event, has failed, whatever its exit code. Files are only written to a private folder, which is
//! removed with the step; the user's own configuration is never written.

mod access;
mod agent_box;
mod ask;
mod budget;
mod bypass;
mod claude;
mod cli;
mod codex;
mod door;
mod events;
mod failed;
mod folder;
mod gemini;
mod home;
mod installation;
mod instructions;
mod kind;
mod launch;
mod log;
mod login;
mod openai;
mod opencode;
mod probe;
mod progress;
pub mod relay;
mod running;
pub mod scripted;
mod seen;
mod step;
#[cfg(test)]
mod testing;
mod transcript;
mod unattended;
mod verdict;

pub use budget::{Budget, Spending, Spent};
pub use cli::LongestResult;
pub use events::{StepEvent, Tokens};
pub use failed::StepFailed;
pub use folder::{Folder, sweep};
pub use kind::{AgentKind, UnknownAgent};
pub use probe::{Effect, ProbeReport, ProbedBox, probe};
pub use seen::{CallCounts, CallDecision, EndedCall, SeenCall};
pub use step::{Options, Outcome, Proxy, Step, StepContext};
pub use transcript::{KeptEvent, NoTranscript, Transcripts};
pub use verdict::{Verdict, Verdicts};
