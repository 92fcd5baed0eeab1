//! Explains a verdict: every evaluated scope, every subject, and the result of each rule.

use super::{Check, Layer, Policy, judge::View, judge::asked_sets, rule_set::RuleSet};
use crate::{Call, Facts, Place};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// Every check, as [`Policy::judge`] returns it.
    pub checks: Vec<Check>,
    /// The rule sets behind them.
    pub scopes: Vec<ExplainedScope>,
}

/// One rule set and its subjects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedScope {
    pub scope: String,
    pub check: Check,
    /// The subjects that the rules were matched against.
    pub subjects: Vec<ExplainedSubject>,
}

/// A name, path, host, command or text, and the result of each rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedSubject {
    /// Empty where the call has no subject of this kind.
    pub subject: String,
    /// The rules in evaluation order.
    pub rules: Vec<ExplainedRule>,
}

/// A rule and whether it matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedRule {
    pub rule: String,
    /// The rule's position in the file.
    pub place: Place,
    /// Why the rule does not match; `None` when it matches.
    pub missed: Option<String>,
}

pub(super) fn explain(policy: &Policy, call: &Call, facts: &Facts) -> Explained {
    let view = View::of(policy, call);
    let mut scopes = Vec::new();
    for layer in &policy.layers {
        let Layer::Rules(rules) = layer else { continue };
        for set in asked_sets(rules, &call.target, view.identity, policy.mode) {
            // Limits have no rules to show.
            if !set.rules.is_empty() {
                scopes.push(explained(set, &view, facts));
            }
        }
    }
    Explained {
        checks: policy.judge(call, facts),
        scopes,
    }
}

fn explained(set: &RuleSet, view: &View<'_>, facts: &Facts) -> ExplainedScope {
    let (check, traces) = set.explain(view.question(set.scope.as_str(), facts));
    let rule = |(at, result): (usize, Result<String, _>)| {
        let rule = &set.rules[at];
        let (id, missed) = match result {
            Ok(id) => (id, None),
            Err(missed) => {
                let missed: super::rule::NoMatch = missed;
                (rule.labels[0].id.clone(), Some(missed.to_string()))
            }
        };
        ExplainedRule {
            rule: id,
            place: rule.place,
            missed,
        }
    };
    let subjects = traces.into_iter().map(|trace| ExplainedSubject {
        subject: trace.subject,
        rules: trace.rules.into_iter().map(rule).collect(),
    });
    ExplainedScope {
        scope: set.scope.as_str().to_owned(),
        check,
        subjects: subjects.collect(),
    }
}
