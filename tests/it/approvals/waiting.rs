//! A waiting host: keep-alives, waits longer than the server's timeout, and cancellation.

use std::time::{Duration, Instant};

use callgate_testkit::wait_until;
use serde_json::Value;

use super::{ASKING, approval_of, approve, assert_wiped, told};
use crate::evidence::{ledger, records, run, stdout};
use crate::setup::{Bed, Served};
use crate::talk::{DEADLINE, call_line, is_notification, parsed, stdio_as};

fn waiting(wait: &str) -> Bed {
    let quick = ASKING.replace("servers: {n: {", "servers: {n: {timeout: 300ms, ");
    Bed::new(&format!("{quick}approvals: {{wait: {wait}}}\n"))
}

fn pending(bed: &Bed) -> Option<String> {
    let listed = stdout(&run(bed, &["approvals", "list", "--json"]));
    let listed: Value = parsed(&listed);
    Some(listed[0]["id"].as_str()?.to_owned())
}

fn asked(bed: &Bed) -> String {
    let mut id = None;
    wait_until(DEADLINE, || {
        id = pending(bed);
        id.is_some()
    });
    id.expect("it is asked")
}

fn with_token(id: &str, token: &str, key: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"_meta":{{"progressToken":{token}}},"name":"n__wipe","arguments":{{"key":"{key}"}}}}}}"#
    )
}

#[test]
fn waiting_for_approval_does_not_count_towards_the_timeout() {
    let bed = waiting("60s");
    let mut host = stdio_as(&bed, Some("{}"));
    let began = Instant::now();
    host.send(&with_token("5", r#""tok""#, "a"))
        .expect("it reads");
    let beat = host
        .recv_where(|frame| is_notification(frame, "notifications/progress"))
        .expect("a sign of life");
    let beat = parsed(&beat);
    assert_eq!(beat["params"]["progressToken"], "tok");
    let id = asked(&bed);
    assert!(
        beat["params"]["message"]
            .as_str()
            .expect("a message")
            .contains(&id),
        "{beat}"
    );
    // The server's own 300 ms have long passed when the decision comes.
    wait_until(Duration::from_millis(700), || false);
    stdout(&run(&bed, &["approvals", "approve", &id]));
    let answer = host.recv_where(|frame| frame.id.as_deref() == Some("5"));
    assert_wiped(&parsed(&answer.expect("it is answered")), "a");
    assert!(began.elapsed() > Duration::from_millis(700));
    assert_eq!(ledger(&bed), ["wipe:a"]);
    let records = records(&bed);
    assert_eq!(records.len(), 1, "one call, one record: {records:?}");
    assert_eq!(records[0]["status"], "success");
    assert_eq!(records[0]["metadata"]["approval_id"], id.as_str());
}

#[test]
fn waiting_streams_without_a_progress_token_send_keep_alives() {
    let bed = waiting("60s");
    let served = bed.serve();
    let host = served.host_ready();
    let reply = host
        .post(&call_line("5", "n__wipe", r#"{"key":"a"}"#))
        .expect("it answers");
    assert!(reply.is_events(), "it is held on a stream");
    approve(&served, &asked(&bed));
    let frames = reply.frames().expect("it ends");
    assert_wiped(&parsed(frames.last().expect("an answer")), "a");
    assert_eq!(
        frames.len(),
        1,
        "keep-alive comments are not messages: {frames:?}"
    );
}

#[test]
fn a_cancelled_waiting_call_ends_and_its_approval_stays() {
    let bed = waiting("600s");
    let mut host = stdio_as(&bed, Some("{}"));
    host.send(&call_line("5", "n__wipe", r#"{"key":"a"}"#))
        .expect("it reads");
    let id = asked(&bed);
    host.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#)
        .expect("it reads");
    let ended = wait_until(DEADLINE, || {
        records(&bed).iter().any(|r| r["status"] == "cancelled")
    });
    assert!(ended, "{:?}", records(&bed));
    assert_eq!(pending(&bed), Some(id));
    assert_eq!(ledger(&bed), Vec::<String>::new());
}

#[test]
fn a_denial_and_an_expired_wait_are_answered() {
    let bed = waiting("400ms");
    let mut host = stdio_as(&bed, Some("{}"));
    let answer = crate::talk::call(&mut host, "n__wipe", r#"{"key":"a"}"#);
    let id = approval_of(&answer);
    drop(host);
    let bed = waiting("60s");
    let mut host = stdio_as(&bed, Some("{}"));
    host.send(&call_line("5", "n__wipe", r#"{"key":"b"}"#))
        .expect("it reads");
    let other = asked(&bed);
    assert_ne!(id, other);
    stdout(&run(&bed, &["approvals", "deny", &other]));
    let answer = host
        .recv_where(|frame| frame.id.as_deref() == Some("5"))
        .expect("an answer");
    assert!(answer.contains("an approver denied"), "{answer}");
    assert_eq!(ledger(&bed), Vec::<String>::new());
}

#[test]
fn a_policy_changed_during_the_wait_decides() {
    let bed = Bed::new(
        "servers: {n: {command: '@counter@', args: [--ledger, '@dir@/ledger']}}\npolicy: '@dir@/policy.yaml'\napprovals: {wait: 60s}\n",
    );
    let policy = |list: &str| {
        format!(
            "version: \"1\"\nrules: [{{scope: mcp_tool, {list}: [{{pattern: \"n:effect\"}}], allow: [{{pattern: \"*:*\"}}]}}]\n"
        )
    };
    std::fs::write(bed.path("policy.yaml"), policy("require_approval")).expect("it is ours");
    let served: Served = bed.serve();
    let host = served.host_ready();
    let reply = host
        .post(&call_line("5", "n__effect", r#"{"key":"a"}"#))
        .expect("it answers");
    let id = asked(&bed);
    std::fs::write(bed.path("policy.yaml"), policy("deny")).expect("it is ours");
    let reloaded = wait_until(DEADLINE, || {
        let (_, health) = told(&served, &served.admin_token, "GET", "/healthz");
        health["config"]["taken_over"] == 1
    });
    assert!(reloaded);
    approve(&served, &id);
    let answer = reply.frames().expect("it ends").concat();
    assert!(answer.contains("Action denied by policy"), "{answer}");
    assert_eq!(ledger(&bed), Vec::<String>::new());
}
