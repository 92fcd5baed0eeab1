//! `confirm`: the person at the host is asked where the host can ask; never for an approval.

use callgate_testkit::{Host as _, StdioHost};
use serde_json::Value;

use super::approval_of;
use crate::evidence::{ledger, records};
use crate::setup::Bed;
use crate::talk::{answer_line, call, call_line, parsed, stdio_as};

const POLICY: &str = r#"version: "1"
rules:
  - scope: mcp_tool
    require_approval: [{pattern: "n:wipe"}]
    confirm: [{pattern: "n:effect"}]
    allow: [{pattern: "*:*"}]
"#;

fn bed() -> Bed {
    let bed = Bed::new(
        "servers: {n: {command: '@counter@', args: [--ledger, '@dir@/ledger']}}\npolicy: '@dir@/policy.yaml'\n",
    );
    std::fs::write(bed.path("policy.yaml"), POLICY).expect("it is ours");
    bed
}

/// Calls `effect`; the person at the host is shown the question and says `action`.
fn confirmed(host: &mut StdioHost, arguments: &str, action: &str) -> (Value, Vec<String>) {
    let mut asked = Vec::new();
    let line = call_line("1", "n__effect", arguments);
    let frames = host.exchange(&line, &mut |question| {
        assert_eq!(question.method.as_deref(), Some("elicitation/create"));
        asked.push(question.params.clone().unwrap_or_default());
        Some(answer_line(
            question,
            &format!(r#"{{"action":"{action}"}}"#),
        ))
    });
    let frames = frames.expect("it is answered");
    (parsed(frames.last().expect("an answer")), asked)
}

#[test]
fn a_confirmation_is_asked_at_the_host() {
    let bed = bed();
    let mut host = stdio_as(&bed, Some(r#"{"elicitation":{}}"#));
    let (done, asked) = confirmed(&mut host, r#"{"key":"a\u202e"}"#, "accept");
    assert_eq!(done["result"]["isError"], Value::Null, "{done}");
    assert_eq!(asked.len(), 1);
    assert!(
        asked[0].contains("Allow the call of `n:effect`?"),
        "{asked:?}"
    );
    for action in ["decline", "cancel"] {
        let (refused, _) = confirmed(&mut host, r#"{"key":"b"}"#, action);
        assert!(
            refused
                .to_string()
                .contains("the user did not confirm this call"),
            "{refused}"
        );
    }
    assert_eq!(ledger(&bed).len(), 1);
    drop(host);
    let statuses: Vec<_> = records(&bed).iter().map(|r| r["status"].clone()).collect();
    assert_eq!(statuses, ["success", "rejected", "rejected"]);
}

#[test]
fn approvals_are_never_asked_at_the_host() {
    let bed = bed();
    let mut host = stdio_as(&bed, Some(r#"{"elicitation":{}}"#));
    approval_of(&call(&mut host, "n__wipe", r#"{"key":"a"}"#));
    assert_eq!(ledger(&bed), Vec::<String>::new());
}

#[test]
fn hosts_without_form_elicitation_need_an_approver_instead() {
    let bed = bed();
    for capabilities in ["{}", r#"{"elicitation":{"url":{}}}"#] {
        let mut host = stdio_as(&bed, Some(capabilities));
        approval_of(&call(&mut host, "n__effect", r#"{"key":"a"}"#));
    }
    assert_eq!(ledger(&bed), Vec::<String>::new());
}
