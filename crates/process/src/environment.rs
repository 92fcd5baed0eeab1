//! The environment of a child. Pure: the gateway's own variables are passed in; nothing is read here.

use std::collections::BTreeMap;

/// Variables that every child gets if the gateway has them: programs use them to find their files and the user.
const PASSED: [&str; 9] = [
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "TMPDIR", "TZ",
];

/// Families of variables every child gets: locale and desktop folders.
const PASSED_PREFIXES: [&str; 2] = ["LC_", "XDG_"];

/// The gateway's own settings, tokens among them; a child gets one only when its own `env` names it.
const OWN_PREFIX: &str = "CALLGATE_";

/// A reference names a variable that is not set, and gives no default.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("environment variable `{name}` is not set; set it, or write `${{{name}:-default}}`")]
pub struct MissingVariable {
    pub name: String,
}

/// How much of the gateway's environment a child inherits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Inherit {
    /// Only what most programs need. Everything else could be a secret of another program.
    #[default]
    Minimal,
    /// Everything except the gateway's own settings (`inherit_env: true`).
    All,
}

/// Replaces `${VAR}` and `${VAR:-default}` in `template` by the values of `lookup`.
///
/// The default applies if the variable is unset or empty, as in a shell, and ends at the first `}`. Other text stays as it is,
/// including a lone `$` and `$VAR`. Replaced text is not expanded again.
pub fn expand(
    template: &str,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<String, MissingVariable> {
    let mut expanded = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(start) = rest.find("${") {
        let (before, from_here) = rest.split_at(start);
        expanded.push_str(before);
        match Reference::parse(from_here) {
            Some((reference, after)) => {
                expanded.push_str(&reference.value(&lookup)?);
                rest = after;
            }
            None => {
                expanded.push_str("${");
                rest = &from_here[2..];
            }
        }
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// The whole environment of a child: what it inherits from `gateway`, then its `own` variables over it, sorted by name.
pub fn minimal(
    inherit: Inherit,
    own: &[(String, String)],
    gateway: impl IntoIterator<Item = (String, String)>,
) -> Vec<(String, String)> {
    let mut chosen: BTreeMap<String, String> = gateway
        .into_iter()
        .filter(|(name, _)| passes(inherit, name))
        .collect();
    // After the filter: a variable that the configuration names is passed even if its prefix is ours.
    chosen.extend(own.iter().cloned());
    chosen.into_iter().collect()
}

fn passes(inherit: Inherit, name: &str) -> bool {
    match inherit {
        Inherit::All => !name.starts_with(OWN_PREFIX),
        Inherit::Minimal => {
            PASSED.contains(&name)
                || PASSED_PREFIXES
                    .iter()
                    .any(|prefix| name.starts_with(prefix))
        }
    }
}

/// One `${…}` in a template.
struct Reference<'a> {
    name: &'a str,
    default: Option<&'a str>,
}

impl<'a> Reference<'a> {
    /// Reads a reference at the start of `text`, which begins with `${`, and gives back what follows it.
    fn parse(text: &'a str) -> Option<(Self, &'a str)> {
        let (inside, after) = text.strip_prefix("${")?.split_once('}')?;
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        is_variable_name(name).then_some((Self { name, default }, after))
    }

    fn value(&self, lookup: impl Fn(&str) -> Option<String>) -> Result<String, MissingVariable> {
        match (lookup(self.name), self.default) {
            (Some(value), None) => Ok(value),
            (Some(value), Some(_)) if !value.is_empty() => Ok(value),
            (_, Some(default)) => Ok(default.to_owned()),
            (None, None) => Err(MissingVariable {
                name: self.name.to_owned(),
            }),
        }
    }
}

fn is_variable_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Option<String> {
        match name {
            "TOKEN" => Some("s3cret".to_owned()),
            "EMPTY" => Some(String::new()),
            "NESTED" => Some("${TOKEN}".to_owned()),
            "É" => Some("never".to_owned()),
            _ => None,
        }
    }

    fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
        of.iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn variable_references_are_expanded_and_other_text_kept() {
        let cases = [
            ("", ""),
            ("plain", "plain"),
            ("Bearer ${TOKEN}", "Bearer s3cret"),
            ("${TOKEN}${TOKEN}", "s3crets3cret"),
            ("${NONE:-fallback}", "fallback"),
            ("${NONE:-}", ""),
            ("${NONE:-a:-b}", "a:-b"),
            ("${EMPTY}", ""),
            ("${EMPTY:-x}", "x"),
            ("${TOKEN:-x}", "s3cret"),
            ("${NESTED}", "${TOKEN}"),
            ("$", "$"),
            ("$$", "$$"),
            ("$TOKEN", "$TOKEN"),
            ("$${TOKEN}", "$s3cret"),
            ("cost: 5$ {TOKEN}", "cost: 5$ {TOKEN}"),
            ("${TOKEN", "${TOKEN"),
            ("${}", "${}"),
            ("${1}", "${1}"),
            ("${a b}", "${a b}"),
            ("${É}", "${É}"),
            ("${${TOKEN}", "${s3cret"),
            ("é${TOKEN}é", "és3creté"),
        ];
        for (template, expected) in cases {
            assert_eq!(
                expand(template, lookup).as_deref(),
                Ok(expected),
                "{template:?}"
            );
        }
    }

    #[test]
    fn a_missing_variable_is_named_with_advice() {
        let error = expand("a ${TOKEN} ${NOT_SET}", lookup).unwrap_err();
        assert_eq!(error.name, "NOT_SET");
        assert_eq!(
            error.to_string(),
            "environment variable `NOT_SET` is not set; set it, or write `${NOT_SET:-default}`"
        );
    }

    #[test]
    fn children_inherit_only_a_minimal_environment() {
        let gateway = [
            ("PATH", "/bin"),
            ("HOME", "/h/u"),
            ("LC_ALL", "C"),
            ("XDG_RUNTIME_DIR", "/run"),
            ("AWS_SECRET_ACCESS_KEY", "no"),
            ("HTTPS_PROXY", "no"),
            ("CALLGATE_TOKEN", "no"),
            ("PATHS", "no"),
        ];
        let seen = minimal(
            Inherit::Minimal,
            &pairs(&[("B", "1"), ("HOME", "/own")]),
            pairs(&gateway),
        );
        assert_eq!(
            seen,
            pairs(&[
                ("B", "1"),
                ("HOME", "/own"),
                ("LC_ALL", "C"),
                ("PATH", "/bin"),
                ("XDG_RUNTIME_DIR", "/run")
            ])
        );
    }

    #[test]
    fn inherit_all_still_omits_the_gateways_secrets() {
        let gateway = [
            ("PATH", "/bin"),
            ("EDITOR", "vi"),
            ("CALLGATE_TOKEN", "t"),
            ("CALLGATE_ADMIN_TOKEN", "a"),
        ];
        let seen = minimal(Inherit::All, &[], pairs(&gateway));
        assert_eq!(seen, pairs(&[("EDITOR", "vi"), ("PATH", "/bin")]));
        let own = pairs(&[("CALLGATE_TOKEN", "on purpose")]);
        assert!(minimal(Inherit::All, &own, pairs(&gateway)).contains(&own[0]));
    }
}
