//! The index says what the log says, however it was filled.

use std::{fs, path::Path};

use callgate_gate::CallId;
use callgate_record::{Activity, ActivityFilter, Decision, Format, RecordType, Status, Store as _};
use callgate_store::{Index, IndexError, Log, export};
use serde_json::{Value, json};

use crate::support::{call, counted, entry, event, finished, forwarding, new_id, open, options};

fn all(index: &mut Index) -> Vec<String> {
    let mut found = Vec::new();
    let mut see = |activity: Activity| {
        found.push(serde_json::to_string(&activity).unwrap());
        Ok(())
    };
    index
        .for_each(&ActivityFilter::default(), &mut see)
        .unwrap();
    found
}

#[test]
fn a_rebuilt_index_equals_one_that_grew() {
    let dir = tempfile::tempdir().unwrap();
    let mut grown = Index::open(dir.path()).unwrap();
    for round in 0..4 {
        let mut options = options(dir.path());
        options.segment_bytes = 3000;
        let log = Log::open(options).unwrap();
        for number in 0..12 {
            let id = new_id();
            log.append(&forwarding(id)).unwrap();
            if number % 5 == 0 {
                grown.catch_up().unwrap();
            }
            if number % 4 != 3 {
                log.append_owed(finished(id));
            }
            log.append_owed(event("tick"));
        }
        if round % 2 == 0 {
            log.close().unwrap();
        }
    }
    grown.catch_up().unwrap();
    let incremental = all(&mut grown);
    assert_eq!(incremental.len(), 4 * 24);
    assert_eq!(
        incremental
            .iter()
            .filter(|record| record.contains(r#""status":"unknown""#))
            .count(),
        12
    );
    grown.rebuild().unwrap();
    assert_eq!(all(&mut grown), incremental);
    assert_eq!(grown.catch_up().unwrap(), 0, "nothing is new");
}

#[test]
fn a_broken_index_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let id = new_id();
    log.append(&forwarding(id)).unwrap();
    Index::open(dir.path()).unwrap().catch_up().unwrap();
    fs::write(
        dir.path().join("index.sqlite"),
        b"this is no database, whatever its name says",
    )
    .unwrap();
    let mut index = Index::open(dir.path()).unwrap();
    index.catch_up().unwrap();
    assert_eq!(index.get(id).unwrap().map(|activity| activity.id), Some(id));
}

#[test]
fn a_newer_index_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    drop(Index::open(dir.path()).unwrap());
    let database = rusqlite::Connection::open(dir.path().join("index.sqlite")).unwrap();
    database.pragma_update(None, "user_version", 99).unwrap();
    let error = Index::open(dir.path()).unwrap_err();
    assert!(
        matches!(error, IndexError::Newer { found: 99, .. }),
        "{error}"
    );
    let form: i64 = database
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    assert_eq!(form, 99);
}

/// Three calls of different kinds and an event.
fn sample(dir: &Path) -> [CallId; 3] {
    let log = open(dir);
    let ids = [new_id(), new_id(), new_id()];
    log.append(&forwarding(ids[0])).unwrap();
    log.append_owed(finished(ids[0]));
    let mut refused = call("refused", ids[1]);
    for (member, value) in [
        ("decision", json!("DENY")),
        ("rule", json!("deny:gateway:fail_closed")),
        ("status", json!("blocked")),
        (
            "intent",
            json!({"operation_type": "destructive", "inferred": true}),
        ),
        ("server", json!("github")),
        ("tool", json!("delete")),
        ("agent", json!("other")),
        ("session_id", json!("s2")),
        ("request_id", json!("\"abc\"")),
        ("parent_id", json!(ids[0])),
        ("tenant", json!("acme")),
        (
            "checks",
            json!([{"scope": "filesystem", "decision": "DENY", "rule": "deny:x"}]),
        ),
    ] {
        refused[member] = value;
    }
    log.append_owed(entry(&refused));
    let mut method = call("forwarding", ids[2]);
    method["type"] = "other".into();
    log.append(&entry(&method)).unwrap();
    log.append_owed(event("upstream.down"));
    log.close().unwrap();
    ids
}

#[test]
fn filters_find_what_they_say() {
    let dir = tempfile::tempdir().unwrap();
    let ids = sample(dir.path());
    let mut index = Index::open(dir.path()).unwrap();
    index.catch_up().unwrap();
    let text = |text: &str| Some(text.to_owned());
    let none = ActivityFilter::default;
    let now = jiff::Timestamp::now();
    let cases = [
        (none(), 4, "everything"),
        (
            ActivityFilter {
                record_type: Some(RecordType::ToolCall),
                ..none()
            },
            2,
            "type",
        ),
        (
            ActivityFilter {
                record_type: Some(RecordType::System),
                ..none()
            },
            1,
            "events",
        ),
        (
            ActivityFilter {
                server: text("github"),
                ..none()
            },
            1,
            "server",
        ),
        (
            ActivityFilter {
                server: text("git%"),
                ..none()
            },
            0,
            "no pattern",
        ),
        (
            ActivityFilter {
                tool: text("read"),
                ..none()
            },
            2,
            "tool",
        ),
        (
            ActivityFilter {
                tool: text("upstream.down"),
                ..none()
            },
            1,
            "event name",
        ),
        (
            ActivityFilter {
                session_id: text("s2"),
                ..none()
            },
            1,
            "session",
        ),
        (
            ActivityFilter {
                status: Some(Status::Success),
                ..none()
            },
            2,
            "status",
        ),
        (
            ActivityFilter {
                status: Some(Status::Unknown),
                ..none()
            },
            1,
            "the writer has closed",
        ),
        (
            ActivityFilter {
                intent_type: text("destructive"),
                ..none()
            },
            1,
            "intent",
        ),
        (
            ActivityFilter {
                decision: Some(Decision::Deny),
                ..none()
            },
            1,
            "decision",
        ),
        (
            ActivityFilter {
                rule_prefix: text("deny:gateway:"),
                ..none()
            },
            1,
            "rule prefix",
        ),
        (
            ActivityFilter {
                rule_prefix: text("allow"),
                ..none()
            },
            2,
            "rule prefix",
        ),
        (
            ActivityFilter {
                scope: text("filesystem"),
                ..none()
            },
            1,
            "scope",
        ),
        (
            ActivityFilter {
                scope: text("file"),
                ..none()
            },
            0,
            "half a scope",
        ),
        (
            ActivityFilter {
                tenant: text("acme"),
                ..none()
            },
            1,
            "tenant",
        ),
        (
            ActivityFilter {
                request_id: text("\"abc\""),
                ..none()
            },
            1,
            "request",
        ),
        (
            ActivityFilter {
                parent_id: Some(ids[0]),
                ..none()
            },
            1,
            "parent",
        ),
        (
            ActivityFilter {
                agent: text("tester"),
                ..none()
            },
            2,
            "agent",
        ),
        (
            ActivityFilter {
                since: Some(now),
                ..none()
            },
            0,
            "since",
        ),
        (
            ActivityFilter {
                until: Some(now),
                ..none()
            },
            4,
            "until",
        ),
        (
            ActivityFilter {
                agent: text("tester"),
                status: Some(Status::Blocked),
                ..none()
            },
            0,
            "two at once",
        ),
    ];
    for (filter, expected, name) in cases {
        let page = index.query(&filter).unwrap();
        assert_eq!(
            (page.activities.len(), page.total),
            (expected, expected as u64),
            "{name}"
        );
        assert_eq!(counted(&mut index, &filter), expected as u64, "{name}");
    }
    assert!(index.get(new_id()).unwrap().is_none());
    assert_eq!(
        index.get(ids[1]).unwrap().unwrap().rule.as_deref(),
        Some("deny:gateway:fail_closed")
    );
}

#[test]
fn pages_do_not_overlap_while_the_log_grows() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let written: Vec<CallId> = (0..25).map(|_| new_id()).collect();
    written
        .iter()
        .for_each(|id| _ = log.append(&forwarding(*id)).unwrap());
    let mut index = Index::open(dir.path()).unwrap();
    index.catch_up().unwrap();
    let mut filter = ActivityFilter {
        limit: Some(10),
        ..ActivityFilter::default()
    };
    let mut seen = Vec::new();
    loop {
        let page = index.query(&filter).unwrap();
        seen.extend(page.activities.iter().map(|activity| activity.id));
        log.append(&forwarding(new_id())).unwrap();
        index.catch_up().unwrap();
        match page.next_cursor {
            Some(cursor) => filter.cursor = Some(cursor),
            None => break,
        }
    }
    seen.reverse();
    assert_eq!(seen, written);
    filter.cursor = Some("nonsense".to_owned());
    assert!(matches!(
        index.query(&filter),
        Err(IndexError::BadCursor { .. })
    ));
}

#[test]
fn exports_are_oldest_first_in_both_formats() {
    let dir = tempfile::tempdir().unwrap();
    let ids = sample(dir.path());
    let mut jsonl = Vec::new();
    assert_eq!(
        export(
            dir.path(),
            Format::Jsonl,
            &ActivityFilter::default(),
            &mut jsonl
        )
        .unwrap(),
        4
    );
    let records: Vec<Value> = String::from_utf8(jsonl)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(records[0]["id"], ids[0].to_string());
    assert_eq!(records[0]["duration_ms"], 1.2);
    assert_eq!(records[3]["tool"], "upstream.down");

    let mut csv = Vec::new();
    let filter = ActivityFilter {
        status: Some(Status::Blocked),
        ..ActivityFilter::default()
    };
    assert_eq!(
        export(dir.path(), Format::Csv, &filter, &mut csv).unwrap(),
        1
    );
    let csv = String::from_utf8(csv).unwrap();
    let (heading, row) = csv.split_once('\n').unwrap();
    let members: Vec<&str> = records[0]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(heading, members.join(","));
    assert!(row.starts_with(&ids[1].to_string()), "{row}");
    assert!(row.contains(r#","""abc""","#), "{row}");
}
