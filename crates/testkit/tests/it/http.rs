use std::time::Duration;

use callgate_testkit::weird::{self, Exchange, replies};
use callgate_testkit::{
    DataDir, Event, Frame, Host, HttpHost, HttpUpstream, INITIALIZED, StdioHost, bin, http_events,
    initialize_line, wait_until,
};

const SOON: Duration = Duration::from_secs(10);
const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

fn start(args: &[&str]) -> HttpUpstream {
    HttpUpstream::start("counter-upstream", args).expect("it listens")
}

fn connect(upstream: &HttpUpstream) -> HttpHost {
    let mut host = HttpHost::new(upstream.url()).expect("a plain URL");
    host.initialize("2025-11-25").expect("it shakes hands");
    host
}

fn call_line(tool: &str, arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments},"_meta":{{"progressToken":"t"}}}}}}"#
    )
}

fn status(host: &HttpHost, line: &str) -> u16 {
    host.post(line).expect("it answers").status
}

#[test]
fn the_script_gives_the_same_answers_over_http_and_stdio() {
    let mut command = std::process::Command::new(bin("weird-upstream"));
    let mut stdio = StdioHost::connect(&mut command, "2025-11-25").expect("it shakes hands");
    let expected = weird::run(&mut stdio, "").expect("every step is answered");
    let on_one_line = |mut exchange: Exchange| {
        for line in &mut exchange.received {
            *line = line.replace('\n', " ");
        }
        exchange
    };
    for form in ["json", "sse"] {
        let upstream = HttpUpstream::start("weird-upstream", &["--reply", form]);
        let upstream = upstream.expect("it listens");
        let mut host = connect(&upstream);
        let seen = weird::run(&mut host, "").expect("every step is answered");
        let seen: Vec<Exchange> = seen.into_iter().map(on_one_line).collect();
        assert_eq!(weird::compare(&expected, &seen), [], "{form}");
    }
}

#[test]
fn http_answers_keep_line_breaks_between_tokens() {
    let lines = replies::CALLS.iter().find(|(name, _)| *name == "odd_lines");
    let expected = lines.expect("it is there").1.replace(replies::ID, "1");
    for form in ["json", "sse"] {
        let upstream = HttpUpstream::start("weird-upstream", &["--reply", form]);
        let upstream = upstream.expect("it listens");
        let mut host = connect(&upstream);
        let frames = host.exchange(&call_line("odd_lines", "{}"), &mut |_| None);
        assert_eq!(
            frames.expect("it answers"),
            std::slice::from_ref(&expected),
            "{form}"
        );
    }
}

#[test]
fn a_response_is_json_unless_notifications_come_first() {
    let upstream = start(&[]);
    let host = connect(&upstream);
    let plain = host
        .post(&call_line("read_thing", "{}"))
        .expect("an answer");
    assert!(!plain.is_events());
    let more = host
        .post(&call_line("progress", r#"{"n":2}"#))
        .expect("an answer");
    assert!(more.is_events());
    assert_eq!(more.frames().expect("whole").len(), 3);
}

#[test]
fn questions_use_the_calls_stream_and_announcements_the_get_stream() {
    let upstream = start(&["--reply", "sse"]);
    let mut host = connect(&upstream);
    let mut standing = host.listen().expect("a stream");
    let mut answer = |question: &Frame| {
        let id = question.id.as_deref()?;
        Some(format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"n":1.0}}}}"#
        ))
    };
    let asked = host.exchange(&call_line("ask", "{}"), &mut answer);
    let asked = asked.expect("it answers");
    assert_eq!(asked.len(), 2);
    assert!(asked[1].contains("1.0"), "{asked:?}");
    let changed = host.exchange(&call_line("list_change", "{}"), &mut |_| None);
    assert_eq!(changed.expect("it answers").len(), 1);
    let event: Event = standing.next_event().expect("whole").expect("an event");
    assert!(event.data.contains("list_changed"), "{event:?}");
}

#[test]
fn sessions_are_required_expire_and_can_be_deleted() {
    let data = DataDir::new();
    let log = data.path().join("log");
    let upstream = start(&["--expire-after", "2", "--log", &log.display().to_string()]);
    let bare = HttpHost::new(upstream.url()).expect("a plain URL");
    assert_eq!(status(&bare, PING), 400);
    assert_eq!(
        status(&bare.clone().header("Mcp-Session-Id", "x"), PING),
        404
    );
    let host = connect(&upstream);
    let statuses = [(); 3].map(|()| status(&host, PING));
    assert_eq!(statuses, [200, 200, 404], "two are allowed");
    let host = connect(&upstream);
    let ended = host.send("DELETE", &[], b"").expect("it answers");
    assert_eq!(ended.status, 204);
    assert_eq!(status(&host, PING), 404);
    assert!(http_events(&log).contains(&"DELETE /mcp".to_owned()));
}

#[test]
fn the_http_upstream_refuses_as_configured() {
    let upstream = start(&["--header", "X-Key=k", "--no-get"]);
    let bare = HttpHost::new(upstream.url()).expect("a plain URL");
    assert_eq!(status(&bare, &initialize_line("2025-11-25")), 401);
    let keyed = bare.header("X-Key", "k");
    assert_eq!(status(&keyed, &initialize_line("2025-11-25")), 200);
    assert_eq!(keyed.send("GET", &[], b"").expect("it answers").status, 405);

    let elsewhere = start(&["--status", "307", "--location", "http://127.0.0.1:1/"]);
    let host = HttpHost::new(elsewhere.url()).expect("a plain URL");
    let reply = host.post(PING).expect("it answers");
    assert_eq!(
        (reply.status, reply.header("location")),
        (307, Some("http://127.0.0.1:1/"))
    );

    let failing = start(&["--call-status", "503"]);
    let host = connect(&failing);
    assert_eq!(status(&host, PING), 200);
    assert_eq!(status(&host, &call_line("read_thing", "{}")), 503);
}

#[test]
fn answers_are_dropped_stalled_or_resumed_as_configured() {
    let data = DataDir::new();
    let log = data.path().join("log");
    let dropping = start(&["--drop-mid-stream"]);
    let mut host = connect(&dropping);
    assert!(
        host.exchange(&call_line("read_thing", "{}"), &mut |_| None)
            .is_err()
    );

    let stalling = start(&["--stall", "--log", &log.display().to_string()]);
    let stalled = connect(&stalling)
        .post(&call_line("read_thing", "{}"))
        .expect("a head");
    assert_eq!(stalled.status, 200);
    drop(stalled);
    assert!(wait_until(SOON, || http_events(&log).contains(&"dropped".to_owned())));

    let resumable = start(&["--resumable"]);
    let host = connect(&resumable);
    let mut first = host
        .post(&call_line("read_thing", r#"{"key":"k"}"#))
        .expect("a head")
        .events();
    let primed = first.next_event().expect("whole").expect("an event");
    assert_eq!(first.next_event().expect("whole"), None);
    let id = primed.id.expect("it can be taken up");
    let headers = [
        ("Accept", "text/event-stream"),
        ("Last-Event-ID", id.as_str()),
    ];
    let mut rest = host
        .send("GET", &headers, b"")
        .expect("it answers")
        .events();
    let answer = rest.next_event().expect("whole").expect("an event").data;
    assert!(answer.contains("read k"), "{answer}");
}

#[test]
fn the_legacy_sse_transport_names_its_endpoint_and_answers_on_its_stream() {
    let upstream = start(&["--legacy-sse"]);
    let old = HttpHost::new(upstream.url()).expect("a plain URL");
    assert_eq!(status(&old, &initialize_line("2024-11-05")), 405);
    let mut stream = old.listen().expect("a stream");
    let mut next = || stream.next_event().expect("whole").expect("an event");
    let address = next();
    assert_eq!(address.name.as_deref(), Some("endpoint"));
    let origin = upstream.url().trim_end_matches("/sse");
    let messages = HttpHost::new(&format!("{origin}{}", address.data)).expect("a plain URL");
    assert_eq!(status(&messages, &initialize_line("2024-11-05")), 202);
    assert!(next().data.contains(r#""protocolVersion":"2024-11-05""#));
    assert_eq!(status(&messages, INITIALIZED), 202);
    assert_eq!(status(&messages, &call_line("progress", r#"{"n":1}"#)), 202);
    assert!(next().data.contains("notifications/progress"));
    assert!(next().data.contains("progressed 1"));
}

#[test]
fn a_restarted_http_upstream_keeps_its_port() {
    let mut upstream = start(&[]);
    let url = upstream.url().to_owned();
    upstream.stop();
    let gone = HttpHost::new(&url).expect("a plain URL");
    assert!(gone.post(PING).is_err());
    upstream.start_again().expect("it listens");
    assert_eq!(upstream.url(), url);
    assert_eq!(status(&gone, PING), 400);
}
