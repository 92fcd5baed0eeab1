//! Table: the keys of `guard` and `tenants` in `callgate.yaml`, and what they mean.

use std::{collections::BTreeMap, env, fmt, path::Path, time::Duration};

use callgate_gate::{
    Endpoint, FIRST_TENANT,
    guard::{self, GuardOptions},
};
use callgate_process::environment;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error};

use crate::model::{PolicyChoice, Span};
use crate::{Failed, Flags};

/// Variables that a key is taken from where the file has none.
const KEYS: [&str; 2] = ["CALLGATE_GUARD_API_KEY", "AGENTGUARD_API_KEY"];
/// The file of calls that could not be asked about, in the data folder.
const AUDIT_FILE: &str = "fail-audit.jsonl";
/// The longest name of a tenant.
const MAX_NAME: usize = 64;

/// Another gateway that is asked about each call in place of rules of our own.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Guard {
    /// Where it is, for example `https://gate.example.com`; nobody is asked when left out. `http://` becomes
    /// `https://`, except on loopback. `${VAR}` is filled in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The token that it knows this gateway by; `$CALLGATE_GUARD_API_KEY`, then `$AGENTGUARD_API_KEY` when
    /// left out. `${VAR}` is filled in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key: Option<String>,
    /// The tenant over there.
    #[serde(deserialize_with = "tenant")]
    pub tenant: String,
    /// What counts when it cannot be asked.
    pub fail_mode: FailMode,
    /// How long one question may take.
    pub timeout: Span,
}

/// What counts when a guard cannot be asked. An answer that is not understood is a no in every mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum FailMode {
    /// The call is refused.
    #[default]
    Deny,
    /// The call goes on.
    Allow,
    /// The call is refused, and also written to `fail-audit.jsonl` in the data folder.
    FailClosedWithAudit,
}

/// The tenants by name, besides `local`, which every gateway has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Tenants(pub BTreeMap<String, Tenant>);

/// One tenant: its tokens, records and approvals are its own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Tenant {
    /// Its policy, as `policy` is written; `default` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyChoice>,
}

impl Default for Guard {
    fn default() -> Self {
        Self {
            url: None,
            api_key: None,
            tenant: FIRST_TENANT.to_owned(),
            fail_mode: FailMode::default(),
            timeout: Span(Duration::from_secs(5)),
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard { .. }")
    }
}

impl Guard {
    /// The same with what flags say.
    pub(super) fn told(&self, flags: &Flags) -> Self {
        let mut told = self.clone();
        told.url = flags.guard_url.clone().or(told.url);
        told.tenant = flags.tenant.clone().unwrap_or(told.tenant);
        told.fail_mode = flags.fail_mode.unwrap_or(told.fail_mode);
        told
    }

    /// How the guard is asked; nothing where none is.
    pub(super) fn meant(&self, data_dir: &Path) -> Result<Option<GuardOptions>, Failed> {
        let lookup = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let wrong = |what: String| Failed::config(format!("`guard`: {what}"));
        let fill = |text: &str| {
            environment::expand(text, lookup).map_err(|error| wrong(error.to_string()))
        };
        let url = self.url.as_deref().map(fill).transpose()?;
        let Some(url) = url.filter(|url| !url.is_empty()) else {
            return Ok(None);
        };
        Endpoint::new(&url, &[], false).map_err(|error| wrong(error.to_string()))?;
        if !is_name(&self.tenant) {
            return Err(wrong(format!("`{}` is no tenant's name", self.tenant)));
        }
        let written = self.api_key.as_deref().map(fill).transpose()?;
        let written = written.filter(|key| !key.is_empty());
        let api_key = written.or_else(|| KEYS.iter().find_map(|name| lookup(name)));
        if api_key.is_none() {
            crate::log::guard_without_key();
        }
        Ok(Some(GuardOptions {
            url,
            api_key,
            tenant: self.tenant.clone(),
            fail_mode: match self.fail_mode {
                FailMode::Deny => guard::FailMode::Deny,
                FailMode::Allow => guard::FailMode::Allow,
                FailMode::FailClosedWithAudit => guard::FailMode::DenyWithAudit,
            },
            timeout: self.timeout.0,
            audit_file: data_dir.join(AUDIT_FILE),
        }))
    }
}

impl<'de> Deserialize<'de> for Tenants {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let tenants = BTreeMap::<String, Tenant>::deserialize(deserializer)?;
        for name in tenants.keys() {
            if name == FIRST_TENANT {
                let what = "the tenant `local` is there already; its policy is `policy`";
                return Err(D::Error::custom(what));
            }
            if !is_name(name) {
                return Err(D::Error::custom(bad_name(name)));
            }
        }
        Ok(Self(tenants))
    }
}

fn tenant<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    if is_name(&name) {
        Ok(name)
    } else {
        Err(D::Error::custom(bad_name(&name)))
    }
}

fn bad_name(name: &str) -> String {
    format!("`{name}` is no tenant's name: it has 1 to 64 of `A-Z a-z 0-9 _ - .`")
}

/// Names stand in URLs and records, so they are plain.
fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_plain)
}
