//! Decided, recorded, forwarded, ended: in this order, and nothing without the step before it.

use std::time::Duration;

use callgate_call::Failure;
use callgate_gate::{Naming, Pattern, Prefix, ToolFilter};
use callgate_record::{Decision, Effect, OnFailure, RecordType, Status};
use serde_json::{Value, json};

use crate::stage::{Setting, Stage, fails, listing, refusal, replies, server, tool_call};

const FINE: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"ok"}]}}"#;
const METHOD: &str = r#"{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"x:"}}"#;

fn denying(pattern: &str) -> Setting {
    let filter = ToolFilter {
        offered: None,
        allow: None,
        deny: vec![Pattern::new(pattern)],
    };
    Setting {
        filters: [(server("fs"), filter)].into(),
        ..Setting::default()
    }
}

fn passing_through() -> Setting {
    let naming = Naming {
        prefix: Prefix::Never,
        ..Naming::default()
    };
    Setting {
        naming,
        ..Setting::default()
    }
}

#[tokio::test]
async fn a_permitted_call_is_recorded_before_and_after_it_runs() {
    let stage = Stage::played_by(replies(FINE));
    let request = tool_call("7", "fs__read");
    assert_eq!(
        stage.ask(&request).await["result"]["content"][0]["text"],
        "ok"
    );
    assert_eq!(
        stage.journal.story(),
        ["append forwarding", "reached", "owe finished Success Done"]
    );
    assert_eq!(
        stage.frames(),
        [request],
        "the provider gets the very bytes of the host"
    );

    let entry = stage.journal.call_entry();
    assert_eq!(entry.record_type, RecordType::ToolCall);
    assert_eq!(
        (entry.server.as_deref(), entry.tool.as_deref()),
        (Some("fs"), Some("read"))
    );
    assert_eq!(
        (entry.decision, entry.status),
        (Some(Decision::Allow), None)
    );
    assert_eq!(entry.request_id.as_deref(), Some("7"));
    assert_eq!(
        entry.arguments.unwrap().value.unwrap().get(),
        r#"{"n":1.0}"#
    );
    assert_eq!(stage.journal.finished()[0].id, entry.id);
}

#[tokio::test]
async fn replies_are_unchanged_except_for_the_hosts_id() {
    let text = r#"{ "result" : {"x":1.50,"y":"\u00e9"}, "id":1, "jsonrpc":"2.0" }"#;
    let stage = Stage::played_by(replies(text));
    let answer = stage
        .start(&tool_call(r#""h-1""#, "fs:read"))
        .answer()
        .await
        .unwrap();
    assert_eq!(answer, text.replace(r#""id":1"#, r#""id":"h-1""#));
}

#[tokio::test]
async fn other_requests_pass_to_the_only_server_and_are_recorded() {
    let custom = r#"{"jsonrpc":"2.0","id":7,"method":"x/custom"}"#;
    let prompt = r#"{"jsonrpc":"2.0","id":7,"method":"prompts/get","params":{"name":"p","arguments":{"a":"1"}}}"#;
    let cases = [
        (custom, RecordType::Other, "x/custom", "allow:mcp_method:*"),
        (
            METHOD,
            RecordType::ResourceRead,
            "x:",
            "allow:mcp_resource:*",
        ),
        (prompt, RecordType::PromptGet, "p", "allow:mcp_prompt:*"),
    ];
    for (request, record_type, name, rule) in cases {
        let stage = passing_through().played_by(replies(FINE));
        stage.ask(request).await;
        assert_eq!(
            stage.journal.story(),
            ["append forwarding", "reached", "owe finished Success Done"]
        );
        let entry = stage.journal.call_entry();
        assert_eq!(
            (entry.record_type, entry.tool.as_deref()),
            (record_type, Some(name))
        );
        assert_eq!(entry.rule.as_deref(), Some(rule));
    }
}

#[tokio::test]
async fn a_call_that_cannot_be_recorded_is_refused() {
    let stage = Stage::played_by(replies(FINE));
    stage.journal.refuse();
    let told = refusal(&stage.call("fs__read").await);
    assert!(
        told.starts_with("[callgate] Action denied by policy.\n"),
        "{told}"
    );
    assert!(told.ends_with("\nRule: deny:gateway:no_record"), "{told}");
    assert!(
        !told.contains("disk"),
        "what is wrong with the disk is the operator's business: {told}"
    );
    assert_eq!(
        stage.journal.story(),
        ["append refused", "owe refused Rejected"]
    );
    assert!(stage.path.registry().is_empty());
}

#[tokio::test]
async fn a_call_whose_record_is_not_durable_is_refused() {
    let stage = Stage::played_by(replies(FINE));
    stage.journal.never_settle();
    assert!(refusal(&stage.call("fs__read").await).ends_with("\nRule: deny:gateway:no_record"));
    assert_eq!(
        stage.journal.story(),
        ["append forwarding", "owe finished Rejected None"],
        "what was announced is withdrawn"
    );
}

#[tokio::test]
async fn other_requests_that_cannot_be_recorded_get_an_error() {
    let stage = passing_through().played_by(replies(FINE));
    stage.journal.refuse();
    let answer = stage.ask(METHOD).await;
    assert_eq!(answer["error"]["code"], -32000);
    assert_eq!(answer["error"]["data"]["rule"], "deny:gateway:no_record");
    assert_eq!(
        stage.journal.story(),
        ["append refused", "owe refused Rejected"]
    );
}

#[tokio::test]
async fn on_failure_allow_forwards_and_queues_the_record() {
    let setting = Setting {
        on_failure: OnFailure::Allow,
        ..Setting::default()
    };
    let stage = setting.played_by(replies(FINE));
    stage.journal.refuse();
    assert_eq!(
        stage.call("fs__read").await["result"]["content"][0]["text"],
        "ok"
    );
    assert_eq!(
        stage.journal.story(),
        [
            "append refused",
            "owe forwarding",
            "owe event record.allowed_without",
            "reached",
            "owe finished Success Done"
        ]
    );
}

#[tokio::test]
async fn on_failure_allow_forwards_despite_a_record_that_is_not_durable() {
    let setting = Setting {
        on_failure: OnFailure::Allow,
        ..Setting::default()
    };
    let stage = setting.played_by(replies(FINE));
    stage.journal.never_settle();
    assert_eq!(
        stage.call("fs__read").await["result"]["content"][0]["text"],
        "ok"
    );
    assert_eq!(
        stage.journal.story(),
        [
            "append forwarding",
            "owe event record.allowed_without",
            "reached",
            "owe finished Success Done"
        ]
    );
}

#[tokio::test]
async fn a_denied_call_is_answered_and_recorded_but_not_forwarded() {
    for store_works in [true, false] {
        let stage = denying("re*").played_by(replies(FINE));
        if !store_works {
            stage.journal.refuse();
        }
        let told = refusal(&stage.call("fs__read").await);
        assert_eq!(
            told,
            "[callgate] Action denied by policy.\nReason: the configuration disables this tool (`tools.deny` of its server)\n\
             Rule: deny:mcp_tool:fs:re*"
        );
        assert_eq!(stage.journal.story(), ["owe refused Blocked"]);
        let entry = stage.journal.call_entry();
        assert_eq!(entry.decision, Some(Decision::Deny));
        assert_eq!(entry.rule.as_deref(), Some("deny:mcp_tool:fs:re*"));
        assert_eq!(entry.checks[0].rule, "deny:mcp_tool:fs:re*");
    }
}

#[tokio::test]
async fn tool_errors_are_recorded_as_errors() {
    let text = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":true}}"#;
    let stage = Stage::played_by(replies(text));
    assert_eq!(
        stage.call("fs__read").await,
        json!({"jsonrpc":"2.0","id":7,"result":{"content":[],"isError":true}})
    );
    assert_eq!(stage.journal.story()[2], "owe finished Error Done");
    let end = stage.journal.finished().remove(0);
    assert_eq!(end.error.unwrap().message, "the tool reported an error");
    assert_eq!(
        end.response.unwrap().value.unwrap().get(),
        r#"{"content":[],"isError":true}"#
    );
}

#[tokio::test]
async fn upstream_protocol_errors_are_passed_on_and_recorded_as_errors() {
    let text = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no","data":[1.0]}}"#;
    let stage = Stage::played_by(replies(text));
    let answer = stage
        .start(&tool_call("7", "fs__read"))
        .answer()
        .await
        .unwrap();
    assert_eq!(answer, text.replace(r#""id":1"#, r#""id":7"#));
    assert_eq!(stage.journal.story()[2], "owe finished Error Done");
    let error = stage.journal.finished().remove(0).error.unwrap();
    assert_eq!((error.code, error.message.as_str()), (-32602, "no"));
}

#[tokio::test]
async fn each_failure_is_answered_and_recorded_with_its_effect() {
    let fs = || server("fs");
    let gone = |effect| Failure::Unavailable {
        server: fs(),
        effect,
        detail: "exit status 1".into(),
    };
    let late = Failure::TimedOut {
        server: fs(),
        name: "read".into(),
        timeout: Duration::from_secs(1),
        effect: Effect::Unknown,
    };
    let cases = [
        (gone(Effect::None), -32002, "none", Status::Error),
        (gone(Effect::Unknown), -32002, "unknown", Status::Unknown),
        (late, -32002, "unknown", Status::Unknown),
        (
            Failure::TooLarge { server: fs() },
            -32002,
            "done",
            Status::Error,
        ),
        (Failure::Broken, -32603, "unknown", Status::Unknown),
    ];
    for (failure, code, effect, status) in cases {
        let stage = Stage::played_by(fails(failure.clone()));
        let answer = stage.call("fs__read").await;
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!(7), &json!(code)),
            "{failure:?}"
        );
        assert_eq!(answer["error"]["data"]["effect"], effect, "{failure:?}");
        assert!(!answer.to_string().contains("exit status"), "{answer}");
        let end = stage.journal.finished().remove(0);
        assert_eq!(
            (end.status, end.effect),
            (status, failure.effect()),
            "{failure:?}"
        );
        assert_eq!(end.error.unwrap().code, code);
        assert_eq!(stage.journal.story().len(), 3);
    }
}

#[tokio::test]
async fn a_removed_server_is_reported_unavailable_without_effect() {
    let setting = Setting {
        listings: vec![listing("fs", &["read"])],
        after_connect: Some(vec![listing("fs", &["read"]), listing("new", &["go"])]),
        ..passing_through()
    };
    let stage = setting.played_by(replies(FINE));
    let answer: Value = stage.call("go").await;
    assert_eq!(answer["error"]["message"], "upstream \"new\" unavailable");
    assert_eq!(
        stage.journal.story(),
        ["append forwarding", "owe finished Error None"]
    );
}
