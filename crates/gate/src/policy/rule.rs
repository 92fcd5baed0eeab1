//! A compiled rule, and whether it matches a subject of a call.

use super::{
    Kind,
    domain::DomainPattern,
    expression::{CallVariables, Expression, NoValue},
    glob::PatternOwner,
    pattern::Lookalike,
    scope::Scope,
};
use crate::{Digest, Facts, Place, Prior};

/// A rule that is ready for evaluation.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) kind: Kind,
    pub(super) place: Place,
    /// One label for each value that can match; at least one.
    pub(super) labels: Vec<Label>,
    pub(super) hash: Digest,
    pub(super) fields: Fields,
}

/// The rule id and reason for one matching value.
#[derive(Debug, Clone)]
pub(super) struct Label {
    pub(super) id: String,
    pub(super) reason: String,
}

/// The conditions of a rule; all that are present must match.
#[derive(Debug, Default)]
pub(super) struct Fields {
    pub(super) pattern: Option<Lookalike>,
    /// The normal forms of a URI pattern.
    pub(super) forms: Vec<Lookalike>,
    /// The paths as written; they are matched for all rules at once.
    pub(super) paths: Option<Vec<String>>,
    pub(super) domains: Option<Vec<DomainPattern>>,
    pub(super) actions: Option<Vec<String>>,
    pub(super) when: Option<Expression>,
    pub(super) conditions: Vec<Prior>,
}

/// The value that a rule is matched against.
#[derive(Debug)]
pub(super) enum Subject<'a> {
    /// The name of a tool or method.
    Name(&'a str),
    /// A command or a text.
    Text(&'a str),
    Host(&'a str),
    /// A path, by the patterns that match it as it is spelled and where it really is.
    Path {
        spelled: &'a [PatternOwner],
        real: &'a [PatternOwner],
    },
    /// The call has no subject of this kind.
    Nothing,
}

/// What a rule sees beside the subject.
#[derive(Debug, Clone, Copy)]
pub(super) struct EvalContext<'a> {
    pub(super) seen: &'a CallVariables<'a>,
    pub(super) facts: &'a Facts,
}

/// Why a rule does not match.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoMatch {
    #[error("pattern")]
    Pattern,
    #[error("no path matched")]
    Paths,
    #[error("no domain matched")]
    Domains,
    #[error("action")]
    Action,
    #[error("`when` is false")]
    When,
    #[error("{0}")]
    NoValue(NoValue),
    #[error("no earlier call satisfies `conditions`")]
    NoPrior,
    #[error("an earlier call satisfies `conditions`")]
    Excused,
}

/// A match: by which label, and whether only because the expression failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Matched {
    pub(super) label: usize,
    pub(super) failed: Option<NoValue>,
}

impl Rule {
    /// Whether the rule matches. Unknowns count as a match, except in `allow`.
    pub(super) fn matches(
        &self,
        at: usize,
        subject: &Subject<'_>,
        context: EvalContext<'_>,
    ) -> Result<Matched, NoMatch> {
        let Fields {
            pattern,
            forms,
            paths,
            domains,
            actions,
            when,
            conditions,
        } = &self.fields;
        let mut label = 0;
        if let Some(pattern) = pattern
            && !self.pattern_matches(pattern, subject)
            && !forms.iter().any(|form| self.pattern_matches(form, subject))
        {
            return Err(NoMatch::Pattern);
        }
        if paths.is_some() {
            label = self.path_matching(at, subject).ok_or(NoMatch::Paths)?;
        }
        if let Some(domains) = domains {
            label = self
                .domain_matching(domains, subject)
                .ok_or(NoMatch::Domains)?;
        }
        if let Some(actions) = actions {
            let matches = match context.seen.action() {
                Some(action) => actions.iter().any(|own| own == action.as_str()),
                // A tool whose name has no verb could do anything.
                None => self.kind.restricts(),
            };
            matches.then_some(()).ok_or(NoMatch::Action)?;
        }
        let failed = match when.as_ref().map(|when| when.holds(context.seen)) {
            None | Some(Ok(true)) => None,
            Some(Ok(false)) => return Err(NoMatch::When),
            // A caller controls the arguments, so it could make an expression fail: failing must not lift a `deny`.
            Some(Err(error)) if self.kind.restricts() => Some(error),
            Some(Err(error)) => return Err(NoMatch::NoValue(error)),
        };
        self.conditions_match(conditions, context.facts)?;
        Ok(Matched { label, failed })
    }

    fn pattern_matches(&self, pattern: &Lookalike, subject: &Subject<'_>) -> bool {
        match subject {
            // Restricting rules match look-alikes; `allow` compares byte for byte. Both errors are on the safe side.
            Subject::Name(name) if self.kind.restricts() => pattern.resembles(name),
            Subject::Name(name) => pattern.matches(name),
            // To a shell, extra white space between words changes nothing, so it must not evade a rule.
            Subject::Text(text) if self.kind.restricts() => {
                pattern.resembles(text) || pattern.resembles(&single_spaced(text))
            }
            Subject::Text(text) => pattern.matches(text),
            Subject::Host(_) | Subject::Path { .. } | Subject::Nothing => false,
        }
    }

    fn path_matching(&self, at: usize, subject: &Subject<'_>) -> Option<usize> {
        let Subject::Path { spelled, real } = subject else {
            return None;
        };
        let own = |owner: &&PatternOwner| owner.rule == at;
        // A rule with several paths reports the one that matched, so records name the exact path pattern.
        let really = real.iter().find(own);
        // Either name is enough to refuse. To allow, only the real location counts: a link inside an allowed
        // folder can point outside.
        let found = match self.kind.restricts() {
            true => spelled.iter().find(own).or(really),
            false => really,
        };
        found.map(|owner| owner.path)
    }

    fn domain_matching(&self, domains: &[DomainPattern], subject: &Subject<'_>) -> Option<usize> {
        let Subject::Host(host) = subject else {
            return None;
        };
        domains
            .iter()
            .position(|domain| match self.kind.restricts() {
                true => domain.resembles(host),
                false => domain.matches(host),
            })
    }

    /// In `allow` an earlier call is required; in the other lists it lifts the restriction.
    fn conditions_match(&self, conditions: &[Prior], facts: &Facts) -> Result<(), NoMatch> {
        if conditions.is_empty() {
            return Ok(());
        }
        // A condition that was not looked up counts as not met, which never allows more.
        let met = conditions.iter().all(|prior| facts.met.contains(prior));
        match (self.kind.restricts(), met) {
            (true, true) => Err(NoMatch::Excused),
            (false, false) => Err(NoMatch::NoPrior),
            (true, false) | (false, true) => Ok(()),
        }
    }

    /// Whether it decides every call of a matching tool alike.
    pub(super) fn is_plain(&self) -> bool {
        self.fields.when.is_none()
            && self.fields.conditions.is_empty()
            && self.fields.actions.is_none()
    }
}

impl Label {
    pub(super) fn new(kind: Kind, scope: &Scope, what: &str, message: Option<&str>) -> Self {
        let id = format!("{}:{}:{what}", kind.as_str(), scope.as_str());
        let effect = match kind {
            Kind::Deny => "denies",
            Kind::RequireApproval => "requires approval for",
            Kind::Confirm => "requires confirmation for",
            Kind::Allow => "allows",
        };
        let reason = match message.map(str::trim).filter(|message| !message.is_empty()) {
            Some(message) => message.to_owned(),
            None => format!("the policy {effect} `{what}`"),
        };
        Self { id, reason }
    }
}

/// A command with white space collapsed to single spaces.
fn single_spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
