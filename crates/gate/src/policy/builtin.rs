//! The policies that are built in, and the per-server tool lists of the configuration.

use serde::{Deserialize, Serialize};

use super::{Check, Kind, pattern::Pattern, verbs};
use crate::{Digest, Tool};

/// A policy with a name of its own instead of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Builtin {
    /// What looks destructive needs approval; all else is allowed.
    #[default]
    Default,
    /// What does not say that it is harmless needs approval.
    Cautious,
    /// Everything is allowed, and recorded.
    AllowAll,
}

/// Which of a server's tools exist at all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolFilter {
    /// When present, only what matches one of these.
    pub allow: Option<Vec<Pattern>>,
    /// Never what matches one of these.
    pub deny: Vec<Pattern>,
}

impl Builtin {
    /// What the policy says to a tool.
    pub(super) fn check(self, tool: &Tool) -> Check {
        let asking = match self {
            Self::Default => looks_destructive(tool),
            Self::Cautious => may_be_destructive(tool),
            Self::AllowAll => None,
        };
        let (kind, rule, reason) = match asking {
            Some(reason) => (
                Kind::RequireApproval,
                "require_approval:mcp_tool:*:*",
                reason,
            ),
            None => (
                Kind::Allow,
                "allow:mcp_tool:*:*",
                "nothing speaks against it".to_owned(),
            ),
        };
        Check {
            scope: "mcp_tool".to_owned(),
            kind,
            rule: rule.to_owned(),
            reason,
            hash: Digest::of(rule.as_bytes()),
            judged: None,
        }
    }
}

impl ToolFilter {
    /// Why a tool of the server is kept away, if it is.
    pub(super) fn check(&self, tool: &Tool) -> Option<Check> {
        let (rule, reason) = match self.deny.iter().find(|p| p.resembles(&tool.name)) {
            Some(pattern) => (
                format!("deny:mcp_tool:{}:{}", tool.server, pattern.as_str()),
                "the configuration switches this tool off",
            ),
            None => {
                let allow = self.allow.as_ref()?;
                if allow.iter().any(|pattern| pattern.matches(&tool.name)) {
                    return None;
                }
                (
                    super::rule_set::DEFAULT.to_owned(),
                    "the configuration does not list this tool as allowed",
                )
            }
        };
        Some(Check {
            scope: "mcp_tool".to_owned(),
            kind: Kind::Deny,
            hash: Digest::of(rule.as_bytes()),
            rule,
            reason: reason.to_owned(),
            judged: None,
        })
    }
}

/// Why a tool looks destructive, if it does: it says so, or it does not say that it is not and its name has a verb that is.
pub(crate) fn looks_destructive(tool: &Tool) -> Option<String> {
    match (tool.hints.destructive, tool.hints.read_only) {
        (Some(true), _) => Some(declared(tool)),
        (Some(false), _) | (None, Some(true)) => None,
        (None, Some(false) | None) => {
            let verb = verbs::destructive(&tool.name)?;
            let name = tool.canonical();
            Some(format!(
                "`{name}` does not say what it may change, and its name says `{verb}`"
            ))
        }
    }
}

/// Why a tool may be destructive by MCP's own default, in which silence means yes.
fn may_be_destructive(tool: &Tool) -> Option<String> {
    match (tool.hints.destructive, tool.hints.read_only) {
        (Some(true), _) => Some(declared(tool)),
        (Some(false), _) | (None, Some(true)) => None,
        (None, Some(false) | None) => {
            let name = tool.canonical();
            Some(format!(
                "`{name}` does not say that it is read-only or not destructive"
            ))
        }
    }
}

fn declared(tool: &Tool) -> String {
    format!("`{}` declares that it is destructive", tool.canonical())
}
