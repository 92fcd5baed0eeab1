//! Finds unreachable rules: an earlier one matches everything that they match.

use std::collections::HashMap;

use crate::{
    Problem,
    policy::{
        domain::DomainPattern,
        index::Index,
        rule::{Fields, Rule},
    },
};

/// How many earlier rules one rule is compared with. Only a file with more rules that begin alike has more; there an
/// unreachable rule can go unreported, which changes no decision.
const MAX_COMPARED: usize = 512;

/// Every rule that an earlier one covers. Only certain cases are reported: the earlier rule has no
/// expression and no conditions, and each of its fields covers the later rule's.
pub(super) fn unreachable(rules: &[&Rule]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut before = EarlierRules::default();
    for (at, rule) in rules.iter().enumerate() {
        let candidates = before.candidates(&rule.fields);
        let mut compared = candidates.iter().take(MAX_COMPARED).map(|at| rules[*at]);
        let earlier = compared.find(|earlier| covers(earlier, rule));
        before.add(&rule.fields, at);
        let Some(earlier) = earlier else { continue };
        let what = format!(
            "the rule can never match: `{}` on line {} matches first",
            earlier.labels[0].id, earlier.place.line
        );
        problems.push(
            Problem::at(rule.place, what).help("remove the rule, or move it before that one"),
        );
    }
    problems
}

/// The rules that can cover a later one, each under one of its fields.
#[derive(Default)]
struct EarlierRules<'r> {
    patterns: Index,
    paths: HashMap<&'r str, Vec<usize>>,
    domains: Index,
    ranges: Vec<usize>,
    rest: Vec<usize>,
}

impl<'r> EarlierRules<'r> {
    fn add(&mut self, fields: &'r Fields, at: usize) {
        if fields.when.is_some() || !fields.conditions.is_empty() {
            return;
        }
        let Fields {
            pattern,
            paths,
            domains,
            ..
        } = fields;
        if let Some(pattern) = pattern {
            self.patterns.add(Some(pattern.pattern()), at);
        } else if let Some(paths) = paths {
            for path in paths {
                self.paths.entry(path).or_default().push(at);
            }
        } else if let Some(domains) = domains {
            for domain in domains {
                match domain.pattern() {
                    Some(pattern) => self.domains.add(Some(pattern), at),
                    None => self.ranges.push(at),
                }
            }
        } else {
            self.rest.push(at);
        }
    }

    /// The rules that can cover one with these fields, earliest first: a field of the earlier one must cover each value
    /// of the later one's, so the first value finds it.
    fn candidates(&self, fields: &Fields) -> Vec<usize> {
        let mut found = self.rest.clone();
        if let Some(pattern) = &fields.pattern {
            found.extend(self.patterns.candidates(pattern.pattern().as_str()));
        }
        if let Some(path) = fields.paths.as_ref().and_then(|paths| paths.first()) {
            found.extend(self.paths.get(path.as_str()).into_iter().flatten());
        }
        if let Some(domain) = fields.domains.as_ref().and_then(|domains| domains.first()) {
            match domain.pattern() {
                Some(pattern) => found.extend(self.domains.candidates(pattern.as_str())),
                None => {
                    found.extend(&self.ranges);
                    found.extend(self.domains.candidates(DomainPattern::ANY));
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

fn covers(earlier: &Rule, later: &Rule) -> bool {
    let Fields {
        pattern,
        forms: _,
        paths,
        domains,
        actions,
        when,
        conditions,
    } = &earlier.fields;
    // Both depend on the call, so the later rule can still be reached.
    if when.is_some() || !conditions.is_empty() {
        return false;
    }
    let other = &later.fields;
    let pattern_covers = pattern.as_ref().is_none_or(|own| {
        let other = other.pattern.as_ref();
        other.is_some_and(|other| own.pattern().covers(other.pattern()))
    });
    let paths_cover = paths.as_ref().is_none_or(|own| {
        let other = other.paths.as_ref();
        // Compared as text. Missing a case is safe, while a false report would reject a valid file.
        other.is_some_and(|other| other.iter().all(|path| own.contains(path)))
    });
    let domains_cover = domains.as_ref().is_none_or(|own| {
        let other = other.domains.as_ref();
        let covered = |domain| own.iter().any(|own| own.covers(domain));
        other.is_some_and(|other| other.iter().all(covered))
    });
    let actions_cover = actions.as_ref().is_none_or(|own| {
        let other = other.actions.as_ref();
        other.is_some_and(|other| other.iter().all(|action| own.contains(action)))
    });
    pattern_covers && paths_cover && domains_cover && actions_cover
}
