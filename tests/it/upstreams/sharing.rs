//! Processes of a server: shared by hosts with equal capabilities, separate for others.

use std::thread;

use callgate_testkit::{Host, processes_with, wait_until};
use serde_json::{Value, json};

use crate::setup::Bed;
use crate::talk::{
    DEADLINE, call, call_line, call_text, http_as, parsed, received, stdio_as, text_of, tools,
};

/// A server that logs what it receives, with a marker in its arguments to find its process.
fn marked(marker: &str, rest: &str) -> Bed {
    Bed::new(&format!(
        "servers: {{x: {{command: '@counter@', args: [--ledger, '@dir@/ledger', --log, '@dir@/log', --marker, {marker}]}}}}\n{rest}"
    ))
}

/// The server's own processes; wardens carry the word, too.
fn servers(marker: &str) -> usize {
    let is_server = |pid: &u32| {
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        comm.is_ok_and(|comm| comm.starts_with("counter"))
    };
    processes_with(marker)
        .iter()
        .filter(|pid| is_server(pid))
        .count()
}

fn marker(of: &str) -> String {
    format!("{of}-{}", std::process::id())
}

/// What each `initialize` that the server was sent declared.
fn introductions(bed: &Bed) -> Vec<Value> {
    let all = received(bed, "log", "initialize");
    let params = all.iter().filter_map(|frame| frame.params.as_deref());
    params.map(parsed).collect()
}

#[test]
fn a_server_gets_the_hosts_capabilities_unchanged() {
    let odd = r#"{"elicitation":{},"experimental":{"x":{"y":[1.0,-0]}}}"#;
    for (declared, passed) in [(None, "{}"), (Some("{}"), "{}"), (Some(odd), odd)] {
        let bed = marked(&marker("introduced"), "");
        let mut host = stdio_as(&bed, declared);
        tools(&mut host);
        call_text(&mut host, "x__read_thing", "{}");
        let said = received(&bed, "log", "initialize");
        assert_eq!(said.len(), 1, "{declared:?}");
        assert_eq!(said[0].param("capabilities"), Some(passed));
        assert_eq!(
            said[0].param("clientInfo"),
            Some(r#"{"name":"odd host","version":"0.0.1","x":1.0}"#)
        );
        let confirmed = received(&bed, "log", "notifications/initialized");
        assert_eq!(confirmed.len(), 1, "exactly one per connection");
    }
}

#[test]
fn hosts_with_equal_capabilities_share_a_process() {
    let marker = marker("shared");
    let bed = marked(&marker, "");
    let served = bed.serve();
    let kinds = ["{}", r#"{"elicitation":{}}"#, r#"{"sampling":{}}"#];
    for declared in kinds {
        for _ in 0..2 {
            let mut host = http_as(&served, declared);
            assert_eq!(
                call_text(&mut host, "x__read_thing", r#"{"key":"k"}"#),
                "read k"
            );
        }
    }
    assert_eq!(servers(&marker), 3);
    let declared: Vec<Value> = introductions(&bed)
        .into_iter()
        .map(|params| params["capabilities"].clone())
        .collect();
    assert_eq!(
        declared,
        [
            json!({}),
            json!({"elicitation": {}}),
            json!({"sampling": {}})
        ]
    );
    let confirmed = received(&bed, "log", "notifications/initialized");
    assert_eq!(confirmed.len(), 3, "exactly one per connection");
}

#[test]
fn processes_per_server_are_limited() {
    let marker = marker("limited");
    let bed = marked(&marker, "limits: {processes_per_server: 2}");
    let served = bed.serve();
    // The gateway's own process becomes the first host's, and the limit is one more.
    let mut first = http_as(&served, r#"{"roots":{}}"#);
    call_text(&mut first, "x__read_thing", "{}");
    let mut busy = http_as(&served, r#"{"elicitation":{}}"#);
    let mut other = http_as(&served, r#"{"sampling":{}}"#);
    let slow = thread::spawn(move || {
        let line = call_line("1", "x__slow", r#"{"key":"k","ms":1500}"#);
        let frames = busy.exchange(&line, &mut |_| None);
        frames.expect("the slow call is answered")
    });
    assert!(wait_until(DEADLINE, || bed.read("ledger").contains('k')));
    let refused = call(&mut other, "x__read_thing", r#"{"key":"o"}"#);
    assert_eq!(
        refused["error"],
        json!({
            "code": -32002, "message": "upstream \"x\" unavailable",
            "data": {"namespace": "x", "effect": "none"},
        })
    );
    assert_eq!(servers(&marker), 2);
    let frames = slow.join().expect("the slow call goes on");
    assert_eq!(
        text_of(&parsed(&frames[frames.len() - 1])),
        "slowly did k",
        "a process in use is not replaced"
    );
    assert_eq!(
        call_text(&mut other, "x__read_thing", r#"{"key":"o"}"#),
        "read o",
        "what is idle makes room"
    );
    assert_eq!(servers(&marker), 2);
}

#[test]
fn a_slow_start_does_not_block_hosts_with_other_capabilities() {
    let bed = Bed::new(
        "servers: {x: {command: '@counter@', args: [--log, '@dir@/log', --slow-start-ms, '1200']}}",
    );
    let served = bed.serve();
    let mut first = http_as(&served, r#"{"elicitation":{}}"#);
    call_text(&mut first, "x__read_thing", "{}");
    let mut second = http_as(&served, r#"{"sampling":{}}"#);
    let opening = thread::spawn(move || call_text(&mut second, "x__read_thing", "{}"));
    assert!(wait_until(DEADLINE, || introductions(&bed).len() == 3));
    call_text(&mut first, "x__read_thing", "{}");
    assert!(!opening.is_finished(), "the first host had to wait");
    assert_eq!(opening.join().expect("it is answered"), "read ");
}

#[test]
fn the_gateways_processes_end_with_the_gateway() {
    let marker = marker("gone");
    let bed = marked(&marker, "");
    let mut host = bed.stdio_ready();
    tools(&mut host);
    assert_eq!(servers(&marker), 1);
    let ended = host.close(DEADLINE).expect("it ends by itself");
    assert!(ended.success());
    assert!(processes_with(&marker).is_empty(), "wardens included");
}
