//! The fields of a rule: each is parsed and checked at its own position.

use globset::Glob;
use serde_saphyr::Spanned;

use super::{Compiler, names};
use crate::{
    Digest, Place, Prior, Problem,
    policy::{
        Kind,
        domain::{BadDomain, DomainPattern},
        expression::Expression,
        glob,
        projection::Action,
        scope::{Field, Scope},
        written::{Words, WrittenCondition, WrittenRule},
    },
    problem::nearest,
};

impl Compiler<'_> {
    /// Checks that a rule has something to match on, and only fields of its scope.
    pub(super) fn check_fields(&mut self, scope: &Scope, rule: &WrittenRule, place: Place) {
        let given = [
            (
                Field::Pattern,
                rule.pattern.as_ref().map(|field| field.referenced),
            ),
            (
                Field::Paths,
                rule.paths.as_ref().map(|field| field.referenced),
            ),
            (
                Field::Domains,
                rule.domains.as_ref().map(|field| field.referenced),
            ),
            (
                Field::Domains,
                rule.domain.as_ref().map(|field| field.referenced),
            ),
            (
                Field::Action,
                rule.action.as_ref().map(|field| field.referenced),
            ),
        ];
        let by_field = given.iter().any(|(_, location)| location.is_some());
        for (field, location) in given {
            let Some(location) = location else { continue };
            // A misplaced field is fatal: in a `deny` rule it would silently make the restriction void.
            if !scope.fields().contains(&field) {
                let (name, scope_name) = (field.as_str(), scope.as_str());
                let what = format!("a rule with `{name}` can never match in scope `{scope_name}`");
                let known: Vec<&str> = scope.fields().iter().map(|field| field.as_str()).collect();
                let help = match known.as_slice() {
                    [] => format!("scope `{scope_name}` takes `limits`, not rules"),
                    known => format!(
                        "rules of scope `{scope_name}` can have `{}`",
                        known.join("`, `")
                    ),
                };
                self.problems
                    .push(Problem::at(Place::of(&location), what).help(help));
            }
        }
        if rule.domain.is_some() && rule.domains.is_some() {
            self.problems
                .push(Problem::at(place, "write `domain` or `domains`, not both"));
        }
        if by_field {
            return;
        }
        if scope.fields().is_empty() {
            let what = format!("scope `{}` takes `limits`, not rules", scope.as_str());
            self.problems.push(Problem::at(place, what));
        } else if rule.when.is_none() && rule.conditions.is_none() {
            let problem = Problem::at(place, "the rule has nothing to match on");
            let fields = "add a `pattern`, `paths`, `domains`, `action` or `when`";
            self.problems.push(problem.help(fields));
        }
    }

    pub(super) fn check_pattern(&mut self, scope: &Scope, pattern: &Spanned<String>) {
        let place = Place::of(&pattern.referenced);
        if pattern.value.is_empty() {
            let what = "an empty pattern can never match";
            self.problems.push(Problem::at(place, what));
        } else if matches!(
            scope,
            Scope::McpTool | Scope::McpPrompt | Scope::McpResource
        ) && let Err(problem) = names::check_tool_pattern(&pattern.value)
        {
            self.problems.push(Problem { place, ..problem });
        }
    }

    pub(super) fn paths(&mut self, paths: &Spanned<Vec<Spanned<String>>>) -> Vec<Vec<Glob>> {
        if paths.value.is_empty() {
            let what = "an empty `paths` can never match";
            self.problems
                .push(Problem::at(Place::of(&paths.referenced), what));
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

    pub(super) fn domains(&mut self, rule: &WrittenRule) -> Option<Vec<DomainPattern>> {
        let written: Vec<&Spanned<String>> = match (&rule.domain, &rule.domains) {
            (None, None) => return None,
            (Some(domain), _) => vec![domain],
            (None, Some(domains)) => {
                if domains.value.is_empty() {
                    let place = Place::of(&domains.referenced);
                    let what = "an empty `domains` can never match";
                    self.problems.push(Problem::at(place, what));
                }
                domains.value.iter().collect()
            }
        };
        let mut all = Vec::new();
        for domain in written {
            match DomainPattern::read(&domain.value) {
                Ok(pattern) => all.push(pattern),
                Err(bad) => self.problems.push(bad_domain(domain, bad)),
            }
        }
        Some(all)
    }

    pub(super) fn actions(&mut self, scope: &Scope, action: &Spanned<Words>) -> Vec<String> {
        let known = [Action::Read, Action::Write, Action::Delete].map(Action::as_str);
        let place = Place::of(&action.referenced);
        if action.value.0.is_empty() {
            self.problems
                .push(Problem::at(place, "an empty `action` can never match"));
        }
        if scope.fields().contains(&Field::Action) {
            for word in action
                .value
                .0
                .iter()
                .filter(|word| !known.contains(&word.as_str()))
            {
                let problem = Problem::at(place, format!("unknown action `{word}`"));
                self.problems.push(problem.help(nearest(word, &known)));
            }
        }
        // Unknown words are returned as well; the rule is discarded because a problem was recorded.
        action.value.0.clone()
    }

    pub(super) fn expression(&mut self, when: &Spanned<String>) -> Option<Expression> {
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

    pub(super) fn conditions(
        &mut self,
        conditions: &Spanned<Vec<Spanned<WrittenCondition>>>,
    ) -> Vec<Prior> {
        if conditions.value.is_empty() {
            let what = "`conditions` is empty";
            self.problems
                .push(Problem::at(Place::of(&conditions.referenced), what));
        }
        let mut all = Vec::new();
        for condition in &conditions.value {
            let WrittenCondition {
                require_prior,
                time_window,
            } = &condition.value;
            if require_prior.value.is_empty() {
                let place = Place::of(&require_prior.referenced);
                self.problems
                    .push(Problem::at(place, "an empty pattern can never match"));
            }
            if time_window.value.0.is_zero() {
                let place = Place::of(&time_window.referenced);
                self.problems
                    .push(Problem::at(place, "`time_window` must be longer than zero"));
            }
            all.push(Prior {
                pattern: require_prior.value.clone(),
                window: time_window.value.0,
            });
        }
        all
    }
}

fn bad_domain(domain: &Spanned<String>, bad: BadDomain) -> Problem {
    let (written, place) = (&domain.value, Place::of(&domain.referenced));
    match bad {
        BadDomain::NeverMatches => {
            Problem::at(place, format!("`{written}` can never match a domain"))
                .help("write it like `api.example.com` or `*.example.com`")
        }
        BadDomain::Misspelt(range) => {
            let range = range.as_str();
            // `privat` would otherwise be a host name that no address matches, and the rule would deny nothing.
            Problem::at(place, format!("unknown range `{written}`")).help(format!(
                "did you mean `{range}`? to name a host, write `{written}.`"
            ))
        }
    }
}

/// A digest of what a rule matches; its position and its message are left out.
pub(super) fn hash(kind: Kind, scope: &Scope, rule: &WrittenRule) -> Digest {
    let texts = |list: &Option<Spanned<Vec<Spanned<String>>>>| {
        let list = list.as_ref().map(|list| &list.value);
        list.map(|list| {
            list.iter()
                .map(|text| text.value.clone())
                .collect::<Vec<_>>()
        })
    };
    let conditions = rule.conditions.as_ref().map(|conditions| {
        let condition = |c: &Spanned<WrittenCondition>| {
            (
                c.value.require_prior.value.clone(),
                c.value.time_window.value.0,
            )
        };
        conditions.value.iter().map(condition).collect::<Vec<_>>()
    });
    // Debug text is stable here: quoted strings in tuples of a fixed order. Changing the
    // tuple changes every rule's hash, and with it invalidates the approvals that are still open.
    let whole = format!(
        "{:?}",
        (
            kind.as_str(),
            scope.as_str(),
            rule.pattern.as_ref().map(|pattern| &pattern.value),
            texts(&rule.paths),
            (
                rule.domain.as_ref().map(|domain| &domain.value),
                texts(&rule.domains)
            ),
            rule.action.as_ref().map(|action| &action.value.0),
            rule.when.as_ref().map(|when| &when.value),
            conditions,
        )
    );
    Digest::of(whole.as_bytes())
}
