//! Compiles a policy file. All problems are reported, not only the first, and a rule that can never match
//! is an error.

use std::borrow::Cow;

use globset::Glob;
use serde_saphyr::Spanned;

use super::{
    Kind,
    glob::{self, CompileContext, GlobsBuilder, PatternOwner},
    index::Index,
    limits::{CostLimits, RateLimit},
    pattern::{Lookalike, Pattern},
    resource,
    rule::{Fields, Label, Rule},
    rule_set::RuleSet,
    scope::Scope,
    written::{WrittenRule, WrittenSet},
};
use crate::{Place, Problem};

mod fields;
mod names;
mod reach;

/// The largest rate limit, which bounds the memory for counting.
const MAX_REQUESTS: u64 = 1_000_000;

/// Compiles the rule sets of a file, or of an agent.
pub(super) struct Compiler<'a> {
    pub(super) around: CompileContext<'a>,
    pub(super) problems: Vec<Problem>,
}

/// The rule sets of one scope, joined.
#[derive(Debug, Clone)]
pub(super) struct ScopeRules {
    pub(super) scope: Scope,
    rules: Vec<(Kind, Spanned<WrittenRule>)>,
    rates: Vec<RateLimit>,
    limits: Option<CostLimits>,
}

/// A compiled rule and the globs of its paths.
struct ReadRule {
    rule: Rule,
    globs: Vec<Vec<Glob>>,
}

impl ScopeRules {
    /// Joins the rules and limits of two sets.
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
    pub(super) fn joined(&mut self, sets: &[Spanned<WrittenSet>]) -> Vec<ScopeRules> {
        let mut all: Vec<ScopeRules> = Vec::new();
        for set in sets {
            let place = Place::of(&set.value.scope.referenced);
            let Some(scope) = Scope::read(&set.value.scope.value) else {
                let what = format!("invalid scope `{}`", set.value.scope.value);
                let problem = Problem::at(place, what);
                self.problems
                    .push(problem.help("a scope is one word, such as `mcp_tool` or `filesystem`"));
                continue;
            };
            let next = self.set(&set.value, scope, Place::of(&set.referenced));
            match all.iter_mut().find(|known| known.scope == next.scope) {
                Some(known) => {
                    if (!known.rates.is_empty() && !next.rates.is_empty())
                        || (known.limits.is_some() && next.limits.is_some())
                    {
                        let what = format!("scope `{}` sets its limits twice", next.scope.as_str());
                        self.problems.push(Problem::at(place, what));
                    }
                    *known = known.clone().with(next);
                }
                // Order of first appearance: rule order, and so the reported rule, follows the file.
                None => all.push(next),
            }
        }
        all
    }

    fn set(&mut self, set: &WrittenSet, scope: Scope, place: Place) -> ScopeRules {
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
                let what = "`rate_limit` has no effect in scope `cost`";
                self.problems
                    .push(Problem::at(Place::of(&rate.referenced), what));
            }
            let (max_requests, window) = (rate.value.max_requests, rate.value.window.0);
            if !(1..=MAX_REQUESTS).contains(&max_requests) || window.is_zero() {
                let what = format!("a rate limit allows 1 to {MAX_REQUESTS} requests per window");
                let problem = Problem::at(Place::of(&rate.referenced), what);
                self.problems
                    .push(problem.help("to block every request, write a `deny` rule"));
            }
            RateLimit {
                scope: scope.as_str().to_owned(),
                max_requests,
                window,
            }
        });
        ScopeRules {
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
        let all = [
            limits.max_per_action,
            limits.max_per_session,
            limits.alert_threshold,
        ];
        if *scope != Scope::Cost {
            let problem = Problem::at(place, "`limits` is only valid in scope `cost`");
            self.problems
                .push(problem.help("to limit the number of requests, write `rate_limit`"));
        } else if all.iter().all(Option::is_none) {
            self.problems
                .push(Problem::at(place, "`limits` sets no limit"));
        } else if all
            .iter()
            .flatten()
            .any(|limit| !limit.is_finite() || *limit < 0.0)
        {
            self.problems
                .push(Problem::at(place, "a limit must be at least 0"));
        }
        limits
    }

    /// Compiles the rules of one scope.
    pub(super) fn rule_set(&mut self, joined: &ScopeRules) -> RuleSet {
        let mut written: Vec<&(Kind, Spanned<WrittenRule>)> = joined.rules.iter().collect();
        // Evaluation order: strictest first. The sort is stable, so file order holds within a list.
        written.sort_by_key(|(kind, _)| std::cmp::Reverse(*kind));
        let mut read = Vec::new();
        for (kind, rule) in written {
            read.extend(self.rule(*kind, &joined.scope, rule));
        }
        let rules: Vec<&Rule> = read.iter().map(|read| &read.rule).collect();
        self.problems.extend(reach::unreachable(&rules));
        let mut index = Index::default();
        // All path patterns of a scope form one automaton, so the number of rules hardly affects a call.
        let mut collecting = GlobsBuilder::new();
        let mut rules = Vec::new();
        for (at, ReadRule { rule, globs }) in read.into_iter().enumerate() {
            index.add(rule.fields.pattern.as_ref().map(Lookalike::folded), at);
            for (path, globs) in globs.iter().enumerate() {
                collecting.add(globs, PatternOwner { rule: at, path });
            }
            rules.push(rule);
        }
        let globs = collecting.finish().unwrap_or_else(|bad| {
            self.problems
                .push(Problem::at(Place::default(), bad.to_string()));
            glob::Globs::default()
        });
        RuleSet {
            scope: joined.scope.clone(),
            has_paths: rules.iter().any(|rule| rule.fields.paths.is_some()),
            rules,
            index,
            globs,
            rates: joined.rates.clone(),
            limits: joined.limits,
        }
    }

    fn rule(
        &mut self,
        kind: Kind,
        scope: &Scope,
        written: &Spanned<WrittenRule>,
    ) -> Option<ReadRule> {
        let place = Place::of(&written.referenced);
        let before = self.problems.len();
        self.check_fields(scope, &written.value, place);
        let WrittenRule {
            pattern,
            paths,
            action,
            when,
            conditions,
            message,
            ..
        } = &written.value;
        let read = Fields {
            pattern: pattern.as_ref().map(|pattern| {
                self.check_pattern(scope, pattern);
                Lookalike::new(&compared(scope, &pattern.value))
            }),
            forms: pattern.as_ref().map_or_else(Vec::new, |pattern| {
                // URIs of calls arrive in normal form, so a pattern in another spelling would never match.
                let is_uri = *scope == Scope::McpResource;
                let forms = is_uri.then(|| resource::normal_patterns(&pattern.value));
                let forms = forms.into_iter().flatten();
                forms.map(|form| Lookalike::new(&form)).collect()
            }),
            paths: paths.as_ref().map(|paths| {
                let texts = paths.value.iter().map(|path| path.value.clone());
                texts.collect()
            }),
            domains: self.domains(&written.value),
            actions: action.as_ref().map(|action| self.actions(scope, action)),
            when: when.as_ref().and_then(|when| self.expression(when)),
            conditions: conditions
                .as_ref()
                .map_or_else(Vec::new, |conditions| self.conditions(conditions)),
        };
        let globs = paths.as_ref().map(|paths| self.paths(paths));
        // A faulty rule is dropped only so that compiling can go on and report the rest: `Rules::read` then fails.
        if self.problems.len() > before {
            return None;
        }
        let label = |what: &String| Label::new(kind, scope, what, message.as_deref());
        let named = names::of(pattern.as_ref().map(|pattern| &pattern.value), &read);
        Some(ReadRule {
            rule: Rule {
                kind,
                place,
                labels: named.iter().map(label).collect(),
                // Hashed as written, so approvals survive a change of the compiled form in a new release.
                hash: fields::hash(kind, scope, &written.value),
                fields: read,
            },
            globs: globs.unwrap_or_default(),
        })
    }
}

/// The rules of an agent in a scope: its own, joined to everyone's or replacing them.
pub(super) fn overridden(base: &[ScopeRules], own: ScopeRules, replaces: bool) -> ScopeRules {
    let base = base.iter().find(|base| base.scope == own.scope);
    match base {
        Some(base) if !replaces => base.clone().with(own),
        Some(_) | None => own,
    }
}

/// A pattern in the form it is compared in. Methods are compared as `server:method`; a pattern without a server
/// means every server.
fn compared<'p>(scope: &Scope, pattern: &'p str) -> Cow<'p, str> {
    match scope {
        Scope::McpMethod if !pattern.contains(':') => format!("*:{pattern}").into(),
        _ => pattern.into(),
    }
}

/// The patterns of a list so far.
#[derive(Debug, Default)]
pub(super) struct EarlierPatterns {
    patterns: Vec<Pattern>,
    index: Index,
}

impl EarlierPatterns {
    pub(super) fn add(&mut self, pattern: Pattern) {
        self.index.add(Some(&pattern), self.patterns.len());
        self.patterns.push(pattern);
    }

    /// Whether one of them covers `pattern` completely.
    pub(super) fn cover(&self, pattern: &Pattern) -> bool {
        // A covering pattern matches the text of the covered one, so it is among the candidates for it.
        let candidates = self.index.candidates(pattern.as_str());
        let mut candidates = candidates.iter().map(|at| &self.patterns[*at]);
        candidates.any(|earlier| earlier.covers(pattern))
    }
}
