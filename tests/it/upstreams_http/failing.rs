//! Unanswered calls: each failure states what is known about the effect.

use std::time::{Duration, Instant};

use callgate_testkit::wait_until;
use serde_json::json;

use super::{Remote, unavailable};
use crate::evidence::records;
use crate::talk::{DEADLINE, call, call_text, tools};

#[test]
fn calls_to_an_unreachable_server_have_no_effect_and_it_reconnects() {
    let mut remote = Remote::start(&[]);
    let bed = remote.bed("");
    let mut host = bed.stdio_ready();
    tools(&mut host);
    assert!(wait_until(DEADLINE, || remote.events("GET /mcp") == 1));
    remote.upstream.stop();
    host.wait_stderr(DEADLINE, |line| line.contains("upstream.down"))
        .expect("its end is noticed without a call");
    for key in ["first", "second"] {
        let arguments = format!(r#"{{"key":"{key}"}}"#);
        let response = call(&mut host, "x__effect", &arguments);
        assert_eq!(response["error"], unavailable("none"));
    }
    remote.start_again_with(&[]);
    let started = Instant::now();
    while call(&mut host, "x__effect", r#"{"key":"back"}"#)
        .get("result")
        .is_none()
    {
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "it never returns"
        );
    }
    assert_eq!(remote.ledger(), ["back"], "nothing was tried again");
    assert!(
        records(&bed)
            .iter()
            .filter(|record| record["status"] != "success")
            .all(|record| record["error"]["effect"] == "none")
    );
}

#[test]
fn without_a_stream_the_next_call_notices_an_unreachable_server() {
    let mut remote = Remote::start(&["--no-get"]);
    let bed = remote.bed("");
    let mut host = bed.stdio_ready();
    tools(&mut host);
    remote.upstream.stop();
    // The first may go out on a connection whose end is not noticed yet; then the effect is unknown.
    let first = call(&mut host, "x__effect", r#"{"key":"first"}"#);
    let known = [unavailable("none"), unavailable("unknown")];
    assert!(known.contains(&first["error"]), "{first}");
    let second = call(&mut host, "x__effect", r#"{"key":"second"}"#);
    assert_eq!(second["error"], unavailable("none"));
    assert!(remote.ledger().is_empty());
}

#[test]
fn a_broken_answer_stream_leaves_the_effect_unknown() {
    let remote = Remote::start(&["--drop-mid-stream"]);
    let bed = remote.bed("");
    let mut host = bed.stdio_ready();
    let response = call(&mut host, "x__effect", r#"{"key":"k"}"#);
    assert_eq!(response["error"], unavailable("unknown"));
    assert_eq!(remote.ledger(), ["k"], "it was done, and not tried again");
    assert_eq!(records(&bed)[0]["status"], "unknown");
}

#[test]
fn http_4xx_answers_have_no_effect_and_5xx_an_unknown_one() {
    for (way, status, effect) in [
        ("--reply=json", "400", "none"),
        ("--reply=json", "403", "none"),
        ("--reply=json", "404", "none"),
        ("--reply=json", "429", "none"),
        ("--reply=json", "307", "none"),
        ("--reply=json", "500", "unknown"),
        ("--reply=json", "503", "unknown"),
        ("--legacy-sse", "400", "none"),
        ("--legacy-sse", "502", "unknown"),
    ] {
        let remote = Remote::start(&[way, "--call-status", status]);
        let bed = remote.bed("");
        let mut host = bed.stdio_ready();
        let response = call(&mut host, "x__read_thing", "{}");
        assert_eq!(response["error"], unavailable(effect), "{way} {status}");
        assert_eq!(
            call(&mut host, "x__read_thing", "{}")["error"],
            unavailable(effect),
            "the server is still there"
        );
        // Only 404 means that the session is gone.
        let sessions = remote.received("notifications/initialized").len();
        assert!(sessions == 1 || status == "404", "{way} {status}");
    }
}

#[test]
fn an_oversized_http_reply_fails_only_its_call() {
    for form in ["json", "sse"] {
        let remote = Remote::start(&["--reply", form]);
        let bed = remote.bed_with("", "limits: {http_mib: 1}\n");
        let mut host = bed.stdio_ready();
        let fits = call_text(&mut host, "x__big", r#"{"bytes":1000000}"#);
        assert_eq!(fits.len(), 1_000_000);
        let response = call(&mut host, "x__big", r#"{"bytes":1048576}"#);
        let expected = json!({
            "code": -32002, "message": "upstream \"x\" sent an answer larger than the frame limit",
            "data": {"namespace": "x", "effect": "done"},
        });
        assert_eq!(response["error"], expected, "{form}");
        assert_eq!(
            call_text(&mut host, "x__read_thing", r#"{"key":"k"}"#),
            "read k"
        );
    }
}

#[test]
fn resumable_answers_are_resumed() {
    let remote = Remote::start(&["--resumable"]);
    let bed = remote.bed("");
    let mut host = bed.stdio_ready();
    for key in ["a", "b"] {
        let arguments = format!(r#"{{"key":"{key}"}}"#);
        let text = call_text(&mut host, "x__effect", &arguments);
        assert_eq!(text, format!("did {key}"));
    }
    assert_eq!(remote.ledger(), ["a", "b"], "each was done once");
}
