//! Executes a workflow: one state after another, each recorded in the journal before the next starts.
//!
//! Each visit of a state has a key that does not depend on time: the state's name and visit number, under the key of
//! the enclosing loop round or branch. A resumed run computes the same keys and finds its results in the journal.

mod agent;
mod attempt;
mod budgeted;
mod call;
mod command;
mod hooks;
mod inner;
mod items;
pub(crate) mod scope;
mod script;
mod visit;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use callgate_agent::{Budget, Spending};
use callgate_boxes::BoxPlan;
use callgate_call::{Spans, TraceContext};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::{
    Event, Exit, Journal, JournalError, Kind, Outcome, State, Status, StepRunner, Target, Workflow,
    expression::ExpressionError,
    model::{Ending, public_name},
};
use budgeted::budgeted;
use scope::{Around, RunValues, Scope};

/// The key of the visit that stands for the hook before a workflow.
const START: &str = "hooks.workflow_start";

/// A run that visits a state more often fails: it probably never ends.
const MAX_VISITS: u32 = 1000;
/// How much of an error goes into a message.
const SHOWN_CHARS: usize = 500;

/// What a run needs besides its workflow.
pub struct RunContext<'a> {
    pub journal: &'a Journal,
    pub step_runner: &'a dyn StepRunner,
    /// Receives the events of the run.
    pub tell: &'a (dyn Fn(Event) + Send + Sync),
    /// Stops the run; it can be resumed.
    pub stop: CancellationToken,
    /// The warden's binary.
    pub warden_program: PathBuf,
    /// What commands may reach; everything that their user may if `None`.
    pub command_box: Option<BoxPlan>,
    /// The environment of commands, and `env` in templates and conditions.
    pub env: Vec<(String, String)>,
    /// Makes a span for the run and for each of its states and commands.
    pub spans: Spans,
    /// The trace that the run belongs to.
    pub trace: Option<TraceContext>,
}

impl RunEnd {
    fn failure(message: String) -> Self {
        Self {
            status: Status::Failure,
            message,
            ..Self::default()
        }
    }
}

impl std::fmt::Debug for RunContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunContext")
            .field("journal", &self.journal)
            .finish_non_exhaustive()
    }
}

/// The end of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunEnd {
    pub status: Status,
    /// The message of the terminal state, or why the run failed.
    pub message: String,
    /// The output of the last state.
    pub output: String,
    /// The outputs of the workflow.
    pub outputs: Map<String, Value>,
    /// The exit code, where the file gives one.
    pub exit_code: Option<u8>,
}

/// Why a run did not reach its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The journal could not be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The run was stopped, and can be resumed.
    #[error("the run was stopped")]
    Stopped,
    #[error("unknown state `{0}`")]
    UnknownState(String),
}

/// A run of a workflow.
#[derive(Debug)]
pub struct Run<'a> {
    workflow: &'a Workflow,
    walk: &'a RunContext<'a>,
    values: RunValues,
    /// The file of the workflow; relative paths in it start there.
    file: PathBuf,
    /// The files of this workflow and of those that called it.
    callers: Vec<PathBuf>,
}

/// The context of a visit: the whole workflow, a branch, or one round of a loop.
#[derive(Debug, Clone)]
struct RunFrame {
    /// The prefix of visit keys.
    prefix: String,
    /// The value of `loop`; `None` outside of loops.
    around: Option<Value>,
    stop: CancellationToken,
    /// The context of the span around it.
    trace: Option<TraceContext>,
    /// The budget that it counts against.
    spending: Arc<Spending>,
}

/// What follows a state.
enum Next {
    State(String),
    End(Status, String, Option<u8>),
}

impl<'a> Run<'a> {
    pub fn new(workflow: &'a Workflow, walk: &'a RunContext<'a>) -> Self {
        let journal = walk.journal;
        let file = journal.file.clone();
        let around = Around::of(journal, &file, &walk.env);
        let values = RunValues::new(workflow, journal.inputs.clone(), around);
        for (path, text) in &journal.mocks {
            values.mock(path, text);
        }
        let own = std::fs::canonicalize(&file).unwrap_or_else(|_| file.clone());
        Self {
            workflow,
            walk,
            values,
            file,
            callers: vec![own],
        }
    }

    /// Executes the workflow to its end.
    pub async fn walk(&self) -> Result<RunEnd, RunError> {
        let journal = self.walk.journal;
        self.tell(Event::RunStarted {
            run: journal.run.clone(),
            workflow: self.workflow.name.clone(),
            resumed: journal.resumed,
        });
        let frame = RunFrame {
            prefix: String::new(),
            around: None,
            stop: self.walk.stop.clone(),
            trace: self.walk.trace.clone(),
            spending: Spending::new("this process", Budget::default(), None),
        };
        let ended = self.spanned(&frame, journal.only.as_deref()).await?;
        journal.ended(ended.status, &ended.message)?;
        self.tell(Event::RunFinished {
            run: journal.run.clone(),
            status: ended.status,
            message: ended.message.clone(),
            outputs: ended.outputs.clone(),
        });
        Ok(ended)
    }

    /// Executes the workflow, or only one state, in a span of its own.
    async fn spanned(&self, frame: &RunFrame, only: Option<&str>) -> Result<RunEnd, RunError> {
        let name = format!("workflow.{}", self.workflow.name);
        let span = self.walk.spans.step(name, frame.trace.clone());
        span.note("workflow.run", self.walk.journal.run.clone());
        let inside = RunFrame {
            trace: span.context(),
            ..frame.clone()
        };
        let ended = match only {
            Some(name) => self.only(&inside, name).await,
            None => self.hooked(&inside).await,
        };
        let worked = matches!(&ended, Ok(end) if end.status == Status::Success);
        span.end((!worked).then_some("failed"));
        ended
    }

    /// Executes the workflow with its hooks.
    async fn hooked(&self, frame: &RunFrame) -> Result<RunEnd, RunError> {
        let hooks = &self.workflow.hooks;
        let missing = self.missing_variables();
        let ended = if missing.is_empty() {
            match self.start(frame).await {
                Ok(None) => self.within_budget(frame).await,
                Ok(Some(why)) => Ok(RunEnd::failure(why)),
                Err(error) => Err(error),
            }
        } else {
            let names = missing.join("`, `");
            Ok(RunEnd::failure(format!("the environment lacks `{names}`")))
        };
        match &ended {
            Ok(end) if end.status == Status::Success => {
                self.hooks(frame, "workflow_end", &hooks.end).await;
            }
            Ok(end) => {
                self.values.fail(&end.message);
                self.hooks(frame, "workflow_error", &hooks.error).await;
            }
            Err(RunError::Stopped) => self.cancel_hooks(frame).await,
            Err(RunError::Journal(_) | RunError::UnknownState(_)) => {}
        }
        Ok(RunEnd {
            outputs: self.outputs(),
            ..ended?
        })
    }

    /// Runs the hook before the workflow, once; the reason if it failed.
    async fn start(&self, frame: &RunFrame) -> Result<Option<String>, RunError> {
        let hooks = &self.workflow.hooks.start;
        let key = format!("{}{START}", frame.prefix);
        if hooks.is_empty() || self.walk.journal.finished_outcome(&key).is_some() {
            return Ok(None);
        }
        self.walk.journal.began(&key, START)?;
        let done = self.strict_hooks(frame, "workflow_start", hooks).await;
        let outcome = match done {
            Ok(()) => Outcome::success(""),
            Err(crate::Failure::Stopped) => return Err(RunError::Stopped),
            Err(failure) => Outcome::failure(failure.to_string()),
        };
        self.walk.journal.finished(&key, START, &outcome)?;
        Ok(outcome.has_failed().then_some(outcome.stderr))
    }

    /// The variables that the workflow needs and the environment does not have.
    fn missing_variables(&self) -> Vec<String> {
        let set = |name: &str| self.walk.env.iter().any(|(known, _)| known == name);
        let needed = self.workflow.env.iter();
        needed.filter(|name| !set(name)).cloned().collect()
    }

    /// The outputs that have a value.
    fn outputs(&self) -> Map<String, Value> {
        let scope = self.values.seen(None);
        let value = |path: &[String]| crate::template::Lookup::look_up(&scope, path);
        let outputs = self.workflow.outputs.iter();
        outputs
            .filter_map(|output| Some((output.name.clone(), value(&output.from)?)))
            .collect()
    }

    /// Executes the states within the budget of the workflow.
    async fn within_budget(&self, frame: &RunFrame) -> Result<RunEnd, RunError> {
        let of = format!("workflow `{}`", self.workflow.name);
        let work = |frame: RunFrame| async move { self.whole(&frame).await };
        let earlier = self.walk.journal.spent(frame.prefix.trim_end_matches('/'));
        let ended = budgeted(frame, of, (self.workflow.budget, earlier), work).await;
        ended.unwrap_or_else(|why| Ok(RunEnd::failure(why)))
    }

    async fn only(&self, frame: &RunFrame, name: &str) -> Result<RunEnd, RunError> {
        let state = self.found(name)?;
        let outcome = self.visit(frame, format!("{name}#1"), state).await?;
        let message = if outcome.has_failed() {
            failed(state, &outcome)
        } else {
            String::new()
        };
        Ok(RunEnd {
            status: outcome.status,
            message,
            output: outcome.output,
            ..RunEnd::default()
        })
    }

    async fn whole(&self, frame: &RunFrame) -> Result<RunEnd, RunError> {
        let mut visits: HashMap<String, u32> = HashMap::new();
        let mut name = self.workflow.initial.clone();
        let mut end = RunEnd::default();
        loop {
            let state = self.found(&name)?;
            if let Kind::Terminal(ending) = &state.kind {
                (end.status, end.message) = self.ending(frame, ending);
                end.exit_code = ending.exit_code;
                return Ok(end);
            }
            let visit = visits.entry(name.clone()).or_default();
            *visit += 1;
            if *visit > MAX_VISITS {
                end.status = Status::Failure;
                end.message = format!("state `{name}` was visited more than {MAX_VISITS} times");
                return Ok(end);
            }
            let key = format!("{name}#{visit}");
            let outcome = self.visit(frame, key, state).await?;
            let next = self.next(frame, state, &outcome);
            end.output = outcome.output;
            match next {
                Next::State(next) => name = next,
                Next::End(status, message, exit_code) => {
                    (end.status, end.message, end.exit_code) = (status, message, exit_code);
                    return Ok(end);
                }
            }
        }
    }

    /// What follows a state. Without a successor the run ends as the state did.
    fn next(&self, frame: &RunFrame, state: &State, outcome: &Outcome) -> Next {
        let default = || match outcome.has_failed() && !state.continue_on_error {
            false => Next::End(Status::Success, String::new(), None),
            true => Next::End(Status::Failure, failed(state, outcome), None),
        };
        self.successor(frame, state, outcome)
            .unwrap_or_else(default)
    }

    /// The successor that the file gives: where a loop was left to, then transitions, then `on_success` or `on_failure`.
    fn successor(&self, frame: &RunFrame, state: &State, outcome: &Outcome) -> Option<Next> {
        match &outcome.exit {
            Some(Exit::State(name)) => return Some(Next::State(name.clone())),
            Some(Exit::End {
                status,
                message,
                exit_code,
            }) => return Some(Next::End(*status, message.clone(), *exit_code)),
            None => {}
        }
        let scope = self.scope(frame);
        for (at, transition) in state.transitions.iter().enumerate() {
            let holds = transition.when.as_ref().map(|when| when.holds(&scope));
            match holds {
                None | Some(Ok(true)) => return Some(Next::State(transition.goto.clone())),
                Some(Ok(false)) => {}
                // A condition about a state that has not run says nothing about the way to go.
                Some(Err(ExpressionError::Missing(path))) if self.values.is_yet_to_run(&path) => {}
                Some(Err(error)) => {
                    let path = format!("states.{}.transitions[{at}].when", state.name);
                    let why = format!("{path}: {error}");
                    return Some(Next::End(Status::Failure, why, None));
                }
            }
        }
        let goes_on = !outcome.has_failed() || state.continue_on_error;
        let target = if goes_on {
            &state.on_success
        } else {
            &state.on_failure
        };
        target.as_ref().map(|target| match target {
            Target::State(name) => Next::State(name.clone()),
            Target::End(ending) => {
                let (status, message) = self.ending(frame, ending);
                Next::End(status, message, ending.exit_code)
            }
        })
    }

    fn ending(&self, frame: &RunFrame, ending: &Ending) -> (Status, String) {
        let message = ending.message.as_ref();
        let message = message.map(|message| message.render(&self.scope(frame)));
        let message = match message {
            None => String::new(),
            Some(Ok(text)) => text,
            // A message that cannot be rendered must not change the result of the run.
            Some(Err(error)) => format!("(message: {error})"),
        };
        (ending.status, message)
    }

    fn found(&self, name: &str) -> Result<&'a State, RunError> {
        let found = self.workflow.state(name);
        found.ok_or_else(|| RunError::UnknownState(name.to_owned()))
    }

    fn scope<'s>(&'s self, frame: &'s RunFrame) -> Scope<'s> {
        self.values.seen(frame.around.as_ref())
    }

    fn tell(&self, event: Event) {
        (self.walk.tell)(event);
    }

    /// The working directory of the run.
    fn workdir(&self) -> &Path {
        &self.walk.journal.workdir
    }
}

/// The message of a run that ends with a failed state.
fn failed(state: &State, outcome: &Outcome) -> String {
    let name = public_name(&state.name);
    match shortened(&outcome.stderr).as_str() {
        "" => format!("state `{name}` failed with exit code {}", outcome.exit_code),
        why => format!("state `{name}` failed: {why}"),
    }
}

fn shortened(text: &str) -> String {
    let text = text.trim();
    let over = text.chars().count().saturating_sub(SHOWN_CHARS);
    // The tail is kept: programs usually print the cause last.
    text.chars().skip(over).collect()
}
