//! What the rest of the crate needs to know about an agent CLI.

use std::{fmt, path::Path};

use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::{
    Options, StepFailed,
    access::{Access, Variables},
    events::AgentEvent,
    launch::{Launch, Task},
};

/// One agent CLI: how it is found, launched, read and probed. Each is a file of this crate and a line in `kind.rs`.
pub(crate) trait AgentCli: fmt::Debug + Send + Sync {
    /// The program's name on the `PATH`, by which users and records also name the agent.
    fn program(&self) -> &'static str;

    /// The version that was run against a scripted model and offered our tools alone.
    fn isolated_version(&self) -> &'static str;

    /// The ways to its model that the user's variables and login choose, and the options.
    fn accesses(&self, users: Variables<'_>, options: &Options) -> Vec<&'static Access>;

    /// The names of project instructions that it would read. The first that exists in the work folder counts.
    fn instructions(&self) -> &'static [&'static str];

    /// The arguments, variables and input to start the program with. Writes the files that it reads into the step's folder,
    /// and may ask the program first.
    fn launch<'a>(&'a self, task: &'a Task<'_>) -> BoxFuture<'a, Result<Launch, StepFailed>>;

    /// Parses one event. No step succeeds without the final event, [`AgentEvent::Done`]. Unknown events are ignored.
    fn read_event(&self, event: &Value) -> Vec<AgentEvent>;

    /// Whether the error that it told its model about a native tool says that the tool was not used at all.
    fn is_refusal(&self, _tool: &str, _error: &str) -> bool {
        false
    }

    /// Whether it reports what a step cost.
    fn reports_cost(&self) -> bool {
        false
    }

    /// The separator of two texts in one round. Empty for an agent that sends its text in fragments.
    fn text_separator(&self) -> &'static str {
        PARAGRAPH_END
    }

    /// The folder of the machine's administrator, whose settings hold in a box, too.
    fn machine_settings(&self) -> &'static str;

    /// Whether it refuses arguments that a tool's schema does not allow.
    fn validates_arguments(&self) -> bool {
        false
    }

    /// The longest result that it hands to its model whole, if that is shorter than a page of ours.
    fn longest_result(&self) -> Option<LongestResult> {
        None
    }

    /// Calls of native tools that would create the file `proof`, for a scripted model to make.
    fn native_probe_calls(&self, proof: &Path) -> Vec<(&'static str, Value)>;

    /// Directs the program to the model at `url`.
    fn use_scripted_model(&self, options: &mut Options, url: &str);
}

/// How long the result of a call may be before an agent cuts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongestResult {
    pub bytes: usize,
    pub lines: u64,
}

/// The separator for agents that send whole paragraphs.
pub(crate) const PARAGRAPH_END: &str = "\n";
/// The key for a scripted model, which accepts any.
pub(crate) const PROBE_KEY: &str = "probe";

/// A shell command that creates the file.
pub(crate) fn touch(file: &Path) -> String {
    format!("touch '{}'", file.display())
}
