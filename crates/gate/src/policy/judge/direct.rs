//! One scope that is asked directly, by another gateway or a program: its rules and nothing else.

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
        projection::{self, Action, Sought},
        rule_set::{Question, RuleSet},
        rules::{Rules, Scopes},
        scope::Scope,
    },
};

/// About how many paths, hosts or commands of one call a guard is asked.
const MOST_ASKED: usize = 32;

/// What one scope says to what is called `name` there.
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
        return vec![FailMode::Deny.check("this gateway has no rules of its own")];
    }
    let mut checks = Vec::from_iter(protected(policy, call, facts));
    for layer in &policy.layers {
        match (layer, &call.target) {
            (Layer::Builtin(builtin), Target::Tool(tool)) if scope == TOOL_SCOPE => {
                checks.push(builtin.check(tool));
            }
            (Layer::Builtin(_), _) => checks.push(without_rules(scope)),
            (Layer::Rules(rules), _) => {
                let view = View::of(policy, call);
                let question = Question {
                    name,
                    ..view.question(scope, facts)
                };
                let (own, everyones) = rules.for_whom(view.who);
                for scopes in [Some(own), everyones].into_iter().flatten() {
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

/// What must be looked up for that.
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
    let (own, everyones) = rules.for_whom(&call.attempt.host.who);
    let of = |scopes: &'r Scopes| {
        let cost = asks_cost(scope, call).then(|| scopes.get(COST_SCOPE));
        [scopes.get(scope), cost.flatten()]
    };
    let all = [Some(own), everyones].into_iter().flatten();
    all.flat_map(of).flatten().collect()
}

/// Whether cost is judged beside a scope: a tool's, and wherever one is named.
fn asks_cost(scope: &str, call: &Call) -> bool {
    matches!(scope, TOOL_SCOPE | COST_SCOPE) || cost(call) != Cost::Unsaid
}

/// What the asker's token says to a question that names something of a server. Other questions are about no server.
fn refused_by_token(call: &Call, (scope, name): (&str, &str)) -> Option<Check> {
    let Target::Tool(tool) = &call.target else {
        return None;
    };
    let grant = &call.attempt.host.who.grant;
    let is_named = tool.server.as_str() != NO_SERVER;
    match scope {
        METHOD_SCOPE => grant.refuses_method(tool.server.as_str(), name),
        "mcp_prompt" | "mcp_resource" => grant.refuses_reading(tool.server.as_str()),
        TOOL_SCOPE => grant.refuses(tool),
        _ => is_named.then(|| grant.refuses(tool)).flatten(),
    }
}

/// What a scope without rules says: no, except to what is no tool.
fn without_rules(scope: &str) -> Check {
    match scope {
        METHOD_SCOPE => passes(METHOD_SCOPE),
        "mcp_prompt" => passes("mcp_prompt"),
        "mcp_resource" => passes("mcp_resource"),
        scope => Check::default_deny(scope),
    }
}

/// The questions about what a tool's arguments mean in a scope: one for each path, host or command in them. `None`
/// where there are more than a guard is asked about.
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
    let Some(sought) = sought.filter(|sought| *sought != Sought::Texts) else {
        return Some(vec![plain]);
    };
    let mut found = projection::project(arguments, sought).ok()?;
    let mut asked = HashSet::new();
    found.retain(|subject| asked.insert(subject.clone()));
    let about = |subject: String| {
        let mut inquiry = plain.clone();
        match sought {
            Sought::Paths => inquiry.path = Some(subject),
            Sought::Hosts => inquiry.domain = Some(subject),
            Sought::Commands => inquiry.command = subject,
            Sought::Texts => {}
        }
        inquiry
    };
    match found.len() {
        0 => Some(vec![about_nothing(plain, sought)]),
        1..=MOST_ASKED => Some(found.into_iter().map(about).collect()),
        _ => None,
    }
}

/// The question about a call that names no path, host or command.
fn about_nothing(plain: Inquiry, sought: Sought) -> Inquiry {
    match sought {
        Sought::Commands => Inquiry {
            command: String::new(),
            ..plain
        },
        Sought::Paths | Sought::Hosts | Sought::Texts => plain,
    }
}
