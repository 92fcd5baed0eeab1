//! A compiled rule: what it says, and whether it matches what a call is asked about.

use super::{
    Kind,
    domain::DomainPattern,
    expression::{Expression, NoValue, Seen},
    glob::Owner,
    pattern::Lookalike,
    scope::Scope,
};
use crate::{Digest, Facts, Place, Prior};

/// A rule that is ready to be asked.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) kind: Kind,
    pub(super) place: Place,
    /// What can match, each with the id that it gives the rule; at least one.
    pub(super) labels: Vec<Label>,
    pub(super) hash: Digest,
    pub(super) fields: Fields,
}

/// The name of a rule by what matched.
#[derive(Debug, Clone)]
pub(super) struct Label {
    pub(super) id: String,
    pub(super) reason: String,
}

/// What a rule asks; everything that is there must match.
#[derive(Debug, Default)]
pub(super) struct Fields {
    pub(super) pattern: Option<Lookalike>,
    /// Other spellings of the pattern that mean the same, where it is about URIs.
    pub(super) forms: Vec<Lookalike>,
    /// The paths as written; they are matched for all rules at once.
    pub(super) paths: Option<Vec<String>>,
    pub(super) domains: Option<Vec<DomainPattern>>,
    pub(super) actions: Option<Vec<String>>,
    pub(super) when: Option<Expression>,
    pub(super) conditions: Vec<Prior>,
}

/// What a rule is asked about.
#[derive(Debug)]
pub(super) enum Subject<'a> {
    /// The name of a tool or method.
    Name(&'a str),
    /// A command or a text.
    Text(&'a str),
    /// A host.
    Host(&'a str),
    /// A path, by the patterns that match it as it is spelled and where it really is.
    Path {
        spelled: &'a [Owner],
        real: &'a [Owner],
    },
    /// The call has nothing of the kind.
    Nothing,
}

/// What a rule sees besides the subject.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) seen: &'a Seen<'a>,
    pub(super) facts: &'a Facts,
}

/// Why a rule does not match.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Missed {
    #[error("its pattern is another")]
    Pattern,
    #[error("none of its paths")]
    Paths,
    #[error("none of its domains")]
    Domains,
    #[error("another action")]
    Action,
    #[error("its expression is false")]
    When,
    #[error("{0}")]
    NoValue(NoValue),
    #[error("no such call before")]
    NoPrior,
    #[error("there was such a call before")]
    Excused,
}

/// That a rule matches: by which of its labels, and whether only because its expression failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Matched {
    pub(super) label: usize,
    pub(super) failed: Option<NoValue>,
}

impl Rule {
    /// Whether the rule matches. What cannot be known counts as a match, except in `allow`.
    pub(super) fn matches(
        &self,
        at: usize,
        subject: &Subject<'_>,
        asked: Asked<'_>,
    ) -> Result<Matched, Missed> {
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
            return Err(Missed::Pattern);
        }
        if paths.is_some() {
            label = self.path_matching(at, subject).ok_or(Missed::Paths)?;
        }
        if let Some(domains) = domains {
            label = self
                .domain_matching(domains, subject)
                .ok_or(Missed::Domains)?;
        }
        if let Some(actions) = actions {
            let matches = match asked.seen.action() {
                Some(action) => actions.iter().any(|own| own == action.as_str()),
                // It could be any.
                None => self.kind.restricts(),
            };
            matches.then_some(()).ok_or(Missed::Action)?;
        }
        let failed = match when.as_ref().map(|when| when.holds(asked.seen)) {
            None | Some(Ok(true)) => None,
            Some(Ok(false)) => return Err(Missed::When),
            Some(Err(error)) if self.kind.restricts() => Some(error),
            Some(Err(error)) => return Err(Missed::NoValue(error)),
        };
        self.conditions_match(conditions, asked.facts)?;
        Ok(Matched { label, failed })
    }

    fn pattern_matches(&self, pattern: &Lookalike, subject: &Subject<'_>) -> bool {
        match subject {
            Subject::Name(name) if self.kind.restricts() => pattern.resembles(name),
            Subject::Name(name) => pattern.matches(name),
            // Another amount of space between two words is the same command to a shell.
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
        let own = |owner: &&Owner| owner.rule == at;
        let really = real.iter().find(own);
        // To refuse, one of its names is enough; to allow, only the place counts that it leads to.
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

    /// In a rule that allows, an earlier call is asked for; in one that refuses, it excuses.
    fn conditions_match(&self, conditions: &[Prior], facts: &Facts) -> Result<(), Missed> {
        if conditions.is_empty() {
            return Ok(());
        }
        let met = conditions.iter().all(|prior| facts.met.contains(prior));
        match (self.kind.restricts(), met) {
            (true, true) => Err(Missed::Excused),
            (false, false) => Err(Missed::NoPrior),
            (true, false) | (false, true) => Ok(()),
        }
    }

    /// Whether it says the same to every call of a tool whose name matches.
    pub(super) fn is_plain(&self) -> bool {
        self.fields.when.is_none()
            && self.fields.conditions.is_empty()
            && self.fields.actions.is_none()
    }
}

impl Label {
    pub(super) fn new(kind: Kind, scope: &Scope, what: &str, message: Option<&str>) -> Self {
        let id = format!("{}:{}:{what}", kind.as_str(), scope.as_str());
        let says = match kind {
            Kind::Deny => "denies",
            Kind::RequireApproval => "asks for an approval of",
            Kind::Confirm => "asks for a confirmation of",
            Kind::Allow => "allows",
        };
        let reason = match message.map(str::trim).filter(|message| !message.is_empty()) {
            Some(message) => message.to_owned(),
            None => format!("the policy {says} `{what}`"),
        };
        Self { id, reason }
    }
}

/// A command with one space wherever there is white space.
fn single_spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
