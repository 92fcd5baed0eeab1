//! Evaluates the scopes of a policy for a call.

use std::cell::OnceCell;

use callgate_wire::Json;

use super::{
    Check, Kind, Layer, Mode, Policy,
    expression::CallVariables,
    limits::Cost,
    path::PathBase,
    protected::{Protected, ProtectedCandidates},
    resource,
    rule::EvalContext,
    rule_set::{RuleSet, ScopeQuery},
    rules::{Rules, Scopes},
};
use crate::{
    Call, CallerIdentity, Digest, Facts, Needs, Target,
    guard::{FailMode, Inquiry},
};

mod direct;

pub(super) use direct::{judge_scope, needs_of_scope};

const TOOL_SCOPE: &str = "mcp_tool";
const METHOD_SCOPE: &str = "mcp_method";
const COST_SCOPE: &str = "cost";
/// The keys of a call's declared cost in the request's `_meta`.
pub(crate) const COST_KEYS: [&str; 2] = ["dev.callgate/est_cost", "dev.agentguard/est_cost"];

/// A call as rules see it.
pub(super) struct View<'a> {
    pub(super) name: String,
    pub(super) arguments: Option<Json<'a>>,
    pub(super) seen: CallVariables<'a>,
    pub(super) ground: &'a PathBase,
    pub(super) identity: &'a CallerIdentity,
    target: &'a Target,
    method: &'a str,
    /// `server:method`, computed on first use.
    method_of_server: OnceCell<String>,
}

impl<'a> View<'a> {
    pub(super) fn of(policy: &'a Policy, call: &'a Call) -> Self {
        let identity = &call.attempt.host.identity;
        let frame = &call.attempt.frame;
        let arguments = arguments(call);
        let name = match &call.target {
            Target::Tool(tool) => tool.canonical(),
            Target::Prompt(of) | Target::Resource(of) | Target::Completion(of) => of.canonical(),
            Target::Method { method, .. } => method.clone(),
        };
        Self {
            name,
            arguments,
            seen: CallVariables::new(&call.target, identity, arguments)
                .declaring(call.attempt.declared.as_deref()),
            ground: policy.ground_of(&call.target),
            identity,
            target: &call.target,
            method: frame.method().unwrap_or_default(),
            method_of_server: OnceCell::new(),
        }
    }

    /// The query to a scope: about the call's name or, in `mcp_method`, about its method.
    pub(super) fn question<'q>(&'q self, scope: &str, facts: &'q Facts) -> ScopeQuery<'q> {
        let name = match scope {
            METHOD_SCOPE => self
                .method_of_server
                .get_or_init(|| of_server(self.target, self.method)),
            _ => &self.name,
        };
        ScopeQuery {
            name,
            arguments: self.arguments,
            ground: self.ground,
            context: EvalContext {
                seen: &self.seen,
                facts,
            },
        }
    }
}

/// Every check of a call. The first of equally strict checks is reported, so protected paths come first.
pub(super) fn judge(policy: &Policy, call: &Call, facts: &Facts) -> Vec<Check> {
    let mut checks = Vec::with_capacity(2);
    checks.extend(protected(policy, call, facts));
    rules_judge(policy, call, facts, &mut checks);
    checks
}

/// The check of a call that leads to a protected place; independent of the rules.
fn protected(policy: &Policy, call: &Call, facts: &Facts) -> Option<Check> {
    if policy.protected.is_empty() {
        return None;
    }
    match &facts.leads {
        Some(leads) => Protected::check(call, leads, &facts.reached),
        // Facts without candidates are computed here rather than skipped, so a caller of `decide` cannot forget them.
        None => Protected::check(call, &leads(policy, call)?, &facts.reached),
    }
}

/// The protected-path candidates of a call; `None` where nothing is protected.
fn leads(policy: &Policy, call: &Call) -> Option<ProtectedCandidates> {
    let protected = &policy.protected;
    let leads = || protected.leads(call, policy.ground_of(&call.target));
    (!protected.is_empty()).then(leads)
}

/// Adds the checks of the tool lists, the token, the guard and the layers.
fn rules_judge(policy: &Policy, call: &Call, facts: &Facts, checks: &mut Vec<Check>) {
    let filtered = match &call.target {
        Target::Tool(tool) => policy
            .filters
            .get(&tool.server)
            .and_then(|filter| filter.check(tool)),
        Target::Prompt(_) | Target::Resource(_) | Target::Completion(_) | Target::Method { .. } => {
            None
        }
    };
    // A disabled tool does not exist for callers, so no further check is evaluated or disclosed.
    if let Some(check) = filtered {
        return checks.push(check);
    }
    // The token's limits precede the guard and the layers: no policy can widen a grant.
    if let Some(check) = call
        .attempt
        .host
        .identity
        .grant
        .refuses_target(&call.target)
    {
        return checks.push(check);
    }
    if policy.guarded {
        return match &facts.guard {
            Some(guarded) => checks.extend_from_slice(&guarded.checks),
            // A missing answer denies. The size is checked again only to report the right rule.
            None if inquiries(policy, call).is_none() => checks.push(Check::too_large_to_ask()),
            None => checks.push(FailMode::Deny.check("it was not queried")),
        };
    }
    let mut view = None;
    for layer in &policy.layers {
        match (layer, &call.target) {
            (Layer::Builtin(builtin), Target::Tool(tool)) => checks.push(builtin.check(tool)),
            (
                Layer::Builtin(_),
                Target::Prompt(_)
                | Target::Resource(_)
                | Target::Completion(_)
                | Target::Method { .. },
            ) => checks.push(passes(call.target.scope())),
            (Layer::Rules(rules), _) => {
                // Built lazily: built-in layers do not need it.
                let view = view.get_or_insert_with(|| View::of(policy, call));
                check_rules(rules, view, (policy.mode, cost(call)), facts, checks);
            }
        }
    }
}

/// The facts that a call needs.
pub(super) fn needs(policy: &Policy, call: &Call) -> Needs {
    let mut needs = Needs {
        leads: leads(policy, call),
        ..Needs::default()
    };
    if policy.guarded {
        // Only protected paths are looked up beside the questions: the guard gathers its own facts.
        needs.inquiries = inquiries(policy, call).unwrap_or_default();
        return needs;
    }
    for layer in &policy.layers {
        let Layer::Rules(rules) = layer else { continue };
        // Skips walking the rule sets for every call of a policy that needs no facts.
        if rules.needs_nothing() {
            continue;
        }
        let identity = &call.attempt.host.identity;
        for set in asked_sets(rules, &call.target, identity, policy.mode) {
            add_needs(&mut needs, set, policy, call);
        }
    }
    once_each(&mut needs);
    needs
}

/// Adds the facts that a rule set needs for a call.
fn add_needs(needs: &mut Needs, set: &RuleSet, policy: &Policy, call: &Call) {
    needs.rates.extend(set.rates.iter().cloned());
    let conditions = set.rules.iter().flat_map(|rule| &rule.fields.conditions);
    needs.prior.extend(conditions.cloned());
    if set.limits.is_some() {
        needs.cost = Some(cost(call));
    }
    if set.scope.sought().is_some() {
        let ground = policy.ground_of(&call.target);
        needs.paths.extend(set.paths_asked(arguments(call), ground));
    }
}

/// A method as rules name it: `server:method`.
fn of_server(target: &Target, method: &str) -> String {
    format!("{}:{method}", target.server())
}

/// Removes duplicates, so that a fact that two rule sets need is looked up once.
fn once_each(needs: &mut Needs) {
    if needs.is_empty() {
        return;
    }
    // Several scopes can ask for one path, and resolving a path is a system call each.
    needs.paths.sort_unstable();
    needs.paths.dedup();
    let mut seen = Vec::new();
    needs.rates.retain(|rate| {
        let is_new = !seen.contains(rate);
        seen.push(rate.clone());
        is_new
    });
}

/// The questions to the guard about a call: its name, and in strict mode the subjects of the scope that the
/// file maps it to. `None` where the arguments exceed the limits of a query.
fn inquiries(policy: &Policy, call: &Call) -> Option<Vec<Inquiry>> {
    let about = |scope: &str, command: String| Inquiry {
        scope: scope.to_owned(),
        command,
        ..Inquiry::default()
    };
    let method = call.attempt.frame.method().unwrap_or_default();
    let mut all = match &call.target {
        Target::Tool(tool) => {
            let name = tool.canonical();
            let mapped = policy.layers.iter().find_map(|layer| match layer {
                Layer::Rules(rules) => rules.mapped(&name),
                Layer::Builtin(_) => None,
            });
            let mapped = mapped.filter(|_| policy.mode == Mode::Strict);
            // The guard gets one question per path, host or command: it would otherwise judge only the first of them.
            let second = match mapped {
                Some(scope) => direct::projected(scope, &tool.name, &name, arguments(call))?,
                None => Vec::new(),
            };
            [about(TOOL_SCOPE, name.clone())]
                .into_iter()
                .chain(second)
                .collect()
        }
        Target::Prompt(of) | Target::Resource(of) | Target::Completion(of) => vec![
            about(of.kind.scope(), of.canonical()),
            about(METHOD_SCOPE, of_server(&call.target, method)),
        ],
        Target::Method { method, .. } => {
            vec![about(METHOD_SCOPE, of_server(&call.target, method))]
        }
    };
    if let Some(last) = all.last_mut() {
        last.with_cost = true;
    }
    Some(all)
}

/// The rule sets that apply to a call: the caller's and, where the caller's name is self-declared, also
/// everyone's.
pub(super) fn asked_sets<'r>(
    rules: &'r Rules,
    target: &Target,
    identity: &CallerIdentity,
    mode: Mode,
) -> Vec<&'r RuleSet> {
    let (own, base) = rules.scopes_for(identity);
    let scopes = [Some(own), base];
    // The scopes are the same for both rule sets: only their rules differ by agent.
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

/// The scopes that apply to a call.
fn scope_names<'r>(rules: &'r Rules, target: &Target, mode: Mode) -> Vec<&'r str> {
    match (target, mode) {
        (Target::Method { .. }, _) => vec![METHOD_SCOPE],
        (Target::Prompt(of) | Target::Completion(of), _) => vec![of.kind.scope(), METHOD_SCOPE],
        (Target::Resource(of), Mode::Fast) => vec![of.kind.scope(), METHOD_SCOPE],
        (Target::Resource(of), Mode::Strict) => {
            // Mapping by the spelled name alone would let an encoded URI skip the scope of its plain form.
            let name = of.canonical();
            let mapped = rules.scope_of(&name).or_else(|| {
                let forms = resource::readings(&name)?.normal;
                forms.iter().find_map(|form| rules.scope_of(form))
            });
            [Some(of.kind.scope()), Some(METHOD_SCOPE), mapped]
                .into_iter()
                .flatten()
                .collect()
        }
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

/// Adds the checks of one layer of rules.
fn check_rules(
    rules: &Rules,
    view: &View<'_>,
    (mode, cost): (Mode, Cost),
    facts: &Facts,
    checks: &mut Vec<Check>,
) {
    let (own, base) = rules.scopes_for(view.identity);
    for scopes in [Some(own), base].into_iter().flatten() {
        match view.target {
            Target::Tool(_) => {
                check_tool(rules, scopes, view, (mode, facts), checks);
                checks.extend(check_cost(scopes, mode, cost, facts));
            }
            Target::Prompt(_)
            | Target::Resource(_)
            | Target::Completion(_)
            | Target::Method { .. } => {
                checks.extend(check_other(rules, scopes, view, mode, facts));
            }
        }
    }
}

fn check_tool(
    rules: &Rules,
    scopes: &Scopes,
    view: &View<'_>,
    (mode, facts): (Mode, &Facts),
    checks: &mut Vec<Check>,
) {
    let question = view.question(TOOL_SCOPE, facts);
    checks.push(match scopes.get(TOOL_SCOPE) {
        Some(set) => set.check(question),
        // Rejected: reading "no rules" as "allowed". A file with a typo in its scope would allow every call.
        None => Check::default_deny(TOOL_SCOPE),
    });
    if mode == Mode::Strict
        && let Some(set) = rules
            .scope_of(question.name)
            .and_then(|scope| scopes.get(scope))
    {
        checks.push(set.check(question));
    }
}

/// Checks a request that is not a tool call. It passes where its own scope has no rules; other scopes still apply.
fn check_other(
    rules: &Rules,
    scopes: &Scopes,
    view: &View<'_>,
    mode: Mode,
    facts: &Facts,
) -> Vec<Check> {
    let asked = scope_names(rules, view.target, mode);
    let sets = asked.into_iter().filter_map(|scope| scopes.get(scope));
    let mut checks: Vec<Check> = sets
        .map(|set| set.check(view.question(set.scope.as_str(), facts)))
        .collect();
    let own = view.target.scope();
    if scopes.get(own).is_none() {
        // First, so that the record of a request without rules names its own scope.
        checks.insert(0, passes(own));
    }
    checks
}

fn check_cost(scopes: &Scopes, mode: Mode, cost: Cost, facts: &Facts) -> Option<Check> {
    if mode == Mode::Fast {
        return None;
    }
    let limits = scopes.get(COST_SCOPE)?.limits?;
    let (kind, what, reason) = limits.judge(cost, facts.spent);
    let rule = format!("{}:{COST_SCOPE}:{what}", kind.as_str());
    // Without a declared cost the check would repeat "within its limits" in every record.
    let is_quiet = kind == Kind::Allow && cost == Cost::Unsaid;
    (!is_quiet).then(|| Check {
        scope: COST_SCOPE.to_owned(),
        kind,
        hash: Digest::of(format!("{rule} {limits:?}").as_bytes()),
        rule,
        reason,
        judged: None,
    })
}

fn passes(scope: &'static str) -> Check {
    let rule = format!("allow:{scope}:*");
    Check {
        scope: scope.to_owned(),
        kind: Kind::Allow,
        reason: format!("the policy has no rules for scope `{scope}`"),
        hash: Digest::of(rule.as_bytes()),
        rule,
        judged: None,
    }
}

/// The JSON that is checked beyond the name: a tool's or prompt's arguments, else all parameters.
pub(crate) fn arguments(call: &Call) -> Option<Json<'_>> {
    let frame = &call.attempt.frame;
    match &call.target {
        Target::Tool(_) | Target::Prompt(_) => frame.param("arguments"),
        Target::Resource(_) | Target::Completion(_) | Target::Method { .. } => frame.params(),
    }
}

/// The declared cost of a call.
fn cost(call: &Call) -> Cost {
    let Some(meta) = call.attempt.frame.param("_meta") else {
        return Cost::Unsaid;
    };
    let Some(said) = COST_KEYS.iter().find_map(|key| meta.get(key)) else {
        return Cost::Unsaid;
    };
    match said.as_text().parse::<f64>() {
        // NaN compares false with every limit, so it must never reach a comparison.
        Ok(cost) if cost.is_finite() => Cost::Of(cost),
        Ok(_) | Err(_) => Cost::Unreadable,
    }
}
