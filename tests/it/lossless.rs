//! What the gateway does not own passes through byte for byte, in both directions and at both doors.

pub(crate) mod runs;

use std::time::Duration;

use callgate_testkit::frame::{self, Frame, Kind};
use callgate_testkit::weird::{self, Exchange, Place, replies};
use callgate_testkit::{EventStream, Host, wait_until};

use crate::setup::{BARE, Bed, PREFIXED};
use runs::{Door, Run, Scene, Transport, direct, direct_over, received, run, through};

/// Methods that the gateway answers itself, so that no upstream sees them as they came.
const ANSWERED_HERE: [&str; 6] = [
    "initialize",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "ping",
];

/// What the gateway itself announces once its servers have told what they have.
pub(crate) const OWN_ANNOUNCEMENTS: [&str; 3] = [
    r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}"#,
];

/// How long the last line of a test may take to reach the upstream's log.
const ARRIVAL: Duration = Duration::from_secs(10);

#[test]
fn every_door_and_upstream_transport_passes_messages_unchanged() {
    use Transport::{HttpJson, HttpSse, LegacySse, Stdio};
    for transport in [Stdio, HttpJson, HttpSse, LegacySse] {
        let direct = direct_over(transport);
        for door in [Door::Stdio, Door::Http] {
            let through = through(door, transport);
            if door == Door::Stdio {
                // A line is all that this door carries: breaks between tokens become spaces.
                assert_same(&direct.on_lines(), &through);
            } else {
                assert_same(&direct, &through);
            }
            let steps = through.exchanges.len();
            println!("{door:?} door, {transport:?} upstream: 0 of {steps} exchanges differ");
        }
    }
}

#[test]
fn line_breaks_between_tokens_reach_an_http_upstream_unchanged() {
    let params = "{\r\n  \"name\": \"echo_raw\",\n\n\t\"arguments\": {\n \"n\" : 1.0\r\n}\n}";
    let body = format!(
        "\n{{\n\"jsonrpc\": \"2.0\",\r\n\"id\": 7,\n\"method\":\n\"tools/call\",\n\"params\": {params}\n}}\r\n"
    );
    for transport in [Transport::HttpJson, Transport::LegacySse] {
        let scene = Scene::new(transport);
        let served = scene.bed.serve();
        let response = served.host_ready().post(&body).expect("it is read");
        let response = response.text().expect("an answer");
        let echoed = weird::echoed(&response);
        assert_eq!(echoed.as_deref(), Some(params), "{transport:?}");
    }
}

#[test]
fn with_prefixes_only_names_differ() {
    let bed = Bed::new(PREFIXED);
    let over_stdio = run(&mut bed.stdio_ready(), &bed.path("upstream.log"), "weird__");
    assert_only_names_differ(&direct(), &over_stdio);

    let bed = Bed::new(PREFIXED);
    let served = bed.serve();
    let over_http = run(
        &mut served.host_ready(),
        &bed.path("upstream.log"),
        "weird__",
    );
    assert_only_names_differ(&direct(), &over_http);
}

#[test]
fn canonical_names_reach_the_same_tool() {
    let bed = Bed::new(PREFIXED);
    let mut host = bed.stdio_ready();
    for name in ["weird__echo_raw", "weird:echo_raw", r"weird\u003aecho_raw"] {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{ "name" : "{name}" , "x":1.0}}}}"#
        );
        let response = host.request(&line).expect("the gateway answers");
        let seen = r#"{ "name" : "echo_raw" , "x":1.0}"#;
        assert_eq!(weird::echoed(&response).as_deref(), Some(seen), "{name}");
    }
}

#[test]
fn notifications_outside_calls_use_the_get_stream() {
    let bed = Bed::new(BARE);
    let served = bed.serve();
    let (asked, logging) = (served.host_ready(), served.host_ready());
    let mut streams = [
        asked.listen().expect("a stream"),
        logging.listen().expect("a stream"),
    ];
    // While two sessions have calls under way, nothing says whose a log message is.
    let mut waiting = asked
        .post(&call_line("1", "ask_roots", "{}"))
        .expect("it is answered as a stream")
        .events();
    let question = next_frame(&mut waiting);
    let logged = logging
        .post(&call_line("2", "log", "{}"))
        .and_then(|reply| reply.frames())
        .expect("an answer");
    assert_eq!(logged.len(), 1, "only the answer: {logged:?}");
    for stream in &mut streams {
        for expected in replies::LOGS {
            assert_eq!(next_announced(stream).raw, *expected);
        }
    }
    let answer = weird::answer(&question).expect("roots can be told");
    let mut host = asked.clone();
    host.notify(&answer).expect("the answer is taken");
    let response = next_frame(&mut waiting).raw;
    let echoed = weird::echoed(&response);
    assert_eq!(echoed.as_deref(), Some(replies::ROOTS_ANSWER));
}

#[test]
fn line_breaks_between_tokens_reach_a_stdio_upstream_as_spaces() {
    let body = "{\r\n  \"jsonrpc\": \"2.0\",\n  \"id\": 7,\n  \"method\": \"tools/call\",\n  \"params\": {\n    \"name\": \"echo_raw\",\n    \"arguments\": {\n\n      \"big\": 123456789012345678901234567890,\r\n      \"text\": \"\\n\"\n    }\n  }\n}\n";
    let seen = "{     \"name\": \"echo_raw\",     \"arguments\": {        \"big\": 123456789012345678901234567890,        \"text\": \"\\n\"     }   }";
    let bed = Bed::new(BARE);
    let served = bed.serve();
    let response = served.host_ready().post(body).expect("it is read");
    let response = response.text().expect("an answer");
    assert_eq!(weird::echoed(&response).as_deref(), Some(seen));

    let line = "{\"jsonrpc\":\"2.0\",\"id\":7,\r\"method\":\"tools/call\",\"params\":{\"name\":\r\"echo_raw\"}}\r";
    let response = bed.stdio_ready().request(line).expect("an answer");
    let seen = r#"{"name": "echo_raw"}"#;
    assert_eq!(weird::echoed(&response).as_deref(), Some(seen));
}

#[test]
fn the_gateways_own_meta_is_stripped_and_other_meta_kept() {
    let cases = [
        (
            r#"{"dev.callgate/approval_id":"ap_1","vendor.example/k":1.0,"dev.agentguard/x":[{}],"dev.callgatex/y":-0}"#,
            r#","_meta":{"vendor.example/k":1.0,"dev.callgatex/y":-0}"#,
        ),
        (
            r#"{"vendor.example/k":[ ] , "dev\u002ecallgate\/a":null}"#,
            r#","_meta":{"vendor.example/k":[ ]}"#,
        ),
        (r#"{"dev.callgate/a":1,"dev.agentguard/b":2}"#, ""),
        (r#"{}"#, r#","_meta":{}"#),
        (r#"null"#, r#","_meta":null"#),
    ];
    let bed = Bed::new(BARE);
    let served = bed.serve();
    let (mut over_stdio, mut over_http) = (bed.stdio_ready(), served.host_ready());
    let doors: [&mut dyn Host; 2] = [&mut over_stdio, &mut over_http];
    for host in doors {
        for (meta, kept) in cases {
            let line = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo_raw","_meta":{meta}}}}}"#
            );
            let frames = host.exchange(&line, &mut |_| None).expect("an answer");
            let seen = format!(r#"{{"name":"echo_raw"{kept}}}"#);
            let echoed = frames.last().and_then(|line| weird::echoed(line));
            assert_eq!(echoed, Some(seen), "{meta}");
        }
    }
}

#[test]
fn the_gateways_own_meta_is_stripped_from_every_host_message() {
    let bed = Bed::new(BARE);
    let mut host = bed.stdio_ready();
    let meta = r#""_meta":{"dev.callgate/a":1,"k":1.0}"#;
    let level = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{{"level":"debug",{meta}}}}}"#
    );
    let custom = format!(r#"{{"jsonrpc":"2.0","id":2,"method":"x/custom","params":{{{meta}}}}}"#);
    host.request(&call_line("0", "nothing", "{}"))
        .expect("it is up");
    host.request(&level).expect("an answer");
    host.request(&custom).expect("an answer");
    let ask = call_line("3", "ask_roots", "{}");
    let answer = |question: &Frame| {
        let id = question.id.as_deref()?;
        Some(format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"roots":[],{meta}}}}}"#
        ))
    };
    host.exchange(&ask, &mut { answer }).expect("an answer");
    let up = format!(r#"{{"jsonrpc":"2.0","method":"notifications/x","params":{{{meta}}}}}"#);
    host.send(&up).expect("it is read");
    let log = bed.path("upstream.log");
    assert!(wait_until(ARRIVAL, || {
        received(&log)
            .iter()
            .any(|frame| frame.raw.contains("notifications/x"))
    }));
    let seen = received(&log);
    let carrying: Vec<&Frame> = seen
        .iter()
        .filter(|frame| frame.raw.contains(r#""k":1.0"#))
        .collect();
    assert_eq!(carrying.len(), 4, "{carrying:#?}");
    for frame in carrying {
        assert!(frame.raw.contains(r#""_meta":{"k":1.0}"#), "{}", frame.raw);
    }
}

#[test]
fn a_burst_of_progress_loses_no_notification() {
    const STEPS: usize = 3000;
    let bed = Bed::new(
        "servers: {counter: {command: '@counter@'}}\nnaming: {prefix: never}\npolicy: allow-all\n",
    );
    let served = bed.serve();
    let (mut over_stdio, mut over_http) = (bed.stdio_ready(), served.host_ready());
    let doors: [&mut dyn Host; 2] = [&mut over_stdio, &mut over_http];
    for host in doors {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"progress","arguments":{{"n":{STEPS}}},"_meta":{{"progressToken":"t"}}}}}}"#
        );
        let frames = host.exchange(&line, &mut |_| None).expect("an answer");
        let steps: Vec<usize> = frames
            .iter()
            .filter_map(|line| Frame::parse(line)?.param("progress")?.parse().ok())
            .collect();
        assert_eq!(steps.len(), STEPS);
        assert!(steps.is_sorted(), "progress came out of order");
    }
}

#[test]
fn messages_sent_before_the_upstream_is_ready_reach_it() {
    let level =
        r#"{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}"#;
    let early = r#"{"jsonrpc":"2.0","method":"notifications/early","params":{"n":1.0}}"#;
    let bed = Bed::new(BARE);
    let mut host = bed.stdio_ready();
    host.send(early).expect("it is read");
    host.request(level).expect("an answer");
    let log = bed.path("upstream.log");
    let arrived = wait_until(ARRIVAL, || {
        let seen = received(&log);
        let has = |part: &str| seen.iter().any(|frame| frame.raw.contains(part));
        has("logging/setLevel") && has(early)
    });
    assert!(arrived, "{:#?}", received(&log));
}

fn assert_same(direct: &Run, through: &Run) {
    assert_eq!(weird::compare(&direct.exchanges, &through.exchanges), []);
    assert_received_as_sent(direct, through, "");
}

fn assert_only_names_differ(direct: &Run, through: &Run) {
    let steps: Vec<Exchange> = direct.exchanges.iter().filter(is_known).cloned().collect();
    assert!(steps.len() > 35, "the script is about everything");
    let mut renamed = 0;
    for difference in weird::compare(&steps, &through.exchanges) {
        assert!(
            matches!(difference.place, Place::ListItem(_)),
            "{difference}"
        );
        let raw = frame::member(&difference.direct, "name").expect("it has a name");
        let name: String = serde_json::from_str(raw).expect("which is text");
        let shown = difference
            .direct
            .replacen(raw, &format!("\"weird__{name}\""), 1);
        assert_eq!(difference.through, shown);
        renamed += 1;
    }
    let listed = 2 * replies::TOOLS.len() + 1;
    assert_eq!(renamed, listed, "two lists of tools and one of prompts");
    assert_received_as_sent(direct, through, "weird__");
}

/// Steps of methods that MCP knows, which find their upstream without being the only one's.
fn is_known(exchange: &&Exchange) -> bool {
    let method = Frame::parse(&exchange.sent).and_then(|frame| frame.method);
    let method = method.unwrap_or_default();
    !method.starts_with("x/") && !method.starts_with("vendor/")
}

/// Requests arrive as the host sent them but for what the gateway owns in them; answers to
/// questions and notifications arrive as they do without a gateway.
fn assert_received_as_sent(direct: &Run, through: &Run, prefix: &str) {
    let forwarded = |frame: &&Frame| {
        let method = frame.method.as_deref().unwrap_or_default();
        frame.kind() == Kind::Request && !ANSWERED_HERE.contains(&method)
    };
    let sent: Vec<Frame> = through
        .exchanges
        .iter()
        .filter_map(|exchange| Frame::parse(&exchange.sent))
        .collect();
    let sent: Vec<&Frame> = sent.iter().filter(forwarded).collect();
    let seen: Vec<&Frame> = through.received.iter().filter(forwarded).collect();
    assert_eq!(sent.len(), seen.len(), "each request is forwarded once");
    for (sent, seen) in sent.into_iter().zip(seen) {
        assert_eq!(seen.raw, with_owned_parts_of(seen, sent, prefix));
    }
    let rest = |run: &Run| -> Vec<String> {
        let rest = run.received.iter().filter(|frame| {
            frame.kind() != Kind::Request
                && frame.method.as_deref() != Some("notifications/initialized")
        });
        rest.map(|frame| frame.raw.clone()).collect()
    };
    assert_eq!(rest(direct), rest(through));
}

/// The host's line with the id, the progress token and the tool's name as the upstream saw them.
pub(crate) fn with_owned_parts_of(seen: &Frame, sent: &Frame, prefix: &str) -> String {
    let id = |frame: &Frame| format!(r#""id":{}"#, frame.id.as_deref().unwrap_or_default());
    let mut line = sent.raw.replacen(&id(sent), &id(seen), 1);
    if let (Some(sent), Some(seen)) = (sent.progress_token(), seen.progress_token()) {
        let token = |raw: &str| format!(r#""progressToken":{raw}"#);
        line = line.replacen(&token(sent), &token(seen), 1);
    }
    line.replace(&format!("\"{prefix}"), "\"")
}

fn call_line(id: &str, tool: &str, arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
    )
}

fn next_frame(stream: &mut EventStream) -> Frame {
    let event = stream.next_event().expect("the stream is whole");
    let event = event.expect("the stream goes on");
    Frame::parse(&event.data).expect("an event is a frame")
}

/// The next frame that is not the gateway's own.
fn next_announced(stream: &mut EventStream) -> Frame {
    loop {
        let frame = next_frame(stream);
        if !OWN_ANNOUNCEMENTS.contains(&frame.raw.as_str()) {
            return frame;
        }
    }
}
