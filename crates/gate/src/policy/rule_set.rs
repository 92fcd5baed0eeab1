//! The rules of one scope, in evaluation order: deny, require_approval, confirm, allow. The first match
//! decides; without a match the call is denied.

use std::borrow::Cow;

use callgate_wire::Json;

use super::{
    Check, CheckSubject, Kind, address,
    glob::{Globs, PatternOwner},
    index::Index,
    limits::{CostLimits, RateLimit},
    path::{self, PathBase},
    pattern::{self, Lookalike},
    projection::{self, SubjectKind},
    resource::{self, Readings},
    rule::{EvalContext, NoMatch, Rule, Subject},
    scope::Scope,
};
use crate::{Digest, RealPath};

/// How the reason for a call over a rate limit begins; the limit follows, and ends with its window.
pub const RATE_LIMITED: &str = "rate limit exceeded: ";

/// The rule id of a call that no rule matches.
pub(super) const DEFAULT: &str = "deny:default";

/// The rules of one scope.
#[derive(Debug)]
pub(super) struct RuleSet {
    pub(super) scope: Scope,
    pub(super) rules: Vec<Rule>,
    pub(super) index: Index,
    /// Whether some rule has `paths`.
    pub(super) has_paths: bool,
    pub(super) globs: Globs,
    pub(super) rates: Vec<RateLimit>,
    pub(super) limits: Option<CostLimits>,
}

/// A call as a scope sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScopeQuery<'a> {
    /// `server:tool`, or a method.
    pub(super) name: &'a str,
    pub(super) arguments: Option<Json<'a>>,
    /// Resolves relative paths and `~` in the arguments.
    pub(super) ground: &'a PathBase,
    pub(super) context: EvalContext<'a>,
}

/// One subject of a call, and the result of each rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SubjectTrace {
    pub(super) subject: String,
    pub(super) rules: Vec<(usize, Result<String, NoMatch>)>,
}

impl RuleSet {
    /// The verdict of the rules and limits on a call.
    pub(super) fn check(&self, question: ScopeQuery<'_>) -> Check {
        let said = self.ask(question, &mut |_, _| {});
        self.rated(said, question)
    }

    /// The verdict, with the result of each rule for each subject.
    pub(super) fn explain(&self, question: ScopeQuery<'_>) -> (Check, Vec<SubjectTrace>) {
        let mut traces = Vec::new();
        let said = self.ask(question, &mut |shown, subject| {
            let rules = self.rules.iter().enumerate().map(|(at, rule)| {
                let matched = rule.matches(at, subject, question.context);
                (
                    at,
                    matched.map(|matched| rule.labels[matched.label].id.clone()),
                )
            });
            traces.push(SubjectTrace {
                subject: shown.to_owned(),
                rules: rules.collect(),
            });
        });
        (self.rated(said, question), traces)
    }

    /// Whether every call of a tool with this name is denied, whatever its arguments. A resource is denied when one of
    /// its readings is.
    pub(super) fn refuses_outright(&self, name: &str) -> bool {
        let readings = match self.scope == Scope::McpResource {
            true => resource::readings(name),
            false => None,
        };
        match readings {
            // Hidden as soon as one reading is denied, as a read of it would be.
            Some(Readings { normal, .. }) => normal.iter().any(|name| self.refuses_name(name)),
            None => self.refuses_name(name),
        }
    }

    fn refuses_name(&self, name: &str) -> bool {
        let name = &*self.compared(name);
        let named = |rule: &&Rule| {
            let pattern = rule.fields.pattern.as_ref();
            let matches = |pattern: &Lookalike| match rule.kind.restricts() {
                true => pattern.resembles(name),
                false => pattern.matches(name),
            };
            pattern.is_none_or(matches) || rule.fields.forms.iter().any(matches)
        };
        let candidates = self.candidates(name);
        let candidates = candidates.iter().map(|at| &self.rules[*at]);
        let named: Vec<&Rule> = candidates.filter(named).collect();
        let denies = |rule: &&Rule| rule.kind == Kind::Deny;
        // A rule with an expression may let some call pass, so only plain denials hide a tool.
        named.iter().all(denies) || named.iter().any(|rule| denies(rule) && rule.is_plain())
    }

    /// Whether a call can need a fact here.
    pub(super) fn needs_facts(&self) -> bool {
        !self.rates.is_empty() || self.limits.is_some() || self.asks_for_prior() || self.has_paths
    }

    /// Whether some rule has `conditions`.
    pub(super) fn asks_for_prior(&self) -> bool {
        let asks = |rule: &Rule| !rule.fields.conditions.is_empty();
        self.rules.iter().any(asks)
    }

    /// The paths to resolve before this scope can be evaluated.
    pub(super) fn paths_asked(
        &self,
        arguments: Option<Json<'_>>,
        ground: &PathBase,
    ) -> Vec<String> {
        if self.scope != Scope::Filesystem || !self.has_paths {
            return Vec::new();
        }
        let found = projection::project(arguments, SubjectKind::Paths).unwrap_or_default();
        let readings = found
            .iter()
            .filter_map(|text| path::readings(text, ground).ok());
        readings.flatten().map(|reading| reading.asked).collect()
    }

    fn ask(&self, question: ScopeQuery<'_>, observe: &mut dyn FnMut(&str, &Subject<'_>)) -> Check {
        let Some(sought) = self.scope.sought() else {
            return match self.scope == Scope::McpResource {
                true => self.ask_resource(question, observe),
                false => self.ask_name(question.name, question, observe),
            };
        };
        let found = match projection::project(question.arguments, sought) {
            Ok(found) => found,
            // Judging only a prefix of the arguments would let a caller hide a path behind thousands of others.
            Err(error) => return self.refused(error.rule(), &error.to_string()),
        };
        if found.is_empty() {
            // Rules without fields, such as `when` alone, still apply to a call without subjects.
            observe("", &Subject::Nothing);
            return self.first_of_all(&Subject::Nothing, question);
        }
        let mut strictest: Option<(usize, Check)> = None;
        for (at, text) in found.iter().enumerate() {
            let said = match sought {
                SubjectKind::Paths => self.ask_path(text, question, observe),
                SubjectKind::Hosts => self.ask_host(text, question, observe),
                SubjectKind::Commands | SubjectKind::Texts => {
                    let subject = Subject::Text(text);
                    observe(text, &subject);
                    self.first_of_all(&subject, question)
                }
            };
            strictest = match strictest {
                // `>=`: of equally strict subjects the first is reported, so the record is stable.
                Some((before, check)) if check.kind >= said.kind => Some((before, check)),
                Some(_) | None => Some((at, said)),
            };
        }
        let Some((decided, mut check)) = strictest else {
            return self.default();
        };
        let action = question
            .context
            .seen
            .action()
            .filter(|_| sought == SubjectKind::Paths);
        check.judged = CheckSubject::of(sought, found, decided)
            .map(|judged| Box::new(judged.with_action(action.map(|action| action.as_str()))));
        check
    }

    fn ask_name(
        &self,
        name: &str,
        question: ScopeQuery<'_>,
        observe: &mut dyn FnMut(&str, &Subject<'_>),
    ) -> Check {
        let name = &*self.compared(name);
        let subject = Subject::Name(name);
        observe(name, &subject);
        self.first(&self.candidates(name), &subject, question)
    }

    /// Allows a resource only if each normal form is allowed; any spelling is enough to refuse it.
    fn ask_resource(
        &self,
        question: ScopeQuery<'_>,
        observe: &mut dyn FnMut(&str, &Subject<'_>),
    ) -> Check {
        let Some(Readings { spelled, normal }) = resource::readings(question.name) else {
            let why = format!("the URI cannot be checked: {}", address::AmbiguousHost);
            return self.refused("unclear_address", &why);
        };
        let mut strictest = None;
        for name in &normal {
            let said = self.ask_name(name, question, observe);
            strictest = Some(stricter(strictest, said));
        }
        if let Some(spelled) = spelled {
            let said = self.ask_name(&spelled, question, observe);
            // The spelled form only restricts. Its default denial does not count: patterns are in normal form, so
            // an unusual but allowed spelling would never match one.
            if said.kind.restricts() && said.rule != DEFAULT {
                strictest = Some(stricter(strictest, said));
            }
        }
        strictest.unwrap_or_else(|| self.default())
    }

    fn ask_path(
        &self,
        text: &str,
        question: ScopeQuery<'_>,
        observe: &mut dyn FnMut(&str, &Subject<'_>),
    ) -> Check {
        let readings = match path::readings(text, question.ground) {
            Ok(readings) => readings,
            Err(unclear) => {
                let why = format!("a path cannot be checked: {unclear}");
                return self.refused("path_traversal", &why);
            }
        };
        // Without `paths` rules nothing depends on the real location, and no lookup was requested.
        let mut strictest = None;
        // Each reading is judged alone and the strictest wins: the gate cannot know which one the server uses.
        for reading in readings {
            let (spelled, real): (Vec<PatternOwner>, Vec<PatternOwner>) = if self.has_paths {
                // An unresolved path is refused even where rules would allow it by name: a link could lead anywhere.
                let Some(RealPath::At(real)) =
                    question.context.facts.real_paths.get(&reading.asked)
                else {
                    let why = "a path cannot be checked: its real location could not be resolved";
                    return self.refused("path_traversal", why);
                };
                (
                    self.globs.matching(&reading.spelled),
                    self.globs.matching(real),
                )
            } else {
                (Vec::new(), Vec::new())
            };
            let subject = Subject::Path {
                spelled: &spelled,
                real: &real,
            };
            observe(&reading.spelled, &subject);
            let said = self.first_of_all(&subject, question);
            strictest = Some(stricter(strictest, said));
        }
        strictest.unwrap_or_else(|| self.default())
    }

    fn ask_host(
        &self,
        text: &str,
        question: ScopeQuery<'_>,
        observe: &mut dyn FnMut(&str, &Subject<'_>),
    ) -> Check {
        let hosts = match address::hosts(text) {
            Ok(hosts) => hosts,
            Err(unclear) => {
                let why = format!("an address cannot be checked: {unclear}");
                return self.refused("unclear_address", &why);
            }
        };
        let mut strictest = None;
        for host in &hosts {
            let subject = Subject::Host(host);
            observe(host, &subject);
            strictest = Some(stricter(strictest, self.first_of_all(&subject, question)));
        }
        strictest.unwrap_or_else(|| self.default())
    }

    /// A name in the form of this scope's patterns: a method has its server in front, which may be unknown.
    fn compared<'n>(&self, name: &'n str) -> Cow<'n, str> {
        match self.scope {
            Scope::McpMethod if !name.contains(':') => format!(":{name}").into(),
            _ => name.into(),
        }
    }

    fn candidates(&self, name: &str) -> Vec<usize> {
        // The index knows no look-alikes, so names beyond ASCII are compared with every rule.
        if self.scope == Scope::McpTool && name.is_ascii() {
            self.index.candidates(&pattern::folded(name))
        } else {
            (0..self.rules.len()).collect()
        }
    }

    fn first_of_all(&self, subject: &Subject<'_>, question: ScopeQuery<'_>) -> Check {
        let all: Vec<usize> = match subject {
            Subject::Path { spelled, real } => {
                let hit = |at: &usize| {
                    self.rules[*at].fields.paths.is_none()
                        || spelled.iter().chain(*real).any(|owner| owner.rule == *at)
                };
                (0..self.rules.len()).filter(hit).collect()
            }
            Subject::Name(_) | Subject::Text(_) | Subject::Host(_) | Subject::Nothing => {
                (0..self.rules.len()).collect()
            }
        };
        self.first(&all, subject, question)
    }

    fn first(&self, among: &[usize], subject: &Subject<'_>, question: ScopeQuery<'_>) -> Check {
        let spoken = among.iter().find_map(|at| {
            let rule = &self.rules[*at];
            let matched = rule.matches(*at, subject, question.context).ok()?;
            Some((rule, matched))
        });
        let Some((rule, matched)) = spoken else {
            return self.default();
        };
        let label = &rule.labels[matched.label];
        let reason = match matched.failed {
            // The error itself is left out: it may quote an argument, and reasons are logged.
            Some(_) => format!(
                "{} (its `when` expression could not be evaluated)",
                label.reason
            ),
            None => label.reason.clone(),
        };
        Check {
            scope: self.scope.as_str().to_owned(),
            kind: rule.kind,
            rule: label.id.clone(),
            reason,
            hash: rule.hash,
            judged: None,
        }
    }

    /// An exhausted rate limit denies what the rules would let through.
    fn rated(&self, said: Check, question: ScopeQuery<'_>) -> Check {
        let used_up = |rate: &&RateLimit| question.context.facts.used_up.contains(rate);
        match self.rates.iter().find(used_up) {
            // A denied call keeps its own rule: a denial by rule says more than an exhausted limit.
            Some(rate) if said.kind != Kind::Deny => Check {
                scope: said.scope,
                kind: Kind::Deny,
                rule: format!("deny:ratelimit:{}", self.scope.as_str()),
                reason: format!(
                    "{RATE_LIMITED}more than {} requests in {:#}",
                    rate.max_requests,
                    jiff::SignedDuration::try_from(rate.window).unwrap_or_default()
                ),
                hash: Digest::of(b"ratelimit"),
                judged: said.judged,
            },
            Some(_) | None => said,
        }
    }

    fn default(&self) -> Check {
        Check::default_deny(self.scope.as_str())
    }

    fn refused(&self, what: &str, why: &str) -> Check {
        let scope = self.scope.as_str();
        let rule = format!("deny:{scope}:{what}");
        Check {
            scope: scope.to_owned(),
            kind: Kind::Deny,
            hash: Digest::of(rule.as_bytes()),
            rule,
            reason: why.to_owned(),
            judged: None,
        }
    }
}

impl Check {
    pub(super) fn default_deny(scope: &str) -> Self {
        Self {
            scope: scope.to_owned(),
            kind: Kind::Deny,
            rule: DEFAULT.to_owned(),
            reason: "no rule allows this call".to_owned(),
            hash: Digest::of(DEFAULT.as_bytes()),
            judged: None,
        }
    }
}

/// The stricter of two checks; the earlier one of equally strict ones.
fn stricter(before: Option<Check>, next: Check) -> Check {
    match before {
        Some(before) if before.kind >= next.kind => before,
        Some(_) | None => next,
    }
}
