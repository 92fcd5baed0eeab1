//! One attempt at a state.

use std::{path::PathBuf, time::Duration};

use callgate_agent::Spent;
use callgate_call::TraceContext;
use serde_json::{Map, Value};

use super::{Run, RunError, RunFrame, command};
use crate::{
    Failure, Kind, Operation, OperationTask, Outcome, OutputFormat, RunPlace, State, Status, Usage,
    model::{Command, Inputs, public_name},
    template::{Template, TemplateError},
};

impl Run<'_> {
    /// One attempt. A failure is an outcome; only stopping the run is an error.
    pub(super) async fn attempt(
        &self,
        frame: &RunFrame,
        key: &str,
        state: &State,
    ) -> Result<Outcome, RunError> {
        let mut needed = state.depends_on.iter();
        if let Some(missing) = needed.find(|name| !self.values.worked(name)) {
            let why = format!("it depends on `{missing}`, which has not succeeded");
            return Ok(Outcome::failure(why));
        }
        let done = match &state.kind {
            Kind::Command(command) => self.command(frame, state, command).await,
            Kind::Agent(agent) => self.agent(frame, key, state, agent).await,
            Kind::Operation(operation) => {
                let call = Spent {
                    calls: 1,
                    ..Spent::default()
                };
                self.walk.journal.used(key, call)?;
                self.operation(frame, state, operation).await
            }
            Kind::Parallel(parallel) => return self.parallel(frame, key, state, parallel).await,
            Kind::Loop(inner) => {
                let done = self.around(frame, key, state, inner).await?;
                // What the states of its body used is on record with them.
                let usage = Usage::default();
                return Ok(Outcome { usage, ..done });
            }
            Kind::Call(call) => return self.call(frame, key, state, call).await,
            Kind::Terminal(ending) => {
                let (status, message) = self.ending(frame, ending);
                Ok(Outcome {
                    status,
                    stderr: message,
                    exit_code: i64::from(status == Status::Failure),
                    ..Outcome::default()
                })
            }
        };
        match done {
            Ok(outcome) => Ok(outcome),
            Err(Failure::Stopped) => Err(RunError::Stopped),
            Err(Failure::Failed(why) | Failure::TimedOut(why)) => Ok(Outcome::failure(why)),
        }
    }

    pub(super) fn rendered(
        &self,
        frame: &RunFrame,
        what: &str,
        template: &Template,
    ) -> Result<String, Failure> {
        let rendered = template.render(&self.scope(frame));
        rendered.map_err(|error: TemplateError| Failure::Failed(format!("{what}: {error}")))
    }

    /// The working directory of a state, relative to the run's.
    pub(super) fn dir(&self, frame: &RunFrame, state: &State) -> Result<PathBuf, Failure> {
        match &state.dir {
            None => Ok(self.workdir().to_owned()),
            Some(dir) => Ok(self.workdir().join(self.rendered(frame, "dir", dir)?)),
        }
    }

    async fn command(
        &self,
        frame: &RunFrame,
        state: &State,
        command: &Command,
    ) -> Result<Outcome, Failure> {
        // The file of a script is deleted once the command has ended.
        let (script, _file) = self.script(frame, &command.script)?;
        let ready = command::CommandRun {
            script,
            dir: self.dir(frame, state)?,
            env: self.walk.env.clone(),
            warden_program: self.walk.warden_program.clone(),
            timeout: state.timeout,
            command_box: self.walk.command_box.as_ref(),
        };
        let outcome = self.run_command(frame, ready).await?;
        Ok(formatted(command.output_format, outcome))
    }

    /// Runs a command in a span of its own, whose context it gets as variables.
    pub(super) async fn run_command(
        &self,
        frame: &RunFrame,
        mut ready: command::CommandRun<'_>,
    ) -> Result<Outcome, Failure> {
        let span = self.walk.spans.step("command", frame.trace.clone());
        if let Some(trace) = span.context() {
            ready
                .env
                .retain(|(name, _)| !TraceContext::is_variable(name));
            ready.env.extend(trace.variables());
        }
        let done = command::run(ready, &frame.stop).await;
        if let Ok(outcome) = &done {
            span.note("command.exit_code", outcome.exit_code.to_string());
        }
        let has_failed = done.as_ref().map_or(true, Outcome::has_failed);
        span.end(has_failed.then_some("failed"));
        done
    }

    /// A path that is relative to the workflow's folder, or begins with `~/`.
    pub(super) fn beside(&self, path: &str) -> PathBuf {
        if let (Some(rest), Some(home)) = (path.strip_prefix("~/"), self.home()) {
            return PathBuf::from(home).join(rest);
        }
        let base = self.file.parent();
        base.map_or_else(|| PathBuf::from(path), |base| base.join(path))
    }

    fn home(&self) -> Option<&str> {
        let mut variables = self.walk.env.iter();
        let home = variables.find(|(name, _)| name == "HOME");
        home.map(|(_, value)| value.as_str())
    }

    async fn operation(
        &self,
        frame: &RunFrame,
        state: &State,
        operation: &Operation,
    ) -> Result<Outcome, Failure> {
        if operation.plugin.is_empty() {
            let name = &operation.operation;
            return Err(Failure::Failed(format!(
                "operation `{name}` does not name a plugin: write `plugin.{name}`"
            )));
        }
        let inputs = self.filled(frame, &operation.inputs)?;
        let task = OperationTask {
            state: public_name(&state.name).to_owned(),
            plugin: operation.plugin.clone(),
            operation: operation.operation.clone(),
            inputs: match inputs {
                Value::Object(inputs) => inputs,
                _ => Map::new(),
            },
            place: frame.place(),
        };
        let stop = frame.stop.child_token();
        let limit = state.timeout.unwrap_or(Duration::MAX);
        let working = self.walk.step_runner.operation(task, stop.clone());
        tokio::select! {
            done = working => done,
            () = tokio::time::sleep(limit) => {
                stop.cancel();
                Err(Failure::TimedOut(format!("timed out after {} s", limit.as_secs_f64())))
            }
        }
    }

    /// Renders the templates in a value. A template that is a single expression keeps the type of its value.
    pub(super) fn filled(&self, frame: &RunFrame, inputs: &Inputs) -> Result<Value, Failure> {
        match inputs {
            Inputs::Value(value) => Ok(value.clone()),
            Inputs::Text(template) => {
                let value = template.value(&self.scope(frame));
                value.map_err(|error| Failure::Failed(format!("inputs: {error}")))
            }
            Inputs::List(items) => items.iter().map(|item| self.filled(frame, item)).collect(),
            Inputs::Map(members) => {
                let one = |(key, member): &(String, Inputs)| {
                    Ok((key.clone(), self.filled(frame, member)?))
                };
                let members: Result<Map<String, Value>, Failure> =
                    members.iter().map(one).collect();
                members.map(Value::Object)
            }
        }
    }
}

impl RunFrame {
    pub(super) fn place(&self) -> RunPlace {
        RunPlace {
            trace: self.trace.clone(),
            spending: self.spending.clone(),
        }
    }
}

/// Applies the output format: an output that should be JSON and is not fails the state.
pub(super) fn formatted(format: OutputFormat, mut outcome: Outcome) -> Outcome {
    match format {
        OutputFormat::Text => {}
        OutputFormat::Json if outcome.has_failed() => {}
        OutputFormat::Json => match serde_json::from_str(unfenced(&outcome.output)) {
            Ok(json) => outcome.json = Some(json),
            Err(error) => {
                outcome.status = Status::Failure;
                outcome.exit_code = 1;
                outcome.stderr = format!("the output is not valid JSON: {error}");
            }
        },
    }
    outcome
}

/// Strips a Markdown code fence, which models often put around JSON.
fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let inside = text
        .strip_prefix("```")
        .and_then(|rest| rest.strip_suffix("```"));
    match inside.and_then(|inside| inside.split_once('\n')) {
        Some((_language, body)) => body.trim(),
        None => text,
    }
}
