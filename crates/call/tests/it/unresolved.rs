//! Requests that name nothing: told what there is, recorded, and never decided.

use callgate_gate::{Listing, Naming, Prefix};
use callgate_record::{RecordType, Status};

use crate::stage::{Setting, Stage, listing, replies};

const FINE: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

fn connecting() -> Listing {
    Listing {
        tools: None,
        ..listing("fs", &[])
    }
}

#[tokio::test]
async fn the_error_for_an_unknown_tool_lists_the_choices() {
    let cases = [
        (
            "fs__raed",
            "unknown tool `fs__raed` of server `fs`; its tools: fs__read, fs__delete",
            Some("fs"),
        ),
        (
            "git__log",
            "unknown tool `git__log`: no such server; servers: fs",
            None,
        ),
    ];
    for (name, message, server) in cases {
        let stage = Stage::played_by(replies(FINE));
        let answer = stage.call(name).await;
        assert_eq!(
            (answer["id"].as_i64(), answer["error"]["code"].as_i64()),
            (Some(7), Some(-32602))
        );
        assert_eq!(answer["error"]["message"], message);
        assert_eq!(stage.journal.story(), ["owe refused Error"]);
        let entry = stage.journal.call_entry();
        assert_eq!(
            (entry.server.as_deref(), entry.tool.as_deref()),
            (server, Some(name))
        );
        assert_eq!((entry.decision, entry.status), (None, Some(Status::Error)));
        let error = entry.error.unwrap();
        assert_eq!((error.code, error.message.as_str()), (-32602, message));
    }
}

#[tokio::test]
async fn calls_without_a_tool_name_are_refused() {
    for params in [
        "",
        r#","params":{}"#,
        r#","params":{"name":3}"#,
        r#","params":{"name":null}"#,
    ] {
        let stage = Stage::played_by(replies(FINE));
        let answer = stage
            .ask(&format!(
                r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call"{params}}}"#
            ))
            .await;
        assert_eq!(answer["error"]["code"], -32602, "{params}");
        assert_eq!(stage.journal.story(), ["owe refused Error"], "{params}");
    }
}

#[tokio::test]
async fn unknown_methods_are_refused_when_names_have_prefixes() {
    let stage = Stage::played_by(replies(FINE));
    let answer = stage
        .ask(r#"{"jsonrpc":"2.0","id":7,"method":"x/custom"}"#)
        .await;
    assert_eq!(answer["error"]["code"], -32601);
    assert_eq!(stage.journal.story(), ["owe refused Error"]);
    assert_eq!(stage.journal.call_entry().record_type, RecordType::Other);
}

#[tokio::test]
async fn unknown_prompts_and_resources_are_recorded_under_their_kind() {
    let cases = [
        (
            r#""resources/read","params":{"uri":"x:y"}"#,
            -32002,
            RecordType::ResourceRead,
            Some("x:y"),
        ),
        (
            r#""prompts/get","params":{"name":"fs__p"}"#,
            -32602,
            RecordType::PromptGet,
            Some("fs__p"),
        ),
        (
            r#""resources/read""#,
            -32602,
            RecordType::ResourceRead,
            None,
        ),
        (r#""prompts/get""#, -32602, RecordType::PromptGet, None),
        (
            r#""completion/complete","params":{"ref":{"type":"ref/prompt","name":"fs__p"}}"#,
            -32602,
            RecordType::Other,
            Some("completion/complete"),
        ),
        (
            r#""completion/complete","params":{"ref":{"type":"ref/prompt","Name":"fs__p"}}"#,
            -32602,
            RecordType::Other,
            Some("completion/complete"),
        ),
    ];
    for (rest, code, record_type, name) in cases {
        let stage = Stage::played_by(replies(FINE));
        let request = format!(r#"{{"jsonrpc":"2.0","id":7,"method":{rest}}}"#);
        let answer = stage.ask(&request).await;
        assert_eq!(answer["error"]["code"], code, "{rest}");
        assert_eq!(stage.journal.story(), ["owe refused Error"], "{rest}");
        let entry = stage.journal.call_entry();
        assert_eq!(entry.record_type, record_type, "{rest}");
        assert_eq!(entry.tool.as_deref(), name, "{rest}");
    }
}

#[tokio::test]
async fn a_server_that_never_connected_is_unavailable_without_effect() {
    let setting = Setting {
        listings: vec![connecting()],
        ..Setting::default()
    };
    let stage = setting.played_by(replies(FINE));
    let answer = stage.call("fs__read").await;
    assert_eq!(answer["error"]["code"], -32002);
    assert_eq!(answer["error"]["message"], "upstream \"fs\" unavailable");
    assert_eq!(answer["error"]["data"]["effect"], "none");
    assert_eq!(stage.journal.story(), ["owe refused Error"]);
    assert_eq!(stage.journal.call_entry().server.as_deref(), Some("fs"));
}

#[tokio::test]
async fn calls_wait_for_a_servers_first_connect() {
    for (prefix, name) in [(Prefix::Always, "fs__read"), (Prefix::Never, "read")] {
        let setting = Setting {
            naming: Naming {
                prefix,
                ..Naming::default()
            },
            listings: vec![connecting()],
            after_connect: Some(vec![listing("fs", &["read"])]),
            ..Setting::default()
        };
        let stage = setting.played_by(replies(FINE));
        assert!(stage.call(name).await["result"].is_object());
        assert_eq!(
            stage.journal.story(),
            ["append forwarding", "reached", "owe finished Success Done"]
        );
    }
}

#[tokio::test]
async fn notifications_are_not_calls() {
    let stage = Stage::played_by(replies(FINE));
    let answer = stage
        .ask(r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"fs__read"}}"#)
        .await;
    assert_eq!(answer["error"]["code"], -32600);
    assert!(stage.journal.story().is_empty());
}
