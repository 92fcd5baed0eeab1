//! A server that crashes during calls, and restarts.

use std::time::{Duration, Instant};

use callgate_testkit::{Host, wait_until};
use serde_json::json;

use crate::setup::Bed;
use crate::talk::{DEADLINE, call, call_line, call_text, is_notification, list, parsed, tools};

#[test]
fn a_crashed_server_restarts_without_a_list_change() {
    let bed = Bed::new(
        "servers:
  x: {command: '@counter@', args: [--ledger, '@dir@/ledger']}
  y: {command: '@counter@'}
",
    );
    let mut host = bed.stdio_ready();
    let before = list(&mut host, "");
    let died = Instant::now();
    let response = call(&mut host, "x__die", r#"{"key":"last"}"#);
    assert!(died.elapsed() < Duration::from_secs(10));
    let unavailable = |effect: &str| {
        json!({
            "code": -32002, "message": "upstream \"x\" unavailable",
            "data": {"namespace": "x", "effect": effect},
        })
    };
    assert_eq!(response["error"], unavailable("unknown"));
    assert_eq!(bed.read("ledger"), "last\n");
    assert_eq!(list(&mut host, ""), before);
    let meanwhile = call(&mut host, "x__effect", r#"{"key":"meanwhile"}"#);
    assert_eq!(meanwhile["error"], unavailable("none"));
    assert_eq!(
        call_text(&mut host, "y__read_thing", r#"{"key":"k"}"#),
        "read k",
        "the other server does not mind"
    );
    let back = loop {
        let response = call(&mut host, "x__read_thing", r#"{"key":"k"}"#);
        if response.get("result").is_some() {
            break died.elapsed();
        }
        assert_eq!(response["error"], unavailable("none"));
        assert!(died.elapsed() < DEADLINE, "it never returns");
    };
    assert!(back >= Duration::from_secs(1), "{back:?}");
    assert_eq!(bed.read("ledger"), "last\n", "nothing was tried again");
    let frames = host.exchange(
        r#"{"jsonrpc":"2.0","id":"list","method":"tools/list"}"#,
        &mut |_| None,
    );
    let frames = frames.expect("it answers");
    assert_eq!(frames.len(), 1, "no change was announced: {frames:?}");
    assert_eq!(parsed(&frames[0]), before);
}

#[test]
fn calls_in_flight_fail_at_once_when_their_server_dies() {
    let bed = Bed::new("servers: {x: {command: '@counter@', args: [--ledger, '@dir@/ledger']}}");
    let mut host = bed.stdio_ready();
    tools(&mut host);
    for id in 0..5 {
        let arguments = format!(r#"{{"key":"k{id}","ms":30000}}"#);
        host.send(&call_line(&id.to_string(), "x__slow", &arguments))
            .expect("it reads");
    }
    assert!(wait_until(DEADLINE, || {
        bed.read("ledger").lines().count() == 5
    }));
    host.send(&call_line("5", "x__die", "{}"))
        .expect("it reads");
    let died = Instant::now();
    for _ in 0..6 {
        let line = host.recv().expect("every call is answered");
        let response = parsed(&line);
        assert_eq!(response["error"]["code"], -32002, "{line}");
        assert_eq!(response["error"]["data"]["effect"], "unknown", "{line}");
    }
    assert!(died.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_failed_first_start_is_retried_and_announced() {
    let bed = Bed::new(
        "servers:
  x: {command: sh, args: [-c, 'test -e @dir@/tried && exec @counter@; touch @dir@/tried; exit 1']}
",
    );
    let mut host = bed.stdio_ready();
    assert!(tools(&mut host).is_empty());
    host.recv_where(|frame| is_notification(frame, "notifications/tools/list_changed"))
        .expect("it is announced");
    assert!(tools(&mut host).contains(&"x__effect".to_owned()));
    assert_eq!(
        call_text(&mut host, "x__read_thing", r#"{"key":"k"}"#),
        "read k"
    );
}
