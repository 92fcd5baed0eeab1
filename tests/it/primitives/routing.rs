//! Two hosts and eight servers, everything at once: no answer reaches the wrong caller.

use std::collections::HashMap;
use std::thread;

use callgate_testkit::{Frame, StdioHost};
use serde_json::Value;

use crate::setup::Bed;
use crate::talk::{parsed, stdio_as};

/// Messages in CI; `CALLGATE_CROWD` sets another number.
const MESSAGES: usize = 10_000;
const SERVERS: usize = 8;
/// Requests of one host that are under way at once.
const AT_ONCE: usize = 64;

fn bed() -> Bed {
    let servers: String = (0..SERVERS)
        .map(|at| format!("  s{at}: {{command: '@shelf@', args: [--tag, s{at}]}}\n"))
        .collect();
    Bed::new(&format!("servers:\n{servers}policy: allow-all\n"))
}

/// A request of some kind to some server, and the text that its answer must carry.
fn request(host: usize, at: usize) -> (String, String) {
    let server = format!("s{}", (at * 7 + host) % SERVERS);
    let key = format!("h{host}-{at}");
    // Both hosts use the same ids, some of them texts.
    let id = match at % 2 {
        0 => at.to_string(),
        _ => format!("\"{at}\""),
    };
    let token = format!(r#""_meta":{{"progressToken":{id}}}"#);
    let (method, params, expected) = match at % 4 {
        0 => (
            "tools/call",
            format!(r#""name":"{server}__echo","arguments":{{"key":"{key}"}},{token}"#),
            format!("{server} echoes {key}"),
        ),
        1 => (
            "resources/read",
            format!(r#""uri":"{server}://item/{key}",{token}"#),
            format!("{server} reads {server}://item/{key}"),
        ),
        2 => (
            "prompts/get",
            format!(r#""name":"{server}__p0","arguments":{{"who":"{key}"}},{token}"#),
            format!("{server} greets {key} by p0"),
        ),
        _ => (
            "completion/complete",
            format!(
                r#""ref":{{"type":"ref/resource","uri":"{server}://item/{key}"}},"argument":{{"name":"id","value":""}}"#
            ),
            format!("{server} completes {server}://item/{key}"),
        ),
    };
    let line =
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}}}}}"#);
    (line, expected)
}

/// The one text in an answer that a server put there.
fn told(response: &Value) -> String {
    let result = &response["result"];
    let places = [
        "/content/0/text",
        "/contents/0/text",
        "/messages/0/content/text",
        "/completion/values/0",
    ];
    let found = places.iter().find_map(|place| result.pointer(place));
    let text = found.and_then(Value::as_str);
    text.unwrap_or_else(|| panic!("no text: {response}"))
        .to_owned()
}

/// Sends `count` requests, many at once; gives how many frames came back.
fn talk(mut host: StdioHost, number: usize, count: usize) -> usize {
    let mut waiting: HashMap<String, String> = HashMap::new();
    let (mut sent, mut frames) = (0, 0);
    let mut steps: HashMap<String, usize> = HashMap::new();
    while sent < count || !waiting.is_empty() {
        while sent < count && waiting.len() < AT_ONCE {
            let (line, expected) = request(number, sent);
            let id = Frame::parse(&line).and_then(|frame| frame.id);
            waiting.insert(id.expect("a request has an id"), expected);
            host.send(&line).expect("the gateway reads");
            sent += 1;
        }
        let line = host.recv().expect("the gateway answers");
        let frame = Frame::parse(&line).expect("a frame");
        frames += 1;
        match (frame.method.as_deref(), frame.id.as_deref()) {
            (Some("notifications/progress"), _) => {
                let token = frame.param("progressToken").expect("it has a token");
                assert!(
                    waiting.contains_key(token),
                    "progress of an unknown request: {line}"
                );
                *steps.entry(token.to_owned()).or_default() += 1;
            }
            (Some(_), _) => {}
            (None, Some(id)) => {
                let expected = waiting.remove(id);
                let expected = expected.unwrap_or_else(|| panic!("no request has this id: {line}"));
                assert_eq!(told(&parsed(&line)), expected);
            }
            (None, None) => panic!("an answer to nothing: {line}"),
        }
    }
    let asked_for_progress = (0..count).filter(|at| at % 4 != 3).count();
    assert_eq!(steps.values().sum::<usize>(), 2 * asked_for_progress);
    frames
}

#[test]
fn every_answer_reaches_the_host_that_asked() {
    let messages = std::env::var("CALLGATE_CROWD").ok();
    let messages = messages.and_then(|text| text.parse().ok());
    let messages = messages.unwrap_or(MESSAGES);
    let bed = bed();
    // Two hosts of one running gateway, which share its servers' processes.
    let _served = bed.serve();
    // A request, two steps of progress for three of four, and an answer.
    let each = messages * 2 / 7 / 2;
    let hosts = [0, 1].map(|number| {
        let host = stdio_as(&bed, Some("{}"));
        thread::spawn(move || talk(host, number, each))
    });
    let frames: usize = hosts
        .into_iter()
        .map(|host| host.join().expect("every answer is its own"))
        .sum();
    let total = frames + 2 * each;
    assert!(total >= messages * 9 / 10, "{total} messages");
    println!("{total} messages between 2 hosts and {SERVERS} servers, none astray");
}
