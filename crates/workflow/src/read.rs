//! Parses a workflow. One pass finds all problems, each with a code, a path and a position.

mod check;
mod field;
mod inputs;
mod kinds;
mod proxy;
mod state;

use std::{collections::BTreeMap, path::Path};

use crate::{
    Code, Finding, Workflow,
    tree::{Node, Tree},
};
use field::{Field, Findings};

const KEYS: [&str; 8] = [
    "name",
    "version",
    "description",
    "author",
    "tags",
    "license",
    "inputs",
    "states",
];
/// The key under `states` that names the first state.
const INITIAL: &str = "initial";

/// The text is not YAML, or not a map.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(String);

/// A parsed file: its findings, and the workflow as far as it could be parsed.
#[derive(Debug)]
pub struct Reading {
    /// All findings, in the order of the file.
    pub findings: Vec<Finding>,
    draft: Option<Workflow>,
}

impl Reading {
    /// The workflow, unless a finding keeps it from running.
    pub fn workflow(self) -> Option<Workflow> {
        let is_wrong = self.findings.iter().any(Finding::is_error);
        self.draft.filter(|_| !is_wrong)
    }

    /// The workflow as far as it could be parsed, for further checks. It must not be run.
    pub fn draft(&self) -> Option<&Workflow> {
        self.draft.as_ref()
    }
}

/// Parses a workflow. The stem of `file` is the name of a workflow without `name`.
pub fn read(text: &str, file: &Path) -> Result<Reading, Unreadable> {
    let root = Node::parse(text).map_err(|error| Unreadable(error.to_string()))?;
    if !matches!(root.tree, Tree::Map(_)) {
        return Err(Unreadable(format!(
            "a workflow must be a map, found {}",
            root.what()
        )));
    }
    let findings = Findings::default();
    let draft = whole(Field::root(&root, &findings), file);
    let draft = draft.inspect(|workflow| check::workflow(workflow, &findings));
    let mut findings = findings.all();
    findings.sort_by(|a, b| (a.line, a.column, &a.path).cmp(&(b.line, b.column, &b.path)));
    Ok(Reading { findings, draft })
}

fn whole(root: Field<'_>, file: &Path) -> Option<Workflow> {
    root.only(&KEYS, Code::UnknownKey);
    let stem = file.file_stem().map(|stem| stem.to_string_lossy());
    let name = root.get("name").and_then(|name| name.text());
    let description = root.get("description").and_then(|text| text.text());
    let inputs = inputs::read(&root);
    let Some(states) = root.get("states") else {
        root.finding(Code::Missing, "`states` is missing".to_owned());
        return None;
    };
    let members = states.members()?;
    let mut read = Vec::new();
    for (key, field) in &members {
        if key == INITIAL {
            continue;
        }
        if let Some(more) = state::read(key, field) {
            read.extend(more);
        }
    }
    let mut by_name = BTreeMap::new();
    for (at, state) in read.iter().enumerate() {
        if by_name.insert(state.name.clone(), at).is_some() {
            let what = format!("duplicate state `{}`", state.name);
            states
                .at(&state.name, state.place)
                .finding(Code::WrongType, what);
        }
    }
    let named = states.get(INITIAL);
    let initial = match &named {
        Some(field) => field.text(),
        None => read.first().map(|state| state.name.clone()),
    };
    let Some(initial) = initial else {
        if named.is_none() {
            states.finding(
                Code::Missing,
                "a workflow needs at least one state".to_owned(),
            );
        }
        return None;
    };
    if let Some(field) = named.filter(|_| !by_name.contains_key(&initial)) {
        field.finding(Code::UnknownState, format!("unknown state `{initial}`"));
    }
    Some(Workflow {
        name: name
            .or_else(|| stem.map(|stem| stem.into_owned()))
            .unwrap_or_default(),
        description: description.unwrap_or_default(),
        inputs,
        initial,
        states: read,
        by_name,
    })
}
