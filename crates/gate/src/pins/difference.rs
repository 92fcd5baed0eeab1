//! The differences between two definitions of one tool, for people.

use std::collections::BTreeMap;

use super::Definition;
use crate::{
    Operation,
    visible::{Layout, visible},
};

/// One difference between the accepted and the current definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Which part: `description`, `parameter notes`, `annotation destructiveHint`.
    pub part: String,
    /// The accepted value; `None` if there was none.
    pub was: Option<String>,
    /// The current value; `None` if there is none.
    pub is: Option<String>,
    /// Why this difference deserves attention.
    pub warning: Option<&'static str>,
}

/// Annotations that promise harmlessness when `true`, and those that declare harm.
const PROMISES: [&str; 2] = ["readOnlyHint", "idempotentHint"];
const ADMISSIONS: [&str; 2] = ["destructiveHint", "openWorldHint"];

/// Everything that differs, most important first.
pub fn differences(was: &Definition, is: &Definition) -> Vec<Difference> {
    let mut all = Vec::new();
    if was.class != is.class {
        // Declaring more harm only makes rules stricter, so it needs no warning.
        let lower = is.class < was.class;
        all.push(Difference {
            warning: lower.then_some("it now declares less harm than when it was accepted"),
            ..text("class", Some(shown(was.class)), Some(shown(is.class)))
        });
    }
    // Class and annotations come first: they change how rules treat the tool.
    compare(&mut all, "annotation", &was.annotations, &is.annotations);
    compare(&mut all, "parameter", &was.parameters, &is.parameters);
    for (part, one, other) in [
        ("title", &was.title, &is.title),
        ("description", &was.description, &is.description),
    ] {
        if one != other {
            all.push(text(part, one.clone(), other.clone()));
        }
    }
    let icons = |definition: &Definition| {
        (!definition.icons.is_empty()).then(|| definition.icons.join(", "))
    };
    if was.icons != is.icons {
        all.push(text("icons", icons(was), icons(is)));
    }
    // Parameters show most changes of an input schema; only changes outside of them need its digest.
    let is_told = all.iter().any(|one| one.part.starts_with("parameter "));
    if was.input != is.input && !is_told {
        all.push(text("input schema", was.input.clone(), is.input.clone()));
    }
    if was.output != is.output {
        all.push(text("output schema", was.output.clone(), is.output.clone()));
    }
    compare(&mut all, "member", &was.more, &is.more);
    if all.is_empty() && was.digest != is.digest {
        all.push(text(
            "a part that is not summarised",
            Some(was.digest.short()),
            Some(is.digest.short()),
        ));
    }
    all
}

impl Difference {
    /// The lines for display: `- was`, `+ is`, with invisible characters escaped.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![match self.warning {
            Some(warning) => format!("{} ({warning})", self.part),
            None => self.part.clone(),
        }];
        for (sign, side) in [('-', &self.was), ('+', &self.is)] {
            let text = side.as_deref().map(|text| visible(text, Layout::Lines));
            let text = text.unwrap_or_default();
            lines.extend(text.lines().map(|line| format!("  {sign} {line}")));
        }
        lines
    }
}

fn compare(
    all: &mut Vec<Difference>,
    what: &str,
    was: &BTreeMap<String, String>,
    is: &BTreeMap<String, String>,
) {
    let names: std::collections::BTreeSet<&String> = was.keys().chain(is.keys()).collect();
    for name in names {
        let (one, other) = (was.get(name), is.get(name));
        if one == other {
            continue;
        }
        let part = format!("{what} {}", visible(name, Layout::OneLine));
        all.push(Difference {
            warning: warning(what, name, one, other),
            ..text(&part, one.cloned(), other.cloned())
        });
    }
}

fn warning(
    what: &str,
    name: &str,
    was: Option<&String>,
    is: Option<&String>,
) -> Option<&'static str> {
    let says = |side: Option<&String>, word: &str| side.is_some_and(|text| text == word);
    if what == "annotation" {
        let weaker = (ADMISSIONS.contains(&name) && says(was, "true") && !says(is, "true"))
            || (PROMISES.contains(&name) && !says(was, "true") && says(is, "true"));
        return weaker.then_some("weaker than what was accepted");
    }
    let is_required = |side: &String| side.split([':', ',']).any(|word| word.trim() == "required");
    // A new required parameter is the usual way to make a model hand over data: `notes: the conversation so far`.
    let new_and_required = was.is_none() && is.is_some_and(is_required);
    new_and_required.then_some("new, and required from the model")
}

fn text(part: &str, was: Option<String>, is: Option<String>) -> Difference {
    Difference {
        part: part.to_owned(),
        was,
        is,
        warning: None,
    }
}

fn shown(class: Operation) -> String {
    class.as_str().to_owned()
}
