//! The policy file as written. Unknown keys are errors; every rule keeps its position.

use std::{fmt, time::Duration};

use serde::{Deserialize, Deserializer, de};
use serde_saphyr::Spanned;

use crate::Place;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenPolicy {
    pub(super) version: Spanned<Version>,
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) rules: Vec<Spanned<WrittenSet>>,
    #[serde(default)]
    pub(super) tool_scope_map: Vec<Spanned<WrittenMapping>>,
    #[serde(default)]
    pub(super) agents: WrittenAgents,
}

/// The version, which may be written with or without quotes.
#[derive(Debug)]
pub(super) struct Version(pub(super) String);

/// The rules of one scope.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenSet {
    pub(super) scope: Spanned<String>,
    #[serde(default)]
    pub(super) deny: Vec<Spanned<WrittenRule>>,
    #[serde(default)]
    pub(super) require_approval: Vec<Spanned<WrittenRule>>,
    #[serde(default)]
    pub(super) confirm: Vec<Spanned<WrittenRule>>,
    #[serde(default)]
    pub(super) allow: Vec<Spanned<WrittenRule>>,
    #[serde(default)]
    pub(super) rate_limit: Option<Spanned<WrittenRate>>,
    #[serde(default)]
    pub(super) limits: Option<Spanned<WrittenLimits>>,
}

// Unknown fields are errors throughout this file: a mistyped key would drop a restriction without notice.
/// One rule: every field that is there must match.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenRule {
    #[serde(default)]
    pub(super) pattern: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) paths: Option<Spanned<Vec<Spanned<String>>>>,
    #[serde(default)]
    pub(super) domain: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) domains: Option<Spanned<Vec<Spanned<String>>>>,
    #[serde(default)]
    pub(super) action: Option<Spanned<Words>>,
    #[serde(default)]
    pub(super) when: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) conditions: Option<Spanned<Vec<Spanned<WrittenCondition>>>>,
    #[serde(default)]
    pub(super) message: Option<String>,
}

/// One string or a list of strings.
#[derive(Debug, Clone)]
pub(super) struct Words(pub(super) Vec<String>);

/// An earlier call that a rule depends on.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenCondition {
    pub(super) require_prior: Spanned<String>,
    pub(super) time_window: Spanned<WrittenDuration>,
}

/// At most `max_requests` in any period of length `window`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenRate {
    pub(super) max_requests: u64,
    pub(super) window: WrittenDuration,
}

/// The cost limits as written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenLimits {
    #[serde(default)]
    pub(super) max_per_action: Option<f64>,
    #[serde(default)]
    pub(super) max_per_session: Option<f64>,
    #[serde(default)]
    pub(super) alert_threshold: Option<f64>,
}

/// The scope in which a tool's arguments are judged.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenMapping {
    pub(super) pattern: Spanned<String>,
    pub(super) scope: Spanned<String>,
}

/// The agents that have rules of their own, in the order of the file.
#[derive(Debug, Default)]
pub(super) struct WrittenAgents(pub(super) Vec<(String, Place, WrittenAgent)>);

/// The rules of some agents.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenAgent {
    #[serde(rename = "override")]
    pub(super) rules: Vec<Spanned<WrittenSet>>,
    #[serde(default)]
    pub(super) override_mode: OverrideMode,
}

/// How an agent's rules combine with everyone's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum OverrideMode {
    /// They are joined; everyone's rules stay.
    #[default]
    Merge,
    /// They replace everyone's rules in the scopes that they name.
    Replace,
}

/// A length of time, written like `1h` or `1m 30s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WrittenDuration(pub(super) Duration);

impl<'de> Deserialize<'de> for WrittenDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || de::Error::custom("invalid duration; write it like `1h` or `30s`");
        let signed: jiff::SignedDuration = text.parse().map_err(|_| wrong())?;
        // Negative durations parse and are refused here.
        Duration::try_from(signed).map(Self).map_err(|_| wrong())
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Version;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a version")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Version, E> {
                Ok(Version(text.to_owned()))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Version, E> {
                Ok(Version(number.to_string()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Version, E> {
                Ok(Version(number.to_string()))
            }

            // Accepted here so that `version: 1.0` gets the message about versions and not one about types.
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Version, E> {
                Ok(Version(format!("{number:?}")))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Words;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of strings")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Words, E> {
                Ok(Words(vec![text.to_owned()]))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Words, A::Error> {
                let mut words = Vec::new();
                while let Some(word) = seq.next_element()? {
                    words.push(word);
                }
                Ok(Words(words))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl<'de> Deserialize<'de> for WrittenAgents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = WrittenAgents;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from patterns of agent names to their rules")
            }

            fn visit_map<A: de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<WrittenAgents, A::Error> {
                let mut agents = Vec::new();
                // A list and not a map: order decides which pattern wins. The YAML reader refuses duplicate names.
                while let Some((name, agent)) = map.next_entry::<_, Spanned<WrittenAgent>>()? {
                    agents.push((name, Place::of(&agent.referenced), agent.value));
                }
                Ok(WrittenAgents(agents))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}
