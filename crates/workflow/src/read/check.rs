//! Checks of the workflow as a whole: references to unknown states, unreachable states, unknown paths in templates and
//! conditions.

use std::collections::BTreeSet;

use super::field::Findings;
use crate::{
    Code, Finding, Kind, State, Target, Workflow,
    model::{Inputs, Item, Items, LoopOver, Prompt},
    outcome::MEMBERS,
};

pub(super) fn workflow(workflow: &Workflow, findings: &Findings) {
    for state in &workflow.states {
        for (path, name) in named(state) {
            if workflow.state(&name).is_none() {
                let what = format!("unknown state `{name}`");
                findings.push(at(state, &path, Code::UnknownState, what));
            }
        }
        for (path, used) in used(state) {
            if let Some(what) = why_unknown(workflow, &used) {
                let code = match path.as_str() {
                    "while" | "break_when" => Code::BadExpression,
                    path if path.starts_with("transitions") => Code::BadExpression,
                    _ => Code::BadTemplate,
                };
                findings.push(at(state, &path, code, what));
            }
        }
    }
    for state in &workflow.states {
        if depends_on_itself(workflow, state) {
            let what = format!("`{}` depends on itself", state.name);
            findings.push(at(state, "depends_on", Code::WrongType, what));
        }
    }
    unreachable(workflow, findings);
}

/// Whether a state depends on itself through `depends_on`. Such branches would wait for each other for ever.
fn depends_on_itself(workflow: &Workflow, state: &State) -> bool {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut open: Vec<&str> = state.depends_on.iter().map(String::as_str).collect();
    while let Some(name) = open.pop() {
        if name == state.name {
            return true;
        }
        if seen.insert(name)
            && let Some(needed) = workflow.state(name)
        {
            open.extend(needed.depends_on.iter().map(String::as_str));
        }
    }
    false
}

fn at(state: &State, path: &str, code: Code, message: String) -> Finding {
    let path = format!("states.{}.{path}", state.name);
    Finding::new(code, path, state.place, message)
}

/// The names of all states that a state refers to, with their paths in the file.
fn named(state: &State) -> Vec<(String, String)> {
    let mut named = Vec::new();
    for (at, transition) in state.transitions.iter().enumerate() {
        named.push((format!("transitions[{at}].goto"), transition.goto.clone()));
    }
    for (key, target) in [
        ("on_success", &state.on_success),
        ("on_failure", &state.on_failure),
    ] {
        if let Some(Target::State(name)) = target {
            named.push((key.to_owned(), name.clone()));
        }
    }
    for (at, name) in state.depends_on.iter().enumerate() {
        named.push((format!("depends_on[{at}]"), name.clone()));
    }
    let (key, inner) = match &state.kind {
        Kind::Parallel(parallel) => ("branches", parallel.branches.as_slice()),
        Kind::Loop(inner) => ("body", inner.body.as_slice()),
        Kind::Command(_) | Kind::Agent(_) | Kind::Terminal(_) | Kind::Operation(_) => ("", &[][..]),
    };
    for (at, name) in inner.iter().enumerate() {
        named.push((format!("{key}[{at}]"), name.clone()));
    }
    named
}

type Used = Vec<(String, Vec<String>)>;

/// All value paths in a state's templates and conditions, with their paths in the file.
fn used(state: &State) -> Used {
    let mut used: Used = Vec::new();
    let mut note = |key: &str, paths: Vec<&[String]>| {
        used.extend(
            paths
                .into_iter()
                .map(|path| (key.to_owned(), path.to_vec())),
        );
    };
    if let Some(dir) = &state.dir {
        note("dir", dir.paths());
    }
    for (at, transition) in state.transitions.iter().enumerate() {
        if let Some(when) = &transition.when {
            note(&format!("transitions[{at}].when"), when.paths());
        }
    }
    match &state.kind {
        Kind::Command(command) => note("command", command.command.paths()),
        Kind::Agent(agent) => {
            match &agent.prompt {
                Prompt::Text(template) => note("prompt", template.paths()),
                Prompt::File(template) => note("prompt_file", template.paths()),
            }
            for (key, template) in &agent.texts {
                note(&format!("options.{key}"), template.paths());
            }
        }
        Kind::Terminal(ending) => {
            if let Some(message) = &ending.message {
                note("message", message.paths());
            }
        }
        Kind::Loop(inner) => {
            match &inner.over {
                LoopOver::While(condition) => note("while", condition.paths()),
                LoopOver::Items(Items::Template(template)) => note("items", template.paths()),
                LoopOver::Items(Items::List(items)) => {
                    for (at, item) in items.iter().enumerate() {
                        if let Item::Template(template) = item {
                            note(&format!("items[{at}]"), template.paths());
                        }
                    }
                }
            }
            if let Some(condition) = &inner.break_when {
                note("break_when", condition.paths());
            }
        }
        Kind::Operation(operation) => collect("inputs", &operation.inputs, &mut note),
        Kind::Parallel(_) => {}
    }
    used
}

fn collect(path: &str, inputs: &Inputs, note: &mut impl FnMut(&str, Vec<&[String]>)) {
    match inputs {
        Inputs::Value(_) => {}
        Inputs::Text(template) => note(path, template.paths()),
        Inputs::List(items) => {
            for (at, item) in items.iter().enumerate() {
                collect(&format!("{path}[{at}]"), item, note);
            }
        }
        Inputs::Map(members) => {
            for (key, member) in members {
                collect(&format!("{path}.{key}"), member, note);
            }
        }
    }
}

/// Why a path can never have a value; `None` if it can.
fn why_unknown(workflow: &Workflow, path: &[String]) -> Option<String> {
    let second = path.get(1).map(String::as_str);
    match (path[0].as_str(), second) {
        ("inputs", Some(name)) if workflow.inputs.iter().any(|input| input.name == name) => None,
        ("inputs", Some(name)) => Some(format!("unknown input `{name}`")),
        ("states", Some(name)) => {
            if workflow.state(name).is_none() {
                return Some(format!("unknown state `{name}`"));
            }
            let member = path.get(2).map(String::as_str);
            match member {
                Some(member) if !MEMBERS.contains(&member) => Some(format!(
                    "a state has no member `{member}`; members: {}",
                    MEMBERS.join(", ")
                )),
                Some(_) | None => None,
            }
        }
        ("workflow", Some("id" | "name")) => None,
        ("env" | "loop", Some(_)) => None,
        _ => Some(format!(
            "unknown path `.{}`; a path begins with inputs, states, env, workflow.id, workflow.name or loop",
            path.join(".")
        )),
    }
}

/// Warns of unreachable states, which are probably mistakes.
fn unreachable(workflow: &Workflow, findings: &Findings) {
    if workflow.state(&workflow.initial).is_none() {
        return;
    }
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut open = vec![workflow.initial.as_str()];
    while let Some(name) = open.pop() {
        let Some(state) = workflow.state(name) else {
            continue;
        };
        if seen.insert(&state.name) {
            let names = named(state).into_iter().map(|(_, name)| name);
            let states = names.filter_map(|name| workflow.state(&name));
            open.extend(states.map(|state| state.name.as_str()));
        }
    }
    for state in &workflow.states {
        if !seen.contains(state.name.as_str()) {
            let path = format!("states.{}", state.name);
            let what = format!("no state leads to `{}`", state.name);
            findings.push(Finding::new(Code::Unreachable, path, state.place, what));
        }
    }
}
