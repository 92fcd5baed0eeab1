//! One attempt at a state.

use std::{
    fs,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use callgate_agent::{AgentKind, Budget, Options, Step, StepEvent};
use callgate_call::TraceContext;
use serde_json::{Map, Value};

use super::{Run, RunError, RunFrame, command};
use crate::{
    Agent, AgentTask, Event, Failure, Kind, Operation, OperationTask, Outcome, OutputFormat, Proxy,
    RunPlace, State, Status, Turn, Usage,
    model::{Command, Inputs, Prompt, Provider, public_name},
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
            Kind::Agent(agent) => self.agent(frame, state, agent).await,
            Kind::Operation(operation) => self.operation(frame, state, operation).await,
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
    fn dir(&self, frame: &RunFrame, state: &State) -> Result<PathBuf, Failure> {
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

    async fn agent(
        &self,
        frame: &RunFrame,
        state: &State,
        agent: &Agent,
    ) -> Result<Outcome, Failure> {
        let prompt = self.prompt(frame, &agent.prompt)?;
        let earlier = self.earlier_turns(agent)?;
        let task = self.agent_task(frame, state, agent, (&earlier, &prompt))?;
        let used = Mutex::new(Usage::default());
        let tell = |event: StepEvent| {
            note_usage(&used, &event);
            self.tell(Event::Agent {
                step: public_name(&state.name).to_owned(),
                event,
            });
        };
        let working = self.walk.step_runner.agent(task, frame.stop.clone(), &tell);
        let mut outcome = match working.await {
            Ok(outcome) => outcome,
            Err(Failure::Stopped) => return Err(Failure::Stopped),
            Err(Failure::Failed(why) | Failure::TimedOut(why)) => Outcome::failure(why),
        };
        outcome.usage = used.into_inner().unwrap_or_else(PoisonError::into_inner);
        if outcome.has_failed() {
            return Ok(outcome);
        }
        if agent.is_tracked || agent.continue_from.is_some() {
            outcome.turns = earlier;
            outcome.turns.push(Turn {
                prompt,
                answer: outcome.output.clone(),
            });
        }
        Ok(formatted(agent.output_format, outcome))
    }

    fn agent_task(
        &self,
        frame: &RunFrame,
        state: &State,
        agent: &Agent,
        (earlier, prompt): (&[Turn], &str),
    ) -> Result<AgentTask, Failure> {
        let mut options = agent.options.clone();
        for (key, template) in &agent.texts {
            let text = self.rendered(frame, &format!("options.{key}"), template)?;
            set(&mut options, key, text);
        }
        let dir = self.dir(frame, state)?;
        let found = fs::canonicalize(&dir).ok().filter(|dir| dir.is_dir());
        let workdir =
            found.ok_or_else(|| Failure::Failed(format!("`{}` is not a folder", dir.display())))?;
        // A proxy that is switched off offers nothing.
        let proxy = state.proxy.as_ref().filter(|proxy| proxy.enable);
        let proxy = proxy.cloned().unwrap_or_default();
        let kind = self.provider(frame, &agent.provider)?;
        Ok(AgentTask {
            state: public_name(&state.name).to_owned(),
            step: Step {
                kind,
                prompt: continued(earlier, with_system(kind, &mut options, prompt)),
                workdir,
                proxy: proxy.agent_proxy(),
                options,
                timeout: state.timeout,
                // That of the state and of its run, in `place`, is the only one.
                budget: Budget::default(),
            },
            plugin_tools: proxy.plugin_tools,
            tools: proxy.tools,
            place: frame.place(),
        })
    }

    fn provider(&self, frame: &RunFrame, provider: &Provider) -> Result<AgentKind, Failure> {
        match provider {
            Provider::Known(kind) => Ok(*kind),
            Provider::Foreign(name) => Err(Failure::Failed(format!(
                "Callgate cannot run the agent `{name}`"
            ))),
            Provider::Template(template) => {
                let name = self.rendered(frame, "provider", template)?;
                let kind = name.trim().parse::<AgentKind>();
                kind.map_err(|error| Failure::Failed(error.to_string()))
            }
        }
    }

    /// The turns of the conversation that an agent continues.
    fn earlier_turns(&self, agent: &Agent) -> Result<Vec<Turn>, Failure> {
        let Some(earlier) = &agent.continue_from else {
            return Ok(Vec::new());
        };
        let outcome = self.values.conversation(earlier);
        outcome.map(|outcome| outcome.turns).ok_or_else(|| {
            Failure::Failed(format!(
                "continue_from: state `{earlier}` has no conversation to continue; it must have run, with `conversation`"
            ))
        })
    }

    fn prompt(&self, frame: &RunFrame, prompt: &Prompt) -> Result<String, Failure> {
        let path = match prompt {
            Prompt::Text(template) => return self.rendered(frame, "prompt", template),
            Prompt::File(template) => self.rendered(frame, "prompt_file", template)?,
        };
        let path = self.beside(&path);
        let wrong =
            |why: String| Failure::Failed(format!("prompt_file `{}`: {why}", path.display()));
        let text = fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
        let template = Template::read(&text).map_err(|error| wrong(error.to_string()))?;
        self.rendered(frame, "prompt_file", &template)
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
    fn place(&self) -> RunPlace {
        RunPlace {
            trace: self.trace.clone(),
            spending: self.spending.clone(),
        }
    }
}

/// Keeps what a step used, also of one that failed.
fn note_usage(used: &Mutex<Usage>, event: &StepEvent) {
    let mut used = used.lock().unwrap_or_else(PoisonError::into_inner);
    match event {
        StepEvent::Started { step, .. } => used.agents.push(step.clone()),
        StepEvent::Finished { tokens, calls, .. } => used.add(&Usage {
            agents: Vec::new(),
            calls: calls.made,
            tokens_input: tokens.input,
            tokens_output: tokens.output,
            cost_usd: tokens.cost_usd,
        }),
        StepEvent::Warning { .. }
        | StepEvent::Text { .. }
        | StepEvent::Call(_)
        | StepEvent::CallEnded(_)
        | StepEvent::Bypassed { .. }
        | StepEvent::NativeRefused { .. } => {}
    }
}

impl Proxy {
    fn agent_proxy(&self) -> callgate_agent::Proxy {
        match (self.enable, self.intercept_builtins) {
            (false, _) => callgate_agent::Proxy::Off,
            (true, true) => callgate_agent::Proxy::Full,
            (true, false) => callgate_agent::Proxy::Additive,
        }
    }
}

/// The prompt with the system prompt in front, for an agent that has no place of its own for it.
fn with_system(kind: AgentKind, options: &mut Options, prompt: &str) -> String {
    if kind == AgentKind::OpenAiCompatible {
        return prompt.to_owned();
    }
    match options.system_prompt.take() {
        Some(system) => format!("{}\n\n{prompt}", system.trim_end()),
        None => prompt.to_owned(),
    }
}

/// The prompt after the turns so far. They are passed on as text, so that every agent can continue, and a run that was
/// resumed can, too.
fn continued(earlier: &[Turn], prompt: String) -> String {
    if earlier.is_empty() {
        return prompt;
    }
    let mut text = "This continues an earlier conversation. It went:\n".to_owned();
    for turn in earlier {
        text.push_str(&format!(
            "\n[user]\n{}\n\n[you]\n{}\n",
            turn.prompt, turn.answer
        ));
    }
    text.push_str("\nThe user now says:\n\n");
    text.push_str(&prompt);
    text
}

fn set(options: &mut Options, key: &str, text: String) {
    match key {
        "model" => options.model = Some(text),
        "permission_mode" => options.permission_mode = Some(text),
        "approval_mode" => options.approval_mode = Some(text),
        "sandbox" => options.sandbox = Some(text),
        "base_url" => options.base_url = Some(text),
        "api_key" => options.api_key = Some(text),
        "system_prompt" => options.system_prompt = Some(text),
        _ => {}
    }
}

/// Applies the output format: an output that should be JSON and is not fails the state.
fn formatted(format: OutputFormat, mut outcome: Outcome) -> Outcome {
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
