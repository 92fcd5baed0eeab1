//! The built-in policies, and the per-server tool lists of the configuration.

use serde::{Deserialize, Serialize};

use super::{Check, Kind, pattern::Pattern, verbs};
use crate::{Digest, Tool};

/// A policy that needs no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Builtin {
    /// Tools that look destructive need approval; everything else is allowed.
    #[default]
    Default,
    /// Tools that do not declare themselves harmless need approval.
    Cautious,
    /// Everything is allowed, and recorded.
    AllowAll,
}

/// The tools of a server that the configuration enables.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolFilter {
    /// When present, only tools that match one of these.
    pub allow: Option<Vec<Pattern>>,
    /// Never tools that match one of these.
    pub deny: Vec<Pattern>,
    /// When present, only tools that also match one of these: what a step of an agent offers of the server.
    pub offered: Option<Vec<Pattern>>,
}

impl Builtin {
    /// The policy's verdict on a tool.
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
            None => {
                let reason = match self {
                    Self::Default => "allowed by the default policy",
                    Self::Cautious => "allowed by the cautious policy",
                    Self::AllowAll => "allowed by the allow-all policy",
                };
                (Kind::Allow, "allow:mcp_tool:*:*", reason.to_owned())
            }
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
    /// The denial of a disabled tool; `None` for enabled ones.
    pub(super) fn check(&self, tool: &Tool) -> Option<Check> {
        // `deny` before `allow`, and by look-alike: a server that renames `delete` to `DELETE` stays disabled.
        let (rule, reason) = match self.deny.iter().find(|p| p.resembles(&tool.name)) {
            Some(pattern) => (
                format!("deny:mcp_tool:{}:{}", tool.server, pattern.as_str()),
                "the configuration disables this tool (`tools.deny` of its server)",
            ),
            None if !lists(&self.offered, tool) => (
                super::rule_set::DEFAULT.to_owned(),
                "the step does not offer this tool (`tools` of the step)",
            ),
            None => {
                if lists(&self.allow, tool) {
                    return None;
                }
                (
                    // The rule id of "not listed", as for a call that no rule of a file allows.
                    super::rule_set::DEFAULT.to_owned(),
                    "the configuration does not enable this tool (`tools.allow` of its server)",
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

/// Whether a list names a tool; no list names all.
fn lists(patterns: &Option<Vec<Pattern>>, tool: &Tool) -> bool {
    let Some(patterns) = patterns else {
        return true;
    };
    patterns.iter().any(|pattern| pattern.matches(&tool.name))
}

/// Why a tool looks destructive: it declares so, or its hints are silent and its name has a destructive verb.
pub(crate) fn looks_destructive(tool: &Tool) -> Option<String> {
    match (tool.hints.destructive, tool.hints.read_only) {
        (Some(true), _) => Some(declared(tool)),
        (Some(false), _) | (None, Some(true)) => None,
        (None, Some(false) | None) => {
            // `readOnlyHint: false` only says that the tool writes, so it does not silence the check by verb.
            let verb = verbs::destructive(&tool.name)?;
            let name = tool.canonical();
            Some(format!(
                "`{name}` does not declare whether it is destructive, and its name contains `{verb}`"
            ))
        }
    }
}

/// Why a tool may be destructive by MCP's own default, in which a missing hint means destructive.
fn may_be_destructive(tool: &Tool) -> Option<String> {
    match (tool.hints.destructive, tool.hints.read_only) {
        (Some(true), _) => Some(declared(tool)),
        (Some(false), _) | (None, Some(true)) => None,
        (None, Some(false) | None) => {
            let name = tool.canonical();
            Some(format!(
                "`{name}` does not declare that it is read-only or not destructive"
            ))
        }
    }
}

fn declared(tool: &Tool) -> String {
    format!("`{}` declares that it is destructive", tool.canonical())
}
