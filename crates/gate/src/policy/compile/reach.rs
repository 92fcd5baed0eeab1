//! Rules that are never reached, because an earlier one matches whatever they match.

use crate::{
    Problem,
    policy::rule::{Fields, Rule},
};

/// Every rule that stands wholly behind an earlier one. Only what is certain is told: the earlier
/// rule has no expression and no conditions, and each of its fields covers the later rule's.
pub(super) fn unreachable(rules: &[&Rule]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (at, rule) in rules.iter().enumerate() {
        let Some(earlier) = rules[..at].iter().find(|earlier| covers(earlier, rule)) else {
            continue;
        };
        let what = format!(
            "the rule can never match: `{}` in line {} comes before it",
            earlier.labels[0].id, earlier.place.line
        );
        problems.push(Problem::at(rule.place, what).help("take it away, or put it first"));
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
