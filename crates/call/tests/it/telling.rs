//! What is told about calls: each attempt ends in exactly one event, and trouble with the record shows.

use callgate_call::{ApprovalSettings, Failure, events::Listener};
use callgate_gate::{Pattern, ToolFilter};
use callgate_record::Effect;
use futures_util::FutureExt;
use serde_json::Value;

use crate::stage::{Setting, Stage, fails, listing, replies, server};

const FINE: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#;

fn told(listener: &mut Listener) -> Vec<Value> {
    let deliveries = listener.next().now_or_never().unwrap_or_default();
    let parse = |data: &[u8]| serde_json::from_slice(data).unwrap();
    deliveries
        .iter()
        .map(|delivery| parse(&delivery.data))
        .collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn every_attempt_ends_in_one_event() {
    let filter = ToolFilter {
        offered: None,
        allow: None,
        deny: vec![Pattern::new("wr*")],
    };
    let stage = Setting {
        listings: vec![listing("fs", &["read", "delete", "write"])],
        filters: [(server("fs"), filter)].into(),
        settings: Some(ApprovalSettings::default()),
        ..Setting::default()
    }
    .played_by(replies(FINE));
    let mut listener = stage.path.events().listen(None);
    let cases: [(&str, &[&str]); 4] = [
        ("fs__read", &["call.started", "call.finished"]),
        ("fs__delete", &["approval_required"]),
        ("fs__write", &["denied"]),
        ("fs__no_such", &["call.finished"]),
    ];
    for (tool, expected) in cases {
        stage.call(tool).await;
        let events = told(&mut listener);
        assert_eq!(kinds(&events), expected, "{tool}");
        let record = events[0]["record_id"].as_str().unwrap().to_owned();
        assert!(
            events
                .iter()
                .all(|event| event["record_id"] == record.as_str())
        );
    }
}

#[tokio::test]
async fn failure_events_name_the_effect_but_not_the_operators_detail() {
    let failure = Failure::Unavailable {
        server: server("fs"),
        effect: Effect::Unknown,
        detail: "said something secret".into(),
    };
    let stage = Stage::played_by(fails(failure));
    let mut listener = stage.path.events().listen(None);
    stage.call("fs__read").await;
    let events = told(&mut listener);
    let finished = &events[1];
    assert_eq!(finished["meta"]["effect"], "unknown");
    assert_eq!(finished["meta"]["error"], "UPSTREAM_UNAVAILABLE");
    assert_eq!(finished["reason"], "upstream \"fs\" unavailable");
    assert!(!finished.to_string().contains("secret"));
}

#[tokio::test]
async fn record_trouble_lasts_until_the_record_accepts_a_call() {
    let stage = Stage::played_by(replies(FINE));
    let mut listener = stage.path.events().listen(None);
    stage.journal.refuse();
    stage.call("fs__read").await;
    let events = told(&mut listener);
    assert_eq!(kinds(&events), ["denied"]);
    assert_eq!(events[0]["rule"], "deny:gateway:no_record");
    assert!(stage.path.record_trouble().is_some());
    stage.journal.take_again();
    stage.call("fs__read").await;
    assert_eq!(stage.path.record_trouble(), None);
}
