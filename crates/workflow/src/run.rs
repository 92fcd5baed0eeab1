//! Executes a workflow: one state after another, each recorded in the journal before the next starts.
//!
//! Each visit of a state has a key that does not depend on time: the state's name and visit number, under the key of
//! the enclosing loop round or branch. A resumed run computes the same keys and finds its results in the journal.

mod attempt;
mod command;
mod inner;
mod scope;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use callgate_boxes::BoxPlan;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    Event, Journal, JournalError, Kind, Outcome, State, Status, StepRunner, Target, Workflow,
    model::Ending,
};
use scope::{RunValues, Scope};

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
}

impl std::fmt::Debug for RunContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunContext")
            .field("journal", &self.journal)
            .finish_non_exhaustive()
    }
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEnd {
    pub status: Status,
    /// The message of the terminal state, or why the run failed.
    pub message: String,
    /// The output of the last state.
    pub output: String,
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
    walk: RunContext<'a>,
    values: RunValues,
}

/// The context of a visit: the whole workflow, a branch, or one round of a loop.
#[derive(Debug)]
struct RunFrame {
    /// The prefix of visit keys.
    prefix: String,
    /// The value of `loop`; `None` outside of loops.
    around: Option<Value>,
    stop: CancellationToken,
}

/// What follows a state.
enum Next<'a> {
    State(&'a str),
    End(Status, String),
}

impl<'a> Run<'a> {
    pub fn new(workflow: &'a Workflow, walk: RunContext<'a>) -> Self {
        let values = RunValues::new(workflow, walk.journal, &walk.env);
        Self {
            workflow,
            walk,
            values,
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
        };
        let ended = match &journal.only {
            Some(name) => self.only(&frame, name).await?,
            None => self.whole(&frame).await?,
        };
        journal.ended(ended.status, &ended.message)?;
        self.tell(Event::RunFinished {
            run: journal.run.clone(),
            status: ended.status,
            message: ended.message.clone(),
        });
        Ok(ended)
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
        })
    }

    async fn whole(&self, frame: &RunFrame) -> Result<RunEnd, RunError> {
        let mut visits: HashMap<&str, u32> = HashMap::new();
        let mut name = self.workflow.initial.as_str();
        let mut output = String::new();
        loop {
            let state = self.found(name)?;
            if let Kind::Terminal(ending) = &state.kind {
                let (status, message) = self.ending(frame, ending);
                return Ok(RunEnd {
                    status,
                    message,
                    output,
                });
            }
            let visit = visits.entry(name).or_default();
            *visit += 1;
            if *visit > MAX_VISITS {
                return Ok(RunEnd {
                    status: Status::Failure,
                    message: format!("state `{name}` was visited more than {MAX_VISITS} times"),
                    output,
                });
            }
            let key = format!("{name}#{visit}");
            let outcome = self.visit(frame, key, state).await?;
            match self.next(frame, state, &outcome) {
                Next::State(next) => name = next,
                Next::End(status, message) => {
                    return Ok(RunEnd {
                        status,
                        message,
                        output: outcome.output,
                    });
                }
            }
            output = outcome.output;
        }
    }

    /// What follows a state with this outcome: transitions first, then `on_success` or `on_failure`.
    fn next<'s>(&self, frame: &RunFrame, state: &'s State, outcome: &Outcome) -> Next<'s> {
        let scope = self.scope(frame);
        for (at, transition) in state.transitions.iter().enumerate() {
            let holds = transition.when.as_ref().map(|when| when.holds(&scope));
            match holds {
                None | Some(Ok(true)) => return Next::State(&transition.goto),
                Some(Ok(false)) => {}
                Some(Err(error)) => {
                    let path = format!("states.{}.transitions[{at}].when", state.name);
                    return Next::End(Status::Failure, format!("{path}: {error}"));
                }
            }
        }
        let goes_on = !outcome.has_failed() || state.continue_on_error;
        let target = if goes_on {
            &state.on_success
        } else {
            &state.on_failure
        };
        match target {
            Some(Target::State(name)) => Next::State(name),
            Some(Target::End(ending)) => {
                let (status, message) = self.ending(frame, ending);
                Next::End(status, message)
            }
            None if goes_on => Next::End(Status::Success, String::new()),
            None => Next::End(Status::Failure, failed(state, outcome)),
        }
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

    /// Visits a state: takes the outcome from the journal, or executes the state and records it.
    fn visit<'s>(
        &'s self,
        frame: &'s RunFrame,
        key: String,
        state: &'s State,
    ) -> BoxFuture<'s, Result<Outcome, RunError>> {
        Box::pin(async move {
            let (name, key) = (&state.name, format!("{}{key}", frame.prefix));
            if let Some(kept) = self.walk.journal.finished_outcome(&key) {
                self.values.remember(name, kept);
                self.tell(Event::StepKept {
                    step: name.clone(),
                    key,
                });
                return Ok(kept.clone());
            }
            if frame.stop.is_cancelled() {
                return Err(RunError::Stopped);
            }
            self.walk.journal.began(&key, name)?;
            let began = Instant::now();
            let outcome = self.with_retries(frame, &key, state).await?;
            self.walk.journal.finished(&key, name, &outcome)?;
            self.values.remember(name, &outcome);
            let error = if outcome.has_failed() {
                shortened(&outcome.stderr)
            } else {
                String::new()
            };
            self.tell(Event::StepFinished {
                step: name.clone(),
                key,
                status: outcome.status,
                exit_code: outcome.exit_code,
                duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
                error,
            });
            Ok(outcome)
        })
    }

    /// Executes a state with its retries.
    async fn with_retries(
        &self,
        frame: &RunFrame,
        key: &str,
        state: &State,
    ) -> Result<Outcome, RunError> {
        let mut attempt = 1;
        loop {
            self.tell(Event::StepStarted {
                step: state.name.clone(),
                key: key.to_owned(),
                attempt,
            });
            let inner_key = match attempt {
                1 => key.to_owned(),
                later => format!("{key}@{later}"),
            };
            let outcome = self.attempt(frame, &inner_key, state).await?;
            let codes = &state.retry.retryable_exit_codes;
            let may = codes.is_empty() || codes.contains(&outcome.exit_code);
            if !outcome.has_failed() || !may || attempt >= state.retry.max_attempts {
                return Ok(outcome);
            }
            let pause = state.retry.pause(attempt, chance());
            self.tell(Event::StepRetried {
                step: state.name.clone(),
                pause_ms: u64::try_from(pause.as_millis()).unwrap_or(u64::MAX),
                why: shortened(&outcome.stderr),
            });
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = frame.stop.cancelled() => return Err(RunError::Stopped),
            }
            attempt += 1;
        }
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
    let name = &state.name;
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

/// A number from 0 to 1 for jitter. Nothing depends on it being unpredictable, so the clock is enough.
fn chance() -> f64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    f64::from(now.unwrap_or(Duration::ZERO).subsec_nanos() % 1000) / 1000.0
}
