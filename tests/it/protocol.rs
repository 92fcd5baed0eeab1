//! The protocol at the doors: every bad input gets its exact answer, and the next call works.

mod frames;
mod handshake;
mod http_rules;
mod methods;
mod mutations;

use callgate_testkit::frame::Frame;
use callgate_testkit::weird;
use callgate_testkit::{Host, HttpHost, StdioHost};

use crate::setup::{Bed, Served};

/// One upstream whose every request passes, and limits that a test can reach.
const SMALL: &str = "\
servers: {weird: {command: '@weird@', args: [--log, '@dir@/upstream.log']}}
naming: {prefix: never}
policy: allow-all
limits: {frame_mib: 1, http_mib: 1}
";

/// Two upstreams, so that only a name says whose a request is.
const SEVERAL: &str = "\
servers:
  weird: {command: '@weird@', args: [--log, '@dir@/upstream.log']}
  counter: {command: '@counter@'}
policy: allow-all
";

const MIB: usize = 1024 * 1024;

/// A door, as far as frames are concerned.
enum Door {
    Stdio(Box<StdioHost>),
    Http(HttpHost),
}

impl Door {
    /// Both doors of one configuration, their handshakes done, and what keeps the second open.
    fn both(bed: &Bed, version: &str) -> ([Door; 2], Served) {
        let mut stdio = bed.stdio();
        stdio.initialize(version).expect("the gateway shakes hands");
        let served = bed.serve();
        let mut http = served.host();
        http.initialize(version).expect("the gateway shakes hands");
        ([Door::Stdio(Box::new(stdio)), Door::Http(http)], served)
    }

    /// Sends bytes that are not a request and returns the answer.
    fn refusal(&mut self, bytes: &[u8]) -> String {
        match self {
            Door::Stdio(host) => {
                host.send_bytes(bytes).expect("the gateway reads");
                host.recv_where(|frame| frame.error.is_some())
                    .expect("the gateway answers")
            }
            Door::Http(host) => {
                let (status, text) = post_bytes(host, bytes);
                assert_eq!(status, 400, "{text}");
                text
            }
        }
    }

    /// Sends a request and returns its response.
    fn ask(&mut self, line: &str) -> String {
        let frames = match self {
            Door::Stdio(host) => host.exchange(line, &mut weird::answer),
            Door::Http(host) => host.exchange(line, &mut weird::answer),
        };
        let mut frames = frames.expect("the gateway answers");
        frames.pop().expect("an exchange ends with its response")
    }

    fn tell(&mut self, line: &str) {
        match self {
            Door::Stdio(host) => host.notify(line),
            Door::Http(host) => host.notify(line),
        }
        .expect("the gateway reads");
    }

    /// Makes a call and sees to it that it reaches the upstream and comes back.
    fn assert_works(&mut self, after: &str) {
        let params = r#"{"name":"echo_raw","arguments":{"n":1.0}}"#;
        let response = self.ask(&request("\"works\"", "tools/call", params));
        let echoed = weird::echoed(&response);
        assert_eq!(
            echoed.as_deref(),
            Some(params),
            "the next call, after {after}: {response}"
        );
    }

    fn name(&self) -> &'static str {
        match self {
            Door::Stdio(_) => "stdio",
            Door::Http(_) => "http",
        }
    }
}

fn request(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

fn post_bytes(host: &HttpHost, bytes: &[u8]) -> (u16, String) {
    let headers = [
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
    ];
    let reply = host.send("POST", &headers, bytes).expect("an HTTP answer");
    (reply.status, reply.text().expect("a whole body"))
}

/// The raw result of a response.
fn result(response: &str) -> String {
    let frame = Frame::parse(response).expect("a response is a frame");
    frame
        .result
        .unwrap_or_else(|| panic!("no result: {response}"))
}

/// The raw error of a response.
fn error(response: &str) -> String {
    let frame = Frame::parse(response).expect("a response is a frame");
    frame
        .error
        .unwrap_or_else(|| panic!("no error: {response}"))
}
