//! Parses a workflow. One pass finds all problems, each with a code, a path and a position.

mod budget;
mod check;
mod field;
mod hooks;
mod inputs;
mod kinds;
mod loops;
mod place;
mod proxy;
mod schema;
mod state;
mod used;

use std::{collections::BTreeMap, path::Path};

use crate::{
    Code, Finding, Output, Sources, State, Workflow, beside,
    tree::{Node, Tree},
};
use field::{Field, Findings};
pub(crate) use loops::MAX_ITERATIONS;
pub use schema::schema;

const KEYS: [&str; 13] = [
    "name",
    "version",
    "description",
    "author",
    "tags",
    "license",
    "inputs",
    "env",
    "hooks",
    "outputs",
    "plugins",
    "budget",
    "states",
];
/// Keys of AWF that have no meaning here.
const FOREIGN_KEYS: [&str; 3] = ["output", "config", "memory"];
/// The key that makes a file a template: states that a workflow uses with `use_template`.
const PARAMETERS: &str = "parameters";
/// The key under `states` that names the first state.
const INITIAL: &str = "initial";

/// Whether a key has a meaning somewhere in a workflow. Elsewhere it is misplaced rather than mistyped.
fn is_key_elsewhere(key: &str) -> bool {
    let lists: [&[&str]; 9] = [
        &KEYS,
        &FOREIGN_KEYS,
        &state::COMMON,
        &state::RETRY,
        &kinds::AGENT,
        &kinds::TEXTS,
        &kinds::OTHERS,
        &inputs::KEYS,
        &inputs::RULES,
    ];
    let types = state::TYPES.map(|(_, kind)| kinds::own_keys(kind));
    lists.iter().chain(&types).any(|list| list.contains(&key))
}

/// The text is not YAML, or not a map.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.message)]
pub struct Unreadable(Finding);

impl Unreadable {
    /// The reason, with its position.
    pub fn finding(&self) -> &Finding {
        &self.0
    }
}

/// A parsed file: its findings, and the workflow as far as it could be parsed.
#[derive(Debug)]
pub struct Reading {
    /// All findings, in the order of the file.
    pub findings: Vec<Finding>,
    draft: Option<Workflow>,
    is_template: bool,
    sources: Sources,
}

impl Reading {
    /// The workflow, unless a finding keeps it from running, or it is a template.
    pub fn workflow(self) -> Option<Workflow> {
        let is_wrong = self.findings.iter().any(Finding::is_error);
        self.draft.filter(|_| !is_wrong && !self.is_template)
    }

    /// Whether the file is a template, which other workflows use.
    pub fn is_template(&self) -> bool {
        self.is_template
    }

    /// The templates that were read for the workflow.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// The workflow as far as it could be parsed, for further checks. It must not be run.
    pub fn draft(&self) -> Option<&Workflow> {
        self.draft.as_ref()
    }
}

/// Parses a workflow. The stem of `file` is the name of a workflow without `name`; templates are looked for beside it.
pub fn read(text: &str, file: &Path) -> Result<Reading, Unreadable> {
    read_with(text, file, &Sources::default())
}

/// As [`read`], but takes templates from `known` first: a resumed run uses them as they were.
pub fn read_with(text: &str, file: &Path, known: &Sources) -> Result<Reading, Unreadable> {
    let mut root = parsed(text)?;
    let findings = Findings::default();
    let mut sources = known.clone();
    beside::expand(&mut root, file, &mut sources, &mut |finding| {
        findings.push(finding)
    });
    let is_template = root.get(PARAMETERS).is_some();
    let draft = whole(Field::root(&root, &findings), file, is_template);
    let draft = draft.inspect(|workflow| {
        let places = place::Places { root: &root, text };
        check::workflow(workflow, &places, &findings);
    });
    let mut findings = findings.all();
    findings.sort_by(|a, b| (a.line, a.column, &a.path).cmp(&(b.line, b.column, &b.path)));
    findings.dedup();
    Ok(Reading {
        findings,
        draft,
        is_template,
        sources,
    })
}

fn parsed(text: &str) -> Result<Node, Unreadable> {
    let unreadable = |place, message| Unreadable(Finding::new(Code::Malformed, "", place, message));
    let root = Node::parse(text)
        .map_err(|error| unreadable(place::of_error(&error), error.to_string()))?;
    if matches!(root.tree, Tree::Map(_)) {
        return Ok(root);
    }
    let message = format!("a workflow must be a map, found {}", root.what());
    Err(unreadable(root.place, message))
}

fn whole(root: Field<'_>, file: &Path, is_template: bool) -> Option<Workflow> {
    let mut known = KEYS.to_vec();
    known.extend(is_template.then_some(PARAMETERS));
    root.only(&known, Code::UnknownKey);
    // A version marks the full form, in which nothing is left to defaults.
    let is_full = root.get("version").is_some();
    let stem = file.file_stem().map(|stem| stem.to_string_lossy());
    let name = if is_full || is_template {
        root.must("name").and_then(|name| name.text())
    } else {
        root.get("name").and_then(|name| name.text())
    };
    let description = root.get("description").and_then(|text| text.text());
    let inputs = inputs::read(&root);
    let Some(states) = root.get("states") else {
        root.finding(Code::Malformed, "`states` is missing".to_owned());
        return None;
    };
    if is_full && !is_template {
        typed(&states);
    }
    let (read, initial) = states_of(&states, is_full && !is_template)?;
    let mut by_name = BTreeMap::new();
    for (at, state) in read.iter().enumerate() {
        if by_name.insert(state.name.clone(), at).is_some() {
            let what = format!("duplicate state `{}`", state.name);
            states
                .at(&state.name, state.place)
                .finding(Code::Malformed, what);
        }
    }
    if let Some(field) = states
        .get(INITIAL)
        .filter(|_| !by_name.contains_key(&initial))
    {
        field.finding(Code::UnknownState, format!("unknown state `{initial}`"));
    }
    let workflow = Workflow {
        name: name
            .or_else(|| stem.map(|stem| stem.into_owned()))
            .unwrap_or_default(),
        description: description.unwrap_or_default(),
        inputs,
        env: root.get("env").map(|env| env.texts()).unwrap_or_default(),
        hooks: hooks::of_workflow(&root),
        budget: budget::read(&root),
        outputs: outputs(&root),
        parameters: parameters(&root),
        initial,
        states: read,
        by_name,
    };
    if is_full && !is_template {
        check::full_form(&workflow, &states);
    }
    Some(workflow)
}

/// Finds states of the full form that leave their type to their other keys.
fn typed(states: &Field<'_>) {
    for (key, field) in states.members().unwrap_or_default() {
        let is_state = key != INITIAL && matches!(field.node.tree, Tree::Map(_));
        if is_state && field.either(&["type", "agent"]).is_none() {
            let what = format!("`{key}` needs a `type`: the workflow has a version");
            field.finding(Code::Malformed, what);
        }
    }
}

/// All states, and the name of the first one to run.
fn states_of(states: &Field<'_>, is_full: bool) -> Option<(Vec<State>, String)> {
    let mut read: Vec<State> = Vec::new();
    for (key, field) in &states.members()? {
        if key != INITIAL {
            read.extend(state::read(key, field).unwrap_or_default());
        }
    }
    let named = if is_full {
        Some(states.must(INITIAL)?)
    } else {
        states.get(INITIAL)
    };
    let initial = match &named {
        Some(field) => field.text(),
        None => read.first().map(|state| state.name.clone()),
    };
    let has_states = matches!(&states.node.tree, Tree::Map(members) if !members.is_empty());
    if initial.is_none() && named.is_none() && !has_states {
        let what = "a workflow needs at least one state".to_owned();
        states.finding(Code::Malformed, what);
    }
    Some((read, initial?))
}

/// The names that a template's parameters have; empty in a workflow.
fn parameters(root: &Field<'_>) -> Vec<String> {
    let Some(field) = root.get(PARAMETERS) else {
        return Vec::new();
    };
    let mut names: Vec<String> = Vec::new();
    for item in &field.items().unwrap_or_default() {
        item.only(
            &["name", "required", "default", "description", "type"],
            Code::UnknownKey,
        );
        let Some(name) = item.must("name").and_then(|name| name.text()) else {
            continue;
        };
        if names.contains(&name) {
            item.finding(Code::Malformed, format!("duplicate parameter `{name}`"));
        }
        names.push(name);
    }
    names
}

fn outputs(root: &Field<'_>) -> Vec<Output> {
    let Some(field) = root.get("outputs") else {
        return Vec::new();
    };
    let one = |item: &Field<'_>| {
        item.only(&["name", "from", "description", "type"], Code::UnknownKey);
        let (name, from) = (item.must("name")?.text()?, item.must("from")?);
        let text = from.text()?;
        let plain = text.trim_matches(['{', '}', ' ', '.']);
        let path: Vec<String> = plain.split('.').map(str::to_owned).collect();
        if path.len() < 2 || path.iter().any(String::is_empty) {
            let what = format!("`{text}` is not a path such as `states.build.Output`");
            from.finding(Code::BadTemplate, what);
            return None;
        }
        Some(Output { name, from: path })
    };
    let items = field.items().unwrap_or_default();
    items.iter().filter_map(one).collect()
}
