//! Finds the patterns that can match a name without testing each of them.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::pattern::Pattern;

/// Patterns by what a name must be, begin with or end with to match. A candidate may still not match.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Patterns without `*`, by the whole name.
    exact: Table,
    /// Patterns by their literal beginning.
    beginnings: ByLength,
    /// `*:begin*`, by its literal beginning after the colon.
    tool_beginnings: ByLength,
    /// Other patterns, by their literal end.
    ends: ByLength,
    /// Patterns that must be tested for every name.
    rest: Vec<usize>,
}

type Table = HashMap<String, Vec<usize>, RandomState>;

/// Patterns by a literal part of any length.
#[derive(Debug, Default)]
struct ByLength {
    table: Table,
    /// The lengths of the parts, shortest first.
    lengths: Vec<usize>,
}

impl ByLength {
    fn add(&mut self, part: &str, at: usize) {
        if let Err(place) = self.lengths.binary_search(&part.len()) {
            self.lengths.insert(place, part.len());
        }
        self.table.entry(part.to_owned()).or_default().push(at);
    }

    /// Adds the patterns whose part is what `cut` takes from a name of this length.
    fn find<'n>(
        &self,
        length: usize,
        cut: impl Fn(usize) -> Option<&'n str>,
        found: &mut Vec<usize>,
    ) {
        let fitting = self.lengths.iter().take_while(|part| **part <= length);
        // `cut` is `None` where a length falls inside a character of this name.
        for part in fitting.filter_map(|part| cut(*part)) {
            found.extend(self.table.get(part).into_iter().flatten());
        }
    }
}

impl Index {
    /// Adds a pattern by its number; `None` matches by something else than the name, so by any name.
    pub(super) fn add(&mut self, pattern: Option<&Pattern>, at: usize) {
        let Some(pattern) = pattern.map(Pattern::as_str) else {
            return self.rest.push(at);
        };
        let Some((beginning, rest)) = pattern.split_once('*') else {
            return self.exact.entry(pattern.to_owned()).or_default().push(at);
        };
        if !beginning.is_empty() {
            return self.beginnings.add(beginning, at);
        }
        if let Some((tool, _)) = rest.strip_prefix(':').and_then(|tool| tool.split_once('*'))
            && !tool.is_empty()
        {
            return self.tool_beginnings.add(tool, at);
        }
        match rest.rsplit('*').next() {
            Some(end) if !end.is_empty() => self.ends.add(end, at),
            Some(_) | None => self.rest.push(at),
        }
    }

    /// The patterns that can match `name`, in the order of their numbers.
    pub(super) fn candidates(&self, name: &str) -> Vec<usize> {
        let mut found = self.rest.clone();
        found.extend(self.exact.get(name).into_iter().flatten());
        self.beginnings
            .find(name.len(), |length| name.get(..length), &mut found);
        let end = |length| name.get(name.len() - length..);
        self.ends.find(name.len(), end, &mut found);
        match name.split_once(':') {
            None => {}
            // A `*` before a colon can end at either of two colons, so the text behind the first one tells nothing.
            Some((_, tool)) if tool.contains(':') => {
                found.extend(self.tool_beginnings.table.values().flatten());
            }
            Some((_, tool)) => {
                let beginning = |length| tool.get(..length);
                self.tool_beginnings.find(tool.len(), beginning, &mut found);
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
            "**",
            "*é*",
            "*é",
            "**:read",
            "*:read*",
            "",
        ];
        let mut index = Index::default();
        for (at, pattern) in patterns.iter().enumerate() {
            index.add(Some(&Pattern::new(pattern)), at);
        }
        index.add(None, patterns.len());
        let names = [
            "fs:read",
            "git:read",
            "fs:x",
            "fs:",
            "fs:a:read",
            "a:b:read",
            "méthode",
            "fs:ré",
            "FS:Read",
            "",
            ":read",
            "*:re*",
            "f*:read",
            "*",
        ];
        // Patterns as names, too: that is how it is found which patterns cover another one.
        for name in names.into_iter().chain(patterns) {
            let name = &name.to_lowercase();
            let candidates = index.candidates(name);
            for (at, pattern) in patterns.iter().enumerate() {
                let matches = Pattern::new(pattern).matches(name);
                assert!(!matches || candidates.contains(&at), "{pattern} {name}");
            }
            assert!(candidates.contains(&patterns.len()));
            assert!(candidates.is_sorted());
        }
        assert!(!index.candidates("fs:read").contains(&10));
    }
}
