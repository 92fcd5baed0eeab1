//! Evaluates one scope that another gateway or a program names in `/v1/check`, and nothing else.

use std::collections::HashSet;

use callgate_wire::Json;

use super::{
    COST_SCOPE, METHOD_SCOPE, TOOL_SCOPE, View, add_needs, check_cost, cost, leads, once_each,
    passes, protected,
};
use crate::{
    Call, Facts, Needs, Target,
    guard::{FailMode, Inquiry, message::NO_SERVER},
    policy::{
        Check, Cost, Layer, Mode, Policy,
        projection::{self, Action, SubjectKind},
        rule_set::{RuleSet, ScopeQuery},
        rules::{Rules, Scopes},
        scope::Scope,
    },
};

/// The most questions to a guard about one call; a call with more is denied.
const MOST_ASKED: usize = 32;

/// The checks of one scope for `name`.
pub(in crate::policy) fn judge_scope(
    policy: &Policy,
    call: &Call,
    (scope, name): (&str, &str),
    facts: &Facts,
) -> Vec<Check> {
    if let Some(check) = refused_by_token(call, (scope, name)) {
        return vec![check];
    }
    if policy.guarded {
        // With a guard configured, the rules here are not in force: there is nothing to answer with.
        return vec![FailMode::Deny.check("this gateway has no rules of its own")];
    }
    // A program that asks before it writes must learn about protected paths too.
    let mut checks = Vec::from_iter(protected(policy, call, facts));
    for layer in &policy.layers {
        match (layer, &call.target) {
            (Layer::Builtin(builtin), Target::Tool(tool)) if scope == TOOL_SCOPE => {
                checks.push(builtin.check(tool));
            }
            (Layer::Builtin(_), _) => checks.push(without_rules(scope)),
            (Layer::Rules(rules), _) => {
                let view = View::of(policy, call);
                let question = ScopeQuery {
                    name,
                    ..view.question(scope, facts)
                };
                let (own, base) = rules.scopes_for(view.identity);
                for scopes in [Some(own), base].into_iter().flatten() {
                    let by_rules = match scopes.get(scope) {
                        Some(set) => set.check(question),
                        None => without_rules(scope),
                    };
                    // A question about cost is about the limits, in every mode.
                    let mode = match scope {
                        COST_SCOPE => Mode::Strict,
                        _ => policy.mode,
                    };
                    let asked = asks_cost(scope, call);
                    let by_limits = asked.then(|| check_cost(scopes, mode, cost(call), facts));
                    let by_limits = by_limits.flatten();
                    // Where no rule of the scope `cost` matches, its limits decide alone.
                    let is_silent = by_rules.rule == Check::default_deny(scope).rule;
                    if scope != COST_SCOPE || by_limits.is_none() || !is_silent {
                        checks.push(by_rules);
                    }
                    checks.extend(by_limits);
                }
            }
        }
    }
    checks
}

/// The facts that [`judge_scope`] needs.
pub(in crate::policy) fn needs_of_scope(policy: &Policy, call: &Call, scope: &str) -> Needs {
    let mut needs = Needs {
        leads: leads(policy, call),
        ..Needs::default()
    };
    for layer in &policy.layers {
        let Layer::Rules(rules) = layer else { continue };
        for set in sets(rules, call, scope) {
            add_needs(&mut needs, set, policy, call);
        }
    }
    once_each(&mut needs);
    needs
}

fn sets<'r>(rules: &'r Rules, call: &Call, scope: &str) -> Vec<&'r RuleSet> {
    let (own, base) = rules.scopes_for(&call.attempt.host.identity);
    let of = |scopes: &'r Scopes| {
        let cost = asks_cost(scope, call).then(|| scopes.get(COST_SCOPE));
        [scopes.get(scope), cost.flatten()]
    };
    let all = [Some(own), base].into_iter().flatten();
    all.flat_map(of).flatten().collect()
}

/// Whether the cost limits apply beside a scope: to tools, and to every question with a cost.
fn asks_cost(scope: &str, call: &Call) -> bool {
    matches!(scope, TOOL_SCOPE | COST_SCOPE) || cost(call) != Cost::Unsaid
}

/// The limits of the asker's token, for questions that name a server.
fn refused_by_token(call: &Call, (scope, name): (&str, &str)) -> Option<Check> {
    let Target::Tool(tool) = &call.target else {
        return None;
    };
    let grant = &call.attempt.host.identity.grant;
    let is_named = tool.server.as_str() != NO_SERVER;
    match scope {
        METHOD_SCOPE => grant.refuses_method(tool.server.as_str(), name),
        "mcp_prompt" | "mcp_resource" => grant.refuses_reading(tool.server.as_str()),
        TOOL_SCOPE => grant.refuses(tool),
        _ => is_named.then(|| grant.refuses(tool)).flatten(),
    }
}

/// The check of a scope without rules: deny, except for prompts, resources and methods.
fn without_rules(scope: &str) -> Check {
    match scope {
        METHOD_SCOPE => passes(METHOD_SCOPE),
        "mcp_prompt" => passes("mcp_prompt"),
        "mcp_resource" => passes("mcp_resource"),
        scope => Check::default_deny(scope),
    }
}

/// The questions about a tool's arguments in a scope: one for each path, host or command. `None` where there are
/// more than [`MOST_ASKED`].
pub(super) fn projected(
    scope: &str,
    tool: &str,
    name: &str,
    arguments: Option<Json<'_>>,
) -> Option<Vec<Inquiry>> {
    let plain = Inquiry {
        scope: scope.to_owned(),
        command: name.to_owned(),
        action: Action::of_name(tool).map(|action| action.as_str().to_owned()),
        ..Inquiry::default()
    };
    let sought = Scope::read(scope).and_then(|scope| scope.sought());
    let Some(sought) = sought.filter(|sought| *sought != SubjectKind::Texts) else {
        return Some(vec![plain]);
    };
    let mut found = projection::project(arguments, sought).ok()?;
    let mut asked = HashSet::new();
    // Repeating a path must not use up the limit of questions.
    found.retain(|subject| asked.insert(subject.clone()));
    let about = |subject: String| {
        let mut inquiry = plain.clone();
        match sought {
            SubjectKind::Paths => inquiry.path = Some(subject),
            SubjectKind::Hosts => inquiry.domain = Some(subject),
            SubjectKind::Commands => inquiry.command = subject,
            SubjectKind::Texts => {}
        }
        inquiry
    };
    match found.len() {
        // The scope's rules without fields still apply to a call without subjects.
        0 => Some(vec![about_nothing(plain, sought)]),
        1..=MOST_ASKED => Some(found.into_iter().map(about).collect()),
        _ => None,
    }
}

/// The question about a call that names no path, host or command.
fn about_nothing(plain: Inquiry, sought: SubjectKind) -> Inquiry {
    match sought {
        SubjectKind::Commands => Inquiry {
            command: String::new(),
            ..plain
        },
        SubjectKind::Paths | SubjectKind::Hosts | SubjectKind::Texts => plain,
    }
}
