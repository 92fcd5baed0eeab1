//! Files beside a workflow: templates that its states use, and workflows that it calls.
//!
//! They are only looked for relative to the workflow, which the user named. So a workflow reaches no more files than
//! its author could have copied into it.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use callgate_gate::Place;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Code, Finding,
    tree::{Member, Node, Tree},
};

const USE: &str = "use_template";
const PARAMETERS: &str = "parameters";
/// A larger file is refused.
const MAX_BYTES: u64 = 1 << 20;
/// How deep templates can use templates.
const MAX_DEPTH: usize = 10;
const ENDS: [&str; 2] = ["yaml", "yml"];

/// Files that belong to a workflow, as they were when they were first read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sources(BTreeMap<String, Source>);

/// A file, as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Source {
    pub(crate) file: PathBuf,
    pub(crate) text: String,
}

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    Template,
    Workflow,
}

impl Sources {
    /// The file of that name, from what is known or else from beside `file`.
    pub(crate) fn find(
        &mut self,
        wanted: Wanted,
        name: &str,
        file: &Path,
    ) -> Result<Source, String> {
        let key = format!("{} {name} {}", wanted.word(), file.display());
        if let Some(known) = self.0.get(&key) {
            return Ok(known.clone());
        }
        let found = look_for(wanted, name, file)?;
        self.0.insert(key, found.clone());
        Ok(found)
    }
}

impl Wanted {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Template => "template",
            Self::Workflow => "workflow",
        }
    }

    /// Where a file of that name can be, relative to the folder of the workflow.
    fn places(self, name: &str) -> Vec<String> {
        match (self, name.split_once('/')) {
            (Self::Template, _) => {
                vec![format!("templates/{name}"), format!("../templates/{name}")]
            }
            // A workflow of a pack finds those of its pack first, then the project's.
            (Self::Workflow, None) => vec![name.to_owned(), format!("../../../workflows/{name}")],
            (Self::Workflow, Some((pack, workflow))) => vec![
                name.to_owned(),
                format!("../workflow-packs/{pack}/workflows/{workflow}"),
                format!("../../../workflow-packs/{pack}/workflows/{workflow}"),
            ],
        }
    }
}

fn look_for(wanted: Wanted, name: &str, file: &Path) -> Result<Source, String> {
    let is_safe = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    if name.is_empty()
        || !name.chars().all(is_safe)
        || name.split('/').any(|part| part.starts_with('.'))
    {
        return Err(format!("`{name}` is not the name of a {}", wanted.word()));
    }
    let folder = file.parent().unwrap_or(Path::new(""));
    for place in wanted.places(name) {
        for end in ENDS {
            let path = folder.join(format!("{place}.{end}"));
            match limited(&path) {
                Ok(text) => return Ok(Source { file: path, text }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(format!("`{}`: {error}", path.display())),
            }
        }
    }
    let places: Vec<String> = wanted
        .places(name)
        .iter()
        .map(|place| format!("`{}`", folder.join(format!("{place}.yaml")).display()))
        .collect();
    Err(format!(
        "unknown {} `{name}`: there is no {}",
        wanted.word(),
        places.join(" or ")
    ))
}

/// The text of a file of limited size.
pub(crate) fn limited(path: &Path) -> io::Result<String> {
    let about = fs::metadata(path)?;
    if !about.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        ));
    }
    if about.len() > MAX_BYTES {
        let most = format!("larger than {} KiB", MAX_BYTES >> 10);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, most));
    }
    fs::read_to_string(path)
}

/// Replaces every state that uses a template by that template's state, with its parameters filled in.
pub(crate) fn expand(
    root: &mut Node,
    file: &Path,
    sources: &mut Sources,
    found: &mut dyn FnMut(Finding),
) {
    let Tree::Map(members) = &mut root.tree else {
        return;
    };
    let states = members.iter_mut().find(|member| member.key == "states");
    let Some(Tree::Map(states)) = states.map(|states| &mut states.node.tree) else {
        return;
    };
    for state in states {
        let path = format!("states.{}.{USE}", state.key);
        let Some(used) = state.node.get(USE) else {
            continue;
        };
        let place = used.place;
        match expanded(&state.node, file, sources, 0) {
            Ok(node) => state.node = node,
            Err((code, why)) => found(Finding::new(code, path, place, why)),
        }
    }
}

type Wrong = (Code, String);

fn expanded(state: &Node, file: &Path, sources: &mut Sources, depth: usize) -> Result<Node, Wrong> {
    let Some(used) = state.get(USE) else {
        return Ok(state.clone());
    };
    let malformed = |why: String| (Code::Malformed, why);
    let Tree::Leaf(Value::String(name)) = &used.tree else {
        return Err(malformed(format!("expected a name, found {}", used.what())));
    };
    if depth == MAX_DEPTH {
        return Err(malformed(format!(
            "template `{name}` uses itself, or is nested too deeply"
        )));
    }
    let source = sources.find(Wanted::Template, name, file);
    let source = source.map_err(|why| (Code::MissingFile, why))?;
    let template = Node::parse(&source.text)
        .map_err(|error| malformed(format!("template `{name}`: {error}")))?;
    let given = state
        .get(PARAMETERS)
        .map(Node::to_value)
        .unwrap_or_default();
    let given = values(&template, name, &given).map_err(malformed)?;
    let mut primary = primary(&template, name)
        .cloned()
        .ok_or_else(|| malformed(format!("template `{name}` has no states")))?;
    fill(&mut primary, &given, used.place);
    let mut primary = expanded(&primary, &source.file, sources, depth + 1)?;
    overlay(&mut primary, state);
    primary.place = state.place;
    Ok(primary)
}

/// The state of a template: the one with the template's name, else the initial or first one.
fn primary<'a>(template: &'a Node, name: &str) -> Option<&'a Node> {
    let states = template.get("states")?;
    let Tree::Map(members) = &states.tree else {
        return None;
    };
    let initial = states
        .get("initial")
        .and_then(|initial| match &initial.tree {
            Tree::Leaf(Value::String(name)) => states.get(name),
            Tree::Leaf(_) | Tree::List(_) | Tree::Map(_) => None,
        });
    let mut others = members.iter().filter(|member| member.key != "initial");
    states
        .get(name)
        .or(initial)
        .or_else(|| others.next().map(|member| &member.node))
}

/// The values of a template's parameters: as given, or their defaults.
fn values(template: &Node, name: &str, given: &Value) -> Result<Vec<(String, Value)>, String> {
    let declared = template
        .get(PARAMETERS)
        .map(Node::to_value)
        .unwrap_or_default();
    let mut values = Vec::new();
    for parameter in declared.as_array().into_iter().flatten() {
        let Some(key) = parameter["name"].as_str() else {
            continue;
        };
        let value = match (given.get(key), parameter.get("default")) {
            (Some(value), _) | (None, Some(value)) => value.clone(),
            (None, None) if parameter["required"] == true => {
                return Err(format!("template `{name}` needs the parameter `{key}`"));
            }
            (None, None) => Value::String(String::new()),
        };
        values.push((key.to_owned(), value));
    }
    for key in given.as_object().into_iter().flatten().map(|(key, _)| key) {
        if !values.iter().any(|(known, _)| known == key) {
            return Err(format!("template `{name}` has no parameter `{key}`"));
        }
    }
    Ok(values)
}

/// Replaces parameters in all texts. A text that is only a parameter gets its type, too.
fn fill(node: &mut Node, values: &[(String, Value)], place: Place) {
    node.place = place;
    match &mut node.tree {
        Tree::Leaf(value) => {
            if let Value::String(text) = value {
                *value = filled(text, values);
            }
        }
        Tree::List(nodes) => nodes.iter_mut().for_each(|node| fill(node, values, place)),
        Tree::Map(members) => {
            for member in members {
                member.place = place;
                fill(&mut member.node, values, place);
            }
        }
    }
}

fn filled(text: &str, values: &[(String, Value)]) -> Value {
    // A single pass: a value that looks like a parameter stays as it is.
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("{{") {
        let inside = &rest[start + 2..];
        let name = inside
            .find("}}")
            .map(|end| (&inside[..end], &inside[end + 2..]));
        let parameter = name.and_then(|(name, after)| {
            let name = name
                .trim()
                .trim_start_matches('.')
                .strip_prefix("parameters.")?;
            let (_, value) = values.iter().find(|(known, _)| known == name)?;
            Some((value, after))
        });
        let Some((value, after)) = parameter else {
            out.push_str(&rest[..start + 2]);
            rest = inside;
            continue;
        };
        if start == 0 && after.is_empty() && out.is_empty() {
            return value.clone();
        }
        out.push_str(&rest[..start]);
        out.push_str(&crate::template::shown(value));
        rest = after;
    }
    out.push_str(rest);
    Value::String(out)
}

/// The state's own keys replace the template's.
fn overlay(template: &mut Node, state: &Node) {
    let (Tree::Map(into), Tree::Map(own)) = (&mut template.tree, &state.tree) else {
        return;
    };
    into.retain(|member| member.key != PARAMETERS);
    for member in own {
        if member.key == USE || member.key == PARAMETERS {
            continue;
        }
        into.retain(|known: &Member| known.key != member.key);
        into.push(member.clone());
    }
}
