//! No process outlives the gateway, however the gateway ends, and a server that dies takes nothing
//! else with it.

use std::time::{Duration, Instant};

use callgate_testkit::{Host, StdioHost, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::evidence::{
    COUNTER, alive, assert_done, call_line, record_of, records, run, servers_with, signal,
    wait_for_effect,
};
use crate::setup::Bed;

/// A server that behaves, under the name `n`.
const POLITE: &str = "";
/// A server that goes only when it is killed.
const STUBBORN: &str = ", --ignore-eof, --ignore-term";
/// A server that does not care about the end of its input.
const DEAF: &str = ", --ignore-eof";

/// Two servers that count in one ledger.
const TWO: &str = "\
servers:
  n: {command: '@counter@', args: [--ledger, '@dir@/ledger', --marker, '@dir@/n-mark']}
  other: {command: '@counter@', args: [--ledger, '@dir@/ledger', --marker, '@dir@/other-mark']}
policy: allow-all
";

fn bed(manners: &str) -> Bed {
    Bed::new(&COUNTER.replace("'@dir@']", &format!("'@dir@'{manners}]")))
}

/// Waits for the end of everything and says how long that took.
fn gone_within(bed: &Bed, limit: Duration) -> Duration {
    let start = Instant::now();
    let gone = wait_until(limit, || alive(bed).is_empty());
    let left: Vec<String> = alive(bed).into_iter().map(command_line).collect();
    assert!(gone, "after {limit:?} there are still {left:?}");
    start.elapsed()
}

fn command_line(pid: u32) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// A stdio gateway whose server has left a child, one in a session of its own, and an orphan.
fn stdio_with_grandchildren(bed: &Bed) -> StdioHost {
    let mut host = bed.stdio_ready();
    assert_done(host.call(1, "n__grandchild", "{}"));
    let all = wait_until(Duration::from_secs(5), || alive(bed).len() >= 6);
    assert!(
        all,
        "gateway, warden, server and three more: {:?}",
        alive(bed)
    );
    host
}

#[test]
fn eof_ends_a_polite_server_within_two_seconds() {
    let bed = bed(POLITE);
    let mut host = bed.stdio_ready();
    assert_done(host.call(1, "n__effect", r#"{"key":"k"}"#));
    host.close_stdin();
    gone_within(&bed, Duration::from_secs(2));
    assert!(
        host.wait(Duration::from_secs(1))
            .expect("it is gone")
            .success()
    );
}

#[test]
fn eof_ends_grandchildren_within_two_seconds() {
    let bed = bed(POLITE);
    let mut host = stdio_with_grandchildren(&bed);
    host.close_stdin();
    gone_within(&bed, Duration::from_secs(2));
}

#[test]
fn eof_during_a_call_ends_all_processes_and_finishes_the_record() {
    let bed = bed(", --log, '@dir@/upstream.log'");
    let mut host = bed.stdio_ready();
    host.send(&call_line(1, "slow", r#"{"key":"k","ms":600000}"#))
        .expect("the gateway reads");
    wait_for_effect(&bed, "k");
    host.close_stdin();
    gone_within(&bed, Duration::from_secs(4));
    let log = bed.read("upstream.log");
    assert!(log.contains("notifications/cancelled"), "{log}");
    let records = records(&bed);
    assert_eq!(
        record_of(&records, "k").expect("a record")["status"],
        "unknown"
    );
}

#[test]
fn a_server_ignoring_eof_gets_sigterm() {
    let bed = bed(DEAF);
    let mut host = stdio_with_grandchildren(&bed);
    host.close_stdin();
    gone_within(&bed, Duration::from_secs(6));
}

#[test]
fn a_server_ignoring_sigterm_gets_sigkill() {
    let bed = bed(STUBBORN);
    let mut host = stdio_with_grandchildren(&bed);
    host.close_stdin();
    let took = gone_within(&bed, Duration::from_secs(12));
    assert!(took > Duration::from_secs(5), "it had its time: {took:?}");
}

#[test]
fn signals_end_a_stdio_gateway_and_all_its_processes() {
    for how in [Signal::TERM, Signal::INT, Signal::HUP] {
        let bed = bed(POLITE);
        let mut host = stdio_with_grandchildren(&bed);
        signal(host.pid(), how);
        let status = host.wait(Duration::from_secs(5)).expect("it ends");
        assert!(status.success(), "{how:?}: {status}");
        gone_within(&bed, Duration::from_secs(1));
    }
}

#[test]
fn signals_end_a_served_gateway_and_all_its_processes() {
    for how in [Signal::TERM, Signal::INT] {
        let bed = bed(POLITE);
        let mut served = bed.serve();
        let mut host = served.host_ready();
        let frames = host.exchange(&call_line(1, "grandchild", "{}"), &mut |_| None);
        assert_done(frames.map(|frames| frames.concat()));
        signal(served.process.pid(), how);
        let status = served
            .process
            .wait(Duration::from_secs(5))
            .expect("it ends");
        assert!(status.success(), "{how:?}: {status}");
        gone_within(&bed, Duration::from_secs(1));
        assert!(
            !bed.path("data/serve.json").exists(),
            "its note is taken back"
        );
    }
}

#[test]
fn sigterm_lets_calls_in_flight_finish() {
    let bed = bed(POLITE);
    let mut host = bed.stdio_ready();
    host.send(&call_line(1, "slow", r#"{"key":"stdio","ms":300}"#))
        .expect("the gateway reads");
    wait_for_effect(&bed, "stdio");
    signal(host.pid(), Signal::TERM);
    assert_done(host.recv_where(|frame| frame.answers("1")));
    host.wait(Duration::from_secs(5)).expect("it ends");

    let mut served = bed.serve();
    let http = served.host_ready();
    let line = call_line(1, "slow", r#"{"key":"http","ms":300}"#);
    let answer = std::thread::scope(|scope| {
        let posted = scope.spawn(|| http.post(&line).and_then(|reply| reply.text()));
        wait_for_effect(&bed, "http");
        signal(served.process.pid(), Signal::TERM);
        posted.join().expect("the post ends")
    });
    assert_done(answer);
    served
        .process
        .wait(Duration::from_secs(5))
        .expect("it ends");
    let records = records(&bed);
    for key in ["stdio", "http"] {
        assert_eq!(
            record_of(&records, key).expect("a record")["status"],
            "success"
        );
    }
}

#[test]
fn kill_9_of_a_stdio_gateway_leaves_no_process() {
    for manners in [POLITE, STUBBORN] {
        let bed = bed(manners);
        let host = stdio_with_grandchildren(&bed);
        signal(host.pid(), Signal::KILL);
        gone_within(&bed, Duration::from_secs(2));
    }
}

#[test]
fn kill_9_of_a_served_gateway_leaves_no_process() {
    let bed = bed(STUBBORN);
    let served = bed.serve();
    let mut host = served.host_ready();
    let frames = host.exchange(&call_line(1, "grandchild", "{}"), &mut |_| None);
    assert_done(frames.map(|frames| frames.concat()));
    signal(served.process.pid(), Signal::KILL);
    gone_within(&bed, Duration::from_secs(2));
}

#[test]
fn commands_that_start_servers_leave_no_process() {
    let commands: [&[&str]; 4] = [
        &["call", "n:grandchild"],
        &["tools", "list"],
        &["servers", "list"],
        &["doctor"],
    ];
    for command in commands {
        let bed = bed(POLITE);
        let output = run(&bed, command);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {stderr}");
        // They wait for their children, so there is nothing to wait for afterwards.
        assert_eq!(alive(&bed), [0; 0], "{command:?}");
    }
}

/// The error of the answer with that id.
fn error_of(line: &str) -> Value {
    let frame: Value = serde_json::from_str(line).expect("an answer is JSON");
    frame["error"].clone()
}

fn names(host: &mut StdioHost) -> Vec<String> {
    let line = host
        .request(r#"{"jsonrpc":"2.0","id":"list","method":"tools/list"}"#)
        .expect("it lists");
    let frame: Value = serde_json::from_str(&line).expect("an answer is JSON");
    let tools = frame["result"]["tools"].as_array().expect("a list").iter();
    tools.map(|tool| tool["name"].to_string()).collect()
}

#[test]
fn a_killed_server_fails_its_calls_at_once_and_restarts() {
    let bed = Bed::new(TWO);
    let mut host = bed.stdio_ready();
    let listed = names(&mut host);
    host.send(&call_line(1, "slow", r#"{"key":"mine","ms":600000}"#))
        .expect("the gateway reads");
    let others = call_line(2, "slow", r#"{"key":"others","ms":1500}"#).replace("n__", "other__");
    host.send(&others).expect("the gateway reads");
    wait_for_effect(&bed, "mine");
    wait_for_effect(&bed, "others");
    let server = servers_with(&bed.path("n-mark").display().to_string());
    assert_eq!(server.len(), 1, "one process serves");
    signal(server[0], Signal::KILL);

    host.set_deadline(Duration::from_secs(1));
    let answer = host
        .recv_where(|frame| frame.answers("1"))
        .expect("the pending call fails within a second");
    let unavailable = |effect: &str| {
        let data = json!({"namespace": "n", "effect": effect});
        json!({"code": -32002, "message": "upstream \"n\" unavailable", "data": data})
    };
    assert_eq!(error_of(&answer), unavailable("unknown"));
    assert_eq!(names(&mut host), listed, "its tools stay listed");
    let meanwhile = host.call(3, "n__effect", r#"{"key":"meanwhile"}"#);
    assert_eq!(
        error_of(&meanwhile.expect("it answers")),
        unavailable("none")
    );

    host.set_deadline(Duration::from_secs(10));
    let other = host.recv_where(|frame| frame.answers("2"));
    assert_done(other);
    let mut id = 10;
    let back = wait_until(Duration::from_secs(10), || {
        id += 1;
        let answer = host.call(id, "n__effect", &format!(r#"{{"key":"again{id}"}}"#));
        error_of(&answer.expect("it answers")).is_null()
    });
    assert!(back, "it comes back by itself");
    assert_eq!(names(&mut host), listed);

    let records = records(&bed);
    let status = |key| record_of(&records, key).expect("a record")["status"].clone();
    assert_eq!(status("mine"), "unknown");
    assert_eq!(status("meanwhile"), "error");
    assert_eq!(status("others"), "success");
}
