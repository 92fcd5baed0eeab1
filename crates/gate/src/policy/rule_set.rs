//! The rules of one scope, in the order in which they are asked: deny, require_approval, confirm,
//! allow. The first that matches speaks; where none does, the answer is no.

use std::borrow::Cow;

use callgate_wire::Json;

use super::{
    Check, Judged, Kind, address,
    glob::{Globs, Owner},
    index::Index,
    limits::{CostLimits, RateLimit},
    path::{self, Ground},
    pattern::Lookalike,
    projection::{self, Sought},
    resource::{self, Readings},
    rule::{Asked, Missed, Rule, Subject},
    scope::Scope,
};
use crate::{Digest, RealPath};

/// The rule that speaks where no other does.
pub(super) const DEFAULT: &str = "deny:default";

/// The rules of one scope.
#[derive(Debug)]
pub(super) struct RuleSet {
    pub(super) scope: Scope,
    pub(super) rules: Vec<Rule>,
    pub(super) index: Index,
    pub(super) globs: Globs,
    pub(super) rates: Vec<RateLimit>,
    pub(super) limits: Option<CostLimits>,
}

/// What a call is, for a scope.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question<'a> {
    /// `server:tool`, or a method.
    pub(super) name: &'a str,
    pub(super) arguments: Option<Json<'a>>,
    /// What relative paths and `~` in the arguments mean.
    pub(super) ground: &'a Ground,
    pub(super) asked: Asked<'a>,
}

/// One thing that a call is asked about, and what each rule said to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) subject: String,
    pub(super) rules: Vec<(usize, Result<String, Missed>)>,
}

impl RuleSet {
    /// What the rules and limits say to a call.
    pub(super) fn check(&self, question: Question<'_>) -> Check {
        let said = self.ask(question, &mut |_, _| {});
        self.rated(said, question)
    }

    /// The same, with what each rule said to each thing that the call is asked about.
    pub(super) fn explain(&self, question: Question<'_>) -> (Check, Vec<Told>) {
        let mut told = Vec::new();
        let said = self.ask(question, &mut |shown, subject| {
            let rules = self.rules.iter().enumerate().map(|(at, rule)| {
                let matched = rule.matches(at, subject, question.asked);
                (
                    at,
                    matched.map(|matched| rule.labels[matched.label].id.clone()),
                )
            });
            told.push(Told {
                subject: shown.to_owned(),
                rules: rules.collect(),
            });
        });
        (self.rated(said, question), told)
    }

    /// Whether every call of a tool with this name is refused, whatever its arguments are. A resource is refused when one
    /// of its readings is.
    pub(super) fn refuses_outright(&self, name: &str) -> bool {
        let readings = match self.scope == Scope::McpResource {
            true => resource::readings(name),
            false => None,
        };
        match readings {
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
        named.iter().all(denies) || named.iter().any(|rule| denies(rule) && rule.is_plain())
    }

    /// Whether a call can need a fact here.
    pub(super) fn needs_facts(&self) -> bool {
        let asks_where = |rule: &Rule| rule.fields.paths.is_some();
        !self.rates.is_empty()
            || self.limits.is_some()
            || self.asks_for_prior()
            || self.rules.iter().any(asks_where)
    }

    /// Whether some rule asks for earlier calls.
    pub(super) fn asks_for_prior(&self) -> bool {
        let asks = |rule: &Rule| !rule.fields.conditions.is_empty();
        self.rules.iter().any(asks)
    }

    /// Paths whose real place decides, as far as this scope asks about any.
    pub(super) fn paths_asked(&self, arguments: Option<Json<'_>>, ground: &Ground) -> Vec<String> {
        if self.scope != Scope::Filesystem
            || !self.rules.iter().any(|rule| rule.fields.paths.is_some())
        {
            return Vec::new();
        }
        let found = projection::project(arguments, Sought::Paths).unwrap_or_default();
        let readings = found
            .iter()
            .filter_map(|text| path::readings(text, ground).ok());
        readings.flatten().map(|reading| reading.asked).collect()
    }

    fn ask(&self, question: Question<'_>, tell: &mut dyn FnMut(&str, &Subject<'_>)) -> Check {
        let Some(sought) = self.scope.sought() else {
            return match self.scope == Scope::McpResource {
                true => self.ask_resource(question, tell),
                false => self.ask_name(question.name, question, tell),
            };
        };
        let found = match projection::project(question.arguments, sought) {
            Ok(found) => found,
            Err(too_much) => return self.refused("arguments_too_large", &too_much.to_string()),
        };
        if found.is_empty() {
            tell("", &Subject::Nothing);
            return self.first_of_all(&Subject::Nothing, question);
        }
        let mut strictest: Option<(usize, Check)> = None;
        for (at, text) in found.iter().enumerate() {
            let said = match sought {
                Sought::Paths => self.ask_path(text, question, tell),
                Sought::Hosts => self.ask_host(text, question, tell),
                Sought::Commands | Sought::Texts => {
                    let subject = Subject::Text(text);
                    tell(text, &subject);
                    self.first_of_all(&subject, question)
                }
            };
            strictest = match strictest {
                Some((before, check)) if check.kind >= said.kind => Some((before, check)),
                Some(_) | None => Some((at, said)),
            };
        }
        let Some((decided, mut check)) = strictest else {
            return self.default();
        };
        let action = question
            .asked
            .seen
            .action()
            .filter(|_| sought == Sought::Paths);
        check.judged = Judged::of(sought, found, decided)
            .map(|judged| Box::new(judged.with_action(action.map(|action| action.as_str()))));
        check
    }

    fn ask_name(
        &self,
        name: &str,
        question: Question<'_>,
        tell: &mut dyn FnMut(&str, &Subject<'_>),
    ) -> Check {
        let name = &*self.compared(name);
        let subject = Subject::Name(name);
        tell(name, &subject);
        self.first(&self.candidates(name), &subject, question)
    }

    /// To allow a resource, each of its normal forms must be allowed; to refuse it, any of its spellings is enough.
    fn ask_resource(
        &self,
        question: Question<'_>,
        tell: &mut dyn FnMut(&str, &Subject<'_>),
    ) -> Check {
        let Some(Readings { spelled, normal }) = resource::readings(question.name) else {
            let why = format!("the URI cannot be judged: {}", address::Unclear);
            return self.refused("unclear_address", &why);
        };
        let mut strictest = None;
        for name in &normal {
            let said = self.ask_name(name, question, tell);
            strictest = Some(stricter(strictest, said));
        }
        if let Some(spelled) = spelled {
            let said = self.ask_name(&spelled, question, tell);
            if said.kind.restricts() && said.rule != DEFAULT {
                strictest = Some(stricter(strictest, said));
            }
        }
        strictest.unwrap_or_else(|| self.default())
    }

    fn ask_path(
        &self,
        text: &str,
        question: Question<'_>,
        tell: &mut dyn FnMut(&str, &Subject<'_>),
    ) -> Check {
        let readings = match path::readings(text, question.ground) {
            Ok(readings) => readings,
            Err(unclear) => {
                let why = format!("a path cannot be judged: {unclear}");
                return self.refused("path_traversal", &why);
            }
        };
        let has_paths = self.rules.iter().any(|rule| rule.fields.paths.is_some());
        let mut strictest = None;
        for reading in readings {
            let (spelled, real): (Vec<Owner>, Vec<Owner>) = if has_paths {
                let Some(RealPath::At(real)) = question.asked.facts.real_paths.get(&reading.asked)
                else {
                    let why = "a path cannot be judged: where it leads to could not be found out";
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
            tell(&reading.spelled, &subject);
            let said = self.first_of_all(&subject, question);
            strictest = Some(stricter(strictest, said));
        }
        strictest.unwrap_or_else(|| self.default())
    }

    fn ask_host(
        &self,
        text: &str,
        question: Question<'_>,
        tell: &mut dyn FnMut(&str, &Subject<'_>),
    ) -> Check {
        let hosts = match address::hosts(text) {
            Ok(hosts) => hosts,
            Err(unclear) => {
                let why = format!("an address cannot be judged: {unclear}");
                return self.refused("unclear_address", &why);
            }
        };
        let mut strictest = None;
        for host in &hosts {
            let subject = Subject::Host(host);
            tell(host, &subject);
            strictest = Some(stricter(strictest, self.first_of_all(&subject, question)));
        }
        strictest.unwrap_or_else(|| self.default())
    }

    /// A name as this scope's patterns see it: a method stands behind its server, which may be unknown.
    fn compared<'n>(&self, name: &'n str) -> Cow<'n, str> {
        match self.scope {
            Scope::McpMethod if !name.contains(':') => format!(":{name}").into(),
            _ => name.into(),
        }
    }

    fn candidates(&self, name: &str) -> Vec<usize> {
        // What a name looks like is not in the index.
        if self.scope == Scope::McpTool && name.is_ascii() {
            self.index.candidates(name)
        } else {
            (0..self.rules.len()).collect()
        }
    }

    fn first_of_all(&self, subject: &Subject<'_>, question: Question<'_>) -> Check {
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

    fn first(&self, among: &[usize], subject: &Subject<'_>, question: Question<'_>) -> Check {
        let spoken = among.iter().find_map(|at| {
            let rule = &self.rules[*at];
            let matched = rule.matches(*at, subject, question.asked).ok()?;
            Some((rule, matched))
        });
        let Some((rule, matched)) = spoken else {
            return self.default();
        };
        let label = &rule.labels[matched.label];
        let reason = match matched.failed {
            // What went wrong may quote an argument, and reasons are logged.
            Some(_) => format!("{} (its expression could not be evaluated)", label.reason),
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

    /// What is used up refuses what the rules would let through.
    fn rated(&self, said: Check, question: Question<'_>) -> Check {
        let used_up = |rate: &&RateLimit| question.asked.facts.used_up.contains(rate);
        match self.rates.iter().find(used_up) {
            Some(rate) if said.kind != Kind::Deny => Check {
                scope: said.scope,
                kind: Kind::Deny,
                rule: format!("deny:ratelimit:{}", self.scope.as_str()),
                reason: format!(
                    "more than {} requests in {:#}",
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
            reason: "no rule allows it".to_owned(),
            hash: Digest::of(DEFAULT.as_bytes()),
            judged: None,
        }
    }
}

/// The stricter of two; the earlier where they are as strict.
fn stricter(before: Option<Check>, next: Check) -> Check {
    match before {
        Some(before) if before.kind >= next.kind => before,
        Some(_) | None => next,
    }
}
