//! Runs another workflow as a state. Its visits are in the same journal, below the visit of the state.

use std::fs;

use serde_json::{Map, Value};

use super::{Run, RunEnd, RunError, RunFrame, RunValues, scope::Around};
use crate::{
    Call, Failure, InputKind, Outcome, State, Status, Workflow, beside::Wanted,
    given::given_values, read_with, template::shown,
};

/// How deep workflows can call workflows.
const MAX_DEPTH: usize = 10;

impl Run<'_> {
    pub(super) async fn call(
        &self,
        frame: &RunFrame,
        key: &str,
        state: &State,
        call: &Call,
    ) -> Result<Outcome, RunError> {
        let name = &call.workflow;
        let told = |why: String| Ok(Outcome::failure(format!("workflow `{name}`: {why}")));
        let mut sources = self.walk.journal.sources();
        let source = match sources.find(Wanted::Workflow, name, &self.file) {
            Ok(source) => source,
            Err(why) => return Ok(Outcome::failure(why)),
        };
        let file = fs::canonicalize(&source.file).unwrap_or(source.file);
        if self.callers.contains(&file) {
            return told("it calls itself".to_owned());
        }
        if self.callers.len() > MAX_DEPTH {
            return told(format!("more than {MAX_DEPTH} workflows call each other"));
        }
        let reading = match read_with(&source.text, &file, &sources) {
            Ok(reading) => reading,
            Err(error) => return told(error.to_string()),
        };
        let first = reading.findings.iter().find(|finding| finding.is_error());
        let first = first.map(|finding| format!("{}: {}", finding.path, finding.message));
        // A resumed run calls the workflow as it is now.
        self.walk.journal.keep_sources(reading.sources())?;
        let Some(workflow) = reading.workflow() else {
            return told(first.unwrap_or_else(|| "it is a template".to_owned()));
        };
        let inputs = match self.inputs_of(frame, call, &workflow) {
            Ok(inputs) => inputs,
            Err(why) => return told(why),
        };
        let mut callers = self.callers.clone();
        callers.push(file.clone());
        let around = Around::of(self.walk.journal, &file, &self.walk.env);
        let child = Run {
            workflow: &workflow,
            walk: self.walk,
            values: RunValues::new(&workflow, inputs, around),
            file: file.clone(),
            callers,
        };
        let stop = frame.stop.child_token();
        let inside = RunFrame {
            prefix: format!("{key}/"),
            around: None,
            stop: stop.clone(),
            ..frame.clone()
        };
        let work = Box::pin(child.spanned(&inside, None));
        let (ended, timed_out) = self.within(state.timeout, &stop, work).await;
        match (ended, timed_out) {
            (_, Some(why)) => told(why),
            (Err(error), None) => Err(error),
            (Ok(ended), None) => Ok(child.outcome(call, ended)),
        }
    }

    fn inputs_of(
        &self,
        frame: &RunFrame,
        call: &Call,
        workflow: &Workflow,
    ) -> Result<Map<String, Value>, String> {
        let filled = self.filled(frame, &call.inputs);
        let filled = filled.map_err(|failure: Failure| failure.to_string())?;
        let Value::Object(filled) = filled else {
            return Ok(Map::new());
        };
        let is_text = |name: &str| {
            let input = workflow.inputs.iter().find(|input| input.name == name);
            input.is_some_and(|input| input.kind == InputKind::String)
        };
        // A list or map that is passed on as text becomes JSON.
        let pairs: Vec<(String, Value)> = filled
            .into_iter()
            .map(|(name, value)| match value {
                value if is_text(&name) => {
                    let text = shown(&value);
                    (name, text.into())
                }
                value => (name, value),
            })
            .collect();
        given_values(workflow, &pairs).map_err(|error| error.to_string())
    }

    /// What the calling state sees of this run.
    fn outcome(&self, call: &Call, ended: RunEnd) -> Outcome {
        if ended.status == Status::Failure {
            let why = match ended.message.as_str() {
                "" => "it failed",
                message => message,
            };
            return Outcome {
                output: ended.output,
                ..Outcome::failure(format!("workflow `{}`: {why}", call.workflow))
            };
        }
        let mut outputs = Map::new();
        for (output, variable) in &call.outputs {
            let value = ended.outputs.get(output).cloned();
            let value = value.or_else(|| self.output_of_state(output));
            outputs.insert(variable.clone(), value.unwrap_or(Value::Null));
        }
        if call.outputs.is_empty() {
            outputs = ended.outputs;
        }
        let output = match outputs.values().collect::<Vec<_>>().as_slice() {
            [] => ended.output,
            [only] => shown(only),
            [_, ..] => Value::Object(outputs.clone()).to_string(),
        };
        Outcome {
            json: (!outputs.is_empty()).then_some(Value::Object(outputs)),
            ..Outcome::success(output)
        }
    }

    fn output_of_state(&self, state: &str) -> Option<Value> {
        let path = ["states", state, "Output"].map(str::to_owned);
        crate::template::Lookup::look_up(&self.values.seen(None), &path)
    }
}
