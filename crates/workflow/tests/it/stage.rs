//! A stage for walks: real commands, and a workshop that says what it was asked.

use std::path::Path;
use std::sync::{Arc, Mutex};

use callgate_agent::{Proxy, StepEvent};
use callgate_testkit::DataDir;
use callgate_workflow::{
    AgentTask, Event, Failure, Journal, NewRun, OperationTask, Outcome, Run, RunContext, RunEnd,
    RunError, StepRunner, Workflow, given, plan, read,
};
use futures_util::future::BoxFuture;
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// What a workshop was asked for, and how it answers.
#[derive(Debug, Default)]
pub(crate) struct Fake {
    /// One line for each task.
    pub(crate) asked: Mutex<Vec<String>>,
    /// Prompts and operations that fail so many times.
    pub(crate) fails: Mutex<Vec<(String, u32)>>,
}

impl Fake {
    fn failure(&self, what: &str) -> Option<Failure> {
        let mut fails = self.fails.lock().expect("no thread panicked");
        let (_, left) = fails.iter_mut().find(|(known, _)| known == what)?;
        if *left == 0 {
            return None;
        }
        *left -= 1;
        Some(Failure::Failed(format!("{what} fails")))
    }

    fn note(&self, line: String) {
        self.asked.lock().expect("no thread panicked").push(line);
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.asked.lock().expect("no thread panicked").clone()
    }
}

impl StepRunner for Fake {
    fn agent<'a>(
        &'a self,
        task: AgentTask,
        stop: CancellationToken,
        _tell: &'a (dyn Fn(StepEvent) + Send + Sync),
    ) -> BoxFuture<'a, Result<Outcome, Failure>> {
        Box::pin(async move {
            let proxy = match task.step.proxy {
                Proxy::Off => "off",
                Proxy::Full => "full",
                Proxy::Additive => "additive",
            };
            let tools: Vec<String> = task
                .plugin_tools
                .iter()
                .map(|tools| format!("{}:{}", tools.plugin, tools.expose.join(",")))
                .collect();
            let prompt = task.step.prompt.clone();
            let model = task.step.options.model.clone().unwrap_or_default();
            self.note(
                format!(
                    "{} {proxy} {model} [{}] {prompt}",
                    task.state,
                    tools.join(" ")
                )
                .replace("  ", " "),
            );
            if prompt == "wait" {
                stop.cancelled().await;
                return Err(Failure::Stopped);
            }
            match self.failure(&prompt) {
                Some(failure) => Err(failure),
                None => Ok(Outcome {
                    tokens_input: 10,
                    tokens_output: 2,
                    ..Outcome::success(format!("did {prompt}"))
                }),
            }
        })
    }

    fn operation<'a>(
        &'a self,
        task: OperationTask,
        stop: CancellationToken,
    ) -> BoxFuture<'a, Result<Outcome, Failure>> {
        Box::pin(async move {
            let OperationTask {
                plugin,
                operation,
                inputs,
                place,
                ..
            } = task;
            if !place.spending.admits_call() {
                let why = place.spending.excess().unwrap_or_default();
                return Err(Failure::Failed(why.to_owned()));
            }
            self.note(format!("{plugin}.{operation} {}", json!(inputs)));
            if operation == "wait" {
                stop.cancelled().await;
                return Err(Failure::Stopped);
            }
            match self.failure(&operation) {
                Some(failure) => Err(failure),
                None => Ok(Outcome {
                    json: Some(json!(inputs)),
                    ..Outcome::success("operated")
                }),
            }
        })
    }
}

/// A place where workflows are walked.
#[derive(Debug, Default)]
pub(crate) struct Stage {
    pub(crate) place: DataDir,
    pub(crate) fake: Fake,
    pub(crate) events: Arc<Mutex<Vec<Event>>>,
    pub(crate) stop: CancellationToken,
}

/// A workflow that is right.
pub(crate) fn right(text: &str) -> Workflow {
    let reading = read(text, Path::new("flow.yaml")).expect("it is YAML");
    let findings = reading.findings.clone();
    let workflow = reading.workflow();
    workflow.unwrap_or_else(|| panic!("{findings:#?}"))
}

impl Stage {
    pub(crate) fn journal(
        &self,
        text: &str,
        inputs: &[(&str, &str)],
        only: Option<&str>,
    ) -> Journal {
        let workflow = right(text);
        let pairs: Vec<(String, String)> = inputs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let file = self.place.path().join("flow.yaml");
        let beginning = NewRun {
            workflow: &workflow.name,
            text,
            file: &file,
            workdir: self.place.path(),
            inputs: given(&workflow, &pairs).expect("the inputs are right"),
            only: only.map(str::to_owned),
            mocks: Vec::new(),
            sources: callgate_workflow::Sources::default(),
        };
        Journal::begin(self.place.path(), beginning).expect("it is writable")
    }

    /// Walks a journal's workflow to its end.
    pub(crate) async fn walk(&self, journal: &Journal) -> Result<RunEnd, RunError> {
        let workflow = right(&journal.text);
        let events = self.events.clone();
        let tell = move |event: Event| events.lock().expect("no thread panicked").push(event);
        let walk = RunContext {
            journal,
            step_runner: &self.fake,
            tell: &tell,
            stop: self.stop.clone(),
            warden_program: callgate_testkit::callgate(),
            command_box: None,
            env: std::env::vars()
                .chain([("FLOW_TEST".to_owned(), "set".to_owned())])
                .collect(),
            spans: Default::default(),
            trace: None,
        };
        Run::new(&workflow, &walk).walk().await
    }

    /// Walks a workflow to its end.
    pub(crate) async fn run(&self, text: &str, inputs: &[(&str, &str)]) -> RunEnd {
        let journal = self.journal(text, inputs, None);
        self.walk(&journal).await.expect("it comes to an end")
    }

    /// The keys of the states that were begun, in order.
    pub(crate) fn begun(&self) -> Vec<String> {
        let events = self.events.lock().expect("no thread panicked");
        let key = |event: &Event| match event {
            Event::StepStarted { key, attempt, .. } => Some(format!("{key}.{attempt}")),
            _ => None,
        };
        events.iter().filter_map(key).collect()
    }
}

/// How many hooks a plan has, and a line for each of its states.
pub(crate) fn planned(workflow: &Workflow, file: &Path) -> (usize, Vec<String>) {
    let inputs = json!({"x": "given"})
        .as_object()
        .cloned()
        .unwrap_or_default();
    let (hooks, states) = plan(workflow, inputs, file, Path::new("/"), &[]);
    let line = |state: &callgate_workflow::PlannedState| {
        format!(
            "{} {} {} {:?}",
            state.name, state.kind, state.what, state.next
        )
    };
    (hooks.len(), states.iter().map(line).collect())
}
