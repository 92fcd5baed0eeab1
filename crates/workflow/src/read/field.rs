//! A value in the file during parsing, with its path and the list that findings go to.

use std::{cell::RefCell, rc::Rc, time::Duration};

use callgate_gate::Place;
use serde_json::Value;

use crate::{
    Code, Finding,
    expression::Expression,
    span,
    template::Template,
    tree::{Node, Tree},
};

/// The Jaro-Winkler similarity from which a known key is suggested.
const ALIKE: f64 = 0.75;
/// The most changes of a letter between a mistyped key and the known one.
const TYPOS: usize = 2;

/// The findings so far, shared by all fields.
#[derive(Debug, Clone, Default)]
pub(super) struct Findings(Rc<RefCell<Vec<Finding>>>);

impl Findings {
    pub(super) fn push(&self, finding: Finding) {
        self.0.borrow_mut().push(finding);
    }

    pub(super) fn all(&self) -> Vec<Finding> {
        self.0.take()
    }
}

/// A value in the file.
#[derive(Debug, Clone)]
pub(super) struct Field<'a> {
    pub(super) node: &'a Node,
    pub(super) path: String,
    findings: Findings,
}

/// A path and position without a value, for findings.
#[derive(Debug)]
pub(super) struct FieldPlace {
    path: String,
    place: Place,
    findings: Findings,
}

impl FieldPlace {
    pub(super) fn finding(&self, code: Code, message: String) {
        let finding = Finding::new(code, self.path.clone(), self.place, message);
        self.findings.push(finding);
    }
}

impl<'a> Field<'a> {
    pub(super) fn root(node: &'a Node, findings: &Findings) -> Self {
        Self {
            node,
            path: String::new(),
            findings: findings.clone(),
        }
    }

    /// Adds a finding that does not keep the workflow from running.
    pub(super) fn warning(&self, code: Code, message: String) {
        let finding = Finding::new(code, self.path.clone(), self.node.place, message);
        self.findings.push(finding.warning());
    }

    /// Adds a finding about this value.
    pub(super) fn finding(&self, code: Code, message: String) {
        let finding = Finding::new(code, self.path.clone(), self.node.place, message);
        self.findings.push(finding);
    }

    fn wrong(&self, wanted: &str) {
        let message = format!("expected {wanted}, found {}", self.node.what());
        self.finding(Code::Malformed, message);
    }

    fn below(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        }
    }

    fn child(&self, path: String, node: &'a Node) -> Self {
        Self {
            node,
            path,
            findings: self.findings.clone(),
        }
    }

    /// The place of a key that may have no value.
    pub(super) fn at(&self, key: &str, place: Place) -> FieldPlace {
        FieldPlace {
            path: self.below(key),
            place,
            findings: self.findings.clone(),
        }
    }

    /// The value of a key; `None` if it is missing, null or an empty text.
    pub(super) fn get(&self, key: &str) -> Option<Self> {
        self.given(key).filter(|field| !field.is_empty_text())
    }

    /// The value of a key, which may be an empty text.
    pub(super) fn given(&self, key: &str) -> Option<Self> {
        let node = self.node.get(key).filter(|node| !node.is_null())?;
        Some(self.child(self.below(key), node))
    }

    /// Whether the value is a text with `part` in it.
    pub(super) fn has_text(&self, part: &str) -> bool {
        matches!(&self.node.tree, Tree::Leaf(Value::String(text)) if text.contains(part))
    }

    fn is_empty_text(&self) -> bool {
        matches!(&self.node.tree, Tree::Leaf(Value::String(text)) if text.is_empty())
    }

    /// The value of a required key. Adds a finding if it is missing.
    pub(super) fn must(&self, key: &str) -> Option<Self> {
        let found = self.get(key);
        if found.is_none() {
            self.finding(Code::Malformed, format!("`{key}` is missing"));
        }
        found
    }

    /// All members of a map. Adds a finding if the value is not a map.
    pub(super) fn members(&self) -> Option<Vec<(String, Self)>> {
        let Tree::Map(members) = &self.node.tree else {
            self.wrong("a map");
            return None;
        };
        let pair = |member: &'a crate::tree::Member| {
            let field = self.child(self.below(&member.key), &member.node);
            (member.key.clone(), field)
        };
        Some(members.iter().map(pair).collect())
    }

    /// Adds a finding for every key that is not in `known`. Outside of `mcp_proxy`, which decides about an agent's
    /// tools, a key that resembles no known one is only a warning: files for other runners have keys of their own.
    pub(super) fn only(&self, known: &[&str], code: Code) {
        let Tree::Map(members) = &self.node.tree else {
            return self.wrong("a map");
        };
        for member in members {
            if known.contains(&member.key.as_str()) {
                continue;
            }
            let alike = |known: &&&str| strsim::jaro_winkler(&member.key, known);
            let nearest = known.iter().max_by(|a, b| alike(a).total_cmp(&alike(b)));
            let help = match nearest.filter(|known| alike(known) >= ALIKE) {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => format!("known keys: {}", known.join(", ")),
            };
            let message = format!("unknown key `{}`; {help}", member.key);
            let is_strict = code != Code::UnknownKey
                || (is_typo(&member.key, known) && !super::is_key_elsewhere(&member.key));
            let code = if is_strict { code } else { Code::IgnoredKey };
            self.at(&member.key, member.place).finding(code, message);
        }
    }

    /// The first of several keys with a value.
    pub(super) fn either(&self, keys: &[&str]) -> Option<Self> {
        keys.iter().find_map(|key| self.get(key))
    }

    /// All items of a list. Adds a finding if the value is not a list.
    pub(super) fn items(&self) -> Option<Vec<Self>> {
        let Tree::List(nodes) = &self.node.tree else {
            self.wrong("a list");
            return None;
        };
        let item = |(at, node): (usize, &'a Node)| self.child(format!("{}[{at}]", self.path), node);
        Some(nodes.iter().enumerate().map(item).collect())
    }

    /// A list of strings.
    pub(super) fn texts(&self) -> Vec<String> {
        let items = self.items().unwrap_or_default();
        items.iter().filter_map(Self::text).collect()
    }

    /// A string. Numbers and booleans count as the text that they are written as.
    pub(super) fn text(&self) -> Option<String> {
        let text = self.plain();
        if text.is_none() {
            self.wrong("a string");
        }
        text
    }

    /// A string. Numbers and booleans are none.
    pub(super) fn word(&self) -> Option<String> {
        match &self.node.tree {
            Tree::Leaf(Value::String(text)) => Some(text.clone()),
            Tree::Leaf(_) | Tree::List(_) | Tree::Map(_) => {
                self.wrong("a string");
                None
            }
        }
    }

    /// As [`Self::text`], without a finding.
    pub(super) fn plain(&self) -> Option<String> {
        match &self.node.tree {
            Tree::Leaf(Value::String(text)) => Some(text.clone()),
            Tree::Leaf(value @ (Value::Number(_) | Value::Bool(_))) => Some(value.to_string()),
            Tree::Leaf(_) | Tree::List(_) | Tree::Map(_) => None,
        }
    }

    /// A boolean, also in the words of YAML 1.1.
    pub(super) fn yes_or_no(&self) -> Option<bool> {
        let value = match &self.node.tree {
            Tree::Leaf(Value::Bool(value)) => Some(*value),
            Tree::Leaf(Value::String(word)) => match word.to_lowercase().as_str() {
                "y" | "yes" | "on" => Some(true),
                "n" | "no" | "off" => Some(false),
                _ => None,
            },
            Tree::Leaf(_) | Tree::List(_) | Tree::Map(_) => None,
        };
        if value.is_none() {
            self.wrong("true or false");
        }
        value
    }

    pub(super) fn number(&self) -> Option<f64> {
        let value = match &self.node.tree {
            Tree::Leaf(Value::Number(number)) => number.as_f64(),
            Tree::Leaf(Value::String(text)) => text.parse().ok().filter(|n: &f64| n.is_finite()),
            Tree::Leaf(_) | Tree::List(_) | Tree::Map(_) => None,
        };
        if value.is_none() {
            self.wrong("a number");
        }
        value
    }

    /// An integer of any sign.
    pub(super) fn integer(&self) -> Option<i64> {
        let value = match &self.node.tree {
            Tree::Leaf(Value::Number(number)) => number.as_i64(),
            Tree::Leaf(_) | Tree::List(_) | Tree::Map(_) => None,
        };
        if value.is_none() {
            self.wrong("an integer");
        }
        value
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(&self.node.tree, Tree::Leaf(Value::Number(_)))
    }

    /// An integer within bounds.
    pub(super) fn whole(&self, least: u32, most: u32) -> Option<u32> {
        let value = match &self.node.tree {
            Tree::Leaf(Value::Number(number)) => number.as_u64(),
            Tree::Leaf(_) | Tree::List(_) | Tree::Map(_) => None,
        };
        let value = value.and_then(|value| u32::try_from(value).ok());
        let value = value.filter(|value| (least..=most).contains(value));
        if value.is_none() {
            let message = match most {
                u32::MAX => format!("expected an integer from {least}"),
                most => format!("expected an integer from {least} to {most}"),
            };
            self.finding(Code::Malformed, message);
        }
        value
    }

    pub(super) fn span(&self) -> Option<Duration> {
        if self.is_parameter() {
            return None;
        }
        let span = span::read(&self.node.to_value());
        if span.is_none() {
            let message = "expected a duration such as `30s` or `10m`".to_owned();
            self.finding(Code::Malformed, message);
        }
        span
    }

    /// Whether a template file leaves the value to a parameter. Only the workflow that uses the template has it.
    fn is_parameter(&self) -> bool {
        matches!(&self.node.tree, Tree::Leaf(Value::String(text)) if text.contains("{{parameters."))
    }

    /// One of a fixed set of words; another is ignored, with a warning.
    pub(super) fn known<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        let text = self.text()?;
        let found = words.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let what = format!("`{text}` is ignored; known values: {}", words.join(", "));
            self.warning(Code::IgnoredKey, what);
        }
        found.map(|(_, value)| *value)
    }

    /// One of a fixed set of words, in letters of any case.
    pub(super) fn one_of_any_case<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        let text = self.text()?;
        self.one(&text.trim().to_lowercase(), words)
    }

    /// One of a fixed set of words.
    pub(super) fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        self.one(&self.text()?, words)
    }

    fn one<T: Copy>(&self, text: &str, words: &[(&str, T)]) -> Option<T> {
        let found = words.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let words = words.iter().map(|(word, _)| *word);
            let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
            let message = format!(
                "unknown value `{text}`; allowed values: {}",
                words.join(", ")
            );
            self.finding(Code::Malformed, message);
        }
        found.map(|(_, value)| *value)
    }

    pub(super) fn template(&self) -> Option<Template> {
        let text = self.text()?;
        let read = Template::read(&text);
        read.map_err(|error| self.finding(Code::BadTemplate, error.to_string()))
            .ok()
    }

    /// A condition. One that does not compile is an error.
    pub(super) fn condition(&self) -> Option<Expression> {
        let read = Expression::read(&self.plain_condition()?);
        // The same code as for the other keys of a transition.
        read.map_err(|error| self.finding(Code::Malformed, error.to_string()))
            .ok()
    }

    /// A condition. One that does not compile is a warning, and fails once it is evaluated.
    pub(super) fn late_condition(&self) -> Option<Expression> {
        let text = self.plain_condition()?;
        let read = Expression::read(&text);
        Some(read.unwrap_or_else(|error| {
            self.warning(Code::BadExpression, error.to_string());
            Expression::unreadable(&text, error)
        }))
    }

    fn plain_condition(&self) -> Option<String> {
        let text = self.text()?;
        // Conditions may use template syntax: `{{.inputs.n}} == 1`. Without a `{{`, a `}}` closes two maps of CEL and
        // must stay.
        Some(match text.contains("{{") {
            true => text.replace("{{", " ").replace("}}", " "),
            false => text,
        })
    }
}

/// Whether a key is a known one with a letter or two changed.
fn is_typo(key: &str, known: &[&str]) -> bool {
    let most = TYPOS.min(key.chars().count() / 3);
    known
        .iter()
        .any(|known| strsim::damerau_levenshtein(key, known) <= most)
}
