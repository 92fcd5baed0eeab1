//! Traffic during calls: connections, progress, questions, cancellation and timeouts.

use std::thread;
use std::time::Duration;

use callgate_testkit::{Event, EventStream, Frame, Host, HttpHost, wait_until};
use serde_json::{Value, json};

use super::Remote;
use crate::talk::{
    DEADLINE, answer_line, call, call_line, call_text, http_as, is_notification, parsed, stdio_as,
    text_of, tools,
};

const CAPABILITIES: &str = r#"{"elicitation":{}}"#;

fn next(events: &mut EventStream) -> Frame {
    let event: Option<Event> = events.next_event().expect("the stream is whole");
    let event = event.expect("the stream goes on");
    Frame::parse(&event.data).expect("an event is a frame")
}

#[test]
fn connections_are_reused() {
    for form in ["json", "sse"] {
        let remote = Remote::start(&["--reply", form]);
        let bed = remote.bed("");
        let mut host = bed.stdio_ready();
        for at in 0..200 {
            let arguments = format!(r#"{{"key":"{at}"}}"#);
            let text = call_text(&mut host, "x__read_thing", &arguments);
            assert_eq!(text, format!("read {at}"));
        }
        let connections = remote.events("connected");
        println!("200 calls answered as {form} used {connections} connections");
        assert!(connections <= 8, "{form}: {connections}");
    }
}

#[test]
fn a_timeout_cancels_and_drops_the_stream() {
    let remote = Remote::start(&["--stall"]);
    let bed = remote.bed(", timeout: 400ms");
    let mut host = bed.stdio_ready();
    let response = call(&mut host, "x__slow", r#"{"key":"k","ms":30000}"#);
    let expected = json!({
        "code": -32002, "message": "upstream \"x\" timed out after 0.4s",
        "data": {"namespace": "x", "tool": "slow", "timeout_ms": 400, "effect": "unknown"},
    });
    assert_eq!(response["error"], expected);
    assert_cancelled(&remote);
}

#[test]
fn a_cancellation_reaches_the_server_and_drops_the_stream() {
    let remote = Remote::start(&["--stall"]);
    let bed = remote.bed("");
    let mut host = bed.stdio_ready();
    host.send(&call_line("9", "x__slow", r#"{"key":"k","ms":30000}"#))
        .expect("it reads");
    assert!(wait_until(DEADLINE, || remote.ledger() == ["k"]));
    host.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}"#)
        .expect("it reads");
    assert_cancelled(&remote);
}

#[test]
fn cancellations_reach_legacy_sse_servers() {
    let remote = Remote::start(&["--legacy-sse"]);
    let bed = remote.bed(", timeout: 400ms");
    let mut host = bed.stdio_ready();
    let response = call(&mut host, "x__slow", r#"{"key":"k","ms":30000}"#);
    assert_eq!(response["error"]["data"]["effect"], "unknown");
    assert!(wait_until(DEADLINE, || remote.ledger() == ["k", "cancelled:k"]));
}

/// The server got the cancellation under its own id, and the stream of the call is closed.
fn assert_cancelled(remote: &Remote) {
    assert!(
        wait_until(DEADLINE, || remote.ledger() == ["k", "cancelled:k"]),
        "{:?}",
        remote.ledger()
    );
    let called = remote.received("tools/call");
    let told = remote.received("notifications/cancelled");
    assert_eq!((called.len(), told.len()), (1, 1));
    assert_eq!(told[0].param("requestId"), called[0].id.as_deref());
    assert!(wait_until(DEADLINE, || remote.events("dropped") == 1));
}

#[test]
fn questions_reach_the_right_host_of_a_shared_session() {
    let remote = Remote::start(&[]);
    let bed = remote.bed("");
    let served = bed.serve();
    let hosts = [
        http_as(&served, CAPABILITIES),
        http_as(&served, CAPABILITIES),
    ];
    let ask = |host: &HttpHost| {
        let mut events = host
            .post(&call_line("1", "x__ask", "{}"))
            .expect("it answers")
            .events();
        let question = next(&mut events);
        assert_eq!(question.method.as_deref(), Some("elicitation/create"));
        (events, question)
    };
    let mut open: Vec<(EventStream, Frame)> = hosts.iter().map(ask).collect();
    // The later one is answered first, so that order alone does not find the right call.
    for (at, (mut host, (events, question))) in hosts.into_iter().zip(&mut open).enumerate().rev() {
        let answer = format!(r#"{{"action":"accept","content":{{"who":{at}}}}}"#);
        host.notify(&answer_line(question, &answer))
            .expect("the answer is taken");
        let response = parsed(&next(events).raw);
        assert_eq!(text_of(&response), answer, "host {at}");
    }
    let introduced = remote.received("initialize");
    assert_eq!(
        introduced.len(),
        2,
        "the gateway's own session and the hosts'"
    );
}

#[test]
fn progress_of_two_hosts_is_not_mixed() {
    const STEPS: usize = 200;
    let remote = Remote::start(&[]);
    let bed = remote.bed("");
    let served = bed.serve();
    let progress = |mut host: HttpHost, id: usize| {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"_meta":{{"progressToken":"same"}},"name":"x__progress","arguments":{{"n":{}}}}}}}"#,
            STEPS + id
        );
        let frames = host.exchange(&line, &mut |_| None).expect("it answers");
        let steps: Vec<Value> = frames
            .iter()
            .filter_map(|line| Frame::parse(line))
            .filter(|frame| is_notification(frame, "notifications/progress"))
            .map(|frame| parsed(frame.params.as_deref().expect("progress has params")))
            .collect();
        let expected: Vec<Value> = (1..=STEPS + id)
            .map(|step| json!({"progressToken": "same", "progress": step, "total": STEPS + id}))
            .collect();
        assert_eq!(steps, expected, "host {id}");
    };
    thread::scope(|scope| {
        for id in 0..4 {
            let host = http_as(&served, "{}");
            scope.spawn(move || progress(host, id));
        }
    });
}

#[test]
fn notifications_outside_calls_are_received_on_the_get_stream() {
    let remote = Remote::start(&[]);
    let bed = remote.bed("");
    let mut host = bed.stdio_ready();
    let before = tools(&mut host);
    assert!(wait_until(DEADLINE, || remote.events("GET /mcp") == 1));
    host.send(&call_line("1", "x__list_change", "{}"))
        .expect("it reads");
    host.recv_where(|frame| is_notification(frame, "notifications/tools/list_changed"))
        .expect("the change is announced");
    let after = tools(&mut host);
    assert_eq!(after.len(), before.len() + 1);
    assert!(after.contains(&"x__added_0".to_owned()));
}

#[test]
fn an_open_question_does_not_delay_shutdown_after_a_server_loss() {
    let mut remote = Remote::start(&["--reply", "sse"]);
    let bed = remote.bed("");
    let mut host = stdio_as(&bed, Some(CAPABILITIES));
    host.send(&call_line("1", "x__ask", "{}"))
        .expect("it reads");
    let question = host.recv_where(|frame| frame.method.as_deref() == Some("elicitation/create"));
    question.expect("the host is asked");
    remote.upstream.stop();
    let response = host.recv_where(|frame| frame.answers("1"));
    let response = parsed(&response.expect("the call has an end"));
    assert_eq!(response["error"]["data"]["effect"], "unknown", "{response}");
    let ended = host.close(Duration::from_secs(5));
    assert!(ended.expect("it ends by itself").success());
}
