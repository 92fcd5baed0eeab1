//! Expired sessions and restarted servers, unnoticed by hosts.

use std::thread;
use std::time::{Duration, Instant};

use callgate_testkit::{Host, wait_until};

use super::Remote;
use crate::talk::{
    DEADLINE, call, call_line, call_text, http_as, is_notification, list, parsed, request, text_of,
    tools,
};

fn effect(key: &str) -> String {
    format!(r#"{{"key":"{key}"}}"#)
}

#[test]
fn an_expired_session_is_replaced_within_the_call() {
    // Many servers answer 400 to an expired session.
    for (form, status) in [("json", "404"), ("sse", "404"), ("json", "400")] {
        let way = ["--reply", form, "--unknown-session", status];
        let remote = Remote::start(&[&way[..], &["--expire-after", "3"]].concat());
        let bed = remote.bed("");
        let mut host = bed.stdio_ready();
        let keys: Vec<String> = (0..12).map(|at| format!("k{at}")).collect();
        for key in &keys {
            let line = call_line("1", "x__effect", &effect(key));
            let frames = host.exchange(&line, &mut |_| None).expect("it answers");
            assert_eq!(frames.len(), 1, "nothing else is seen: {frames:?}");
            assert_eq!(text_of(&parsed(&frames[0])), format!("did {key}"));
        }
        assert_eq!(remote.ledger(), keys, "each was done once");
        assert!(remote.received("initialize").len() > 3);
    }
}

#[test]
fn concurrent_calls_replace_an_expired_session_once() {
    // One request is the list; with the rest of them the first session is used up.
    const LASTS: usize = 25;
    let remote = Remote::start(&["--expire-after", &LASTS.to_string()]);
    let bed = remote.bed("");
    let served = bed.serve();
    let mut host = http_as(&served, "{}");
    for at in 1..LASTS {
        let key = format!("before{at}");
        assert_eq!(
            call_text(&mut host, "x__effect", &effect(&key)),
            format!("did {key}")
        );
    }
    assert_eq!(remote.received("initialize").len(), 1);
    thread::scope(|scope| {
        for at in 0..20 {
            let mut host = host.clone();
            scope.spawn(move || {
                let key = format!("after{at}");
                let line = call_line(&at.to_string(), "x__effect", &effect(&key));
                let response = request(&mut host, &line);
                assert_eq!(text_of(&response), format!("did {key}"));
            });
        }
    });
    assert_eq!(remote.received("initialize").len(), 2);
    assert_eq!(remote.received("notifications/initialized").len(), 2);
    let mut done = remote.ledger();
    assert_eq!(done.len(), LASTS - 1 + 20);
    done.sort();
    done.dedup();
    assert_eq!(done.len(), LASTS - 1 + 20, "each was done once");
}

#[test]
fn a_replaced_session_gets_a_new_stream() {
    let remote = Remote::start(&["--expire-after", "2"]);
    let bed = remote.bed("");
    let mut host = bed.stdio_ready();
    call_text(&mut host, "x__read_thing", "{}");
    call_text(&mut host, "x__read_thing", "{}");
    assert_eq!(
        remote.received("initialize").len(),
        2,
        "the first has expired"
    );
    assert!(wait_until(DEADLINE, || remote.events("GET /mcp") >= 2));
    host.send(&call_line("1", "x__list_change", "{}"))
        .expect("it reads");
    host.recv_where(|frame| is_notification(frame, "notifications/tools/list_changed"))
        .expect("it is heard");
    assert!(tools(&mut host).contains(&"x__added_0".to_owned()));
}

#[test]
fn a_short_server_restart_is_not_announced() {
    for form in [
        "--no-get",
        "--reply=sse",
        "--legacy-sse",
        "--unknown-session=400",
    ] {
        let mut remote = Remote::start(&[form]);
        let bed = remote.bed("");
        let mut host = bed.stdio_ready();
        let before = list(&mut host, "");
        remote.upstream.stop();
        assert_eq!(list(&mut host, ""), before, "{form}");
        remote.start_again_with(&[form]);
        let started = Instant::now();
        loop {
            let response = call(&mut host, "x__read_thing", &effect("k"));
            if response.get("result").is_some() {
                break;
            }
            assert_eq!(response["error"]["code"], -32002, "{form}: {response}");
            assert!(
                started.elapsed() < Duration::from_secs(10),
                "{form}: never back"
            );
        }
        let line = r#"{"jsonrpc":"2.0","id":"list","method":"tools/list"}"#;
        let frames = host.exchange(line, &mut |_| None).expect("it answers");
        assert_eq!(frames.len(), 1, "{form}: nothing was announced: {frames:?}");
        assert_eq!(parsed(&frames[0]), before, "{form}");
    }
}

#[test]
fn a_restarted_server_with_other_tools_is_listed_again() {
    let mut remote = Remote::start(&["--no-get"]);
    let bed = remote.bed("");
    let mut host = bed.stdio_ready();
    let before = tools(&mut host).len();
    remote.start_again_with(&["--no-get", "--tools", "2"]);
    let found = wait_until(DEADLINE, || {
        // By this the gateway learns that its session is not known any more.
        call(&mut host, "x__read_thing", "{}");
        tools(&mut host).len() == before + 2
    });
    assert!(found, "{:?}", tools(&mut host));
}
