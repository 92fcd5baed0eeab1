//! The checked model of a workflow, with templates and conditions parsed.

use std::{collections::BTreeMap, time::Duration};

use callgate_agent::{AgentKind, Budget, Options, relay::PluginTools};
use callgate_gate::Place;
use serde_json::Value;

use crate::{
    Status, arithmetic::Arithmetic, expression::Expression, skills::Before, template::Template,
};

#[derive(Debug, Clone)]
pub struct Workflow {
    pub name: String,
    pub description: String,
    pub inputs: Vec<Input>,
    /// Variables of the environment without which the workflow does not start.
    pub env: Vec<String>,
    pub(crate) hooks: WorkflowHooks,
    /// What all states of a run may use together.
    pub budget: Budget,
    /// What a workflow that calls this one gets.
    pub outputs: Vec<Output>,
    /// The parameters of a template; empty in a workflow.
    pub(crate) parameters: Vec<String>,
    /// The first state to run.
    pub initial: String,
    /// In the order of the file.
    pub states: Vec<State>,
    pub(crate) by_name: BTreeMap<String, usize>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    pub name: String,
    pub kind: InputKind,
    pub required: bool,
    pub default: Option<Value>,
    /// A regular expression that a text must match.
    pub pattern: Option<String>,
    /// The allowed values; empty allows all.
    pub allowed: Vec<Value>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    /// Whether the value must be the path of an existing file.
    pub file_exists: bool,
    /// The allowed ends of a file's name, such as `.yaml`; empty allows all.
    pub file_extension: Vec<String>,
}

/// A value that a workflow returns to its caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    pub name: String,
    /// The path of the value, such as `states.build.Output`.
    pub(crate) from: Vec<String>,
}

/// What runs before and after a workflow.
#[derive(Debug, Clone, Default)]
pub(crate) struct WorkflowHooks {
    /// Before the first state. A failure ends the run.
    pub(crate) start: Vec<Hook>,
    /// After a success.
    pub(crate) end: Vec<Hook>,
    /// After a failure.
    pub(crate) error: Vec<Hook>,
    /// After the run was stopped.
    pub(crate) cancel: Vec<Hook>,
}

/// What runs before and after a state.
#[derive(Debug, Clone, Default)]
pub(crate) struct StateHooks {
    pub(crate) pre: Vec<Hook>,
    pub(crate) post: Vec<Hook>,
}

/// One action of a hook.
#[derive(Debug, Clone)]
pub(crate) enum Hook {
    Log(Template),
    Command(Template),
}

/// The type of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputKind {
    String,
    Integer,
    Number,
    Boolean,
    /// Given as JSON.
    Array,
    /// Given as JSON.
    Object,
}

#[derive(Debug, Clone)]
pub struct State {
    pub name: String,
    pub kind: Kind,
    /// The time limit for one attempt; `None` means no limit.
    pub timeout: Option<Duration>,
    /// What one visit may use, with all its attempts and everything in it.
    pub budget: Budget,
    pub retry: Retry,
    /// Evaluated in order, before `on_success` and `on_failure`.
    pub transitions: Vec<Transition>,
    /// The next state after a success; `None` ends the run in success.
    pub on_success: Option<Target>,
    /// The next state after a failure; `None` ends the run in failure.
    pub on_failure: Option<Target>,
    /// The condition under which the state runs; otherwise it is skipped and counts as a success.
    pub(crate) when: Option<Expression>,
    pub(crate) hooks: StateHooks,
    pub(crate) capture: Capture,
    /// Whether a failure continues with `on_success`.
    pub continue_on_error: bool,
    /// The working directory, relative to the run's.
    pub(crate) dir: Option<Template>,
    /// States that must have succeeded before.
    pub depends_on: Vec<String>,
    /// `mcp_proxy`, also where it is disabled.
    pub proxy: Option<Proxy>,
    pub(crate) place: Place,
    /// The position of the file that it names: a prompt, a script or a workflow.
    pub(crate) file_place: Place,
    /// The path of the state in the file, such as `states.build` or `states.all.branches[0]`.
    pub(crate) path: String,
}

/// Names under which the streams of a state are kept as `vars.NAME`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Capture {
    pub(crate) stdout: Option<String>,
    pub(crate) stderr: Option<String>,
    /// How many bytes are kept of each.
    pub(crate) max_bytes: Option<usize>,
}

/// What a state does.
#[derive(Debug, Clone)]
pub enum Kind {
    Command(Command),
    Agent(Box<Agent>),
    Terminal(Ending),
    Parallel(Parallel),
    Loop(Loop),
    /// Runs an operation of a plugin.
    Operation(Operation),
    /// Runs another workflow.
    Call(Call),
}

#[derive(Debug, Clone)]
pub struct Command {
    pub(crate) script: Script,
    pub output_format: OutputFormat,
}

/// Where a command comes from.
#[derive(Debug, Clone)]
pub(crate) enum Script {
    Text(Template),
    /// The path of a file whose content is a template, too.
    File(Template),
}

/// A workflow that a state runs.
#[derive(Debug, Clone)]
pub struct Call {
    /// The name of the workflow, or `PACK/NAME`.
    pub workflow: String,
    pub(crate) inputs: Inputs,
    /// The names of outputs, or of states, and the variables that get their values.
    pub(crate) outputs: Vec<(String, String)>,
}

/// The format of an output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OutputFormat {
    #[default]
    Text,
    /// Parsed as JSON; the step fails if that is not possible.
    Json,
}

#[derive(Debug, Clone)]
pub struct Agent {
    pub(crate) provider: Provider,
    pub(crate) prompt: Prompt,
    /// What stands before the prompt.
    pub(crate) before: Before,
    pub options: Options,
    /// Options that are templates, by key.
    pub(crate) texts: Vec<(&'static str, Template)>,
    pub output_format: OutputFormat,
    /// The agent state whose conversation this one continues.
    pub(crate) continue_from: Option<String>,
    /// Whether later states can continue this one's conversation.
    pub(crate) is_tracked: bool,
}

/// Which agent works.
#[derive(Debug, Clone)]
pub(crate) enum Provider {
    Known(AgentKind),
    /// An agent that AWF runs and Callgate does not.
    Foreign(String),
    /// Known once the state runs.
    Template(Template),
}

impl Agent {
    /// The agent, if the file names it.
    pub fn kind(&self) -> Option<AgentKind> {
        match &self.provider {
            Provider::Known(kind) => Some(*kind),
            Provider::Foreign(_) | Provider::Template(_) => None,
        }
    }
}

/// Where a prompt comes from.
#[derive(Debug, Clone)]
pub(crate) enum Prompt {
    Text(Template),
    /// The path of a file whose content is a template, too.
    File(Template),
}

/// `mcp_proxy`: where an agent's tools come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proxy {
    pub enable: bool,
    /// Whether the gate's built-in tools replace the agent's native ones.
    pub intercept_builtins: bool,
    pub plugin_tools: Vec<PluginTools>,
    /// Tools of the configured servers, as patterns `SERVER:TOOL`.
    pub tools: Vec<String>,
    pub(crate) places: Vec<ToolPlaces>,
    /// The paths and positions of `tools`.
    pub(crate) tool_places: Vec<(String, Place)>,
    pub(crate) place: Place,
}

/// The positions of an entry of `plugin_tools`, for findings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ToolPlaces {
    /// The index of the entry in the file.
    pub(crate) index: usize,
    pub(crate) plugin: Place,
    pub(crate) expose: Vec<Place>,
}

/// How a workflow ends.
#[derive(Debug, Clone)]
pub struct Ending {
    pub status: Status,
    pub(crate) message: Option<Template>,
    /// The exit code of the run, where the file gives one.
    pub(crate) exit_code: Option<u8>,
}

#[derive(Debug, Clone)]
pub struct Parallel {
    /// Names of states.
    pub branches: Vec<String>,
    pub strategy: Strategy,
    /// How many branches run at the same time.
    pub max_concurrent: usize,
}

/// When a parallel state succeeds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Strategy {
    /// If all branches succeed; the first failure stops the others.
    #[default]
    AllSucceed,
    /// If one branch succeeds; the first success stops the others.
    AnySucceed,
    /// Always, once all branches have ended.
    BestEffort,
}

/// A loop over states.
#[derive(Debug, Clone)]
pub struct Loop {
    pub(crate) over: LoopOver,
    /// The states, in order.
    pub body: Body,
    /// A `while` loop that reaches it fails, as does a list with more items, unless the loop is lenient.
    pub(crate) max_iterations: Limit,
    pub(crate) break_when: Option<Expression>,
    /// Whether the loop ends in success after `max_iterations`: written with `on_complete`.
    pub(crate) is_lenient: bool,
}

/// The limit of a loop.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Limit {
    Fixed(u32),
    /// Known once the loop begins.
    Computed(Arithmetic),
    /// A text that is computed once it is rendered.
    Template(Template),
}

/// The states of a loop.
pub type Body = Vec<String>;

/// What a loop iterates over.
#[derive(Debug, Clone)]
pub(crate) enum LoopOver {
    /// Once for each item.
    Items(Items),
    /// As long as the condition holds.
    While(Expression),
}

/// The items of a loop.
#[derive(Debug, Clone)]
pub(crate) enum Items {
    List(Vec<Item>),
    /// A list, or a text that is a JSON list.
    Template(Template),
}

/// An item of a literal list.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    Value(Value),
    Template(Template),
}

/// An operation of a plugin.
#[derive(Debug, Clone)]
pub struct Operation {
    /// Empty if the file names none; the state then fails.
    pub plugin: String,
    pub operation: String,
    pub(crate) inputs: Inputs,
    pub(crate) place: Place,
}

/// Values in which every text is a template.
#[derive(Debug, Clone)]
pub(crate) enum Inputs {
    Value(Value),
    Text(Template),
    List(Vec<Inputs>),
    Map(Vec<(String, Inputs)>),
}

/// How failed attempts are repeated.
#[derive(Debug, Clone, PartialEq)]
pub struct Retry {
    /// Including the first attempt.
    pub max_attempts: u32,
    /// The pause before the second attempt.
    pub initial_delay: Duration,
    pub max_delay: Duration,
    pub backoff: Backoff,
    /// The factor of exponential backoff.
    pub multiplier: f64,
    /// The random share of a pause, from 0 to 1.
    pub jitter: f64,
    /// The exit codes that are retried; empty retries every failure.
    pub retryable_exit_codes: Vec<i64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Backoff {
    #[default]
    Constant,
    /// Grows by the first pause each time.
    Linear,
    /// Grows by a factor each time.
    Exponential,
}

/// A conditional next state.
#[derive(Debug, Clone)]
pub struct Transition {
    /// `None` always holds.
    pub(crate) when: Option<Expression>,
    pub goto: String,
}

/// What follows a state.
#[derive(Debug, Clone)]
pub enum Target {
    State(String),
    End(Ending),
}

/// The name of a state without the mark of the state inside of a `loop`.
pub(crate) fn public_name(state: &str) -> &str {
    state.strip_suffix(EACH).unwrap_or(state)
}

/// The mark of the state that a `loop` on a state repeats. It cannot be part of a name in a file.
pub(crate) const EACH: &str = "/each";

impl Default for Retry {
    fn default() -> Self {
        Self {
            max_attempts: 1,
            initial_delay: Duration::ZERO,
            max_delay: Duration::from_secs(3600),
            backoff: Backoff::Constant,
            multiplier: 2.0,
            jitter: 0.0,
            retryable_exit_codes: Vec::new(),
        }
    }
}

impl Retry {
    /// The pause after `attempts` attempts; `chance` is a random number from 0 to 1.
    pub(crate) fn pause(&self, attempts: u32, chance: f64) -> Duration {
        let factor = match self.backoff {
            Backoff::Constant => 1.0,
            Backoff::Linear => f64::from(attempts),
            Backoff::Exponential => self.multiplier.powf(f64::from(attempts.saturating_sub(1))),
        };
        let seconds = self.initial_delay.as_secs_f64() * factor;
        let spread = 1.0 + self.jitter * (2.0 * chance - 1.0);
        let longest = self.max_delay.as_secs_f64();
        Duration::try_from_secs_f64((seconds * spread).clamp(0.0, longest))
            .unwrap_or(self.max_delay)
    }
}

impl State {
    /// The position of `mcp_proxy`, or else of the state.
    pub fn proxy_place(&self) -> Place {
        self.proxy.as_ref().map_or(self.place, |proxy| proxy.place)
    }
}

impl Workflow {
    pub fn state(&self, name: &str) -> Option<&State> {
        self.by_name.get(name).map(|at| &self.states[*at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_pauses_follow_the_configured_backoff() {
        let retry = |backoff, jitter| Retry {
            max_attempts: 9,
            initial_delay: Duration::from_secs(2),
            max_delay: Duration::from_secs(15),
            backoff,
            multiplier: 2.0,
            jitter,
            ..Retry::default()
        };
        for (backoff, expected) in [
            (Backoff::Constant, [2, 2, 2, 2]),
            (Backoff::Linear, [2, 4, 6, 8]),
            (Backoff::Exponential, [2, 4, 8, 15]),
        ] {
            let pauses = [1, 2, 3, 4].map(|attempt| retry(backoff, 0.0).pause(attempt, 0.3));
            assert_eq!(pauses.map(|pause| pause.as_secs()), expected, "{backoff:?}");
        }
        let spread = retry(Backoff::Constant, 0.5);
        assert_eq!(spread.pause(1, 0.0), Duration::from_secs(1));
        assert_eq!(spread.pause(1, 1.0), Duration::from_secs(3));
        let mad = Retry {
            multiplier: 1e300,
            ..retry(Backoff::Exponential, 0.0)
        };
        assert_eq!(mad.pause(400, 0.5), Duration::from_secs(15));
    }
}
