//! What the recorder writes about a call, from its beginning to its end.

use std::sync::Arc;

use callgate_gate::{ApprovalId, BoundRequest, ItemKind, Reference, ServerName, Target};
use callgate_record::{
    Activity, Decision, Effect, Entry, Failed, OnFailure, Outcome, RecordType, Status, WriterId,
};
use callgate_wire::{Json, Strictness};
use serde_json::{Value, json};
use ulid::Ulid;

use crate::given::{BODY_BYTES, How, attempt, call, denied, held, permitted, recorder, written};

fn outcome(response: Option<Json<'_>>, error: Option<Failed>) -> Outcome<'_> {
    Outcome {
        status: Status::Success,
        effect: Effect::Done,
        duration_us: 1500,
        response,
        error,
    }
}

fn fold(entries: &[(How, Entry)]) -> Value {
    let at = "2026-01-02T03:04:05Z".parse().unwrap();
    let writer = WriterId(Ulid::nil());
    let mut activity = Activity::begin(writer, 1, at, &entries[0].1).unwrap();
    entries[1..]
        .iter()
        .for_each(|(_, entry)| activity.apply(entry));
    serde_json::to_value(&activity).unwrap()
}

#[tokio::test]
async fn a_forwarded_call_and_its_end_are_one_record() {
    let (recorder, memory) = recorder(OnFailure::Refuse);
    let call = call("read", &json!({"path": "a", "n": 1.50}));
    let id = call.attempt.id;
    let (recorded, open) = recorder.forwarding(permitted(call)).await.unwrap();
    assert_eq!(recorded.call().attempt.id, id);
    assert_eq!(memory.kinds(), [(How::Appended, "forwarding".to_owned())]);
    let reply = r#"{"content":[],"x":1.0}"#;
    let reply = Json::validate(reply.as_bytes(), Strictness::Full).unwrap();
    recorder.finished(open, outcome(Some(reply), None)).await;
    assert_eq!(memory.kinds()[1..], [(How::Owed, "finished".to_owned())]);
    let record = fold(&memory.entries());
    assert_eq!(record["id"], id.to_string());
    for (key, expected) in [
        ("type", json!("tool_call")),
        ("source", json!("mcp")),
        ("transport", json!("http")),
        ("principal", json!("user")),
        ("agent", json!("claude")),
        ("client", json!({"name": "claude"})),
        ("session_id", json!("s1")),
        ("request_id", json!("7")),
        ("server", json!("fs")),
        ("tool", json!("read")),
        ("decision", json!("ALLOW")),
        ("status", json!("success")),
        ("duration_ms", json!(1.5)),
    ] {
        assert_eq!(record[key], expected, "{key}");
    }
    let bodies = [
        record["arguments"].to_string(),
        record["response"].to_string(),
    ];
    assert_eq!(
        bodies,
        [r#"{"path":"a","n":1.5}"#, r#"{"content":[],"x":1.0}"#]
    );
}

#[tokio::test]
async fn no_member_of_any_entry_contains_a_secret() {
    const SECRET: &str = "hunter2-hunter2";
    let (recorder, memory) = recorder(OnFailure::Refuse);
    let secret = format!("password={SECRET}");
    let arguments = json!({"command": secret, "token": SECRET});
    let (_, open) = recorder
        .forwarding(permitted(call("run", &arguments)))
        .await
        .unwrap();
    let reply = json!({"content": [{"type": "text", "text": secret}]}).to_string();
    let reply = Json::validate(reply.as_bytes(), Strictness::Full).unwrap();
    let failed = || Failed {
        code: -1,
        message: secret.clone(),
    };
    recorder
        .finished(open, outcome(Some(reply), Some(failed())))
        .await;
    recorder.denied(&denied(call("run", &arguments)));
    let uri = json!({"uri": format!("https://me:{SECRET}@host/x")});
    recorder.refused(
        &attempt("resources/read", &uri),
        Some("fs"),
        Status::Error,
        failed(),
    );
    recorder.event(
        RecordType::Server,
        "upstream.down",
        Some("fs"),
        Some(secret.clone()),
    );
    let of = Reference {
        kind: ItemKind::Resource,
        server: ServerName::new("fs").unwrap(),
        name: format!("https://me:{SECRET}@host/x"),
    };
    let mut read = call("run", &json!({}));
    read.attempt = attempt("resources/read", &uri);
    read.target = Target::Resource(of);
    let _open = recorder.forwarding(permitted(read)).await.unwrap();
    assert_eq!(memory.entries().len(), 6);
    for (_, entry) in memory.entries() {
        let text = written(&entry).to_string();
        assert!(!text.contains(SECRET), "{text}");
        assert!(text.contains("[redacted]"), "{text}");
    }
}

#[tokio::test]
async fn held_arguments_are_cut_and_redacted() {
    let (recorder, memory) = recorder(OnFailure::Refuse);
    let padding = "x".repeat(2 * BODY_BYTES);
    let hold = held(call(
        "delete",
        &json!({"token": "hunter2", "padding": padding}),
    ));
    let bound = BoundRequest::of(hold.call());
    let asking = recorder.asking(hold.call(), &bound, hold.ruling());
    assert!(
        asking
            .arguments
            .starts_with(r#"{"token":"[redacted]","padding":"xxx"#)
    );
    assert_eq!(asking.arguments.len(), BODY_BYTES);
    assert_eq!(asking.arguments_bytes, bound.arguments.len() as u64);
    assert!(!asking.arguments_whole);
    assert_eq!(
        (asking.server.as_str(), asking.tool.as_str()),
        ("fs", "delete")
    );
    assert!(asking.definition.is_some());
    let id = ApprovalId::from_random([7; 16]);
    recorder
        .held(&hold, Some(&id), Status::Pending)
        .await
        .unwrap();
    let entry = memory.call();
    assert_eq!(
        (entry.status, entry.approval_id.as_ref()),
        (Some(Status::Pending), Some(&id))
    );
    assert_eq!(entry.decision, Some(Decision::RequireApproval));
}

#[tokio::test]
async fn long_names_are_cut_and_long_client_info_is_omitted() {
    let (recorder, memory) = recorder(OnFailure::Refuse);
    let name = "ü".repeat(300);
    let mut attempt = attempt("tools/call", &json!({"name": name}));
    let host = Arc::get_mut(&mut attempt.host).unwrap();
    host.identity.agent = "a".repeat(300);
    host.client_info = Some(json!({"name": "x".repeat(3000)}).to_string());
    let failed = Failed {
        code: 0,
        message: "x".repeat(5000),
    };
    recorder.refused(&attempt, None, Status::Error, failed);
    let entry = memory.call();
    assert_eq!(entry.tool, Some("ü".repeat(256)));
    assert_eq!(entry.agent, "a".repeat(256));
    assert!(entry.client.is_none());
    assert_eq!(entry.error.unwrap().message, "x".repeat(1024));
}

#[tokio::test]
async fn each_refusal_is_queued_with_its_kind() {
    let (recorder, memory) = recorder(OnFailure::Refuse);
    let approval = ApprovalId::from_random([7; 16]);
    let failed = || Failed {
        code: 0,
        message: "why".to_owned(),
    };
    recorder.denied(&denied(call("read", &json!({}))));
    recorder.ended_undecided(&held(call("read", &json!({}))), &approval, failed());
    let hold = held(call("read", &json!({})));
    let decision = Decision::RequireApproval;
    recorder.cancelled(hold.call(), hold.ruling(), decision, Some(&approval));
    recorder.refused_by_person(&hold.deny("no"), Some(&approval));
    recorder.bypassed(
        &attempt("tools/call", &json!({"name": "Bash", "arguments": {}})),
        "claude",
    );
    let said: Vec<(How, String)> = memory
        .entries()
        .iter()
        .map(|(how, entry)| {
            let entry = written(entry);
            let word = |key: &str| entry[key].as_str().unwrap_or("-").to_owned();
            let words = [
                word("kind"),
                word("server"),
                word("tool"),
                word("decision"),
                word("status"),
            ];
            (*how, words.join(" "))
        })
        .collect();
    let expected = [
        "refused fs read DENY blocked",
        "refused fs read REQUIRE_APPROVAL rejected",
        "refused fs read REQUIRE_APPROVAL cancelled",
        "refused fs read DENY rejected",
        "refused claude Bash - bypassed",
    ];
    assert_eq!(said, expected.map(|line| (How::Owed, line.to_owned())));
}

#[tokio::test]
async fn check_answers_are_recorded_before_they_are_given() {
    for (decision, status) in [
        (Decision::Allow, Status::Success),
        (Decision::Deny, Status::Blocked),
        (Decision::RequireApproval, Status::Blocked),
    ] {
        let (recorder, memory) = recorder(OnFailure::Allow);
        let hold = held(call("read", &json!({})));
        recorder
            .checked(hold.call(), hold.ruling(), decision, None)
            .await
            .unwrap();
        assert_eq!(memory.kinds(), [(How::Appended, "checked".to_owned())]);
        let entry = memory.call();
        assert_eq!(entry.record_type, RecordType::Check);
        assert_eq!(
            (entry.decision, entry.status),
            (Some(decision), Some(status))
        );
    }
}

#[tokio::test]
async fn a_watcher_sees_the_entries_of_its_session_until_it_is_dropped() {
    let (recorder, _) = recorder(OnFailure::Refuse);
    let seen: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let told = seen.clone();
    let watching = recorder.watch("s1", move |entry| {
        let kind = written(entry)["kind"].as_str().unwrap().to_owned();
        told.lock().unwrap().push(kind);
    });
    let other = recorder.watch("s2", |entry| panic!("of another session: {entry:?}"));
    let allowed = call("read", &json!({"path": "a"}));
    let (_, open) = recorder.forwarding(permitted(allowed)).await.unwrap();
    recorder.finished(open, outcome(None, None)).await;
    recorder.denied(&denied(call("write", &json!({}))));
    let hold = held(call("delete", &json!({})));
    recorder.held(&hold, None, Status::Pending).await.unwrap();
    assert_eq!(
        *seen.lock().unwrap(),
        ["forwarding", "finished", "refused", "held"]
    );
    drop((watching, other));
    recorder.denied(&denied(call("write", &json!({}))));
    assert_eq!(seen.lock().unwrap().len(), 4);
}

#[test]
fn a_native_tool_that_its_agent_refused_is_blocked_and_not_bypassed() {
    let (recorder, memory) = recorder(OnFailure::Refuse);
    let params = json!({"name": "Bash", "arguments": {"command": "ls"}});
    recorder.refused_by_agent(&attempt("tools/call", &params), "claude");
    let entry = memory.call();
    assert_eq!(entry.status, Some(Status::Blocked));
    assert_eq!(entry.server.as_deref(), Some("claude"));
    let why = "`claude` refused its own tool";
    assert_eq!(entry.reason.as_deref(), Some(why));
}
