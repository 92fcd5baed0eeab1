//! A workflow as meant: checked, with templates and conditions read.

use std::{collections::BTreeMap, time::Duration};

use callgate_agent::{AgentKind, Options, relay::PluginTools};
use callgate_gate::Place;
use serde_json::Value;

use crate::{Status, expression::Expression, template::Template};

/// A workflow.
#[derive(Debug, Clone)]
pub struct Workflow {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// What it is given.
    pub inputs: Vec<Input>,
    /// The state that it begins in.
    pub initial: String,
    /// Its states, in the order of the file.
    pub states: Vec<State>,
    pub(crate) by_name: BTreeMap<String, usize>,
}

/// An input.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: InputKind,
    /// Whether it must be given.
    pub required: bool,
    /// What counts when it is not.
    pub default: Option<Value>,
    /// What a text must match.
    pub pattern: Option<String>,
    /// What it may be.
    pub allowed: Vec<Value>,
    /// The least that a number may be.
    pub min: Option<f64>,
    /// The most.
    pub max: Option<f64>,
}

/// The type of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputKind {
    /// A text.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// Yes or no.
    Boolean,
    /// A list, given as JSON.
    Array,
    /// An object, given as JSON.
    Object,
}

/// A state.
#[derive(Debug, Clone)]
pub struct State {
    /// Its name.
    pub name: String,
    /// What it does.
    pub kind: Kind,
    /// How long it may take.
    pub timeout: Option<Duration>,
    /// How often it is tried.
    pub retry: Retry,
    /// Asked in order, before all else.
    pub transitions: Vec<Transition>,
    /// Where it goes on after it worked; the end where nothing is said.
    pub on_success: Option<Target>,
    /// Where it goes on after it failed; a failed end where nothing is said.
    pub on_failure: Option<Target>,
    /// Whether a failure counts as a success for what comes next.
    pub continue_on_error: bool,
    /// Where it works.
    pub(crate) dir: Option<Template>,
    /// States that must have worked before.
    pub depends_on: Vec<String>,
    /// The proxy, as it is written.
    pub proxy: Option<Proxy>,
    pub(crate) place: Place,
}

/// What a state does.
#[derive(Debug, Clone)]
pub enum Kind {
    /// Runs a command.
    Command(Command),
    /// Runs an agent.
    Agent(Box<Agent>),
    /// Ends the workflow.
    Terminal(Ending),
    /// Runs states at once.
    Parallel(Parallel),
    /// Runs states again and again.
    Loop(Loop),
    /// Runs an operation of a plugin.
    Operation(Operation),
}

/// A command.
#[derive(Debug, Clone)]
pub struct Command {
    pub(crate) command: Template,
    /// How its output is read.
    pub output_format: OutputFormat,
}

/// How an output is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OutputFormat {
    /// As text.
    #[default]
    Text,
    /// As JSON, or the step has failed.
    Json,
}

/// An agent.
#[derive(Debug, Clone)]
pub struct Agent {
    /// Which one.
    pub provider: AgentKind,
    pub(crate) prompt: Prompt,
    /// What is passed on to it.
    pub options: Options,
    /// Options that are templates, by their keys.
    pub(crate) texts: Vec<(&'static str, Template)>,
    /// How its answer is read.
    pub output_format: OutputFormat,
}

/// Where a prompt comes from.
#[derive(Debug, Clone)]
pub(crate) enum Prompt {
    Text(Template),
    /// A file, whose content is a template, too.
    File(Template),
}

/// Where an agent's tools come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proxy {
    /// Whether there is a proxy.
    pub enable: bool,
    /// Whether the built-in tools come from us, and the agent has none of its own.
    pub intercept_builtins: bool,
    /// Operations of plugins.
    pub plugin_tools: Vec<PluginTools>,
    pub(crate) places: Vec<ToolPlaces>,
    pub(crate) place: Place,
}

/// Where an entry of `plugin_tools` stands, in the order of the entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ToolPlaces {
    /// Which entry of the file it is.
    pub(crate) index: usize,
    pub(crate) plugin: Place,
    pub(crate) expose: Vec<Place>,
}

/// How a workflow ends.
#[derive(Debug, Clone)]
pub struct Ending {
    /// Whether that is a success.
    pub status: Status,
    pub(crate) message: Option<Template>,
}

/// States at once.
#[derive(Debug, Clone)]
pub struct Parallel {
    /// Which ones.
    pub branches: Vec<String>,
    /// When that is a success.
    pub strategy: Strategy,
    /// How many at the same time.
    pub max_concurrent: usize,
}

/// When states at once are a success.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Strategy {
    /// When all are; the first failure stops the others.
    #[default]
    AllSucceed,
    /// When one is; the first success stops the others.
    AnySucceed,
    /// Always, once all have ended.
    BestEffort,
}

/// States again and again.
#[derive(Debug, Clone)]
pub struct Loop {
    pub(crate) over: Over,
    /// The states, in order.
    pub body: Body,
    /// How often at most.
    pub max_iterations: u32,
    pub(crate) break_when: Option<Expression>,
}

/// The states of a loop.
pub type Body = Vec<String>;

/// How long a loop goes on.
#[derive(Debug, Clone)]
pub(crate) enum Over {
    /// Once for each item.
    Items(Items),
    /// As long as this holds.
    While(Expression),
}

/// What a loop goes over.
#[derive(Debug, Clone)]
pub(crate) enum Items {
    /// Each of these.
    List(Vec<Item>),
    /// A list, or a text that is one in JSON.
    Template(Template),
}

/// One item of a list as it is written.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    Value(Value),
    Template(Template),
}

/// An operation of a plugin.
#[derive(Debug, Clone)]
pub struct Operation {
    /// The plugin.
    pub plugin: String,
    /// Its operation.
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

/// How often a state is tried.
#[derive(Debug, Clone, PartialEq)]
pub struct Retry {
    /// How often at most.
    pub max_attempts: u32,
    /// The pause before the second attempt.
    pub initial_delay: Duration,
    /// The longest pause.
    pub max_delay: Duration,
    /// How pauses grow.
    pub backoff: Backoff,
    /// By how much, where they grow by a factor.
    pub multiplier: f64,
    /// The part of a pause that is left to chance, of 1.
    pub jitter: f64,
    /// The exit codes that are tried again; all but 0 when empty.
    pub retryable_exit_codes: Vec<i64>,
}

/// How pauses grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Backoff {
    /// Not at all.
    #[default]
    Constant,
    /// By the first one each time.
    Linear,
    /// By a factor each time.
    Exponential,
}

/// A way on that is asked about.
#[derive(Debug, Clone)]
pub struct Transition {
    /// Always, where nothing is said.
    pub(crate) when: Option<Expression>,
    /// Where to.
    pub goto: String,
}

/// Where a state goes on.
#[derive(Debug, Clone)]
pub enum Target {
    /// To another state.
    State(String),
    /// To the end.
    End(Ending),
}

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
    /// The pause after so many attempts; `chance` is between 0 and 1.
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
    /// The line that it stands at, counted from one.
    pub fn line(&self) -> u64 {
        self.place.line
    }
}

impl Workflow {
    /// A state by its name.
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
