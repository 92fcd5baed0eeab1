//! From a policy file as written to one that can be asked. Everything that is wrong is found, not
//! only the first of it, and a rule that can never match is wrong.

use std::collections::HashMap;

use globset::Glob;
use serde_saphyr::Spanned;

use super::{
    Kind, Place, Problem,
    domain::DomainPattern,
    expression::Expression,
    glob::{self, Collecting, Owner, Surroundings},
    index::Index,
    limits::{CostLimits, RateLimit},
    pattern::{Lookalike, Pattern},
    problem::nearest,
    projection::Action,
    rule::{Fields, Label, Rule},
    rule_set::RuleSet,
    scope::{Field, Scope},
    written::{Words, WrittenCondition, WrittenRule, WrittenSet},
};
use crate::{Digest, Prior};

mod names;
mod reach;

/// How often something may happen at most, so that counting it needs a bounded memory.
const MAX_REQUESTS: u64 = 1_000_000;

/// Compiles the rule sets of a file, or of an agent.
pub(super) struct Compiler<'a> {
    pub(super) around: Surroundings<'a>,
    pub(super) problems: Vec<Problem>,
}

/// The rule sets of one scope, joined.
#[derive(Debug, Clone)]
pub(super) struct Joined {
    pub(super) scope: Scope,
    rules: Vec<(Kind, Spanned<WrittenRule>)>,
    rates: Vec<RateLimit>,
    limits: Option<CostLimits>,
}

/// A rule that was read, with what its paths are matched by.
struct ReadRule {
    rule: Rule,
    globs: Vec<Vec<Glob>>,
}

impl Joined {
    /// The same rules and those of another, whose limits come in addition.
    pub(super) fn with(mut self, other: Self) -> Self {
        self.rules.extend(other.rules);
        self.rates.extend(other.rates);
        self.limits = match (self.limits, other.limits) {
            (Some(own), Some(others)) => Some(own.with(others)),
            (own, others) => own.or(others),
        };
        self
    }
}

impl Compiler<'_> {
    /// Joins the rule sets of each scope, in the order of the file.
    pub(super) fn joined(&mut self, sets: &[Spanned<WrittenSet>]) -> Vec<Joined> {
        let mut all: Vec<Joined> = Vec::new();
        for set in sets {
            let place = Place::of(&set.value.scope.referenced);
            let Some(scope) = Scope::read(&set.value.scope.value) else {
                let what = format!("`{}` is no scope", set.value.scope.value);
                let problem = Problem::at(place, what);
                self.problems.push(problem.help("a scope is a word like `mcp_tool` or `filesystem`"));
                continue;
            };
            let next = self.set(&set.value, scope, Place::of(&set.referenced));
            match all.iter_mut().find(|known| known.scope == next.scope) {
                Some(known) => {
                    if (!known.rates.is_empty() && !next.rates.is_empty())
                        || (known.limits.is_some() && next.limits.is_some())
                    {
                        let what = format!("scope `{}` has its limits twice", next.scope.as_str());
                        self.problems.push(Problem::at(place, what));
                    }
                    *known = known.clone().with(next);
                }
                None => all.push(next),
            }
        }
        all
    }

    fn set(&mut self, set: &WrittenSet, scope: Scope, place: Place) -> Joined {
        let lists = [
            (Kind::Deny, &set.deny),
            (Kind::RequireApproval, &set.require_approval),
            (Kind::Confirm, &set.confirm),
            (Kind::Allow, &set.allow),
        ];
        let rules: Vec<_> = lists
            .into_iter()
            .flat_map(|(kind, rules)| rules.iter().map(move |rule| (kind, rule.clone())))
            .collect();
        if rules.is_empty() && set.rate_limit.is_none() && set.limits.is_none() {
            let what = format!("the rule set of scope `{}` is empty", scope.as_str());
            self.problems.push(Problem::at(place, what));
        }
        let limits = set.limits.as_ref().map(|limits| {
            let place = Place::of(&limits.referenced);
            self.limits(&scope, &limits.value, place)
        });
        let rate = set.rate_limit.as_ref().map(|rate| {
            if scope == Scope::Cost {
                let what = "`rate_limit` in scope `cost` would never be asked";
                self.problems.push(Problem::at(Place::of(&rate.referenced), what));
            }
            let (max_requests, window) = (rate.value.max_requests, rate.value.window.0);
            if !(1..=MAX_REQUESTS).contains(&max_requests) || window.is_zero() {
                let what = format!("a rate limit is 1 to {MAX_REQUESTS} requests in some time");
                let problem = Problem::at(Place::of(&rate.referenced), what);
                self.problems.push(problem.help("to allow none, write a `deny` rule"));
            }
            RateLimit {
                scope: scope.as_str().to_owned(),
                max_requests,
                window,
            }
        });
        Joined {
            scope,
            rules,
            rates: rate.into_iter().collect(),
            limits,
        }
    }

    fn limits(
        &mut self,
        scope: &Scope,
        written: &super::written::WrittenLimits,
        place: Place,
    ) -> CostLimits {
        let limits = CostLimits {
            max_per_action: written.max_per_action,
            max_per_session: written.max_per_session,
            alert_threshold: written.alert_threshold,
        };
        let all = [limits.max_per_action, limits.max_per_session, limits.alert_threshold];
        if *scope != Scope::Cost {
            let problem = Problem::at(place, "`limits` belongs to the scope `cost`");
            self.problems.push(problem.help("to limit how often, write `rate_limit`"));
        } else if all.iter().all(Option::is_none) {
            self.problems.push(Problem::at(place, "`limits` without a limit"));
        } else if all.iter().flatten().any(|limit| !limit.is_finite() || *limit < 0.0) {
            self.problems.push(Problem::at(place, "a limit is a number from 0"));
        }
        limits
    }

    /// Compiles the rules of one scope.
    pub(super) fn rule_set(&mut self, joined: &Joined) -> RuleSet {
        let mut written: Vec<&(Kind, Spanned<WrittenRule>)> = joined.rules.iter().collect();
        // The order in which they are asked; among those of one kind, that of the file.
        written.sort_by_key(|(kind, _)| std::cmp::Reverse(*kind));
        let mut read = Vec::new();
        for (kind, rule) in written {
            read.extend(self.rule(*kind, &joined.scope, rule));
        }
        let rules: Vec<&Rule> = read.iter().map(|read| &read.rule).collect();
        self.problems.extend(reach::unreachable(&rules));
        let mut index = Index::default();
        let mut collecting = Collecting::new();
        let mut rules = Vec::new();
        for (at, ReadRule { rule, globs }) in read.into_iter().enumerate() {
            index.add(rule.fields.pattern.as_ref().map(Lookalike::pattern));
            for (path, globs) in globs.iter().enumerate() {
                collecting.add(globs, Owner { rule: at, path });
            }
            rules.push(rule);
        }
        let globs = collecting.finish().unwrap_or_else(|bad| {
            self.problems.push(Problem::at(Place::default(), bad.to_string()));
            glob::Globs::default()
        });
        RuleSet {
            scope: joined.scope.clone(),
            rules,
            index,
            globs,
            rates: joined.rates.clone(),
            limits: joined.limits,
        }
    }

    fn rule(&mut self, kind: Kind, scope: &Scope, written: &Spanned<WrittenRule>) -> Option<ReadRule> {
        let place = Place::of(&written.referenced);
        let before = self.problems.len();
        self.check_fields(scope, &written.value, place);
        let mut fields = Fields::default();
        let mut globs = Vec::new();
        if let Some(pattern) = &written.value.pattern {
            self.check_pattern(scope, pattern);
            fields.pattern = Some(Lookalike::new(&pattern.value));
        }
        if let Some(paths) = &written.value.paths {
            globs = self.paths(paths);
            fields.paths = Some(paths.value.iter().map(|path| path.value.clone()).collect());
        }
        fields.domains = self.domains(&written.value);
        fields.actions = written.value.action.as_ref().map(|action| self.actions(scope, action));
        fields.when = written.value.when.as_ref().and_then(|when| self.expression(when));
        if let Some(conditions) = &written.value.conditions {
            fields.conditions = self.conditions(conditions);
        }
        if self.problems.len() > before {
            return None;
        }
        let message = written.value.message.as_deref();
        let label = |what: &str| Label::new(kind, scope, what, message);
        Some(ReadRule {
            rule: Rule {
                kind,
                place,
                labels: names::of(&fields).iter().map(|what| label(what)).collect(),
                hash: hash(kind, scope, &written.value),
                fields,
            },
            globs,
        })
    }

    /// A rule must ask for something, and only for what there is in its scope.
    fn check_fields(&mut self, scope: &Scope, rule: &WrittenRule, place: Place) {
        let given = [
            (Field::Pattern, rule.pattern.as_ref().map(|field| field.referenced)),
            (Field::Paths, rule.paths.as_ref().map(|field| field.referenced)),
            (Field::Domains, rule.domains.as_ref().map(|field| field.referenced)),
            (Field::Domains, rule.domain.as_ref().map(|field| field.referenced)),
            (Field::Action, rule.action.as_ref().map(|field| field.referenced)),
        ];
        let by_field = given.iter().any(|(_, location)| location.is_some());
        for (field, location) in given {
            let Some(location) = location else { continue };
            if !scope.fields().contains(&field) {
                let (name, scope_name) = (field.as_str(), scope.as_str());
                let what = format!("a rule with `{name}` can never match in scope `{scope_name}`");
                let known: Vec<&str> = scope.fields().iter().map(|field| field.as_str()).collect();
                let help = match known.as_slice() {
                    [] => format!("scope `{scope_name}` has `limits` and no rules"),
                    known => format!("rules of scope `{scope_name}` have `{}`", known.join("`, `")),
                };
                self.problems.push(Problem::at(Place::of(&location), what).help(help));
            }
        }
        if rule.domain.is_some() && rule.domains.is_some() {
            self.problems.push(Problem::at(place, "write `domain` or `domains`, not both"));
        }
        if by_field {
            return;
        }
        if scope.fields().is_empty() {
            let what = format!("scope `{}` has `limits` and no rules", scope.as_str());
            self.problems.push(Problem::at(place, what));
        } else if rule.when.is_none() && rule.conditions.is_none() {
            let problem = Problem::at(place, "the rule does not say what it is about");
            let fields = "give it a `pattern`, `paths`, `domains`, `action` or `when`";
            self.problems.push(problem.help(fields));
        }
    }

    fn check_pattern(&mut self, scope: &Scope, pattern: &Spanned<String>) {
        let place = Place::of(&pattern.referenced);
        if pattern.value.is_empty() {
            let what = "an empty pattern can never match";
            self.problems.push(Problem::at(place, what));
        } else if matches!(scope, Scope::McpTool)
            && let Err(problem) = names::check_tool_pattern(&pattern.value)
        {
            self.problems.push(Problem { place, ..problem });
        }
    }

    fn paths(&mut self, paths: &Spanned<Vec<Spanned<String>>>) -> Vec<Vec<Glob>> {
        if paths.value.is_empty() {
            let what = "`paths` without a path can never match";
            self.problems.push(Problem::at(Place::of(&paths.referenced), what));
        }
        let mut all = Vec::new();
        for path in &paths.value {
            match glob::read(&path.value, self.around) {
                Ok(globs) => all.push(globs),
                Err(bad) => {
                    let place = Place::of(&path.referenced);
                    self.problems.push(Problem::at(place, bad.to_string()));
                }
            }
        }
        all
    }

    fn domains(&mut self, rule: &WrittenRule) -> Option<Vec<DomainPattern>> {
        let written: Vec<&Spanned<String>> = match (&rule.domain, &rule.domains) {
            (None, None) => return None,
            (Some(domain), _) => vec![domain],
            (None, Some(domains)) => {
                if domains.value.is_empty() {
                    let place = Place::of(&domains.referenced);
                    let what = "`domains` without a domain can never match";
                    self.problems.push(Problem::at(place, what));
                }
                domains.value.iter().collect()
            }
        };
        let mut all = Vec::new();
        for domain in written {
            match DomainPattern::read(&domain.value) {
                Some(pattern) => all.push(pattern),
                None => {
                    let what = format!("`{}` can never match a domain", domain.value);
                    let problem = Problem::at(Place::of(&domain.referenced), what);
                    self.problems.push(problem.help("write it like `api.example.com` or `*.example.com`"));
                }
            }
        }
        Some(all)
    }

    fn actions(&mut self, scope: &Scope, action: &Spanned<Words>) -> Vec<String> {
        let known = [Action::Read, Action::Write, Action::Delete].map(Action::as_str);
        let place = Place::of(&action.referenced);
        if action.value.0.is_empty() {
            self.problems.push(Problem::at(place, "`action` without an action can never match"));
        }
        if scope.fields().contains(&Field::Action) {
            for word in action.value.0.iter().filter(|word| !known.contains(&word.as_str())) {
                let problem = Problem::at(place, format!("unknown action `{word}`"));
                self.problems.push(problem.help(nearest(word, &known)));
            }
        }
        action.value.0.clone()
    }

    fn expression(&mut self, when: &Spanned<String>) -> Option<Expression> {
        match Expression::read(&when.value) {
            Ok(expression) => Some(expression),
            Err(bad) => {
                self.problems.push(Problem {
                    place: Place::of(&when.referenced),
                    what: bad.what,
                    help: bad.help,
                });
                None
            }
        }
    }

    fn conditions(&mut self, conditions: &Spanned<Vec<Spanned<WrittenCondition>>>) -> Vec<Prior> {
        if conditions.value.is_empty() {
            let what = "`conditions` without a condition";
            self.problems.push(Problem::at(Place::of(&conditions.referenced), what));
        }
        let mut all = Vec::new();
        for condition in &conditions.value {
            let WrittenCondition {
                require_prior,
                time_window,
            } = &condition.value;
            if require_prior.value.is_empty() {
                let place = Place::of(&require_prior.referenced);
                self.problems.push(Problem::at(place, "an empty pattern can never match"));
            }
            if time_window.value.0.is_zero() {
                let place = Place::of(&time_window.referenced);
                self.problems.push(Problem::at(place, "in no time nothing can have happened"));
            }
            all.push(Prior {
                pattern: require_prior.value.clone(),
                window: time_window.value.0,
            });
        }
        all
    }
}

/// The scopes of an agent: those of everyone, with its own joined to them or in their place.
pub(super) fn overridden(
    everyones: &[Joined],
    own: Vec<Joined>,
    replaces: bool,
) -> Vec<Joined> {
    let mut all: HashMap<String, Joined> = everyones
        .iter()
        .map(|joined| (joined.scope.as_str().to_owned(), joined.clone()))
        .collect();
    for joined in own {
        let scope = joined.scope.as_str().to_owned();
        let joined = match all.remove(&scope) {
            Some(everyones) if !replaces => everyones.with(joined),
            Some(_) | None => joined,
        };
        all.insert(scope, joined);
    }
    all.into_values().collect()
}

/// What a rule is, whatever stands around it and whatever it says to people.
fn hash(kind: Kind, scope: &Scope, rule: &WrittenRule) -> Digest {
    let texts = |list: &Option<Spanned<Vec<Spanned<String>>>>| {
        let list = list.as_ref().map(|list| &list.value);
        list.map(|list| list.iter().map(|text| text.value.clone()).collect::<Vec<_>>())
    };
    let conditions = rule.conditions.as_ref().map(|conditions| {
        let condition = |c: &Spanned<WrittenCondition>| {
            (c.value.require_prior.value.clone(), c.value.time_window.value.0)
        };
        conditions.value.iter().map(condition).collect::<Vec<_>>()
    });
    // Debug text is a stable form here: quoted strings in tuples of a fixed order.
    let whole = format!(
        "{:?}",
        (
            kind.as_str(),
            scope.as_str(),
            rule.pattern.as_ref().map(|pattern| &pattern.value),
            texts(&rule.paths),
            (rule.domain.as_ref().map(|domain| &domain.value), texts(&rule.domains)),
            rule.action.as_ref().map(|action| &action.value.0),
            rule.when.as_ref().map(|when| &when.value),
            conditions,
        )
    );
    Digest::of(whole.as_bytes())
}

/// Whether one pattern of tools stands wholly behind another.
pub(super) fn is_behind(pattern: &Pattern, earlier: &[Pattern]) -> bool {
    earlier.iter().any(|earlier| earlier.covers(pattern))
}
