//! Expressions of the naive evaluator: written out as CEL for the gate, and judged here.

use std::fmt;

use serde_json::Value;

use super::Case;

/// An expression over a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expr {
    /// `tool.destructive`.
    Destructive,
    /// `tool.read_only`.
    ReadOnly,
    /// `agent == "…"`.
    AgentIs(String),
    /// `has(args.key)`.
    Has(String),
    /// `args.key == "…"`.
    ArgIs(String, String),
    /// `args.key.startsWith("…")`.
    ArgStarts(String, String),
    /// `args.key > n`.
    ArgOver(String, i64),
    /// `!(…)`.
    Not(Box<Expr>),
    /// `(…) && (…)`.
    And(Box<Expr>, Box<Expr>),
    /// `(…) || (…)`.
    Or(Box<Expr>, Box<Expr>),
}

impl Expr {
    /// Whether it holds; `None` when it fails.
    pub fn judge(&self, case: &Case) -> Option<bool> {
        if self.uses_arguments() && is_ambiguous(&case.arguments) {
            return None;
        }
        self.value(case)
    }

    fn value(&self, case: &Case) -> Option<bool> {
        let arg = |key: &str| case.arguments.get(key);
        match self {
            Self::Destructive => Some(looks_destructive(case)),
            Self::ReadOnly => Some(case.read_only == Some(true)),
            Self::AgentIs(name) => Some(case.agent == *name),
            Self::Has(key) => Some(arg(key).is_some()),
            Self::ArgIs(key, text) => Some(arg(key)?.as_str() == Some(text)),
            Self::ArgStarts(key, start) => Some(arg(key)?.as_str()?.starts_with(start.as_str())),
            Self::ArgOver(key, than) => Some(arg(key)?.as_i64()? > *than),
            Self::Not(inner) => Some(!inner.value(case)?),
            Self::And(a, b) => match (a.value(case), b.value(case)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                (None, _) | (_, None) => None,
            },
            Self::Or(a, b) => match (a.value(case), b.value(case)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                (None, _) | (_, None) => None,
            },
        }
    }

    fn uses_arguments(&self) -> bool {
        match self {
            Self::Destructive | Self::ReadOnly | Self::AgentIs(_) => false,
            Self::Has(_) | Self::ArgIs(..) | Self::ArgStarts(..) | Self::ArgOver(..) => true,
            Self::Not(inner) => inner.uses_arguments(),
            Self::And(a, b) | Self::Or(a, b) => a.uses_arguments() || b.uses_arguments(),
        }
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Destructive => f.write_str("tool.destructive"),
            Self::ReadOnly => f.write_str("tool.read_only"),
            Self::AgentIs(name) => write!(f, "agent == {name:?}"),
            Self::Has(key) => write!(f, "has(args.{key})"),
            Self::ArgIs(key, text) => write!(f, "args.{key} == {text:?}"),
            Self::ArgStarts(key, start) => write!(f, "args.{key}.startsWith({start:?})"),
            Self::ArgOver(key, than) => write!(f, "args.{key} > {than}"),
            Self::Not(inner) => write!(f, "!({inner})"),
            Self::And(a, b) => write!(f, "({a}) && ({b})"),
            Self::Or(a, b) => write!(f, "({a}) || ({b})"),
        }
    }
}

/// A tool says that it is destructive, or does not say otherwise and has a verb in its name that is.
fn looks_destructive(case: &Case) -> bool {
    let silent = case.destructive.is_none() && case.read_only != Some(true);
    let verbs = [
        "delete", "drop", "remove", "destroy", "purge", "truncate", "wipe", "erase",
    ];
    let name = case.tool.to_lowercase();
    let named = name.split('_').any(|word| verbs.contains(&word));
    case.destructive == Some(true) || silent && named
}

/// Whether readers could understand the arguments differently.
fn is_ambiguous(value: &Value) -> bool {
    match value {
        Value::Object(members) => {
            let mut keys: Vec<String> = members.keys().map(|key| key.to_lowercase()).collect();
            keys.sort();
            let before = keys.len();
            keys.dedup();
            keys.len() != before || members.values().any(is_ambiguous)
        }
        Value::Array(elements) => elements.iter().any(is_ambiguous),
        Value::Number(number) => number.as_i64().is_some_and(|n| n.unsigned_abs() > 1 << 53),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}
