//! Table: the keys of `guard` and `tenants` in `callgate.yaml`, and what they mean.

use std::{collections::BTreeMap, env, fmt, path::Path, time::Duration};

use callgate_gate::{
    Endpoint, FIRST_TENANT,
    guard::{self, GuardOptions},
};
use callgate_process::environment;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error};

use crate::model::{PolicyChoice, TimeSpan};
use crate::{Failed, Flags};

/// Environment variables that hold the key if the file has none.
const KEYS: [&str; 2] = ["CALLGATE_GUARD_API_KEY", "AGENTGUARD_API_KEY"];
/// The file in the data folder that lists calls which could not be decided.
const AUDIT_FILE: &str = "fail-audit.jsonl";
/// The longest name of a tenant.
const MAX_NAME: usize = 64;

/// A remote gateway that decides each call in place of local rules.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Guard {
    /// The URL of the remote gateway, for example `https://gate.example.com`; without it, the rules
    /// of `policy` decide. `http://` becomes `https://`, except on loopback. `${VAR}` is expanded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The token that the remote gateway knows this one by; default: `$CALLGATE_GUARD_API_KEY`,
    /// then `$AGENTGUARD_API_KEY`. `${VAR}` is expanded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key: Option<String>,
    /// The tenant at the remote gateway.
    #[serde(deserialize_with = "tenant")]
    pub tenant: String,
    /// What happens to a call when the remote gateway cannot be asked.
    pub fail_mode: FailMode,
    /// How long one request to the remote gateway may take.
    pub timeout: TimeSpan,
}

/// What happens to a call when the remote gateway cannot be asked. An answer that cannot be
/// understood refuses the call in every mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum FailMode {
    /// The call is refused.
    #[default]
    Deny,
    /// The call proceeds.
    Allow,
    /// The call is refused, and also written to `fail-audit.jsonl` in the data folder.
    FailClosedWithAudit,
}

/// Tenants by name, besides `local`, which always exists.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Tenants(pub BTreeMap<String, Tenant>);

/// One tenant, with its own tokens, records and approvals.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Tenant {
    /// The tenant's policy, written like the top-level `policy`; default `default`.
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
            timeout: TimeSpan(Duration::from_secs(5)),
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard { .. }")
    }
}

impl Guard {
    /// The configured guard with flags applied.
    pub(super) fn with_flags(&self, flags: &Flags) -> Self {
        let mut merged = self.clone();
        merged.url = flags.guard_url.clone().or(merged.url);
        merged.tenant = flags.tenant.clone().unwrap_or(merged.tenant);
        merged.fail_mode = flags.fail_mode.unwrap_or(merged.fail_mode);
        merged
    }

    /// The options of the guard; `None` without one.
    pub(super) fn options(&self, data_dir: &Path) -> Result<Option<GuardOptions>, Failed> {
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
            return Err(wrong(bad_name(&self.tenant)));
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
                let what =
                    "the tenant `local` always exists; set its policy with `policy` at the top";
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
    format!("`{name}` is not a tenant name: use 1 to 64 characters of `A-Z a-z 0-9 _ - .`")
}

/// Names are plain because they are used in URLs and records.
fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_plain)
}
