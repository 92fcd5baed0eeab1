//! What a run would do: every state with its values filled in as far as they are known. Nothing is started or written.

use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    Kind, State, Target, Workflow,
    model::{EACH, Hook, Inputs, Items, Limit, LoopOver, Prompt, Provider, Script},
    run::scope::{Around, RunValues, Scope},
};

/// A state of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedState {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The command, prompt, operation or workflow. Values that only a run has are left as they are written.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u64>,
    /// How often the state is tried.
    pub attempts: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<PlannedHook>,
    /// What follows: the condition or outcome, and the state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<(String, String)>,
}

/// An action of a hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedHook {
    /// The hook, such as `pre`.
    pub hook: &'static str,
    pub what: String,
}

/// The states of a workflow in the order of the file, and the hooks around it.
pub fn plan(
    workflow: &Workflow,
    inputs: Map<String, Value>,
    file: &Path,
    workdir: &Path,
    env: &[(String, String)],
) -> (Vec<PlannedHook>, Vec<PlannedState>) {
    let around = Around {
        run: "dry-run",
        file,
        workdir,
        env,
    };
    let values = RunValues::new(workflow, inputs, around);
    let scope = values.seen(None);
    let states = workflow.states.iter();
    let states = states.filter(|state| !state.name.ends_with(EACH));
    let states = states
        .map(|state| planned(workflow, state, &scope))
        .collect();
    let hooks = &workflow.hooks;
    let hooks = [
        ("workflow_start", &hooks.start),
        ("workflow_end", &hooks.end),
        ("workflow_error", &hooks.error),
        ("workflow_cancel", &hooks.cancel),
    ];
    (shown(&hooks, &scope), states)
}

fn shown(hooks: &[(&'static str, &Vec<Hook>)], scope: &Scope<'_>) -> Vec<PlannedHook> {
    let one = |name: &'static str, hook: &Hook| PlannedHook {
        hook: name,
        what: match hook {
            Hook::Log(template) => format!("log: {}", template.preview(scope)),
            Hook::Command(template) => template.preview(scope),
        },
    };
    let all = hooks.iter();
    all.flat_map(|(name, hooks)| hooks.iter().map(|hook| one(name, hook)))
        .collect()
}

fn planned(workflow: &Workflow, state: &State, scope: &Scope<'_>) -> PlannedState {
    // The state inside of a `loop` has what is run.
    let inner = workflow.state(&format!("{}{EACH}", state.name));
    let own = inner.unwrap_or(state);
    let (kind, mut what) = described(&own.kind, scope);
    if inner.is_some() {
        let (_, around) = described(&state.kind, scope);
        what = format!("{around}: {what}");
    }
    PlannedState {
        name: state.name.clone(),
        kind,
        what,
        when: state.when.as_ref().map(|when| when.text().to_owned()),
        dir: own.dir.as_ref().map(|dir| dir.preview(scope)),
        timeout_s: own.timeout.map(|timeout| timeout.as_secs()),
        attempts: own.retry.max_attempts,
        hooks: shown(&[("pre", &own.hooks.pre), ("post", &own.hooks.post)], scope),
        next: next(state, scope),
    }
}

fn next(state: &State, scope: &Scope<'_>) -> Vec<(String, String)> {
    let mut next = Vec::new();
    for transition in &state.transitions {
        let when = transition.when.as_ref();
        let when = when.map_or("otherwise", |when| when.text());
        next.push((when.to_owned(), transition.goto.clone()));
    }
    for (key, target) in [
        ("success", &state.on_success),
        ("failure", &state.on_failure),
    ] {
        match target {
            Some(Target::State(name)) => next.push((key.to_owned(), name.clone())),
            Some(Target::End(ending)) => {
                let message = ending.message.as_ref();
                let message = message.map(|message| message.preview(scope));
                let end = format!(
                    "{}: {}",
                    ending.status.as_str(),
                    message.unwrap_or_default()
                );
                next.push((key.to_owned(), end));
            }
            None => {}
        }
    }
    next
}

fn described(kind: &Kind, scope: &Scope<'_>) -> (&'static str, String) {
    match kind {
        Kind::Command(command) => match &command.script {
            Script::Text(text) => ("command", text.preview(scope)),
            Script::File(path) => ("command", format!("script {}", path.preview(scope))),
        },
        Kind::Agent(agent) => {
            let provider = match &agent.provider {
                Provider::Known(kind) => kind.to_string(),
                Provider::Foreign(name) => name.clone(),
                Provider::Template(template) => template.preview(scope),
            };
            let prompt = match &agent.prompt {
                Prompt::Text(text) => text.preview(scope),
                Prompt::File(path) => format!("prompt {}", path.preview(scope)),
            };
            ("agent", format!("{provider}: {prompt}"))
        }
        Kind::Terminal(ending) => {
            let message = ending.message.as_ref();
            let message = message.map(|message| message.preview(scope));
            let what = format!("{} {}", ending.status.as_str(), message.unwrap_or_default());
            ("terminal", what.trim_end().to_owned())
        }
        Kind::Parallel(parallel) => ("parallel", parallel.branches.join(", ")),
        Kind::Loop(inner) => {
            let over = match &inner.over {
                LoopOver::While(condition) => format!("while {}", condition.text()),
                LoopOver::Items(Items::Template(items)) => {
                    format!("for each of {}", items.preview(scope))
                }
                LoopOver::Items(Items::List(items)) => format!("for each of {} items", items.len()),
            };
            let most = match &inner.max_iterations {
                Limit::Fixed(most) => most.to_string(),
                Limit::Computed(sum) => sum
                    .value(scope)
                    .map_or_else(|error| error.to_string(), |most| most.to_string()),
                Limit::Template(template) => template.preview(scope),
            };
            let body = inner.body.join(", ");
            let body = body.replace(EACH, "");
            ("loop", format!("{over}, at most {most}: {body}"))
        }
        Kind::Operation(operation) => {
            let name = format!("{}.{}", operation.plugin, operation.operation);
            (
                "operation",
                format!("{name} {}", filled(&operation.inputs, scope)),
            )
        }
        Kind::Call(call) => {
            let inputs = filled(&call.inputs, scope);
            ("call_workflow", format!("{} {inputs}", call.workflow))
        }
    }
}

fn filled(inputs: &Inputs, scope: &Scope<'_>) -> Value {
    match inputs {
        Inputs::Value(value) => value.clone(),
        Inputs::Text(template) => template.preview(scope).into(),
        Inputs::List(items) => items.iter().map(|item| filled(item, scope)).collect(),
        Inputs::Map(members) => members
            .iter()
            .map(|(key, member)| (key.clone(), filled(member, scope)))
            .collect(),
    }
}
