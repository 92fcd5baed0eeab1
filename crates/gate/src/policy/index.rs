//! Finds the rules that can match a tool without testing each of them.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::pattern::{self, Pattern};

/// The rules of a scope by the beginnings of their case-folded patterns. A candidate may still not match.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Patterns without `*`, by the whole name.
    exact: HashMap<String, Vec<usize>, RandomState>,
    /// Patterns of one server, by its name.
    servers: HashMap<String, Vec<usize>, RandomState>,
    /// `*:tool`, by the tool's name.
    tools: HashMap<String, Vec<usize>, RandomState>,
    /// `*:begin*`, by its literal beginning.
    beginnings: HashMap<String, Vec<usize>, RandomState>,
    /// The lengths of those beginnings, shortest first.
    lengths: Vec<usize>,
    /// Rules that must be tested for every name.
    rest: Vec<usize>,
    rules: usize,
}

impl Index {
    /// Adds the next rule by its folded pattern.
    pub(super) fn add(&mut self, pattern: Option<&Pattern>) {
        let rule = self.rules;
        self.rules += 1;
        let Some(pattern) = pattern else {
            // Rules without a pattern match by other fields, for any name.
            return self.rest.push(rule);
        };
        if let Some(name) = pattern.literal() {
            return self.exact.entry(name.to_owned()).or_default().push(rule);
        }
        match pattern.as_str().split_once(':') {
            Some(("*", tool)) => self.add_for_any_server(tool, rule),
            Some((server, _)) if !server.contains('*') => {
                self.servers
                    .entry(server.to_owned())
                    .or_default()
                    .push(rule);
            }
            Some(_) | None => self.rest.push(rule),
        }
    }

    fn add_for_any_server(&mut self, tool: &str, rule: usize) {
        match tool.split_once('*') {
            None => self.tools.entry(tool.to_owned()).or_default().push(rule),
            // `*:*x` has no literal beginning to look up.
            Some(("", _)) => self.rest.push(rule),
            Some((beginning, _)) => {
                if let Err(at) = self.lengths.binary_search(&beginning.len()) {
                    self.lengths.insert(at, beginning.len());
                }
                self.beginnings
                    .entry(beginning.to_owned())
                    .or_default()
                    .push(rule);
            }
        }
    }

    /// The rules that can match `server:tool`, in their order.
    pub(super) fn candidates(&self, name: &str) -> Vec<usize> {
        let folded = pattern::folded(name);
        let name = folded.as_str();
        let Some((server, tool)) = name.split_once(':') else {
            return (0..self.rules).collect();
        };
        if tool.contains(':') {
            // With two colons, a `*` before a colon could end at either of them, so the keys below do not apply.
            return (0..self.rules).collect();
        }
        let mut found = self.rest.clone();
        let mut add = |map: &HashMap<String, Vec<usize>, RandomState>, key: &str| {
            found.extend(map.get(key).into_iter().flatten());
        };
        for (map, key) in [
            (&self.exact, name),
            (&self.servers, server),
            (&self.tools, tool),
        ] {
            if !map.is_empty() {
                add(map, key);
            }
        }
        for length in self
            .lengths
            .iter()
            .take_while(|length| **length <= tool.len())
        {
            // `get`, because a length may fall inside a character of this name.
            if let Some(beginning) = tool.get(..*length) {
                add(&self.beginnings, beginning);
            }
        }
        // Evaluation order is rule order, and the first match decides.
        found.sort_unstable();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_matching_rule_is_a_candidate() {
        let patterns = [
            "*",
            "*:*",
            "fs:*",
            "fs:read",
            "*:read",
            "*:re*",
            "*:r*d",
            "f*:read",
            "*s:read",
            "fs:r*",
            "*:x*",
            "git:read",
            "*:*:read",
            "fs:a:read",
        ];
        let mut index = Index::default();
        for pattern in patterns {
            index.add(Some(&Pattern::new(pattern)));
        }
        index.add(None);
        for name in [
            "fs:read",
            "git:read",
            "fs:x",
            "fs:",
            "fs:a:read",
            "a:b:read",
            "méthode",
            "fs:ré",
            "FS:Read",
        ] {
            let candidates = index.candidates(name);
            for (at, pattern) in patterns.iter().enumerate() {
                let matches = Pattern::new(pattern).matches(&name.to_lowercase());
                assert!(!matches || candidates.contains(&at), "{pattern} {name}");
            }
            assert!(candidates.contains(&patterns.len()));
            assert!(candidates.is_sorted());
        }
        assert!(!index.candidates("fs:read").contains(&10));
    }
}
