//! The rules of Streamable HTTP: access, required headers, and sessions.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use callgate_testkit::{EventStream, HttpHost, weird};

use super::{Door, SMALL, error, post_bytes, request, result};
use crate::setup::{Bed, VERSION};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
const JSON: (&str, &str) = ("Content-Type", "application/json");
const BOTH: (&str, &str) = ("Accept", "application/json, text/event-stream");
const NOTE: &str = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;

#[test]
fn only_agent_tokens_can_use_mcp() {
    let bed = Bed::new(SMALL);
    let served = bed.serve();
    let host = served.host_ready();
    let with = |authorization: &str| status_with(&host, &[("Authorization", authorization)]);
    let anonymous = HttpHost::new(&served.url).expect("a URL");
    for method in ["POST", "GET", "DELETE"] {
        let reply = anonymous.send(method, &[JSON, BOTH], PING.as_bytes());
        let reply = reply.expect("HTTP");
        assert_eq!(reply.status, 401, "{method}");
        assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
    }
    let (agent, admin) = (&served.token, &served.admin_token);
    assert_eq!(with("Bearer wrong"), 401);
    assert_eq!(with(&format!("Bearer {agent}x")), 401);
    assert_eq!(with(&format!("Basic {agent}")), 401);
    assert_eq!(with(agent), 401);
    assert_eq!(with(""), 401);
    assert_eq!(with(&format!("Bearer {admin}")), 403);
    assert_eq!(with(&format!("bearer {agent}")), 200);
    let admins = HttpHost::new(&served.url.replace("/mcp", "/api/v1/servers")).expect("a URL");
    let ask = |token: &str| {
        let authorization = format!("Bearer {token}");
        status_of(&admins, "GET", &[("Authorization", &authorization)])
    };
    assert_eq!((ask(agent), ask(admin), ask("x")), (403, 200, 401));
    Door::Http(host).assert_works("wrong tokens");
}

#[test]
fn foreign_hosts_and_origins_are_refused_even_with_the_token() {
    let bed = Bed::new(SMALL);
    let served = bed.serve();
    let host = served.host_ready();
    let cases = [
        ("Host", "evil.example", 403),
        ("Host", "evil.example:7117", 403),
        ("Host", "127.0.0.1.evil.example", 403),
        ("Host", "localhost@evil.example", 403),
        ("Host", "localhost", 200),
        ("Host", "LOCALHOST:1", 200),
        ("Host", "[::1]:7117", 200),
        ("Origin", "http://evil.example", 403),
        ("Origin", "https://localhost.evil.example", 403),
        ("Origin", "null", 403),
        ("Origin", "", 403),
        ("Origin", "file://localhost", 403),
        ("Origin", "http://localhost:3000", 200),
        ("Origin", "http://127.0.0.1", 200),
    ];
    for (name, value, status) in cases {
        assert_eq!(
            status_with(&host, &[(name, value)]),
            status,
            "{name}: {value}"
        );
    }
    // The host name is checked before the token, on the health route as well.
    let health = HttpHost::new(&served.url.replace("/mcp", "/healthz")).expect("a URL");
    assert_eq!(status_of(&health, "GET", &[("Host", "evil.example")]), 403);
    assert_eq!(status_of(&health, "GET", &[]), 200);
}

#[test]
fn accept_and_content_type_headers_are_checked() {
    let bed = Bed::new(SMALL);
    let served = bed.serve();
    let host = served.host_ready();
    let post = |content: &str, accept: &str| {
        let headers = [("Content-Type", content), ("Accept", accept)];
        let reply = host.send("POST", &headers, PING.as_bytes());
        reply.expect("HTTP").status
    };
    let both = BOTH.1;
    assert_eq!(post("application/json", both), 200);
    assert_eq!(post("application/json; charset=utf-8", "*/*"), 200);
    assert_eq!(post("application/json", "application/json"), 406);
    assert_eq!(post("application/json", "text/event-stream"), 406);
    assert_eq!(post("application/json", "text/html"), 406);
    assert_eq!(post("text/plain", both), 415);
    assert_eq!(post("", both), 415);
    assert_eq!(
        status_of(&host, "GET", &[("Accept", "application/json")]),
        406
    );
    for method in ["PUT", "PATCH"] {
        assert_eq!(status_of(&host, method, &[JSON, BOTH]), 405, "{method}");
    }
    assert_eq!(
        status_with(&host, &[("MCP-Protocol-Version", "1999-01-01")]),
        400
    );
    assert_eq!(
        status_with(&host, &[("MCP-Protocol-Version", "nonsense")]),
        400
    );
    assert_eq!(
        status_with(&host, &[("MCP-Protocol-Version", "2025-06-18")]),
        200
    );
}

#[test]
fn requests_need_an_existing_session() {
    let bed = Bed::new(SMALL);
    let served = bed.serve();
    let none = served.host();
    let (status, text) = post_bytes(&none, PING.as_bytes());
    assert_eq!(status, 400);
    assert_eq!(
        error(&text),
        r#"{"code":-32600,"message":"Mcp-Session-Id is missing; send `initialize` first"}"#
    );
    for method in ["GET", "DELETE"] {
        assert_eq!(status_of(&none, method, &[BOTH]), 400, "{method}");
    }
    let unknown = served.host().header("Mcp-Session-Id", "nobody");
    let (status, text) = post_bytes(&unknown, PING.as_bytes());
    assert_eq!(status, 404);
    assert_eq!(
        error(&text),
        r#"{"code":-32600,"message":"there is no such session; send `initialize` again"}"#
    );
    for method in ["GET", "DELETE"] {
        assert_eq!(status_of(&unknown, method, &[BOTH]), 404, "{method}");
    }
}

#[test]
fn sessions_of_one_token_are_independent() {
    let bed = Bed::new(SMALL);
    let served = bed.serve();
    let (one, other) = (served.host_ready(), served.host_ready());
    // An id that is under way in one session is free in the other.
    let ask = request("7", "tools/call", r#"{"name":"ask_sampling"}"#);
    let mut first = one.post(&ask).expect("a stream").events();
    let question = event(&mut first);
    assert!(question.contains("sampling/createMessage"), "{question}");
    let called = request("7", "tools/call", r#"{"name":"echo_raw"}"#);
    let (status, text) = post_bytes(&other, called.as_bytes());
    assert_eq!(status, 200);
    assert_eq!(
        weird::echoed(&text).as_deref(),
        Some(r#"{"name":"echo_raw"}"#)
    );
    let standing = one.listen().expect("a stream");
    assert_eq!(status_of(&one, "DELETE", &[]), 204);
    for method in ["POST", "GET", "DELETE"] {
        assert_eq!(status_of(&one, method, &[JSON, BOTH]), 404, "{method}");
    }
    // Its streams end with it; the other session is untouched.
    let left = rest_of(first).join("");
    assert!(!left.contains(r#""result""#), "{left}");
    rest_of(standing);
    Door::Http(other).assert_works("the end of another session");
}

#[test]
fn a_session_that_is_idle_ends_and_one_with_an_open_stream_does_not() {
    let bed = Bed::new(&SMALL.replace("limits: {", "limits: {session_idle: 1s, "));
    let served = bed.serve();
    let (idle, listening) = (served.host_ready(), served.host_ready());
    let _stream = listening.listen().expect("a stream");
    let mut pause = Duration::from_millis(1100);
    let started = Instant::now();
    // Each request is a use of the session, so they are further and further apart.
    loop {
        thread::sleep(pause);
        match post_bytes(&idle, PING.as_bytes()).0 {
            404 => break,
            status => assert_eq!(status, 200),
        }
        assert!(started.elapsed() < Duration::from_secs(60), "it never ends");
        pause *= 2;
    }
    assert_eq!(post_bytes(&listening, PING.as_bytes()).0, 200);
    Door::Http(served.host_ready()).assert_works("the end of an idle session");
}

#[test]
fn notifications_and_replies_are_accepted_without_a_body() {
    let bed = Bed::new(SMALL);
    let served = bed.serve();
    let host = served.host_ready();
    let reply = r#"{"jsonrpc":"2.0","id":5,"result":{}}"#;
    for line in [NOTE, reply] {
        let (status, text) = post_bytes(&host, line.as_bytes());
        assert_eq!((status, text.as_str()), (202, ""), "{line}");
    }
    assert_eq!(post_bytes(&served.host(), NOTE.as_bytes()).0, 400);
}

#[test]
fn an_answer_is_json_unless_notifications_come_first() {
    let bed = Bed::new(SMALL);
    let served = bed.serve();
    let host = served.host_ready();
    let call = |tool: &str| {
        let line = request("1", "tools/call", &format!(r#"{{"name":"{tool}"}}"#));
        host.post(&line).expect("HTTP")
    };
    let reply = call("nothing");
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let reply = call("log");
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    assert!(
        reply
            .header("cache-control")
            .is_some_and(|value| value.contains("no-cache"))
    );
    let frames = reply.frames().expect("a whole stream");
    assert_eq!(frames.len(), 3, "{frames:?}");
    assert!(result(&frames[2]).contains("announced"));
}

#[test]
fn a_second_get_stream_replaces_the_first() {
    let bed = Bed::new(SMALL);
    let served = bed.serve();
    let host = served.host_ready();
    let first = host.listen().expect("a stream");
    let _second = host.listen().expect("a stream");
    rest_of(first);
}

#[test]
fn other_paths_reveal_nothing_without_the_admin_token() {
    let bed = Bed::new(SMALL);
    let served = bed.serve();
    for path in ["/", "/mcp/", "/mcp/nothing", "/MCP", "/admin"] {
        let host = HttpHost::new(&served.url.replace("/mcp", path)).expect("a URL");
        let with = |token: &str| {
            let authorization = format!("Bearer {token}");
            status_with(&host, &[("Authorization", &authorization)])
        };
        let statuses = (
            with("nobody"),
            with(&served.token),
            with(&served.admin_token),
        );
        assert_eq!(statuses, (401, 403, 404), "{path}");
    }
}

#[test]
fn the_direct_view_has_its_own_path() {
    let bed = Bed::new(SMALL);
    let served = bed.serve();
    let direct = HttpHost::new(&format!("{}/direct", served.url)).expect("a URL");
    let mut direct = direct.header("Authorization", &format!("Bearer {}", served.token));
    direct.initialize(VERSION).expect("the direct view by name");
    Door::Http(direct).assert_works("its handshake");
}

/// The status of a ping with these headers besides the right ones.
fn status_with(host: &HttpHost, headers: &[(&str, &str)]) -> u16 {
    status_of(host, "POST", &[&[JSON, BOTH], headers].concat())
}

fn status_of(host: &HttpHost, method: &str, headers: &[(&str, &str)]) -> u16 {
    let body = if method == "GET" { "" } else { PING };
    let reply = host.send(method, headers, body.as_bytes());
    reply.expect("HTTP").status
}

fn event(stream: &mut EventStream) -> String {
    let event = stream.next_event().expect("the stream is whole");
    event.expect("the stream goes on").data
}

/// What still comes on a stream that is about to end. Heartbeats would keep one open that does
/// not end, so the wait has a limit of its own.
fn rest_of(mut stream: EventStream) -> Vec<String> {
    let (done, waiting) = mpsc::channel();
    thread::spawn(move || {
        let mut rest = Vec::new();
        while let Ok(Some(event)) = stream.next_event() {
            rest.push(event.data);
        }
        let _ = done.send(rest);
    });
    let rest = waiting.recv_timeout(Duration::from_secs(10));
    rest.expect("the stream ends")
}
