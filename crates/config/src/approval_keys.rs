//! Table: the keys of `approvals` in `callgate.yaml`.

use std::{fmt, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{checked, model::Span};

/// How people are asked about calls that need their approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Approvals {
    /// How long a call is held for somebody to decide before it is answered that it needs approval.
    /// With `0s` it is answered at once, and the host comes again.
    pub wait: Span,
    /// How long a decision counts; a call that comes later needs another one.
    pub valid_for: Span,
    /// How long somebody may decide; then the question is void.
    pub expire_after: Span,
    /// Where approvers reach this gateway, for the links that are handed out, for example
    /// `https://gate.example.com`; the address of `serve` when left out. Its host must be in `hosts`.
    #[serde(
        deserialize_with = "checked::base_url",
        skip_serializing_if = "Option::is_none"
    )]
    pub base_url: Option<String>,
    /// Who is told when a call needs approval.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<Webhook>,
}

impl Default for Approvals {
    fn default() -> Self {
        let seconds = |n| Span(Duration::from_secs(n));
        Self {
            wait: seconds(0),
            valid_for: seconds(5 * 60),
            expire_after: seconds(60 * 60),
            base_url: None,
            notify: Vec::new(),
        }
    }
}

/// An address that is told of calls that need approval.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// Gets a POST for each; `${VAR}` is filled in.
    pub url: String,
    /// Signs each message, in `X-Callgate-Signature`; `${VAR}` is filled in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// What the message looks like.
    #[serde(default)]
    pub format: WebhookFormat,
}

/// What a message looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum WebhookFormat {
    /// Every field of the approval, as JSON.
    #[default]
    Generic,
    /// As Slack's incoming webhooks take it.
    Slack,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Webhook { .. }")
    }
}
