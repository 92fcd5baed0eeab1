//! Asks the scopes of a policy about a call.

use std::cell::OnceCell;

use callgate_wire::Json;

use super::{
    Check, Kind, Layer, Mode, Policy,
    expression::Seen,
    limits::Cost,
    path::Ground,
    protected::{Leads, Protected},
    resource,
    rule::Asked,
    rule_set::{Question, RuleSet},
    rules::{Rules, Scopes},
};
use crate::{
    Call, Digest, Facts, Needs, Target, Who,
    guard::{FailMode, Inquiry},
};

mod direct;

pub(super) use direct::{judge_scope, needs_of_scope};

const TOOL_SCOPE: &str = "mcp_tool";
const METHOD_SCOPE: &str = "mcp_method";
const COST_SCOPE: &str = "cost";
/// What a host says that a call will cost, in the request's `_meta`.
pub(crate) const COST_KEYS: [&str; 2] = ["dev.callgate/est_cost", "dev.agentguard/est_cost"];

/// A call as rules see it.
pub(super) struct View<'a> {
    pub(super) name: String,
    pub(super) arguments: Option<Json<'a>>,
    pub(super) seen: Seen<'a>,
    pub(super) ground: &'a Ground,
    pub(super) who: &'a Who,
    target: &'a Target,
    method: &'a str,
    /// `server:method`, once a scope asks for it.
    method_of_server: OnceCell<String>,
}

impl<'a> View<'a> {
    pub(super) fn of(policy: &'a Policy, call: &'a Call) -> Self {
        let who = &call.attempt.host.who;
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
            seen: Seen::new(&call.target, who, arguments)
                .declaring(call.attempt.declared.as_deref()),
            ground: policy.ground_of(&call.target),
            who,
            target: &call.target,
            method: frame.method().unwrap_or_default(),
            method_of_server: OnceCell::new(),
        }
    }

    /// The question to a scope: about the call's name or, in `mcp_method`, about its method.
    pub(super) fn question<'q>(&'q self, scope: &str, facts: &'q Facts) -> Question<'q> {
        let name = match scope {
            METHOD_SCOPE => self
                .method_of_server
                .get_or_init(|| of_server(self.target, self.method)),
            _ => &self.name,
        };
        Question {
            name,
            arguments: self.arguments,
            ground: self.ground,
            asked: Asked {
                seen: &self.seen,
                facts,
            },
        }
    }
}

/// Every check of a call. Of checks that are equally strict the first is told, so what is protected comes first.
pub(super) fn judge(policy: &Policy, call: &Call, facts: &Facts) -> Vec<Check> {
    let mut checks = Vec::from_iter(protected(policy, call, facts));
    checks.extend(rules_judge(policy, call, facts));
    checks
}

/// What is said to a call that leads to a protected place, whatever the rules say.
fn protected(policy: &Policy, call: &Call, facts: &Facts) -> Option<Check> {
    if policy.protected.is_empty() {
        return None;
    }
    match &facts.leads {
        Some(leads) => Protected::check(call, leads, &facts.reached),
        None => Protected::check(call, &leads(policy, call)?, &facts.reached),
    }
}

/// What a call may lead to, where something is protected.
fn leads(policy: &Policy, call: &Call) -> Option<Leads> {
    let protected = &policy.protected;
    let leads = || protected.leads(call, policy.ground_of(&call.target));
    (!protected.is_empty()).then(leads)
}

/// What the configuration, the token, the guard and the layers say.
fn rules_judge(policy: &Policy, call: &Call, facts: &Facts) -> Vec<Check> {
    let filtered = match &call.target {
        Target::Tool(tool) => policy
            .filters
            .get(&tool.server)
            .and_then(|filter| filter.check(tool)),
        Target::Prompt(_) | Target::Resource(_) | Target::Completion(_) | Target::Method { .. } => {
            None
        }
    };
    if let Some(check) = filtered {
        return vec![check];
    }
    if let Some(check) = call.attempt.host.who.grant.refuses_target(&call.target) {
        return vec![check];
    }
    if policy.guarded {
        return match &facts.guard {
            Some(guarded) => guarded.checks.clone(),
            None if inquiries(policy, call).is_none() => vec![Check::too_large_to_ask()],
            None => vec![FailMode::Deny.check("it was not asked")],
        };
    }
    let mut view = None;
    let mut checks = Vec::new();
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
                let view = view.get_or_insert_with(|| View::of(policy, call));
                checks.extend(check_rules(rules, view, policy.mode, cost(call), facts));
            }
        }
    }
    checks
}

/// What must be looked up for a call.
pub(super) fn needs(policy: &Policy, call: &Call) -> Needs {
    let mut needs = Needs {
        leads: leads(policy, call),
        ..Needs::default()
    };
    if policy.guarded {
        needs.inquiries = inquiries(policy, call).unwrap_or_default();
        return needs;
    }
    for layer in &policy.layers {
        let Layer::Rules(rules) = layer else { continue };
        if rules.needs_nothing() {
            continue;
        }
        let who = &call.attempt.host.who;
        for set in asked_sets(rules, &call.target, who, policy.mode) {
            add_needs(&mut needs, set, policy, call);
        }
    }
    once_each(&mut needs);
    needs
}

/// Adds what a rule set needs for a call.
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

/// A method as rules name it.
fn of_server(target: &Target, method: &str) -> String {
    format!("{}:{method}", target.server())
}

/// What two rule sets need is looked up once.
fn once_each(needs: &mut Needs) {
    if needs.is_empty() {
        return;
    }
    needs.paths.sort_unstable();
    needs.paths.dedup();
    let mut seen = Vec::new();
    needs.rates.retain(|rate| {
        let is_new = !seen.contains(rate);
        seen.push(rate.clone());
        is_new
    });
}

/// What another gateway is asked about a call in place of these rules: its name, and in strict mode what
/// its arguments mean in the scope that the file maps it to. `None` where they are too much to be asked about.
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
        (Target::Prompt(of) | Target::Completion(of), _) => vec![of.kind.scope(), METHOD_SCOPE],
        (Target::Resource(of), Mode::Fast) => vec![of.kind.scope(), METHOD_SCOPE],
        (Target::Resource(of), Mode::Strict) => {
            // A spelling that only one reader understands is mapped like the plain one.
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

fn check_rules(
    rules: &Rules,
    view: &View<'_>,
    mode: Mode,
    cost: Cost,
    facts: &Facts,
) -> Vec<Check> {
    let (own, everyones) = rules.for_whom(view.who);
    let mut checks = Vec::new();
    for scopes in [Some(own), everyones].into_iter().flatten() {
        match view.target {
            Target::Tool(_) => {
                checks.extend(check_tool(rules, scopes, view, mode, facts));
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
    checks
}

fn check_tool(
    rules: &Rules,
    scopes: &Scopes,
    view: &View<'_>,
    mode: Mode,
    facts: &Facts,
) -> Vec<Check> {
    let question = view.question(TOOL_SCOPE, facts);
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

/// What is no tool passes where its own scope has no rules; those of the other scopes are asked in any
/// case.
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
    // A call that costs nothing as far as anyone knows has nothing to show for it.
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
        reason: format!("there are no rules for the scope `{scope}`"),
        hash: Digest::of(rule.as_bytes()),
        rule,
        judged: None,
    }
}

/// What a call is asked about beyond its name: a tool's or prompt's arguments, else all parameters.
pub(crate) fn arguments(call: &Call) -> Option<Json<'_>> {
    let frame = &call.attempt.frame;
    match &call.target {
        Target::Tool(_) | Target::Prompt(_) => frame.param("arguments"),
        Target::Resource(_) | Target::Completion(_) | Target::Method { .. } => frame.params(),
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
