//! The record on the command line: `callgate activity list|show|verify|head|export`.

mod heads;

use std::fs;
use std::path::Path;
use std::process::Output;

use callgate_testkit::StdioHost;
use serde_json::{Value, json};

use crate::evidence::{
    COUNTER, all_records, assert_done, assert_sound, call_line, record_of, records, run, segments,
    stdout,
};
use crate::setup::Bed;

/// The members of a record, in their order.
const FIELDS: [&str; 27] = [
    "id",
    "writer",
    "seq",
    "type",
    "source",
    "transport",
    "tenant",
    "principal",
    "agent",
    "client",
    "session_id",
    "request_id",
    "parent_id",
    "server",
    "tool",
    "arguments",
    "arguments_blake3",
    "decision",
    "rule",
    "reason",
    "checks",
    "response",
    "status",
    "error",
    "duration_ms",
    "timestamp",
    "metadata",
];

/// The built-in policy, a small cap, a pattern of our own, and a log of what is forwarded.
const WATCHED: &str = "\
servers: {n: {command: '@counter@', args: [--ledger, '@dir@/ledger', --log, '@dir@/upstream.log']}}
activity: {body_bytes: 256, redact: ['ticket-[0-9]+']}
";

fn closed(mut host: StdioHost) {
    host.close(std::time::Duration::from_secs(10))
        .expect("it ends on EOF");
}

/// A folder with one call of every outcome that needs no person and no death.
fn one_of_each() -> Bed {
    let bed = Bed::new(WATCHED);
    let mut host = bed.stdio_ready();
    assert_done(host.call(1, "n__effect", r#"{"key":"done"}"#));
    assert_done(host.call(2, "n__read_thing", r#"{"key":"read"}"#));
    host.call(3, "n__fail", r#"{"key":"failed"}"#)
        .expect("it answers");
    host.call(4, "n__wipe", r#"{"key":"blocked"}"#)
        .expect("it answers");
    host.call(5, "n__nothing", r#"{"key":"nowhere"}"#)
        .expect("it answers");
    host.send(&call_line(6, "die", r#"{"key":"died"}"#))
        .expect("it reads");
    host.recv_where(|frame| frame.answers("6"))
        .expect("it answers");
    closed(host);
    bed
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

fn listed(bed: &Bed, filters: &[&str]) -> Vec<String> {
    let output = run(bed, &[&["activity", "list", "--json"], filters].concat());
    let page: Value = serde_json::from_str(&stdout(&output)).expect("JSON on stdout");
    let all = page["activities"].as_array().expect("a list").clone();
    assert_eq!(page["total"], all.len(), "{page}");
    let keys = all.iter().map(|record| record["arguments"]["key"].as_str());
    keys.map(|key| key.unwrap_or("-").to_owned()).collect()
}

#[test]
fn a_shown_record_has_every_promised_field() {
    let bed = one_of_each();
    let all = records(&bed);
    let id = record_of(&all, "done").expect("a record")["id"].clone();
    let shown = stdout(&run(
        &bed,
        &["activity", "show", id.as_str().expect("an id")],
    ));
    let record: Value = serde_json::from_str(&shown).expect("JSON on stdout");
    let members: Vec<&String> = record.as_object().expect("an object").keys().collect();
    assert_eq!(members, FIELDS.iter().collect::<Vec<_>>());
    let expected = [
        ("type", json!("tool_call")),
        ("source", json!("mcp")),
        ("transport", json!("stdio")),
        ("tenant", json!("local")),
        ("agent", json!("testkit")),
        ("client", json!({"name": "testkit", "version": "1"})),
        ("request_id", json!("1")),
        ("parent_id", json!(null)),
        ("server", json!("n")),
        ("tool", json!("effect")),
        ("arguments", json!({"key": "done"})),
        ("decision", json!("ALLOW")),
        (
            "response",
            json!({"content": [{"type": "text", "text": "did done"}]}),
        ),
        ("status", json!("success")),
        ("error", json!(null)),
    ];
    for (name, value) in expected {
        assert_eq!(record[name], value, "{name}");
    }
    assert_eq!(record["checks"][0]["scope"], "mcp_tool");
    assert_eq!(
        record["metadata"]["intent"],
        json!({"operation_type": "write", "inferred": true})
    );
    assert!(record["duration_ms"].as_f64().expect("a number") > 0.0);
    assert_eq!(record["arguments_blake3"].as_str().map(str::len), Some(64));
    let rule = record["rule"].as_str().expect("a rule");
    assert!(rule.starts_with("allow:"), "{rule}");
}

#[test]
fn every_outcome_has_its_status_and_every_filter_finds_it() {
    let bed = one_of_each();
    let all = records(&bed);
    let status = |key| record_of(&all, key).expect("a record")["status"].clone();
    let statuses = ["done", "read", "failed", "blocked", "nowhere", "died"].map(status);
    assert_eq!(
        statuses,
        ["success", "success", "error", "blocked", "error", "unknown"]
    );
    let blocked = record_of(&all, "blocked").expect("a record");
    assert_eq!(blocked["decision"], "REQUIRE_APPROVAL");
    assert_eq!(
        record_of(&all, "died").expect("a record")["error"]["effect"],
        "unknown"
    );
    let cases: [(&[&str], &[&str]); 8] = [
        (&["--status", "blocked"], &["blocked"]),
        (&["--status", "unknown"], &["died"]),
        (&["--status", "error", "--tool", "fail"], &["failed"]),
        (&["--tool", "read_thing"], &["read"]),
        (&["--intent-type", "destructive"], &["blocked"]),
        (&["--intent-type", "read"], &["failed", "read"]),
        (&["--server", "nobody"], &[]),
        (&["--since", "2999-01-01T00:00:00Z"], &[]),
    ];
    for (filters, expected) in cases {
        assert_eq!(listed(&bed, filters), expected, "{filters:?}");
    }
    assert!(listed(&bed, &["--since", "1h"]).len() >= 6);
    assert!(listed(&bed, &["--since", "7d"]).len() >= 6);
}

#[test]
fn the_activity_table_shows_intent_and_notes_omitted_rows() {
    let bed = one_of_each();
    let output = run(&bed, &["activity", "list", "--limit", "2", "--server", "n"]);
    let lines: Vec<String> = stdout(&output).lines().map(str::to_owned).collect();
    let heading: Vec<&str> = lines[0].split_whitespace().collect();
    let columns = [
        "ID", "TIME", "AGENT", "SERVER", "TOOL", "INTENT", "STATUS", "MS", "RULE",
    ];
    assert_eq!(heading, columns);
    assert_eq!(lines.len(), 3, "{lines:?}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("note: 2 of "), "{stderr}");
}

#[test]
fn invalid_activity_arguments_are_user_errors() {
    let bed = one_of_each();
    let bad: [&[&str]; 10] = [
        &["list", "--status", "great"],
        &["list", "--intent-type", "delete"],
        &["list", "--since", "yesterday"],
        &["list", "--limit", "0"],
        &["list", "--limit", "1001"],
        &["list", "--nonsense"],
        &["show", "01J00000000000000000000000"],
        &["show", "no-ulid"],
        &["export", "--format", "xml"],
        &["verify", "--head", "/nowhere/heads.json"],
    ];
    for args in bad {
        let output = run(&bed, &[&["activity"], args].concat());
        assert_eq!(code(&output), 1, "{args:?}");
        assert_eq!(output.stdout, b"", "{args:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.starts_with("error: "), "{args:?}: {stderr}");
    }
}

#[test]
fn secrets_are_forwarded_but_not_recorded() {
    let bed = Bed::new(WATCHED);
    let mut host = bed.stdio_ready();
    let secrets = [
        "ghp_0123456789abcdefghijABCDEFGHIJ456789",
        "AKIAIOSFODNN7EXAMPLE",
        "Bearer abcdef0123456789.abcdef",
        "xoxb-123456789012-abcdefABCDEF",
        "ticket-4711",
    ];
    for (id, secret) in (1..).zip(secrets) {
        let arguments = format!(r#"{{"key":"{secret}"}}"#);
        let answer = host
            .call(id, "n__read_thing", &arguments)
            .expect("it answers");
        assert!(answer.contains(&format!("read {secret}")), "{answer}");
    }
    let arguments =
        r#"{"key":"k","password":"correct horse","nested":"{\"api_key\":\"battery\"}"}"#;
    assert_done(host.call(90, "n__effect", arguments));
    // What a caller asks for in vain is written down as well.
    host.call(91, "n__nothing", r#"{"token":"staple-staple"}"#)
        .expect("it answers");
    closed(host);
    let forwarded = bed.read("upstream.log");
    let export = stdout(&run(&bed, &["activity", "export"]));
    let csv = stdout(&run(&bed, &["activity", "export", "--format", "csv"]));
    let raw: String = segments(&bed)
        .iter()
        .map(|path| fs::read_to_string(path).expect("it is text"))
        .collect();
    let index = fs::read(bed.path("data/index.sqlite")).expect("the index is there");
    let index = String::from_utf8_lossy(&index);
    for secret in secrets.into_iter().chain(["correct horse", "battery"]) {
        assert!(forwarded.contains(secret), "`{secret}` was not forwarded");
    }
    let bare = secrets.map(|secret| secret.trim_start_matches("Bearer "));
    for secret in bare
        .into_iter()
        .chain(["correct horse", "battery", "staple-staple"])
    {
        for (place, text) in [
            ("export", &*export),
            ("csv", &*csv),
            ("log", &*raw),
            ("index", &*index),
        ] {
            assert!(!text.contains(secret), "`{secret}` is in the {place}");
        }
    }
    assert_eq!(
        record_of(&records(&bed), "k").expect("a record")["arguments"]["password"],
        "[redacted]"
    );
}

#[test]
fn a_long_body_is_recorded_up_to_its_cap() {
    let bed = Bed::new(WATCHED);
    let mut host = bed.stdio_ready();
    assert_done(host.call(1, "n__big", r#"{"bytes":100000}"#));
    closed(host);
    let record = records(&bed).remove(0);
    let kept = record["response"].as_str().expect("the beginning, as text");
    assert_eq!(kept.len(), 256);
    let warning = record["metadata"]["warnings"][0]
        .as_str()
        .expect("a warning");
    assert!(
        warning.starts_with("response: truncated to the first 256 of 1000"),
        "{warning}"
    );
    assert_eq!(record["arguments"], json!({"bytes": 100_000}));
}

#[test]
fn an_export_holds_every_record_oldest_first() {
    let bed = one_of_each();
    let all = all_records(&stdout(&run(&bed, &["activity", "export"])));
    let times: Vec<&str> = all
        .iter()
        .filter_map(|record| record["timestamp"].as_str())
        .collect();
    assert!(times.is_sorted(), "{times:?}");
    let names: Vec<&Value> = all.iter().map(|record| &record["tool"]).collect();
    for event in ["gateway.started", "upstream.up", "upstream.down"] {
        assert!(
            names.contains(&&json!(event)),
            "{event} is not in {names:?}"
        );
    }
    let csv = stdout(&run(&bed, &["activity", "export", "--format", "csv"]));
    assert_eq!(csv.lines().next(), Some(FIELDS.join(",").as_str()));
    assert_eq!(csv.lines().count(), all.len() + 1);
    let some = stdout(&run(&bed, &["activity", "export", "--status", "blocked"]));
    assert_eq!(all_records(&some).len(), 1);
}

/// Verifies, and returns the exit code and the report.
fn verified(bed: &Bed, more: &[&str]) -> (i32, Value) {
    let output = run(bed, &[&["activity", "verify", "--json"], more].concat());
    let report = serde_json::from_slice(&output.stdout).expect("JSON on stdout");
    (code(&output), report)
}

#[test]
fn verify_finds_and_locates_a_flipped_byte() {
    let bed = one_of_each();
    let (sound, report) = verified(&bed, &[]);
    assert_eq!((sound, &report["sound"]), (0, &json!(true)));
    let segment = segments(&bed).pop().expect("a segment");
    let good = fs::read(&segment).expect("it reads");
    for at in [100, good.len() / 3, good.len() / 2, good.len() - 3] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        fs::write(&segment, bad).expect("it is ours");
        let (code, report) = verified(&bed, &[]);
        assert_eq!((code, &report["sound"]), (1, &json!(false)), "byte {at}");
        assert_ne!(report["problems"], json!([]), "byte {at}");
    }
    fs::write(&segment, good).expect("it is ours");
    assert_sound(&bed);
}

#[test]
fn an_empty_log_is_not_called_sound() {
    let bed = Bed::new(WATCHED);
    let output = run(&bed, &["activity", "verify"]);
    assert_eq!(code(&output), 0);
    let printed = stdout(&output);
    assert!(
        printed.contains("note: the activity log is empty"),
        "{printed}"
    );
    assert!(!String::from_utf8_lossy(&output.stderr).contains("sound"));
    let clock = run(&bed, &["activity", "clock"]);
    assert_eq!(stdout(&clock).trim(), "retention has not run yet");
    let restored = run(&bed, &["activity", "restore"]);
    assert!(stdout(&restored).starts_with("nothing to put back"));
}

#[test]
fn a_confirmed_clock_is_shown_as_believed() {
    let bed = one_of_each();
    assert_eq!(code(&run(&bed, &["activity", "clock", "--confirm"])), 0);
    let shown = stdout(&run(&bed, &["activity", "clock"]));
    assert!(shown.starts_with("the clock is believed"), "{shown}");
}

#[test]
fn verify_finds_a_cut_tail_by_the_head_file() {
    let bed = one_of_each();
    let segment = segments(&bed).pop().expect("a segment");
    let text = fs::read_to_string(&segment).expect("it reads");
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    for kept in [lines.len() - 1, lines.len() / 2] {
        fs::write(&segment, lines[..kept].concat()).expect("it is ours");
        let output = run(&bed, &["activity", "verify"]);
        assert_eq!(code(&output), 1);
        let found = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            found.contains("problem: ") && found.contains("ends at entry"),
            "{found}"
        );
    }
}

#[test]
fn verify_finds_a_rolled_back_log_by_an_exported_head() {
    let bed = one_of_each();
    let (log, copy) = (bed.path("data/activity"), bed.path("copy"));
    copy_folder(&log, &copy);
    let mut host = bed.stdio_ready();
    assert_done(host.call(1, "n__effect", r#"{"key":"later"}"#));
    closed(host);
    let heads = stdout(&run(&bed, &["activity", "head", "--json"]));
    let file = bed.path("heads.json");
    fs::write(&file, &heads).expect("the folder is writable");
    let file = file.to_str().expect("a plain path");
    assert_eq!(verified(&bed, &["--head", file]).0, 0);

    fs::remove_dir_all(&log).expect("it is ours");
    copy_folder(&copy, &log);
    assert_eq!(verified(&bed, &[]).0, 0, "nothing inside can tell");
    let (code, report) = verified(&bed, &["--head", file]);
    assert_eq!((code, &report["sound"]), (1, &json!(false)), "{report}");
}

#[test]
fn an_empty_data_folder_has_a_sound_empty_record() {
    let bed = Bed::new(COUNTER);
    assert_sound(&bed);
    assert_eq!(listed(&bed, &[]), [""; 0]);
    assert_eq!(stdout(&run(&bed, &["activity", "export"])), "");
    assert_eq!(
        stdout(&run(&bed, &["activity", "head", "--json"])).trim(),
        "[]"
    );
}

pub(crate) fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the folder is writable");
    for entry in fs::read_dir(from).expect("it is there").flatten() {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_folder(&path, &target);
        } else {
            fs::copy(&path, &target).expect("the folder is writable");
        }
    }
}
