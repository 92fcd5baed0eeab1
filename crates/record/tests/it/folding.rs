//! Entries fold into one record per call, in every order that a log can have them.

use callgate_record::{Activity, Effect, Entry, Status, WriterId};
use serde_json::{Value, json};

const ID: &str = "01J00000000000000000000001";
const AP: &str = "ap_0123456789abcdef0123456789abcdef";

fn entry(value: &Value) -> Entry {
    Entry::from_json(&value.to_string()).unwrap()
}

fn call(kind: &str, more: &Value) -> Entry {
    let mut value = json!({
        "kind": kind, "id": ID, "type": "tool_call", "source": "mcp", "transport": "stdio", "tenant": "local",
        "principal": "user", "agent": "claude", "session_id": "s1", "server": "fs", "tool": "get",
    });
    for (key, member) in more.as_object().unwrap() {
        value[key] = member.clone();
    }
    entry(&value)
}

fn held() -> Entry {
    call(
        "held",
        &json!({"decision": "REQUIRE_APPROVAL", "rule": "asks", "approval_id": AP, "status": "pending",
            "arguments": {"bytes": 7, "blake3": "aa", "value": {"a": 1}}}),
    )
}

fn forwarding() -> Entry {
    let more = json!({"decision": "ALLOW", "rule": "allows", "approval_id": AP,
        "arguments": {"bytes": 7, "blake3": "aa", "value": {"a": 1}}});
    call("forwarding", &more)
}

fn refused(status: &str) -> Entry {
    let error = json!({"code": 0, "message": "no"});
    let more = json!({"decision": "DENY", "rule": "denies", "status": status, "error": error});
    call("refused", &more)
}

fn finished(status: &str, effect: &str) -> Entry {
    entry(&json!({
        "kind": "finished", "id": ID, "status": status, "effect": effect, "duration_us": 2500,
        "response": {"bytes": 2, "blake3": "bb", "value": {}},
        "error": {"code": -32000, "message": "told"},
    }))
}

fn unknown() -> Entry {
    entry(&json!({"kind": "unknown", "id": ID, "of": ID}))
}

fn fold(entries: &[Entry]) -> Activity {
    let (first, rest) = entries.split_first().unwrap();
    let writer = WriterId(ID.parse().unwrap());
    let at = "2026-01-02T03:04:05.000006Z".parse().unwrap();
    let mut activity = Activity::begin(writer, 3, at, first).unwrap();
    rest.iter().for_each(|entry| activity.apply(entry));
    activity
}

#[test]
fn a_released_call_is_one_record_with_its_last_decision() {
    let activity = fold(&[held(), forwarding(), finished("success", "done")]);
    let shown = serde_json::to_value(&activity).unwrap();
    assert_eq!(activity.status, Some(Status::Success));
    assert_eq!(
        (&shown["decision"], &shown["rule"]),
        (&json!("ALLOW"), &json!("allows"))
    );
    assert_eq!(shown["metadata"]["approval_id"], AP);
    assert_eq!(shown["arguments"], json!({"a": 1}));
    assert_eq!(
        (&shown["duration_ms"], &shown["response"]),
        (&json!(2.5), &json!({}))
    );
    assert_eq!(
        shown["timestamp"], "2026-01-02T03:04:05.000006Z",
        "of the first entry"
    );
}

/// Two writers may both give a call its end: the one that made it, and one that found it open.
#[test]
fn the_first_end_of_a_call_wins_in_every_order() {
    let ends = [
        (finished("success", "done"), Status::Success),
        (finished("error", "unknown"), Status::Error),
        (unknown(), Status::Unknown),
        (refused("cancelled"), Status::Cancelled),
        (refused("blocked"), Status::Blocked),
    ];
    for beginning in [vec![forwarding()], vec![held()], vec![held(), forwarding()]] {
        for (first, expected) in &ends {
            for (second, _) in &ends {
                let mut entries = beginning.clone();
                entries.push(first.clone());
                let alone = fold(&entries);
                entries.extend([second.clone(), held(), forwarding()]);
                let all = fold(&entries);
                // A held call has no writer that could die on it.
                let is_pending = beginning.len() == 1 && matches!(beginning[0], Entry::Held(_));
                if is_pending && matches!(first, Entry::Unknown(_)) {
                    assert_eq!(alone.status, Some(Status::Pending));
                    continue;
                }
                assert_eq!(all.status, Some(*expected), "{entries:?}");
                let shown = |activity: &Activity| serde_json::to_string(activity).unwrap();
                assert_eq!(
                    shown(&all),
                    shown(&alone),
                    "what comes later changes nothing"
                );
            }
        }
    }
}

#[test]
fn an_unfinished_call_has_no_status_while_its_writer_may_live() {
    let mut running = fold(&[held(), forwarding()]);
    assert_eq!((running.status, running.duration_ms), (None, None));
    running.orphan();
    assert_eq!(running.status, Some(Status::Unknown));
    let mut waiting = fold(&[held()]);
    waiting.orphan();
    assert_eq!(
        waiting.status,
        Some(Status::Pending),
        "a person can still decide"
    );
    let mut done = fold(&[forwarding(), finished("success", "done")]);
    done.orphan();
    assert_eq!(done.status, Some(Status::Success));
}

#[test]
fn a_recorded_error_carries_the_known_effect() {
    let effect = |entries: &[Entry]| fold(entries).error.and_then(|error| error.effect);
    assert_eq!(
        effect(&[forwarding(), finished("error", "unknown")]),
        Some(Effect::Unknown)
    );
    assert_eq!(
        effect(&[forwarding(), finished("error", "none")]),
        Some(Effect::None)
    );
    assert_eq!(effect(&[held(), refused("cancelled")]), Some(Effect::None));
    assert_eq!(
        effect(&[refused("blocked")]),
        None,
        "a refusal says so by itself"
    );
}

#[test]
fn entries_without_a_call_do_not_touch_records() {
    let head = json!({"writer": ID, "seq": 1, "hash": "aa"});
    let others = [
        json!({"kind": "opened", "pid": 1, "version": "1", "heads": [head]}),
        json!({"kind": "closed"}),
        json!({"kind": "head", "head": head, "mac": "bb"}),
        json!({"kind": "checkpoint", "dropped": head, "entries": 4}),
        json!({"kind": "finished", "id": ID, "status": "success", "effect": "done", "duration_us": 1}),
        json!({"kind": "unknown", "id": ID, "of": ID}),
    ];
    let writer = WriterId(ID.parse().unwrap());
    let at = "2026-01-02T03:04:05Z".parse().unwrap();
    let before = serde_json::to_string(&fold(&[forwarding()])).unwrap();
    for (number, other) in others.iter().enumerate() {
        let other = entry(other);
        assert!(
            Activity::begin(writer, 1, at, &other).is_none(),
            "{other:?}"
        );
        if number < 4 {
            let after = fold(&[forwarding(), other]);
            assert_eq!(serde_json::to_string(&after).unwrap(), before);
        }
    }
}

#[test]
fn an_event_is_its_own_record() {
    let event = json!({"kind": "event", "id": ID, "type": "approval", "name": "approval.denied", "server": "fs",
        "principal": "admin", "decision": "DENY", "approval_id": AP, "tenant": "local"});
    let shown = serde_json::to_value(fold(&[entry(&event)])).unwrap();
    assert_eq!(
        (&shown["type"], &shown["tool"]),
        (&json!("approval"), &json!("approval.denied"))
    );
    assert_eq!(
        (&shown["status"], &shown["decision"]),
        (&json!("success"), &json!("DENY"))
    );
    assert_eq!(
        (&shown["principal"], &shown["agent"]),
        (&json!("admin"), &Value::Null)
    );
    assert_eq!(shown["metadata"]["approval_id"], AP);
}

#[test]
fn a_cut_body_is_shown_as_text_with_a_warning() {
    let more = json!({"arguments": {"bytes": 9000, "blake3": "aa", "text": "{\"a\":\"\u{e9}"}, "warnings": ["odd"]});
    let activity = fold(&[call("forwarding", &more)]);
    assert_eq!(activity.arguments.unwrap().get(), r#""{\"a\":\"é""#);
    assert_eq!(
        activity.metadata.warnings,
        [
            "odd",
            "arguments: truncated to the first 8 of 9000 bytes, stored as text"
        ]
    );
}

#[test]
fn malformed_entries_are_errors() {
    for text in [
        "",
        "{}",
        r#"{"kind":"elsewhere"}"#,
        r#"{"kind":"finished"}"#,
        r#"{"kind":"finished","id":"x","status":"success","effect":"done","duration_us":1}"#,
        r#"{"kind":"unknown","id":7,"of":7}"#,
    ] {
        assert!(Entry::from_json(text).is_err(), "{text}");
    }
    // The members that the log adds in front are passed over.
    let line =
        format!(r#"{{"hash":"x","prev":"y","seq":1,"kind":"unknown","id":"{ID}","of":"{ID}"}}"#);
    assert!(matches!(Entry::from_json(&line), Ok(Entry::Unknown(_))));
}
