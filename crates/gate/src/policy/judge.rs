//! Asks the scopes of a policy about a call.

use callgate_wire::{Json, methods};

use super::{
    Check, Kind, Layer, Mode, Policy,
    expression::Seen,
    limits::Cost,
    path::Ground,
    rule::Asked,
    rule_set::{Question, RuleSet},
    rules::{Rules, Scopes},
};
use crate::{Call, Digest, Facts, Needs, Target, Who};

const TOOL_SCOPE: &str = "mcp_tool";
const METHOD_SCOPE: &str = "mcp_method";
const COST_SCOPE: &str = "cost";
/// What a host says that a call will cost, in the request's `_meta`.
const COST_KEYS: [&str; 2] = ["dev.callgate/est_cost", "dev.agentguard/est_cost"];

/// A call as rules see it.
pub(super) struct View<'a> {
    pub(super) name: String,
    pub(super) arguments: Option<Json<'a>>,
    pub(super) seen: Seen<'a>,
    pub(super) ground: &'a Ground,
    pub(super) who: &'a Who,
    is_tool: bool,
}

impl<'a> View<'a> {
    pub(super) fn of(policy: &'a Policy, call: &'a Call) -> Self {
        let who = &call.attempt.host.who;
        let frame = &call.attempt.frame;
        let is_tool = frame.method() == Some(methods::TOOLS_CALL);
        let arguments = if is_tool {
            frame.param("arguments")
        } else {
            frame.params()
        };
        let name = match &call.target {
            Target::Tool(tool) => tool.canonical(),
            Target::Method { method, .. } => method.clone(),
        };
        Self {
            name,
            arguments,
            seen: Seen::new(&call.target, who, arguments)
                .declaring(call.attempt.declared.as_deref()),
            ground: policy.ground_of(&call.target),
            who,
            is_tool: matches!(call.target, Target::Tool(_)),
        }
    }

    pub(super) fn question<'q>(&'q self, facts: &'q Facts) -> Question<'q> {
        Question {
            name: &self.name,
            arguments: self.arguments,
            ground: self.ground,
            asked: Asked {
                seen: &self.seen,
                facts,
            },
        }
    }
}

/// Every check of a call.
pub(super) fn judge(policy: &Policy, call: &Call, facts: &Facts) -> Vec<Check> {
    let filtered = match &call.target {
        Target::Tool(tool) => policy
            .filters
            .get(&tool.server)
            .and_then(|filter| filter.check(tool)),
        Target::Method { .. } => None,
    };
    if let Some(check) = filtered {
        return vec![check];
    }
    if let Some(check) = call.attempt.host.who.grant.refuses_target(&call.target) {
        return vec![check];
    }
    let mut view = None;
    let mut checks = Vec::new();
    for layer in &policy.layers {
        match (layer, &call.target) {
            (Layer::Builtin(builtin), Target::Tool(tool)) => checks.push(builtin.check(tool)),
            (Layer::Builtin(_), Target::Method { .. }) => checks.push(method_passes()),
            (Layer::Rules(rules), _) => {
                let view = view.get_or_insert_with(|| View::of(policy, call));
                checks.extend(check_rules(rules, view, policy.mode, cost(call), facts));
            }
        }
    }
    checks
}

/// What must be looked up for a call.
pub(super) fn needs(policy: &Policy, call: &Call) -> Needs {
    let mut needs = Needs::default();
    for layer in &policy.layers {
        let Layer::Rules(rules) = layer else { continue };
        if rules.needs_nothing() {
            continue;
        }
        let who = &call.attempt.host.who;
        for set in asked_sets(rules, &call.target, who, policy.mode) {
            needs.rates.extend(set.rates.iter().cloned());
            let conditions = set.rules.iter().flat_map(|rule| &rule.fields.conditions);
            needs.prior.extend(conditions.cloned());
            if set.limits.is_some() {
                needs.cost = Some(cost(call));
            }
            if set.scope.sought().is_some() {
                let arguments = call.attempt.frame.param("arguments");
                let ground = policy.ground_of(&call.target);
                needs.paths.extend(set.paths_asked(arguments, ground));
            }
        }
    }
    if !needs.is_empty() {
        needs.paths.sort_unstable();
        needs.paths.dedup();
        let mut seen = Vec::new();
        needs.rates.retain(|rate| {
            let is_new = !seen.contains(rate);
            seen.push(rate.clone());
            is_new
        });
    }
    needs
}

/// The rule sets that are asked about a call, for the caller and, where the caller's name is only its
/// own word, for everyone.
pub(super) fn asked_sets<'r>(
    rules: &'r Rules,
    target: &Target,
    who: &Who,
    mode: Mode,
) -> Vec<&'r RuleSet> {
    let (own, everyones) = rules.for_whom(who);
    let scopes = [Some(own), everyones];
    let names = scope_names(rules, target, mode);
    let sets = scopes.into_iter().flatten();
    let of = |scopes: &'r Scopes| {
        names
            .iter()
            .filter_map(|name| scopes.get(name))
            .collect::<Vec<_>>()
    };
    sets.flat_map(of).collect()
}

/// The scopes that a call is asked about.
fn scope_names<'r>(rules: &'r Rules, target: &Target, mode: Mode) -> Vec<&'r str> {
    match (target, mode) {
        (Target::Method { .. }, _) => vec![METHOD_SCOPE],
        (Target::Tool(_), Mode::Fast) => vec![TOOL_SCOPE],
        (Target::Tool(tool), Mode::Strict) => {
            let mapped = rules.scope_of(&tool.canonical());
            [Some(TOOL_SCOPE), mapped, Some(COST_SCOPE)]
                .into_iter()
                .flatten()
                .collect()
        }
    }
}

fn check_rules(
    rules: &Rules,
    view: &View<'_>,
    mode: Mode,
    cost: Cost,
    facts: &Facts,
) -> Vec<Check> {
    let (own, everyones) = rules.for_whom(view.who);
    let question = view.question(facts);
    let mut checks = check_scopes(rules, own, question, mode, view.is_tool);
    checks.extend(check_cost(own, mode, view.is_tool, cost, facts));
    if let Some(everyones) = everyones {
        checks.extend(check_scopes(rules, everyones, question, mode, view.is_tool));
        checks.extend(check_cost(everyones, mode, view.is_tool, cost, facts));
    }
    checks
}

fn check_scopes(
    rules: &Rules,
    scopes: &Scopes,
    question: Question<'_>,
    mode: Mode,
    is_tool: bool,
) -> Vec<Check> {
    if !is_tool {
        return vec![match scopes.get(METHOD_SCOPE) {
            Some(set) => set.check(question),
            None => method_passes(),
        }];
    }
    let mut checks = vec![match scopes.get(TOOL_SCOPE) {
        Some(set) => set.check(question),
        None => Check::default_deny(TOOL_SCOPE),
    }];
    if mode == Mode::Strict
        && let Some(set) = rules
            .scope_of(question.name)
            .and_then(|scope| scopes.get(scope))
    {
        checks.push(set.check(question));
    }
    checks
}

fn check_cost(
    scopes: &Scopes,
    mode: Mode,
    is_tool: bool,
    cost: Cost,
    facts: &Facts,
) -> Option<Check> {
    if mode == Mode::Fast || !is_tool {
        return None;
    }
    let limits = scopes.get(COST_SCOPE)?.limits?;
    let (kind, what, reason) = limits.judge(cost, facts.spent);
    let rule = format!("{}:{COST_SCOPE}:{what}", kind.as_str());
    // A call that costs nothing as far as anyone knows has nothing to show for it.
    let is_quiet = kind == Kind::Allow && cost == Cost::Unsaid;
    (!is_quiet).then(|| Check {
        scope: COST_SCOPE.to_owned(),
        kind,
        hash: Digest::of(format!("{rule} {limits:?}").as_bytes()),
        rule,
        reason,
    })
}

fn method_passes() -> Check {
    let rule = "allow:mcp_method:*";
    Check {
        scope: METHOD_SCOPE.to_owned(),
        kind: Kind::Allow,
        rule: rule.to_owned(),
        reason: "requests of the only server pass".to_owned(),
        hash: Digest::of(rule.as_bytes()),
    }
}

/// What a call is said to cost.
fn cost(call: &Call) -> Cost {
    let Some(meta) = call.attempt.frame.param("_meta") else {
        return Cost::Unsaid;
    };
    let Some(said) = COST_KEYS.iter().find_map(|key| meta.get(key)) else {
        return Cost::Unsaid;
    };
    match said.as_text().parse::<f64>() {
        Ok(cost) if cost.is_finite() => Cost::Of(cost),
        Ok(_) | Err(_) => Cost::Unreadable,
    }
}
