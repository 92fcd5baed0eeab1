//! The answer to a question. Contradictory or incomplete answers are errors, not verdicts.

use std::borrow::Cow;

use callgate_wire::{Json, Strictness, quote};

use super::SCHEMA_VERSION;
use crate::{
    ApprovalId, Kind,
    visible::{Layout, visible},
};

/// Longer texts of an answer are cut; they are only for display.
const MAX_TEXT_CHARS: usize = 1000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The verdict. A confirmation also needs a person, so it is reported as REQUIRE_APPROVAL.
    pub kind: Kind,
    /// The rule that decided.
    pub rule: String,
    pub reason: String,
    /// The approval that is needed or was used, and the URL where it is decided.
    pub approval: Option<(ApprovalId, Option<String>)>,
}

impl Answer {
    pub fn written(&self) -> String {
        let decision = match self.kind {
            Kind::Allow => "ALLOW",
            Kind::Confirm | Kind::RequireApproval => "REQUIRE_APPROVAL",
            Kind::Deny => "DENY",
        };
        let approval = self.approval.as_ref();
        let id = approval.map(|(id, _)| format!(r#","approval_id":{}"#, quote(id.as_str())));
        let url = approval.and_then(|(_, url)| url.as_deref());
        let url = url.map(|url| format!(r#","approval_url":{}"#, quote(url)));
        format!(
            r#"{{"schema_version":"{SCHEMA_VERSION}","decision":"{decision}","reason":{},"matched_rule":{}{}{}}}"#,
            quote(&self.reason),
            quote(&self.rule),
            id.unwrap_or_default(),
            url.unwrap_or_default()
        )
    }

    /// Parses an answer; a contradictory one is an error.
    pub fn read(body: &[u8]) -> Result<Self, &'static str> {
        let json = Json::validate(body, Strictness::Full).map_err(|_| "it is not JSON")?;
        let text = |key: &str| {
            let text = json.get(key).and_then(Json::as_str);
            text.filter(|text| !text.is_empty()).map(Cow::into_owned)
        };
        let version = json.get("schema_version").map(Json::as_str);
        if version.is_some_and(|version| version.as_deref() != Some(SCHEMA_VERSION)) {
            return Err("unsupported `schema_version`");
        }
        let rule = text("matched_rule").ok_or("`matched_rule` is missing")?;
        let id = text("approval_id").map(|id| id.parse::<ApprovalId>());
        let id = id.transpose().map_err(|_| "`approval_id` is malformed")?;
        let url = text("approval_url").filter(|url| is_address(url));
        let of_rule = |words: &[&str]| {
            let word = rule.split(':').next().unwrap_or_default();
            words.contains(&word)
        };
        let asked = ["require_approval", "confirm"];
        let kind = match text("decision").as_deref() {
            Some("ALLOW") if of_rule(&["allow"]) => Kind::Allow,
            // An approval was used: the rule still names what asked for it.
            Some("ALLOW") if of_rule(&asked) && id.is_some() => Kind::Allow,
            Some("DENY") if !of_rule(&["allow"]) => Kind::Deny,
            // Without an id and a URL the held call could never be approved.
            Some("REQUIRE_APPROVAL") if of_rule(&asked) && id.is_some() && url.is_some() => {
                Kind::RequireApproval
            }
            Some("ALLOW" | "DENY" | "REQUIRE_APPROVAL") => {
                return Err("`decision` contradicts `matched_rule` or the approval");
            }
            Some(_) | None => return Err("`decision` is missing or unknown"),
        };
        let reason = text("reason").unwrap_or_else(|| "the guard gave no reason".to_owned());
        Ok(Self {
            kind,
            // Rule and reason come from another machine and end up in terminals and logs.
            rule: one_line(&rule),
            reason: one_line(&reason),
            approval: id.map(|id| (id, url)),
        })
    }
}

fn is_address(url: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_graphic();
    (url.starts_with("https://") || url.starts_with("http://"))
        && url.len() <= 2048
        && url.chars().all(is_plain)
}

fn one_line(text: &str) -> String {
    let shown = visible(text, Layout::OneLine);
    shown.chars().take(MAX_TEXT_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guard_answers_round_trip() {
        let id = ApprovalId::from_random([7; 16]);
        let url = "https://gate/approvals/x".to_owned();
        for (kind, rule, approval) in [
            (Kind::Allow, "allow:mcp_tool:*", None),
            (
                Kind::Allow,
                "require_approval:mcp_tool:*",
                Some((id.clone(), None)),
            ),
            (Kind::Deny, "deny:default", None),
            (Kind::Deny, "require_approval:mcp_tool:*", None),
            (
                Kind::RequireApproval,
                "confirm:mcp_tool:*",
                Some((id, Some(url))),
            ),
        ] {
            let answer = Answer {
                kind,
                rule: rule.to_owned(),
                reason: "it \"is\" so".to_owned(),
                approval,
            };
            assert_eq!(Answer::read(answer.written().as_bytes()), Ok(answer));
        }
    }

    #[test]
    fn guard_answers_have_one_line_texts_and_valid_addresses() {
        let id = ApprovalId::from_random([7; 16]);
        let text = |url: &str| {
            format!(
                r#"{{"schema_version":"v1","decision":"REQUIRE_APPROVAL","reason":"a\nRule: allow","matched_rule":"require_approval:x","approval_id":"{id}","approval_url":"{url}"}}"#
            )
        };
        let read = Answer::read(text("https://gate/a").as_bytes()).expect("it is understood");
        assert!(!read.reason.contains('\n'), "{}", read.reason);
        for url in [
            "",
            "javascript:alert(1)",
            "https://gate/\\nx",
            "https://a b",
        ] {
            assert!(Answer::read(text(url).as_bytes()).is_err(), "{url}");
        }
    }
}
