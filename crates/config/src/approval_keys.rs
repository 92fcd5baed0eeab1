//! Table: the keys of `approvals` in `callgate.yaml`.

use std::{fmt, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{checked, model::TimeSpan};

/// How calls that need approval are held, announced and decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Approvals {
    /// How long a call is held for a decision before it is answered that it needs approval. With
    /// `0s` it is answered at once, and the host repeats the call after approval.
    pub wait: TimeSpan,
    /// How long a decision is valid; a later call needs a new one.
    pub valid_for: TimeSpan,
    /// How long a decision may take; then the approval expires.
    pub expire_after: TimeSpan,
    /// The base of links to this gateway, for example `https://gate.example.com`; default: the
    /// address of `serve`. Its host must be in `hosts`.
    #[serde(
        deserialize_with = "checked::base_url",
        skip_serializing_if = "Option::is_none"
    )]
    pub base_url: Option<String>,
    /// Webhooks that are notified when a call needs approval.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<Webhook>,
}

impl Default for Approvals {
    fn default() -> Self {
        let seconds = |n| TimeSpan(Duration::from_secs(n));
        Self {
            wait: seconds(0),
            valid_for: seconds(5 * 60),
            expire_after: seconds(60 * 60),
            base_url: None,
            notify: Vec::new(),
        }
    }
}

/// A webhook that is notified when a call needs approval.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// The URL that gets a POST request for each such call; `${VAR}` is expanded.
    pub url: String,
    /// The key that signs each message, in `X-Callgate-Signature`; `${VAR}` is expanded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// The format of the message.
    #[serde(default)]
    pub format: WebhookFormat,
}

/// The format of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum WebhookFormat {
    /// JSON with the fields of the approval, without the call's arguments.
    #[default]
    Generic,
    /// A message for a Slack incoming webhook.
    Slack,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Webhook { .. }")
    }
}
