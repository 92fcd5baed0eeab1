//! SIGTERM: calls in flight finish, new ones are refused, a second signal ends the gateway at once.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use callgate_testkit::{HttpReply, StdioHost, wait_until};
use rustix::process::Signal;

use crate::evidence::{
    COUNTER, alive, call_line, is_success, record_of, records, signal, wait_for_effect,
};
use crate::setup::{Bed, Served};

const SOON: Duration = Duration::from_secs(5);

/// Tells the gateway to stop, and waits until it has heard it.
fn terminate(served: &Served) {
    signal(served.process.pid(), Signal::TERM);
    let heard = served
        .process
        .wait_stderr(SOON, |line| line.starts_with("stopping:"));
    heard.expect("it says that it stops");
}

fn assert_refused(reply: HttpReply) {
    assert_eq!(reply.status, 503);
    assert_eq!(reply.header("retry-after"), Some("1"));
    assert_eq!(reply.header("connection"), Some("close"));
    let told = reply.frames().expect("it is JSON").concat();
    assert!(told.contains(r#""code":-32603"#), "{told}");
    assert!(told.contains("the gateway is stopping"), "{told}");
}

/// Asks for a path of the gateway without a token.
fn status_of(served: &Served, path: &str) -> u16 {
    let url = served.url.replace("/mcp", path);
    let host = callgate_testkit::HttpHost::new(&url).expect("it is plain HTTP");
    host.send("GET", &[], b"").expect("it answers").status
}

fn assert_gone(process: &mut StdioHost, within: Duration) {
    let status = process.wait(within).expect("it goes");
    assert_eq!(status.code(), Some(0), "{}", process.stderr().join("\n"));
}

#[test]
fn sigterm_finishes_calls_in_flight_and_refuses_new_ones() {
    let bed = Bed::new(COUNTER);
    let mut served = bed.serve();
    let host = served.host_ready();
    let ready = wait_until(SOON, || status_of(&served, "/readyz") == 200);
    assert!(ready, "it gets ready");
    let authority = served.url.trim_start_matches("http://");
    let authority = authority.trim_end_matches("/mcp").to_owned();
    let mut kept_open = TcpStream::connect(&authority).expect("it listens");
    let under_way = {
        let host = host.clone();
        let line = call_line(1, "slow", r#"{"key":"k","ms":1500}"#);
        thread::spawn(move || host.post(&line).and_then(HttpReply::frames))
    };
    wait_for_effect(&bed, "k");
    terminate(&served);

    assert_eq!(status_of(&served, "/readyz"), 503);
    assert_eq!(status_of(&served, "/healthz"), 200);
    let late = call_line(2, "effect", r#"{"key":"late"}"#);
    assert_refused(host.post(&late).expect("it answers"));
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    kept_open
        .write_all(request.as_bytes())
        .expect("it is still open");
    let mut told = String::new();
    kept_open.read_to_string(&mut told).expect("it ends");
    assert!(told.starts_with("HTTP/1.1 503 "), "{told}");

    let answer = under_way.join().expect("the post ends");
    let answer = answer.expect("it is answered").concat();
    assert!(is_success(&answer), "{answer}");
    assert_gone(&mut served.process, SOON);
    let records = records(&bed);
    assert_eq!(records.len(), 1, "what was refused never began");
    let record = record_of(&records, "k").expect("it is on record");
    assert_eq!(record["status"], "success");
    assert!(!bed.path("data/serve.json").exists());
}

#[test]
fn an_idle_gateway_stops_at_once_despite_open_connections() {
    let bed = Bed::new(COUNTER);
    let mut served = bed.serve();
    let host = served.host_ready();
    let mut stream = host.listen().expect("a standing stream");
    let authority = served.url.trim_start_matches("http://");
    let authority = authority.trim_end_matches("/mcp").to_owned();
    let mut half = TcpStream::connect(&authority).expect("it listens");
    half.write_all(b"POST /mcp HTTP/1.1\r\nHost: x")
        .expect("it reads");
    terminate(&served);
    assert!(stream.next_event().is_ok_and(|event| event.is_none()));
    assert_gone(&mut served.process, SOON);
}

#[test]
fn a_second_signal_ends_a_served_gateway_at_once() {
    for second in [Signal::TERM, Signal::INT] {
        let bed = Bed::new(COUNTER);
        let mut served = bed.serve();
        let host = served.host_ready();
        let under_way = thread::spawn(move || {
            let line = call_line(1, "slow", r#"{"key":"k","ms":600000}"#);
            host.post(&line).is_ok()
        });
        wait_for_effect(&bed, "k");
        terminate(&served);
        let told = Instant::now();
        signal(served.process.pid(), second);
        assert_gone(&mut served.process, Duration::from_secs(2));
        let took = told.elapsed();
        assert!(
            !under_way.join().expect("the post ends"),
            "the call got no answer"
        );
        let all_gone = wait_until(SOON, || alive(&bed).is_empty());
        assert!(all_gone, "something survived the gateway");
        let records = records(&bed);
        let record = record_of(&records, "k").expect("it is on record");
        assert_eq!(record["status"], "unknown");
        println!("gone {took:?} after the second signal");
    }
}

#[test]
fn a_second_signal_ends_a_stdio_gateway_at_once() {
    let bed = Bed::new(COUNTER);
    let mut host = bed.stdio_ready();
    host.send(&call_line(1, "slow", r#"{"key":"k","ms":600000}"#))
        .expect("it reads");
    wait_for_effect(&bed, "k");
    signal(host.pid(), Signal::TERM);
    signal(host.pid(), Signal::INT);
    assert_gone(&mut host, SOON);
    assert!(wait_until(SOON, || alive(&bed).is_empty()));
}
