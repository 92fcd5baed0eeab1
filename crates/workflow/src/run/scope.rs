//! The values that templates and conditions see.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use serde_json::{Map, Value, json};

use crate::{
    Journal, Outcome, Workflow,
    template::{Lookup, below},
};

/// The values of a run: inputs, environment and the outcomes so far.
#[derive(Debug)]
pub(super) struct RunValues {
    inputs: Value,
    workflow: Value,
    env: HashMap<String, String>,
    states: Mutex<Map<String, Value>>,
}

/// The values of a run, with `loop` inside of a loop.
#[derive(Debug)]
pub(super) struct Scope<'a> {
    values: &'a RunValues,
    around: Option<&'a Value>,
}

impl RunValues {
    pub(super) fn new(workflow: &Workflow, journal: &Journal, env: &[(String, String)]) -> Self {
        Self {
            inputs: Value::Object(journal.inputs.clone()),
            workflow: json!({"id": journal.run, "name": workflow.name}),
            env: env.iter().cloned().collect(),
            states: Mutex::default(),
        }
    }

    pub(super) fn remember(&self, state: &str, outcome: &Outcome) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.insert(state.to_owned(), outcome.seen());
    }

    /// Whether the last visit of a state succeeded.
    pub(super) fn worked(&self, state: &str) -> bool {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states
            .get(state)
            .is_some_and(|seen| seen["Status"] == "success")
    }

    pub(super) fn seen<'a>(&'a self, around: Option<&'a Value>) -> Scope<'a> {
        Scope {
            values: self,
            around,
        }
    }
}

impl Lookup for Scope<'_> {
    fn look_up(&self, path: &[String]) -> Option<Value> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "inputs" => below(&self.values.inputs, rest).cloned(),
            "workflow" => below(&self.values.workflow, rest).cloned(),
            "loop" => below(self.around?, rest).cloned(),
            "env" => match rest {
                [name] => self.values.env.get(name).map(|value| value.clone().into()),
                _ => None,
            },
            "states" => {
                let states = self.values.states.lock();
                let states = states.unwrap_or_else(PoisonError::into_inner);
                let (name, rest) = rest.split_first()?;
                below(states.get(name)?, rest).cloned()
            }
            _ => None,
        }
    }
}
