//! A collector of spans on a real socket.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

/// Takes OTLP over HTTP, as protobuf.
#[derive(Debug)]
pub(crate) struct Collector {
    /// What goes into `telemetry.otlp`.
    pub(crate) url: String,
    requests: Receiver<(String, ExportTraceServiceRequest)>,
}

impl Collector {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let (sender, requests) = mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, sender) = (stream.expect("a client comes"), sender.clone());
                thread::spawn(move || {
                    let mut reader = BufReader::new(stream);
                    while let Some((path, body)) = request(&mut reader) {
                        let decoded = ExportTraceServiceRequest::decode(body.as_slice());
                        if sender.send((path, decoded.expect("it is OTLP"))).is_err() {
                            return;
                        }
                        answer(reader.get_mut());
                    }
                });
            }
        });
        Self { url, requests }
    }

    /// The spans that came until there were those of so many calls.
    pub(crate) fn spans_of_calls(&self, calls: usize) -> Vec<Span> {
        let is_call = |span: &&Span| span.name.starts_with("tool.call");
        self.spans_until(|spans| spans.iter().filter(is_call).count() >= calls)
    }

    /// The spans that came until there were enough.
    pub(crate) fn spans_until(&self, enough: impl Fn(&[Span]) -> bool) -> Vec<Span> {
        let end = Instant::now() + Duration::from_secs(20);
        let mut spans: Vec<Span> = Vec::new();
        while !enough(&spans) {
            let left = end.saturating_duration_since(Instant::now());
            let (path, request) = self.requests.recv_timeout(left).expect("spans come");
            assert_eq!(path, "/v1/traces");
            for resource in request.resource_spans {
                let attributes = resource.resource.expect("a resource").attributes;
                let service = attributes.iter().find(|known| known.key == "service.name");
                assert!(format!("{service:?}").contains("callgate"), "{service:?}");
                spans.extend(
                    resource
                        .scope_spans
                        .into_iter()
                        .flat_map(|scope| scope.spans),
                );
            }
        }
        spans
    }
}

/// An attribute as text.
pub(crate) fn attribute(span: &Span, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|known| known.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        Value::DoubleValue(number) => Some(number.to_string()),
        other => panic!("an odd value of {key}: {other:?}"),
    }
}

/// Bytes as they are written in a `traceparent`.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn request(reader: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut first = String::new();
    if reader.read_line(&mut first).ok()? == 0 {
        return None;
    }
    let path = first.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, body))
}

fn answer(stream: &mut TcpStream) {
    // A gateway that has gone does not read it.
    let _ = stream.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n",
    );
}
