//! One scope that is asked directly, by another gateway or a program: its rules and nothing else.

use callgate_wire::Json;

use super::{
    COST_SCOPE, METHOD_SCOPE, TOOL_SCOPE, View, add_needs, check_cost, cost, once_each, passes,
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
    let mut checks = Vec::new();
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
    let mut needs = Needs::default();
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

/// The question about what a tool's arguments mean in a scope.
pub(super) fn projected(
    scope: &str,
    tool: &str,
    name: &str,
    arguments: Option<Json<'_>>,
) -> Inquiry {
    let first = |sought| {
        let found = projection::project(arguments, sought).unwrap_or_default();
        found.into_iter().next()
    };
    let mut inquiry = Inquiry {
        scope: scope.to_owned(),
        command: name.to_owned(),
        action: Action::of_name(tool).map(|action| action.as_str().to_owned()),
        ..Inquiry::default()
    };
    match Scope::read(scope).and_then(|scope| scope.sought()) {
        Some(Sought::Paths) => inquiry.path = first(Sought::Paths),
        Some(Sought::Hosts) => inquiry.domain = first(Sought::Hosts),
        Some(Sought::Commands) => inquiry.command = first(Sought::Commands).unwrap_or_default(),
        Some(Sought::Texts) | None => {}
    }
    inquiry
}
