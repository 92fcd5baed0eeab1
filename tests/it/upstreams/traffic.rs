//! Messages during a call: progress, cancellation, timeouts, and lines that are not frames.

use std::time::{Duration, Instant};

use callgate_testkit::{Frame, Host, StdioHost, wait_until};
use serde_json::{Value, json};

use crate::setup::Bed;
use crate::talk::{
    DEADLINE, call, call_line, call_text, http_as, is_notification, parsed, received, request,
};

const LOGGED: &str =
    "servers: {x: {command: '@counter@', args: [--ledger, '@dir@/ledger', --log, '@dir@/log']}}";

/// The progress that frames report: token and step.
fn progress(frames: &[String]) -> Vec<(Value, Value)> {
    frames
        .iter()
        .filter_map(|line| Frame::parse(line))
        .filter(|frame| is_notification(frame, "notifications/progress"))
        .map(|frame| {
            let params = parsed(frame.params.as_deref().expect("progress has params"));
            (params["progressToken"].clone(), params["progress"].clone())
        })
        .collect()
}

fn progress_line(id: &str, token: &str, steps: usize) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"_meta":{{"progressToken":{token}}},"name":"x__progress","arguments":{{"n":{steps}}}}}}}"#
    )
}

fn steps(token: &Value, count: usize) -> Vec<(Value, Value)> {
    (1..=count)
        .map(|step| (token.clone(), json!(step)))
        .collect()
}

#[test]
fn progress_carries_the_hosts_token() {
    let bed = Bed::new(LOGGED);
    let served = bed.serve();
    let mut over_http = http_as(&served, "{}");
    let mut over_stdio = bed.stdio_ready();
    let hosts: [&mut dyn Host; 2] = [&mut over_http, &mut over_stdio];
    for host in hosts {
        for token in [r#""a \"token\"""#, "7", "0", "-3", r#""7""#] {
            let line = progress_line(r#""p""#, token, 3);
            let frames = host.exchange(&line, &mut |_| None).expect("it answers");
            assert_eq!(progress(&frames), steps(&parsed(token), 3), "{token}");
        }
        let frames = host.exchange(&call_line("1", "x__progress", "{}"), &mut |_| None);
        let frames = frames.expect("it answers");
        assert_eq!(
            progress(&frames),
            [],
            "without a token there is no progress"
        );
    }
}

#[test]
fn progress_of_concurrent_calls_is_not_mixed() {
    let bed = Bed::new(LOGGED);
    let mut host = bed.stdio_ready();
    let mut frames = Vec::new();
    for at in 0..8 {
        let token = if at % 2 == 0 {
            at.to_string()
        } else {
            format!("\"{at}\"")
        };
        host.send(&progress_line(&at.to_string(), &token, 5 + at))
            .expect("it reads");
    }
    let mut open = 8;
    while open > 0 {
        let line = host.recv().expect("answers come");
        open -= usize::from(parsed(&line).get("result").is_some());
        frames.push(line);
    }
    let seen = progress(&frames);
    for at in 0..8usize {
        let token = if at % 2 == 0 {
            json!(at)
        } else {
            json!(at.to_string())
        };
        let own: Vec<_> = seen
            .iter()
            .filter(|(of, _)| *of == token)
            .cloned()
            .collect();
        assert_eq!(own, steps(&token, 5 + at));
    }
}

/// Starts a call that takes long and waits until the server is at it.
fn start_slow(bed: &Bed, host: &mut StdioHost, id: &str, key: &str) {
    let arguments = format!(r#"{{"key":"{key}","ms":30000}}"#);
    host.send(&call_line(id, "x__slow", &arguments))
        .expect("it reads");
    assert!(wait_until(DEADLINE, || bed.read("ledger").contains(key)));
}

#[test]
fn cancellations_reach_the_server_under_its_own_id() {
    let bed = Bed::new(LOGGED);
    let mut host = bed.stdio_ready();
    start_slow(&bed, &mut host, r#""first""#, "one");
    start_slow(&bed, &mut host, r#""second""#, "two");
    // Ids that are unknown or of another type are ignored.
    for id in [r#""third""#, "1", "2", "3", "4", "null"] {
        host.send(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
        ))
        .expect("it reads");
    }
    host.send(
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"second","reason":"enough"}}"#,
    )
    .expect("it reads");
    assert!(wait_until(DEADLINE, || bed
        .read("ledger")
        .contains("cancelled:")));
    assert_eq!(bed.read("ledger"), "one\ntwo\ncancelled:two\n");
    let upstream_id = received(&bed, "log", "tools/call")
        .into_iter()
        .find(|frame| frame.argument("key").as_deref() == Some("two"))
        .and_then(|frame| frame.id);
    let told = received(&bed, "log", "notifications/cancelled");
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].param("requestId"), upstream_id.as_deref());
    assert_eq!(
        told[0].param("reason"),
        Some(r#""enough""#),
        "as the host said"
    );
    // Whatever was to be answered stands before the answer to a later request.
    let frames = host.exchange(
        &call_line("5", "x__read_thing", r#"{"key":"k"}"#),
        &mut |_| None,
    );
    assert_eq!(frames.expect("the next call works").len(), 1);
}

#[test]
fn a_timeout_has_its_exact_error_and_ignores_the_late_answer() {
    let bed = Bed::new(
        "servers:
  x: {command: '@counter@', args: [--ledger, '@dir@/ledger', --log, '@dir@/log', --delay-ms, '1600'], timeout: 1s}
",
    );
    let mut host = bed.stdio_ready();
    let started = Instant::now();
    let response = call(&mut host, "x__effect", r#"{"key":"late"}"#);
    let took = started.elapsed();
    let expected = json!({
        "code": -32002, "message": "upstream \"x\" timed out after 1s",
        "data": {"namespace": "x", "tool": "effect", "timeout_ms": 1000, "effect": "unknown"},
    });
    assert_eq!(response["error"], expected);
    assert!(took >= Duration::from_secs(1), "{took:?}");
    let called = received(&bed, "log", "tools/call");
    let told = || received(&bed, "log", "notifications/cancelled");
    assert!(wait_until(DEADLINE, || !told().is_empty()));
    assert_eq!(told()[0].param("requestId"), called[0].id.as_deref());
    assert_eq!(bed.read("ledger"), "late\n", "the call had its effect");
    assert!(wait_until(DEADLINE, || bed
        .read("log")
        .contains("did late")));
    let frames = host.exchange(
        &call_line("2", "x__read_thing", r#"{"key":"k"}"#),
        &mut |_| None,
    );
    let frames = frames.expect("the next call works");
    assert_eq!(frames.len(), 1, "{frames:?}");
    assert!(frames[0].contains("read k"), "{frames:?}");
}

#[test]
fn the_default_timeout_is_set_by_configuration_and_flag() {
    let bed = Bed::new(&format!("{LOGGED}\nserver_defaults: {{timeout: 300ms}}\n"));
    let message = |host: &mut StdioHost| {
        let response = call(host, "x__slow", r#"{"key":"k","ms":20000}"#);
        response["error"]["message"].as_str().map(str::to_owned)
    };
    let from_file = message(&mut bed.stdio_ready());
    assert_eq!(
        from_file.as_deref(),
        Some("upstream \"x\" timed out after 0.3s")
    );
    let mut flagged = bed.command(["stdio", "--server-timeout", "200ms"]);
    let mut host = StdioHost::connect(&mut flagged, "2025-11-25").expect("it answers");
    assert_eq!(
        message(&mut host).as_deref(),
        Some("upstream \"x\" timed out after 0.2s")
    );
}

#[test]
fn upstream_lines_that_are_not_frames_are_skipped() {
    let bed = Bed::new("servers: {x: {command: '@counter@ --garbage'}}");
    let mut host = bed.stdio_ready();
    for key in ["a", "b", "c"] {
        let arguments = format!(r#"{{"key":"{key}"}}"#);
        assert_eq!(
            call_text(&mut host, "x__read_thing", &arguments),
            format!("read {key}")
        );
    }
    let counted = host.wait_stderr(DEADLINE, |line| {
        line.contains("frame_error") && line.contains("exceeds the frame limit")
    });
    counted.expect("the operator is told");
}

#[test]
fn an_oversized_reply_fails_only_its_call() {
    let bed = Bed::new(LOGGED);
    let mut host = bed.stdio_ready();
    let fits = call_text(&mut host, "x__big", r#"{"bytes":4000000}"#);
    assert_eq!(fits.len(), 4_000_000);
    let response = call(&mut host, "x__big", r#"{"bytes":4194304}"#);
    let expected = json!({
        "code": -32002, "message": "upstream \"x\" sent an answer larger than the frame limit",
        "data": {"namespace": "x", "effect": "done"},
    });
    assert_eq!(response["error"], expected);
    assert_eq!(
        call_text(&mut host, "x__read_thing", r#"{"key":"k"}"#),
        "read k"
    );
}

#[test]
fn host_pings_are_not_forwarded() {
    let bed = Bed::new(LOGGED);
    let mut host = bed.stdio_ready();
    call_text(&mut host, "x__read_thing", r#"{"key":"k"}"#);
    let response = request(&mut host, r#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#);
    assert_eq!(response, json!({"jsonrpc": "2.0", "id": 9, "result": {}}));
    assert!(received(&bed, "log", "ping").is_empty());
}

#[test]
fn an_invalid_reply_ends_its_call_at_once() {
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":$id,"result":{}{}}}"#,
        "[".repeat(200),
        "]".repeat(200)
    );
    let replies = [
        r#"{"jsonrpc":"2.0","id":$id,"result":{},"error":{"code":1,"message":"m"}}"#,
        r#"{"jsonrpc":"2.0","id":$id,"result":{"content":[{"type":"text","text":NaN}]}}"#,
        r#"{"jsonrpc":"1.0","id":$id,"result":{}}"#,
        r#"{"id":$id,"result":{}}"#,
        r#"{"jsonrpc":"2.0","\ud800":1,"id":$id,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":$id,"result":{"content":[]"#,
        &deep,
    ];
    let answer = |(at, raw): (usize, &&str)| {
        let tool = json!({"name": format!("t{at}"), "inputSchema": {"type": "object"}});
        json!({"tool": tool, "raw": raw})
    };
    let mut answers: Vec<_> = replies.iter().enumerate().map(answer).collect();
    answers.push(json!({"tool": {"name": "fine"}, "result": {"content": [{"type": "text", "text": "fine"}]}}));
    let bed = Bed::new(
        "servers: {s: {command: '@canned@', args: [--answers, '@dir@/answers.json']}}\npolicy: allow-all\n",
    );
    std::fs::write(bed.path("answers.json"), json!(answers).to_string()).expect("it is written");
    // The default timeout is 30 s, and these take no time at all.
    let mut host = bed.stdio_ready();
    for (at, reply) in replies.iter().enumerate() {
        let response = call(&mut host, &format!("s__t{at}"), "{}");
        let expected = json!({
            "code": -32002, "message": "upstream \"s\" sent an answer that is not valid",
            "data": {"namespace": "s", "effect": "unknown"},
        });
        assert_eq!(response["error"], expected, "{reply}");
    }
    assert_eq!(call_text(&mut host, "s__fine", "{}"), "fine");
}
