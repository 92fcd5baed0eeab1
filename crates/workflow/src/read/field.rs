//! A place in the file while it is read: what stands there, its path, and where findings go.

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

/// Two keys are alike when they share this much, of 1.
const ALIKE: f64 = 0.75;

/// Everything that was found so far.
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

/// A place in the file.
#[derive(Debug, Clone)]
pub(super) struct Field<'a> {
    pub(super) node: &'a Node,
    pub(super) path: String,
    findings: Findings,
}

/// A place that is only named.
#[derive(Debug)]
pub(super) struct Spot {
    path: String,
    place: Place,
    findings: Findings,
}

impl Spot {
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

    /// Notes that something is wrong here.
    pub(super) fn finding(&self, code: Code, message: String) {
        let finding = Finding::new(code, self.path.clone(), self.node.place, message);
        self.findings.push(finding);
    }

    fn wrong(&self, wanted: &str) {
        let message = format!("{wanted} is expected, and this is {}", self.node.what());
        self.finding(Code::WrongType, message);
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

    /// A key that need not be there, at a known place.
    pub(super) fn at(&self, key: &str, place: Place) -> Spot {
        Spot {
            path: self.below(key),
            place,
            findings: self.findings.clone(),
        }
    }

    /// What stands under a key, unless that is nothing.
    pub(super) fn get(&self, key: &str) -> Option<Self> {
        let node = self.node.get(key).filter(|node| !node.is_null())?;
        Some(self.child(self.below(key), node))
    }

    /// What stands under a key that must be there.
    pub(super) fn must(&self, key: &str) -> Option<Self> {
        let found = self.get(key);
        if found.is_none() {
            self.finding(Code::Missing, format!("`{key}` is missing"));
        }
        found
    }

    /// Every key and what stands under it.
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

    /// Notes every key that is none of these.
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
                None => format!("it can be {}", known.join(", ")),
            };
            let message = format!("unknown key `{}`; {help}", member.key);
            self.at(&member.key, member.place).finding(code, message);
        }
    }

    /// Every item of a list.
    pub(super) fn items(&self) -> Option<Vec<Self>> {
        let Tree::List(nodes) = &self.node.tree else {
            self.wrong("a list");
            return None;
        };
        let item = |(at, node): (usize, &'a Node)| self.child(format!("{}[{at}]", self.path), node);
        Some(nodes.iter().enumerate().map(item).collect())
    }

    /// A list of texts.
    pub(super) fn texts(&self) -> Vec<String> {
        let items = self.items().unwrap_or_default();
        items.iter().filter_map(Self::text).collect()
    }

    /// A text; a number or yes and no are taken for what they are written as.
    pub(super) fn text(&self) -> Option<String> {
        match &self.node.tree {
            Tree::Leaf(Value::String(text)) => Some(text.clone()),
            Tree::Leaf(value @ (Value::Number(_) | Value::Bool(_))) => Some(value.to_string()),
            Tree::Leaf(_) | Tree::List(_) | Tree::Map(_) => {
                self.wrong("a text");
                None
            }
        }
    }

    pub(super) fn yes_or_no(&self) -> Option<bool> {
        let value = match &self.node.tree {
            Tree::Leaf(Value::Bool(value)) => Some(*value),
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
            Tree::Leaf(_) | Tree::List(_) | Tree::Map(_) => None,
        };
        if value.is_none() {
            self.wrong("a number");
        }
        value
    }

    /// A whole number within bounds.
    pub(super) fn whole(&self, least: u32, most: u32) -> Option<u32> {
        let value = match &self.node.tree {
            Tree::Leaf(Value::Number(number)) => number.as_u64(),
            Tree::Leaf(_) | Tree::List(_) | Tree::Map(_) => None,
        };
        let value = value.and_then(|value| u32::try_from(value).ok());
        let value = value.filter(|value| (least..=most).contains(value));
        if value.is_none() {
            let message = format!("a whole number from {least} to {most} is expected");
            self.finding(Code::WrongType, message);
        }
        value
    }

    /// A length of time.
    pub(super) fn span(&self) -> Option<Duration> {
        let span = span::read(&self.node.to_value());
        if span.is_none() {
            let message = "a length of time is expected, such as `30s` or `10m`".to_owned();
            self.finding(Code::WrongType, message);
        }
        span
    }

    /// One of several words.
    pub(super) fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        let text = self.text()?;
        let found = words.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let message = format!("`{text}` is not known; it can be {}", words.join(", "));
            self.finding(Code::WrongType, message);
        }
        found.map(|(_, value)| *value)
    }

    /// A template.
    pub(super) fn template(&self) -> Option<Template> {
        let text = self.text()?;
        let read = Template::read(&text);
        read.map_err(|error| self.finding(Code::BadTemplate, error.to_string()))
            .ok()
    }

    /// A condition.
    pub(super) fn condition(&self) -> Option<Expression> {
        let text = self.text()?;
        // `{{.inputs.n}} == 1` means the value of the path. Without `{{`, a `}}` ends two maps of CEL.
        let plain = match text.contains("{{") {
            true => text.replace("{{", " ").replace("}}", " "),
            false => text,
        };
        let read = Expression::read(&plain);
        read.map_err(|error| self.finding(Code::BadExpression, error.to_string()))
            .ok()
    }
}
