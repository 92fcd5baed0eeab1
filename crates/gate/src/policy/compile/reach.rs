//! Finds unreachable rules: an earlier one matches everything that they match.

use crate::{
    Problem,
    policy::rule::{Fields, Rule},
};

/// Every rule that an earlier one covers. Only certain cases are reported: the earlier rule has no
/// expression and no conditions, and each of its fields covers the later rule's.
pub(super) fn unreachable(rules: &[&Rule]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (at, rule) in rules.iter().enumerate() {
        let Some(earlier) = rules[..at].iter().find(|earlier| covers(earlier, rule)) else {
            continue;
        };
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
