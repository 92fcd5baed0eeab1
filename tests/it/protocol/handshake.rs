//! The handshake: versions, messages before it, and the identities it exchanges.

use callgate_testkit::frame::{Frame, member};
use callgate_testkit::weird::{self, Direction};

use super::{Door, SEVERAL, SMALL, error, request, result};
use crate::setup::{Bed, VERSION};

/// The raw `protocolVersion` of a request, and the version it settles on.
const SETTLED: &[(&str, &str)] = &[
    (r#""2024-11-05""#, "2024-11-05"),
    (r#""2025-03-26""#, "2025-03-26"),
    (r#""2025-06-18""#, "2025-06-18"),
    (r#""2025-11-25""#, "2025-11-25"),
    (r#""2026-07-28""#, "2025-11-25"),
    (r#""2099-01-01""#, "2025-11-25"),
    (r#""2025-01-01""#, "2024-11-05"),
    (r#""2025-05-01""#, "2025-03-26"),
    (r#""2025-11-24""#, "2025-06-18"),
];

/// Raw versions that are older than all, absent or malformed.
const REFUSED: &[&str] = &[
    r#""2024-11-04""#,
    r#""1999-01-01""#,
    r#""latest""#,
    r#""2025-6-18""#,
    r#""""#,
    "20251125",
    "null",
    "{}",
];

#[test]
fn protocol_versions_are_negotiated_as_documented() {
    let bed = Bed::new(SMALL);
    let served = bed.serve();
    for (requested, settled) in SETTLED {
        let reply = served.host().post(&initialize(requested)).expect("HTTP");
        assert!(reply.header("mcp-session-id").is_some(), "{requested}");
        let told = result(&reply.text().expect("a body"));
        let version = member(&told, "protocolVersion").map(str::to_owned);
        assert_eq!(version, Some(format!("\"{settled}\"")), "{requested}");

        let mut host = bed.stdio();
        let told = host.request(&initialize(requested)).expect("an answer");
        let version = member(&result(&told), "protocolVersion").map(str::to_owned);
        assert_eq!(version, Some(format!("\"{settled}\"")), "{requested}");
    }
}

#[test]
fn unsupported_versions_are_refused_and_can_be_retried() {
    let bed = Bed::new(SMALL);
    let served = bed.serve();
    let mut stdio = bed.stdio();
    let missing = request("1", "initialize", r#"{"capabilities":{}}"#);
    let lines = REFUSED.iter().map(|raw| (*raw, initialize(raw)));
    for (requested, line) in lines.chain([("null", missing)]) {
        let expected = format!(
            r#"{{"code":-32602,"message":"unsupported protocol version","data":{{"requested":{requested},"supported":["2024-11-05","2025-03-26","2025-06-18","2025-11-25"]}}}}"#
        );
        let refused = stdio.request(&line).expect("an answer");
        assert_eq!(error(&refused), expected, "{requested}");
        let reply = served.host().post(&line).expect("HTTP");
        assert_eq!(reply.status, 400, "{requested}");
        assert_eq!(reply.header("mcp-session-id"), None, "{requested}");
        assert_eq!(error(&reply.text().expect("a body")), expected);
    }
    stdio.initialize(VERSION).expect("now it is right");
    Door::Stdio(Box::new(stdio)).assert_works("refused versions");
}

#[test]
fn only_ping_is_answered_before_the_handshake() {
    let bed = Bed::new(SMALL);
    let mut host = bed.stdio();
    let pong = host.request(&request("\"p\"", "ping", "{}"));
    assert_eq!(result(&pong.expect("an answer")), "{}");
    for method in ["tools/list", "tools/call", "logging/setLevel", "x/custom"] {
        let refused = host.request(&request("1", method, r#"{"name":"echo_raw"}"#));
        assert_eq!(
            error(&refused.expect("an answer")),
            r#"{"code":-32600,"message":"initialize first"}"#,
            "{method}"
        );
    }
    host.send(r#"{"jsonrpc":"2.0","method":"notifications/early"}"#)
        .expect("it is read");
    let early = host.stderr();
    host.initialize(VERSION).expect("the handshake still works");
    Door::Stdio(Box::new(host)).assert_works("early requests");
    assert!(
        !early.iter().any(|line| line.contains("panicked")),
        "{early:?}"
    );
}

#[test]
fn garbage_before_the_handshake_is_answered_and_the_handshake_works() {
    let bed = Bed::new(SMALL);
    let mut door = Door::Stdio(Box::new(bed.stdio()));
    let refused = door.refusal(b"\xff\xfe\x00garbage");
    assert!(
        error(&refused).starts_with(r#"{"code":-32700,"#),
        "{refused}"
    );
    door.ask(&initialize(&format!("\"{VERSION}\"")));
    door.assert_works("garbage first");
}

#[test]
fn a_second_initialize_is_refused() {
    let bed = Bed::new(SMALL);
    let mut host = bed.stdio_ready();
    let again = host.request(&initialize("\"2025-06-18\""));
    assert_eq!(
        error(&again.expect("an answer")),
        r#"{"code":-32600,"message":"already initialized"}"#
    );
    Door::Stdio(Box::new(host)).assert_works("a second initialize");

    let served = bed.serve();
    let host = served.host_ready();
    let reply = host.post(&initialize("\"2025-06-18\"")).expect("HTTP");
    assert_eq!(reply.status, 400);
    assert_eq!(
        error(&reply.text().expect("a body")),
        r#"{"code":-32600,"message":"initialize opens a session; send it without Mcp-Session-Id"}"#
    );
    Door::Http(host).assert_works("a second initialize");
}

#[test]
fn initialize_answers_name_the_gateway_and_never_an_upstream() {
    let own = format!(
        r#"{{"name":"callgate","version":"{}"}}"#,
        env!("CARGO_PKG_VERSION")
    );
    // Long enough for a slow machine: with a new data folder the answer waits for what servers offer.
    let waiting = format!("{SEVERAL}server_defaults: {{initialize_wait: 30s}}\n");
    let bed = Bed::new(&waiting);
    let told = bed.stdio().initialize(VERSION).expect("a handshake");
    let told = result(&told);
    assert_eq!(member(&told, "serverInfo"), Some(own.as_str()));
    let capabilities = r#"{"tools":{"listChanged":true},"logging":{},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"completions":{}}"#;
    assert_eq!(member(&told, "capabilities"), Some(capabilities));

    let bed = Bed::new(SMALL);
    let served = bed.serve();
    let mut first = served.host_ready();
    // Once its only upstream is known, what that can do is what the gateway can do.
    callgate_testkit::Host::exchange(&mut first, &request("1", "tools/list", "{}"), &mut |_| None)
        .expect("a list");
    let told = served.host().initialize(VERSION).expect("a handshake");
    let told = result(&told);
    assert_eq!(member(&told, "serverInfo"), Some(own.as_str()));
    let capabilities = member(&told, "capabilities").expect("capabilities");
    let expected = r#"{"tools":{"listChanged":true,"x-vendor":{"a":[]}},"logging":{},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true,"":null},"completions":{},"experimental":{"vendor/thing":{"level":123456789012345678901234567890}},"x-unknown":[1.0,1,-0,1e400]}"#;
    assert_eq!(capabilities, expected);
    assert_eq!(
        member(&told, "instructions"),
        Some(r#""odd \u2028 but legal""#)
    );
}

#[test]
fn an_upstream_is_initialized_once_with_the_hosts_identity() {
    let bed = Bed::new(SMALL);
    let mut host = bed.stdio();
    let line = request(
        "1",
        "initialize",
        r#"{"protocolVersion":"2025-06-18","capabilities":{"x":{"n":1.0}},"clientInfo":{"name":"h\u0041","version":"1.0","x":[]}}"#,
    );
    host.request(&line).expect("a handshake");
    let mut door = Door::Stdio(Box::new(host));
    door.assert_works("the handshake");
    let log = weird::read_log(&bed.path("upstream.log")).expect("a log");
    let told: Vec<Frame> = log
        .iter()
        .filter(|(direction, _)| *direction == Direction::Received)
        .filter_map(|(_, line)| Frame::parse(line))
        .collect();
    let of = |method: &str| -> Vec<&Frame> {
        told.iter()
            .filter(|frame| frame.method.as_deref() == Some(method))
            .collect()
    };
    let [introduced] = of("initialize")[..] else {
        panic!("one initialize: {told:#?}")
    };
    assert_eq!(introduced.param("capabilities"), Some(r#"{"x":{"n":1.0}}"#));
    assert_eq!(
        introduced.param("clientInfo"),
        Some(r#"{"name":"h\u0041","version":"1.0","x":[]}"#)
    );
    assert_eq!(of("notifications/initialized").len(), 1);
}

fn initialize(version: &str) -> String {
    request(
        "1",
        "initialize",
        &format!(
            r#"{{"protocolVersion":{version},"capabilities":{{}},"clientInfo":{{"name":"x","version":"1"}}}}"#
        ),
    )
}
