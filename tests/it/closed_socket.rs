//! A host that closes its socket, at whatever moment, leaves no call without an end on record.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use callgate_testkit::{initialize_line, wait_until};
use serde_json::Value;

use crate::evidence::{COUNTER, assert_done, call_line, ledger, records, wait_for_effect};
use crate::setup::{Bed, Served, VERSION};

/// How soon a call has its end on record after its host has gone.
const SOON: Duration = Duration::from_secs(2);

/// A host that writes its own bytes.
struct Raw {
    authority: String,
    head: String,
}

impl Raw {
    /// Opens a session.
    fn new(served: &Served) -> Self {
        let reply = served.host().post(&initialize_line(VERSION));
        let reply = reply.expect("the gateway answers");
        let session = reply
            .header("mcp-session-id")
            .expect("a session")
            .to_owned();
        let (token, url) = (&served.token, served.url.trim_start_matches("http://"));
        let authority = url.split('/').next().unwrap_or_default().to_owned();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {authority}\r\nAuthorization: Bearer {token}\r\n\
             Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: {VERSION}\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
        );
        Self { authority, head }
    }

    fn request(&self, line: &str) -> Vec<u8> {
        format!("{}Content-Length: {}\r\n\r\n{line}", self.head, line.len()).into_bytes()
    }

    fn send(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(&self.authority).expect("it listens");
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .expect("a socket has one");
        stream.write_all(bytes).expect("it reads");
        stream
    }

    /// Sends a whole request and reads its answer up to a line that contains `wanted`.
    fn send_and_read_to(&self, line: &str, wanted: &str) -> TcpStream {
        let stream = self.send(&self.request(line));
        let mut reader = BufReader::new(stream.try_clone().expect("a socket can be cloned"));
        let mut seen = String::new();
        while !seen.contains(wanted) {
            let read = reader.read_line(&mut seen).expect("it streams");
            assert!(read > 0, "the answer ended before `{wanted}`: {seen}");
        }
        stream
    }

    /// A plain call, which shows that the gateway still serves this session.
    fn assert_usable(&self) {
        let line = call_line(900, "read_thing", r#"{"key":"usable"}"#);
        let request = String::from_utf8(self.request(&line)).expect("it is text");
        let request = request.replacen("\r\n", "\r\nConnection: close\r\n", 1);
        let mut answer = String::new();
        self.send(request.as_bytes())
            .read_to_string(&mut answer)
            .expect("it answers");
        let body = answer
            .split("\r\n\r\n")
            .nth(1)
            .unwrap_or_default()
            .to_owned();
        assert_done(Ok(body));
    }
}

/// The record of the only call of a tool, once it has an end.
fn ended(bed: &Bed, tool: &str) -> Value {
    let mut found = Vec::new();
    let ended = wait_until(SOON, || {
        found = of_tool(bed, tool);
        found.len() == 1 && !found[0]["status"].is_null()
    });
    assert!(ended, "no end on record: {found:?}");
    found.remove(0)
}

fn of_tool(bed: &Bed, tool: &str) -> Vec<Value> {
    let all = records(bed).into_iter();
    all.filter(|record| record["tool"] == tool).collect()
}

/// Waits until the upstream received a line with all of these texts.
fn wait_for_frame(bed: &Bed, texts: &[&str]) {
    let received = || {
        let log = bed.read("upstream.log");
        let mut lines = log.lines().filter(|line| line.starts_with("< "));
        lines.any(|line| texts.iter().all(|text| line.contains(text)))
    };
    let log = || bed.read("upstream.log");
    assert!(wait_until(SOON, received), "no {texts:?} in {}", log());
}

fn bed() -> Bed {
    Bed::new(&COUNTER.replace("'@dir@']", "'@dir@', --log, '@dir@/upstream.log']"))
}

#[test]
fn closing_before_the_request_is_complete_starts_nothing() {
    let bed = bed();
    let served = bed.serve();
    let raw = Raw::new(&served);
    let line = call_line(1, "effect", r#"{"key":"never"}"#);
    let request = raw.request(&line);
    let body_at = request.len() - line.len();
    for cut in [
        1,
        body_at / 2,
        body_at - 1,
        body_at,
        body_at + 1,
        request.len() - 1,
    ] {
        drop(raw.send(&request[..cut]));
        let halved = raw.send(&request[..cut]);
        halved.shutdown(Shutdown::Write).expect("it is open");
    }
    raw.assert_usable();
    assert_eq!(of_tool(&bed, "effect"), Vec::<Value>::new());
    assert_eq!(ledger(&bed), [""; 0]);
}

#[test]
fn closing_after_the_request_leaves_no_open_records() {
    let bed = bed();
    let served = bed.serve();
    let raw = Raw::new(&served);
    for id in 0..20 {
        let line = call_line(id, "slow", &format!(r#"{{"key":"k{id}","ms":20}}"#));
        drop(raw.send(&raw.request(&line)));
    }
    raw.assert_usable();
    let mut found = Vec::new();
    let all_ended = wait_until(SOON, || {
        found = of_tool(&bed, "slow");
        found.iter().all(|record| !record["status"].is_null())
    });
    assert!(all_ended, "{found:?}");
    let started = ledger(&bed)
        .iter()
        .filter(|line| !line.contains(':'))
        .count();
    assert!(
        found.len() >= started,
        "{started} started, {} on record",
        found.len()
    );
    println!(
        "{} of 20 calls came to the record, {started} to the upstream",
        found.len()
    );
}

#[test]
fn closing_during_a_slow_call_cancels_it_upstream() {
    let bed = bed();
    let served = bed.serve();
    let raw = Raw::new(&served);
    let line = call_line(1, "slow", r#"{"key":"k","ms":600000}"#);
    let stream = raw.send(&raw.request(&line));
    wait_for_effect(&bed, "k");
    drop(stream);
    let record = ended(&bed, "slow");
    assert_eq!(record["status"], "unknown");
    assert_eq!(record["error"]["effect"], "unknown");
    wait_for_effect(&bed, "cancelled:k");
    wait_for_frame(&bed, &["notifications/cancelled"]);
    raw.assert_usable();
}

#[test]
fn closing_during_a_progress_stream_ends_the_call() {
    let bed = bed();
    let served = bed.serve();
    let raw = Raw::new(&served);
    let line = call_line(
        1,
        "progress",
        r#"{"n":20000},"_meta":{"progressToken":"t"}"#,
    );
    let stream = raw.send_and_read_to(&line, "notifications/progress");
    drop(stream);
    let status = ended(&bed, "progress")["status"].clone();
    assert!(status == "success" || status == "unknown", "{status}");
    raw.assert_usable();
}

#[test]
fn closing_during_a_question_answers_it_with_an_error() {
    let bed = bed();
    let served = bed.serve();
    let raw = Raw::new(&served);
    let stream = raw.send_and_read_to(&call_line(1, "ask", "{}"), "elicitation/create");
    drop(stream);
    wait_for_frame(&bed, &[r#""error""#, "the host disconnected"]);
    // The server may answer the call once it has heard that, before it hears of the cancellation.
    match ended(&bed, "ask")["status"].as_str() {
        Some("unknown") => wait_for_frame(&bed, &["notifications/cancelled"]),
        status => assert_eq!(status, Some("success")),
    }
    raw.assert_usable();
}

#[test]
fn ending_a_session_cancels_its_calls() {
    let bed = bed();
    let served = bed.serve();
    let host = served.host_ready();
    let line = call_line(1, "slow", r#"{"key":"k","ms":600000}"#);
    std::thread::scope(|scope| {
        let posted = scope.spawn(|| host.post(&line).map(|reply| reply.status));
        wait_for_effect(&bed, "k");
        let reply = host.send("DELETE", &[], b"").expect("it answers");
        assert!((200..300).contains(&reply.status), "{}", reply.status);
        posted
            .join()
            .expect("the post ends")
            .expect("it is answered");
    });
    assert_eq!(ended(&bed, "slow")["status"], "unknown");
    wait_for_effect(&bed, "cancelled:k");
}
