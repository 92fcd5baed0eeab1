//! Invalid frames: each is answered with the right code, and with its id wherever that can be read.

use super::{Door, MIB, SMALL, error, post_bytes, request, result};
use crate::setup::{Bed, VERSION};

/// Texts that are not JSON, or JSON that two readers could understand differently.
const NOT_READABLE: &[(&[u8], &str)] = &[
    (b"not json", "unexpected byte at offset 1"),
    (b"{'jsonrpc':'2.0'}", "unexpected byte at offset 1"),
    (b"\x00", "unexpected byte at offset 0"),
    (b"\x16\x03\x01\x02\x00\x01\xfc", "not UTF-8 at offset 6"),
    (b"\x1f\x8b\x08\x00\xff\xfe", "not UTF-8 at offset 1"),
    (
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}",
        "not UTF-8 at offset 34",
    ),
    (
        b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}",
        "starts with a byte order mark",
    ),
    (
        br#"{"jsonrpc":"2.0","id":1,"method":"ping""#,
        "text ends before the value does",
    ),
    (
        br#"{"jsonrpc":"2.0","id":1,"method":"ping"} {}"#,
        "text after the value at offset 41",
    ),
    (
        br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}"#,
        "unexpected byte at offset 54",
    ),
    (
        br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\ud800"}}"#,
        "lone surrogate at offset 55",
    ),
    (
        br#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
        "repeated key at offset 24",
    ),
    (
        br#"{"jsonrpc":"2.0","id":1,"\u0069d":2,"method":"ping"}"#,
        "repeated key at offset 24",
    ),
    (
        br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo_raw","arguments":{"a":1,"a":2}}}"#,
        "repeated key at offset 93",
    ),
];

/// JSON, but no message.
const NO_MESSAGE: &[(&str, &str)] = &[
    ("null", "not an object"),
    ("42", "not an object"),
    (r#""text""#, "not an object"),
    ("{}", r#"`jsonrpc` must be \"2.0\""#),
    (
        r#"{"id":1,"method":"ping"}"#,
        r#"`jsonrpc` must be \"2.0\""#,
    ),
    (
        r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
        r#"`jsonrpc` must be \"2.0\""#,
    ),
    (
        r#"{"jsonrpc":"2.00","id":1,"method":"ping"}"#,
        r#"`jsonrpc` must be \"2.0\""#,
    ),
    (
        r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#,
        r#"`jsonrpc` must be \"2.0\""#,
    ),
    (
        r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
        "`id` must be a string or an integer",
    ),
    (
        r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
        "`id` must be a string or an integer",
    ),
    (
        r#"{"jsonrpc":"2.0","id":1.0,"method":"ping"}"#,
        "`id` must be a string or an integer",
    ),
    (
        r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
        "`id` must be a string or an integer",
    ),
    (
        r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#,
        "`id` must be a string or an integer",
    ),
    (
        r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#,
        "`id` must be a string or an integer",
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"Method":"ping"}"#,
        "a member differs from `method` only in case",
    ),
    (
        r#"{"jsonrpc":"2.0","ID":1,"method":"ping"}"#,
        "a member differs from `id` only in case",
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"Name":"echo_raw"}}"#,
        "a member differs from `name` only in case",
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nothing","ARGUMENTS":{}}}"#,
        "a member differs from `arguments` only in case",
    ),
    (
        r#"{"jsonrpc":"2.0","id":1}"#,
        "none of `method`, `result` and `error`",
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
        "`method` must be a string",
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":7}"#,
        "`params` must be an object or an array",
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#,
        "both a request and a reply",
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
        "both `result` and `error`",
    ),
    (r#"{"jsonrpc":"2.0","result":{}}"#, "a reply without `id`"),
    ("[]", "batches are not supported"),
    (
        r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
        "batches are not supported",
    ),
];

/// The id in a text above, if it has one `id` member, which is 1, and is neither a batch nor a reply.
fn id_of(text: &str) -> &'static str {
    let names = text.matches(r#""id":"#).count() + text.matches(r#""\u0069d":"#).count();
    let is_one = text.contains(r#""id":1,"#) || text.contains(r#""id":1}"#);
    let is_reply = text.contains(r#""result""#) && !text.contains(r#""method""#);
    match names == 1 && is_one && !is_reply && !text.starts_with('[') {
        true => "1",
        false => "null",
    }
}

#[test]
fn unreadable_frames_get_a_parse_error_and_the_next_call_works() {
    let bed = Bed::new(SMALL);
    let (doors, _served) = Door::both(&bed, VERSION);
    for mut door in doors {
        for (bytes, why) in NOT_READABLE {
            let text = String::from_utf8_lossy(bytes);
            let id = id_of(&text);
            let expected = format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32700,"message":"parse error: {why}"}}}}"#
            );
            assert_eq!(door.refusal(bytes), expected, "{} {text}", door.name());
            door.assert_works(&text);
        }
    }
}

#[test]
fn malformed_messages_get_invalid_request_and_the_next_call_works() {
    let bed = Bed::new(SMALL);
    let (doors, _served) = Door::both(&bed, VERSION);
    for mut door in doors {
        for (text, why) in NO_MESSAGE {
            let id = id_of(text);
            let expected = format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32600,"message":"invalid request: {why}"}}}}"#
            );
            assert_eq!(
                door.refusal(text.as_bytes()),
                expected,
                "{} {text}",
                door.name()
            );
            door.assert_works(text);
        }
    }
}

#[test]
fn nesting_depth_is_limited() {
    let nested = |levels: usize| {
        let (open, close) = (r#"{"a":"#.repeat(levels), "}".repeat(levels));
        request("1", "ping", &format!("{open}1{close}"))
    };
    let bed = Bed::new(SMALL);
    let (doors, _served) = Door::both(&bed, VERSION);
    for mut door in doors {
        let refused = door.refusal(nested(100_000).as_bytes());
        assert!(refused.contains("nested deeper than 128"), "{refused}");
        assert!(
            refused.starts_with(r#"{"jsonrpc":"2.0","id":1,"#),
            "{refused}"
        );
        door.assert_works("a deep frame");
        assert_eq!(result(&door.ask(&nested(120))), "{}");
    }
}

#[test]
fn an_oversize_line_is_refused_and_one_at_the_limit_passes() {
    let bed = Bed::new(SMALL);
    let mut host = bed.stdio_ready();
    let exact = sized_request(MIB);
    assert_eq!(result(&host.request(&exact).expect("an answer")), "{}");
    let mut door = Door::Stdio(Box::new(host));
    for bytes in [MIB + 1, 5 * MIB] {
        let refused = door.refusal(sized_request(bytes).as_bytes());
        assert!(
            refused.starts_with(r#"{"jsonrpc":"2.0","id":1,"#),
            "{refused}"
        );
        assert_eq!(
            error(&refused),
            r#"{"code":-32600,"message":"the frame is over the limit (`limits.frame_mib`)"}"#
        );
        door.assert_works("an oversize line");
    }
}

#[test]
fn an_oversize_body_is_refused_and_one_at_the_limit_passes() {
    let bed = Bed::new(SMALL);
    let served = bed.serve();
    let host = served.host_ready();
    let (status, text) = post_bytes(&host, sized_request(MIB).as_bytes());
    assert_eq!((status, result(&text).as_str()), (200, "{}"));
    let mut door = Door::Http(host.clone());
    for bytes in [MIB + 1, 3 * MIB, 20 * MIB] {
        let (status, text) = post_bytes(&host, sized_request(bytes).as_bytes());
        assert_eq!(status, 413);
        assert_eq!(
            text,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"the body is over the limit (`limits.http_mib`)"}}"#
        );
        door.assert_works("an oversize body");
    }
}

#[test]
fn a_body_of_unknown_length_is_cut_off_at_the_limit() {
    let bed = Bed::new(SMALL);
    let served = bed.serve();
    let host = served.host_ready();
    let chunk = format!("{:x}\r\n{}\r\n", MIB, "x".repeat(MIB));
    let authority = served.url.trim_start_matches("http://");
    let authority = authority.trim_end_matches("/mcp");
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {authority}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
        served.token
    );
    let whole = format!("{head}{}0\r\n\r\n", chunk.repeat(2));
    let reply = host.send_raw(whole.as_bytes()).expect("an answer");
    assert_eq!(reply.status, 413);
    Door::Http(host).assert_works("an endless body");
}

#[test]
fn empty_lines_get_no_answer() {
    let bed = Bed::new(SMALL);
    let mut host = bed.stdio_ready();
    for blank in ["", "   ", "\t", "\r"] {
        host.send(blank).expect("it is read");
    }
    let ping = request("1", "ping", "{}");
    let answers: Vec<String> = std::iter::once(host.request(&ping).expect("an answer")).collect();
    assert_eq!(answers, [r#"{"jsonrpc":"2.0","id":1,"result":{}}"#]);
}

#[test]
fn ids_are_returned_as_written() {
    let bed = Bed::new(SMALL);
    let (doors, _served) = Door::both(&bed, VERSION);
    let ids = [
        "0",
        "-0",
        "-7",
        "123456789012345678901234567890",
        r#""""#,
        r#""a\u0041\/\ud83d\ude00""#,
    ];
    for mut door in doors {
        for id in ids {
            let pong = door.ask(&request(id, "ping", "{}"));
            assert_eq!(
                pong,
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
            );
            let params = r#"{"name":"nothing"}"#;
            let called = door.ask(&request(id, "tools/call", params));
            assert!(called.contains(&format!(r#""id":{id},"#)), "{called}");
        }
    }
}

#[test]
fn batches_are_answered_only_on_2025_03_26() {
    let ping = |id: &str| request(id, "ping", "{}");
    let call = request("\"c\"", "tools/call", r#"{"name":"echo_raw","x":1.0}"#);
    let note = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
    let batch = format!("[{} ,{note}, 7 ,{call}]", ping("1"));
    let echo = r#"{"jsonrpc":"2.0","id":"c","result":{"content":[{"type":"text","text":"{\"name\":\"echo_raw\",\"x\":1.0}"}]}}"#;
    let expected = format!(
        r#"[{{"jsonrpc":"2.0","id":1,"result":{{}}}},{{"jsonrpc":"2.0","id":null,"error":{{"code":-32600,"message":"invalid request: not an object"}}}},{echo}]"#
    );
    let bed = Bed::new(SMALL);
    let mut stdio = bed.stdio();
    stdio.initialize("2025-03-26").expect("a handshake");
    stdio.send(&batch).expect("it is read");
    let answer = loop {
        let line = stdio.recv().expect("an answer");
        if line.starts_with('[') {
            break line;
        }
    };
    assert_eq!(answer, expected);
    let mut door = Door::Stdio(Box::new(stdio));
    let empty = r#"{"code":-32600,"message":"invalid request: empty batch"}"#;
    assert_eq!(error(&door.refusal(b"[]")), empty);
    door.tell(&format!("[{note}]"));
    door.assert_works("a batch of notifications");

    let served = bed.serve();
    let mut host = served.host();
    host.initialize("2025-03-26").expect("a handshake");
    assert_eq!(post_bytes(&host, batch.as_bytes()), (200, expected));
    let only_notes = format!("[{note},{note}]");
    let (status, text) = post_bytes(&host, only_notes.as_bytes());
    assert_eq!((status, text.as_str()), (202, ""));
    let mut door = Door::Http(host);
    assert_eq!(error(&door.refusal(b"[]")), empty);
    for version in ["2024-11-05", "2025-06-18"] {
        let mut host = served.host();
        host.initialize(version).expect("a handshake");
        let refused = Door::Http(host).refusal(batch.as_bytes());
        let text = r#"{"code":-32600,"message":"invalid request: batches are not supported"}"#;
        assert_eq!(error(&refused), text, "{version}");
    }
}

/// A `ping` whose line is exactly so long.
fn sized_request(bytes: usize) -> String {
    let empty = request("1", "ping", r#"{"fill":""}"#);
    let fill = "f".repeat(bytes - empty.len());
    request("1", "ping", &format!(r#"{{"fill":"{fill}"}}"#))
}

#[test]
fn cut_characters_in_arguments_reach_the_server() {
    let bed = Bed::new(SMALL);
    let (doors, _served) = Door::both(&bed, VERSION);
    for mut door in doors {
        let arguments = r#"{"text":"cut \ud83d","more":["\ude00"]}"#;
        let params = format!(r#"{{"name":"echo_raw","arguments":{arguments}}}"#);
        let answer = door.ask(&request("1", "tools/call", &params));
        let echoed = arguments.replace('\\', r"\\").replace('"', r#"\""#);
        assert!(answer.contains(&echoed), "{answer}");
    }
}
