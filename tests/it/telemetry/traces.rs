//! Spans: what a collector receives, what servers and hosts see, and behaviour without an exporter.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use callgate_testkit::StdioHost;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use serde_json::Value;

use super::collector::{Collector, attribute, hex};
use crate::evidence::{COUNTER, records};
use crate::setup::{Bed, PREFIXED};
use crate::talk::{DEADLINE, call, call_text, parsed, request, text_of};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

fn traceparent() -> String {
    format!("00-{TRACE}-{PARENT}-01")
}

fn exporting(config: &str, url: &str) -> Bed {
    Bed::new(&format!("{config}telemetry: {{otlp: '{url}'}}\n"))
}

/// The `_meta` that reached the server, as `echo_raw` tells it.
fn echoed_meta(response: &Value) -> Option<Value> {
    let params = parsed(&text_of(response));
    params.get("_meta").cloned()
}

fn echo_line(meta: &str) -> String {
    let meta = match meta {
        "" => String::new(),
        raw => format!(r#","_meta":{raw}"#),
    };
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"weird__echo_raw","arguments":{{}}{meta}}}}}"#
    )
}

fn children<'a>(spans: &'a [Span], parent: &Span) -> BTreeSet<&'a str> {
    let of = spans
        .iter()
        .filter(|span| span.parent_span_id == parent.span_id);
    of.map(|span| span.name.as_str()).collect()
}

#[test]
fn a_call_is_one_span_with_its_steps_as_children() {
    let collector = Collector::start();
    let bed = exporting(COUNTER, &collector.url);
    let mut host = bed.stdio_ready();
    call(&mut host, "n__read_thing", "{}");
    call(&mut host, "n__fail", "{}");
    let spans = collector.spans_of_calls(2);
    let named = |name: &str| {
        spans
            .iter()
            .find(|span| span.name == name)
            .expect("it is there")
    };

    let read = named("tool.call.n__read_thing");
    let steps = [
        "resolve", "facts", "decide", "record", "forward", "inspect", "finish",
    ];
    assert_eq!(children(&spans, read), BTreeSet::from(steps));
    assert_eq!(attribute(read, "tool.name").as_deref(), Some("read_thing"));
    assert_eq!(attribute(read, "tool.source").as_deref(), Some("server:n"));
    assert!(attribute(read, "tool.duration_ms").is_some());
    assert_eq!(attribute(read, "error"), None);
    assert!(read.parent_span_id.is_empty(), "no trace context was sent");
    let record_id = attribute(read, "callgate.record_id");
    let record = &records(&bed)[0];
    assert_eq!(record_id.as_deref(), record["id"].as_str());
    let request_id = attribute(read, "callgate.request_id");
    assert_eq!(request_id.as_deref(), record["request_id"].as_str());

    let failed = named("tool.call.n__fail");
    assert!(attribute(failed, "error").is_some());
    let status = failed.status.as_ref().expect("it has a status");
    assert_eq!(status.code, StatusCode::Error as i32);
}

#[test]
fn a_held_call_is_a_failed_span_with_its_hold_step() {
    let collector = Collector::start();
    let bed = exporting(&COUNTER.replace("allow-all", "default"), &collector.url);
    let mut host = bed.stdio_ready();
    call(&mut host, "n__wipe", "{}");
    let spans = collector.spans_of_calls(1);
    let held = spans
        .iter()
        .find(|span| span.name == "tool.call.n__wipe")
        .expect("it is there");
    let steps = ["resolve", "facts", "decide", "hold"];
    assert_eq!(children(&spans, held), BTreeSet::from(steps));
    assert_eq!(
        attribute(held, "error").as_deref(),
        Some("require_approval:mcp_tool:*:*")
    );
}

#[test]
fn a_hosts_trace_continues_through_the_gateway_to_the_server() {
    let collector = Collector::start();
    let bed = exporting(PREFIXED, &collector.url);
    let served = bed.serve();
    let mut host = served.host_ready();
    let in_meta = format!(
        r#"{{"traceparent":"{}","tracestate":"a=1"}}"#,
        traceparent()
    );
    let beside = traceparent().replace(PARENT, "00f067aa0ba902b7");
    let mut with_header = host.clone().header("traceparent", &beside);
    let cases = [
        (request(&mut host, &echo_line(&in_meta)), Some(PARENT)),
        (
            request(&mut with_header, &echo_line("")),
            Some("00f067aa0ba902b7"),
        ),
        // What the request itself says is nearer than what came beside it.
        (
            request(&mut with_header, &echo_line(&in_meta)),
            Some(PARENT),
        ),
        (request(&mut host, &echo_line("")), None),
    ];
    let mut forwards = Vec::new();
    for (response, parent) in &cases {
        let meta = echoed_meta(response).expect("an exporter is on");
        let written = meta["traceparent"]
            .as_str()
            .expect("a traceparent")
            .to_owned();
        assert_eq!(written.contains(TRACE), parent.is_some(), "{written}");
        assert!(
            !written.contains(PARENT) && !written.contains("00f067aa0ba902b7"),
            "{written}"
        );
        forwards.push((
            written.split('-').nth(2).expect("a span id").to_owned(),
            *parent,
        ));
    }
    assert_eq!(
        echoed_meta(&cases[0].0).expect("it has one")["tracestate"],
        "a=1"
    );
    let spans = collector.spans_of_calls(cases.len());
    for (forward, parent) in forwards {
        let step = spans
            .iter()
            .find(|span| hex(&span.span_id) == forward)
            .expect("it was sent");
        assert_eq!(step.name, "forward");
        let call = spans
            .iter()
            .find(|span| span.span_id == step.parent_span_id);
        let call = call.expect("a step has its call");
        assert_eq!(hex(&call.parent_span_id), parent.unwrap_or_default());
    }
}

#[test]
fn without_an_exporter_only_the_hosts_own_trace_is_forwarded() {
    let bed = Bed::new(PREFIXED);
    let served = bed.serve();
    let mut host = served.host_ready();
    assert_eq!(echoed_meta(&request(&mut host, &echo_line(""))), None);
    let own = r#"{"traceparent" : "not one","x":1.0}"#;
    let line = echo_line(own);
    assert!(
        text_of(&request(&mut host, &line)).contains(own),
        "as it came"
    );
    let mut with_headers = host
        .header("traceparent", &traceparent())
        .header("tracestate", "a=1");
    let meta = echoed_meta(&request(&mut with_headers, &echo_line("")));
    let expected = format!(
        r#"{{"traceparent":"{}","tracestate":"a=1"}}"#,
        traceparent()
    );
    assert_eq!(meta, Some(parsed(&expected)));
    assert!(
        text_of(&request(&mut with_headers, &line)).contains(own),
        "the request's own stays"
    );
    let mut malformed = served.host_ready().header("traceparent", "00-zz-1-1");
    assert_eq!(echoed_meta(&request(&mut malformed, &echo_line(""))), None);
}

#[test]
fn without_an_exporter_no_connection_is_opened() {
    let bed = Bed::new(COUNTER);
    let mut host = bed.stdio_ready();
    call(&mut host, "n__read_thing", "{}");
    assert_eq!((network_sockets(&host), exporter_threads(&host)), (0, 0));

    // The same look at a gateway with an exporter finds something.
    let collector = Collector::start();
    let bed = exporting(COUNTER, &collector.url);
    let mut host = bed.stdio_ready();
    call(&mut host, "n__read_thing", "{}");
    collector.spans_of_calls(1);
    assert_eq!((network_sockets(&host), exporter_threads(&host)), (1, 1));
}

#[test]
fn an_unreachable_collector_does_not_disturb_calls() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = taken.local_addr().expect("it is bound");
    drop(taken);
    let bed = exporting(COUNTER, &format!("http://{address}"));
    let mut host = bed.stdio_ready();
    for _ in 0..20 {
        assert_eq!(
            call_text(&mut host, "n__read_thing", r#"{"key":"k"}"#),
            "read k"
        );
    }
    let began = Instant::now();
    let status = host.close(DEADLINE).expect("it ends");
    assert!(status.success() && began.elapsed() < Duration::from_secs(10));
    let told = host
        .stderr()
        .into_iter()
        .filter(|line| line.contains("otlp.failed"));
    assert_eq!(told.count(), 1, "a row of failures is told once");
}

#[test]
fn an_invalid_otlp_address_is_a_configuration_error() {
    let bed = exporting(COUNTER, "localhost:4317");
    let output = crate::evidence::run(&bed, &["tools", "list"]);
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("`telemetry.otlp`: `localhost:4317` is neither http nor https"),
        "{stderr}"
    );
}

/// How many TCP and UDP sockets a gateway has open.
fn network_sockets(host: &StdioHost) -> usize {
    let pid = host.pid();
    let tables = ["tcp", "tcp6", "udp", "udp6"]
        .map(|table| fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default());
    let known: BTreeSet<&str> = tables
        .iter()
        .flat_map(|table| table.lines().skip(1))
        .filter_map(|line| line.split_whitespace().nth(9))
        .collect();
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).expect("the gateway runs");
    let inode = |link: &str| {
        let inode = link.strip_prefix("socket:[")?.strip_suffix(']')?;
        known.contains(inode).then_some(())
    };
    fds.filter_map(|fd| fs::read_link(fd.ok()?.path()).ok())
        .filter_map(|link| inode(&link.to_string_lossy()))
        .count()
}

/// How many threads of a gateway export spans.
fn exporter_threads(host: &StdioHost) -> usize {
    let tasks = fs::read_dir(format!("/proc/{}/task", host.pid())).expect("the gateway runs");
    let name =
        |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    tasks
        .filter_map(Result::ok)
        .map(name)
        .filter(|name| name.starts_with("OpenTelemetry"))
        .count()
}
