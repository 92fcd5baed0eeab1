//! A law: whatever a host sends, the gateway survives, sends only frames, and the next call works.

use std::cell::RefCell;

use callgate_testkit::Frame;
use callgate_testkit::frame::items;
use callgate_testkit::weird;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{Door, SMALL, post_bytes, request};
use crate::setup::{Bed, VERSION};

/// How many mutated frames go through each door.
const CASES: u32 = 500;

/// One change of a frame's bytes; places are fractions of its length.
#[derive(Debug, Clone)]
enum Mutation {
    Flip(usize, u8),
    Drop(usize, usize),
    Repeat(usize, usize),
    Insert(usize, Vec<u8>),
    Cut(usize),
}

/// Texts that mean something to a reader of JSON or of lines.
const LOADED: &[&[u8]] = &[
    b"\n",
    b"\r\n",
    b"\0",
    b"\"",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"null",
    b"-",
    b"1e999",
    b"\\u",
    b"\\ud800",
    b"\xff",
    b"\xc3",
    b"\"id\":null,",
    b"\"params\":",
    b"data: ",
    b"\xef\xbb\xbf",
];

impl Mutation {
    fn apply(&self, frame: &mut Vec<u8>) {
        let place = |at: usize| at % (frame.len() + 1);
        match self {
            Mutation::Flip(at, bits) => {
                let at = place(*at);
                if let Some(byte) = frame.get_mut(at) {
                    *byte ^= bits;
                }
            }
            Mutation::Drop(at, length) => {
                let start = place(*at);
                let end = frame.len().min(start + length);
                frame.drain(start..end);
            }
            Mutation::Repeat(at, length) => {
                let start = place(*at);
                let end = frame.len().min(start + length);
                let again = frame[start..end].to_vec();
                frame.splice(end..end, again);
            }
            Mutation::Insert(at, text) => {
                let at = place(*at);
                frame.splice(at..at, text.iter().copied());
            }
            Mutation::Cut(at) => frame.truncate(place(*at)),
        }
    }
}

#[test]
fn mutated_lines_do_not_break_the_stdio_door() {
    let bed = Bed::new(SMALL);
    let mut host = bed.stdio_ready();
    host.request(&request("0", "tools/list", "{}"))
        .expect("it is up");
    let host = RefCell::new((host, 0u64));
    check(|bytes| {
        let (host, count) = &mut *host.borrow_mut();
        *count += 1;
        host.send_bytes(bytes).expect("the gateway reads");
        let (id, line) = next_call(*count);
        host.send(&line).expect("the gateway reads");
        loop {
            let line = host.recv().expect("the gateway answers");
            let Some(frame) = Frame::parse(&line) else {
                panic!("no frame on stdout: {line}");
            };
            if frame.answers(&id) {
                assert!(weird::echoed(&line).is_some(), "{line}");
                return;
            }
        }
    });
}

#[test]
fn mutated_bodies_do_not_break_the_http_door() {
    let bed = Bed::new(SMALL);
    let served = bed.serve();
    let host = served.host_ready();
    let mut door = Door::Http(host.clone());
    door.assert_works("the start");
    let door = RefCell::new((door, 0u64));
    check(|bytes| {
        let (door, count) = &mut *door.borrow_mut();
        *count += 1;
        let (status, text) = answer_to(&host, bytes);
        assert!(matches!(status, 200 | 202 | 204 | 400), "{status} {text}");
        let whole = text.is_empty() || Frame::parse(&text).is_some() || items(&text).is_some();
        assert!(whole, "not a frame: {text}");
        let (_, line) = next_call(*count);
        assert!(weird::echoed(&door.ask(&line)).is_some());
    });
}

/// Runs the law over mutations of the script's frames and of the handshake's.
fn check(law: impl Fn(&[u8])) {
    let mut frames: Vec<String> = weird::requests()
        .into_iter()
        .map(|(_, line)| line)
        .collect();
    // A question would keep its call open, and every answer but its own waiting for the end.
    frames.retain(|line| !line.contains("ask_"));
    frames.extend(weird::NOTIFICATIONS.iter().map(|line| (*line).to_owned()));
    frames.push(callgate_testkit::initialize_line(VERSION));
    frames.push(
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#
            .to_owned(),
    );
    frames.push(r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#.to_owned());
    let mutation = prop_oneof![
        (any::<usize>(), 1..=255u8).prop_map(|(at, bits)| Mutation::Flip(at, bits)),
        (any::<usize>(), 1..40usize).prop_map(|(at, length)| Mutation::Drop(at, length)),
        (any::<usize>(), 1..40usize).prop_map(|(at, length)| Mutation::Repeat(at, length)),
        (any::<usize>(), prop::sample::select(LOADED))
            .prop_map(|(at, text)| Mutation::Insert(at, text.to_vec())),
        any::<usize>().prop_map(Mutation::Cut),
    ];
    let cases = (
        prop::sample::select(frames),
        prop::collection::vec(mutation, 1..4),
    );
    let config = Config {
        cases: CASES,
        failure_persistence: None,
        ..Config::default()
    };
    let checked = TestRunner::new(config).run(&cases, |(frame, mutations)| {
        let mut bytes = frame.into_bytes();
        for mutation in &mutations {
            mutation.apply(&mut bytes);
        }
        law(&bytes);
        Ok(())
    });
    if let Err(error) = checked {
        panic!("{error}");
    }
}

fn next_call(count: u64) -> (String, String) {
    let id = format!("\"next-{count}\"");
    let line = request(&id, "tools/call", r#"{"name":"echo_raw"}"#);
    (id, line)
}

/// The status and the last frame of the answer, which may come as a stream.
fn answer_to(host: &callgate_testkit::HttpHost, bytes: &[u8]) -> (u16, String) {
    let (status, text) = post_bytes(host, bytes);
    let last = text.lines().rfind(|line| line.starts_with("data: "));
    let frame = last.map(|line| line.trim_start_matches("data: ").to_owned());
    (status, frame.unwrap_or(text))
}
