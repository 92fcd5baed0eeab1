//! Why a call gets its verdict: every scope that was asked, everything that it was asked about, and
//! what each rule said.

use super::{Check, Layer, Policy, judge::View, judge::asked_sets, rule_set::RuleSet};
use crate::{Call, Facts, Place};

/// A verdict taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// Every check, as it counts.
    pub checks: Vec<Check>,
    /// The rule sets behind them.
    pub scopes: Vec<ExplainedScope>,
}

/// One rule set and what it was asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedScope {
    /// The scope.
    pub scope: String,
    /// What it said.
    pub check: Check,
    /// What it was asked about.
    pub subjects: Vec<ExplainedSubject>,
}

/// A name, path, host, command or text, and what each rule said to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedSubject {
    /// The thing itself; empty where the call has nothing of the kind.
    pub subject: String,
    /// The rules in the order in which they are asked.
    pub rules: Vec<ExplainedRule>,
}

/// A rule and what it said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedRule {
    /// Its id.
    pub rule: String,
    /// Where it stands in the file.
    pub place: Place,
    /// Whether it matches; where it does not, why.
    pub missed: Option<String>,
}

pub(super) fn explain(policy: &Policy, call: &Call, facts: &Facts) -> Explained {
    let view = View::of(policy, call);
    let mut scopes = Vec::new();
    for layer in &policy.layers {
        let Layer::Rules(rules) = layer else { continue };
        for set in asked_sets(rules, &call.target, view.who, policy.mode) {
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
    let (check, told) = set.explain(view.question(set.scope.as_str(), facts));
    let rule = |(at, said): (usize, Result<String, _>)| {
        let rule = &set.rules[at];
        let (id, missed) = match said {
            Ok(id) => (id, None),
            Err(missed) => {
                let missed: super::rule::Missed = missed;
                (rule.labels[0].id.clone(), Some(missed.to_string()))
            }
        };
        ExplainedRule {
            rule: id,
            place: rule.place,
            missed,
        }
    };
    let subjects = told.into_iter().map(|told| ExplainedSubject {
        subject: told.subject,
        rules: told.rules.into_iter().map(rule).collect(),
    });
    ExplainedScope {
        scope: set.scope.as_str().to_owned(),
        check,
        subjects: subjects.collect(),
    }
}
