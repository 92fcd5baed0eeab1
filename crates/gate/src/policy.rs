//! The policies that are built in, and the per-server tool lists of the configuration.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::{ServerName, Tool};

/// The verbs that make a silent server's tool look destructive.
const DESTRUCTIVE_VERBS: [&str; 8] = [
    "delete", "drop", "remove", "destroy", "purge", "truncate", "wipe", "erase",
];

/// A policy with a name of its own instead of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Builtin {
    /// What looks destructive needs approval; all else is allowed.
    #[default]
    Default,
    /// Everything is allowed, and recorded.
    AllowAll,
}

/// A name pattern in which `*` matches any run of characters, and nothing else is special.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

/// Which of a server's tools exist at all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolFilter {
    /// When present, only what matches one of these.
    pub allow: Option<Vec<Pattern>>,
    /// Never what matches one of these.
    pub deny: Vec<Pattern>,
}

/// The compiled policy that [`decide`](crate::decide) asks.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    builtin: Builtin,
    filters: HashMap<ServerName, ToolFilter>,
}

/// Why a filter keeps a tool away: the pattern that matched, or no pattern at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filtered<'p> {
    Denied(&'p Pattern),
    NotAllowed,
}

impl Pattern {
    /// Takes a pattern as written.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The pattern as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the whole of `text` matches.
    pub fn matches(&self, text: &str) -> bool {
        let mut pieces = self.0.split('*');
        let first = pieces.next().unwrap_or_default();
        let Some(mut rest) = text.strip_prefix(first) else {
            return false;
        };
        let mut pieces: Vec<&str> = pieces.collect();
        let Some(last) = pieces.pop() else {
            return rest.is_empty();
        };
        for piece in pieces {
            let Some(at) = rest.find(piece) else {
                return false;
            };
            rest = &rest[at + piece.len()..];
        }
        rest.ends_with(last)
    }
}

impl Policy {
    /// A built-in policy together with the servers' tool lists.
    pub fn new(builtin: Builtin, filters: HashMap<ServerName, ToolFilter>) -> Self {
        Self { builtin, filters }
    }

    /// Which built-in policy this is.
    pub fn builtin(&self) -> Builtin {
        self.builtin
    }

    /// Whether hosts may see `tool`. What is filtered out is neither listed nor callable.
    pub fn shows(&self, tool: &Tool) -> bool {
        self.filtered(tool).is_none()
    }

    pub(crate) fn filtered(&self, tool: &Tool) -> Option<Filtered<'_>> {
        let filter = self.filters.get(&tool.server)?;
        if let Some(pattern) = filter.deny.iter().find(|p| p.matches(&tool.name)) {
            return Some(Filtered::Denied(pattern));
        }
        match &filter.allow {
            Some(allow) if !allow.iter().any(|p| p.matches(&tool.name)) => {
                Some(Filtered::NotAllowed)
            }
            Some(_) | None => None,
        }
    }

    /// Why the built-in policy wants a person to look at `tool`, if it does.
    pub(crate) fn needs_approval(&self, tool: &Tool) -> Option<String> {
        match self.builtin {
            Builtin::AllowAll => None,
            Builtin::Default if tool.hints.destructive == Some(true) => Some(format!(
                "`{}` declares that it is destructive",
                tool.canonical()
            )),
            Builtin::Default if tool.hints.is_silent() => {
                let verb = tool
                    .words()
                    .into_iter()
                    .find(|w| DESTRUCTIVE_VERBS.contains(&w.as_str()))?;
                Some(format!(
                    "`{}` does not say what it may change, and its name says `{verb}`",
                    tool.canonical()
                ))
            }
            Builtin::Default => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_matches_any_run() {
        let cases = [
            ("*", "", true),
            ("*", "anything", true),
            ("a*", "abc", true),
            ("a*", "ba", false),
            ("*a", "ba", true),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1c2b", false),
            ("read_?", "read_x", false),
            ("", "", true),
            ("", "x", false),
            ("x", "x", true),
            ("*ab*ab", "ab", false),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(
                Pattern::new(pattern).matches(text),
                expected,
                "{pattern} on {text}"
            );
        }
    }
}
