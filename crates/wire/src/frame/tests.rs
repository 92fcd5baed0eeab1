use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Result<Frame, FrameError> {
    Frame::parse(Bytes::copy_from_slice(text.as_bytes()), Strictness::Full)
}

fn frame(text: &str) -> Frame {
    parse(text).expect("a valid frame")
}

#[test]
fn frame_kinds_are_recognised() {
    let cases = [
        (r#""id":1,"method":"m""#, FrameKind::Request),
        (r#""id":"a","method":"m","params":[]"#, FrameKind::Request),
        (r#""method":"m","params":{}"#, FrameKind::Notification),
        (r#""id":1,"result":null"#, FrameKind::Result),
        (r#""id":1,"error":{}"#, FrameKind::Error),
        (r#""id":null,"error":{}"#, FrameKind::Error),
        (r#""id":1,"method":"m","extra":1"#, FrameKind::Request),
    ];
    for (members, expected) in cases {
        let text = format!(r#"{{"jsonrpc":"2.0",{members}}}"#);
        assert_eq!(frame(&text).kind(), expected, "{members}");
    }
}

#[test]
fn invalid_envelopes_are_refused() {
    use FrameError::*;
    let cases = [
        (r#""id":null,"method":"m""#, Id),
        (r#""id":1.5,"method":"m""#, Id),
        (r#""id":1e3,"method":"m""#, Id),
        (r#""id":{},"method":"m""#, Id),
        (r#""id":[1],"method":"m""#, Id),
        (r#""id":true,"method":"m""#, Id),
        (r#""id":null,"result":{}"#, Id),
        (r#""id":1,"method":5"#, Method),
        (r#""id":1,"method":null"#, Method),
        (r#""id":1,"method":"m","params":null"#, Params),
        (r#""id":1,"method":"m","params":"x""#, Params),
        (r#""id":1,"method":"m","result":{}"#, RequestAndReply),
        (r#""id":1,"method":"m","error":{}"#, RequestAndReply),
        (r#""id":1,"params":{},"result":{}"#, RequestAndReply),
        (
            r#""id":1,"method":"m","result":1,"error":1"#,
            RequestAndReply,
        ),
        (r#""id":1,"result":{},"error":{}"#, ResultAndError),
        (r#""id":1"#, NoContent),
        (r#""id":1,"params":{}"#, NoContent),
        (r#""extra":1"#, NoContent),
        (r#""result":{}"#, ReplyWithoutId),
        (r#""error":{}"#, ReplyWithoutId),
    ];
    for (members, expected) in cases {
        let refused = parse(&format!(r#"{{"jsonrpc":"2.0",{members}}}"#));
        let refused = refused.expect_err(members);
        assert_eq!(refused, expected, "{members}");
        assert_eq!(refused.code(), -32600, "{members}");
    }
}

#[test]
fn texts_that_are_not_messages_are_refused() {
    let cases = [
        ("[]", FrameError::Batch, -32600),
        (" [1]", FrameError::Batch, -32600),
        ("5", FrameError::NotAnObject, -32600),
        ("null", FrameError::NotAnObject, -32600),
        ("{}", FrameError::Version, -32600),
        (r#"{"jsonrpc":2.0}"#, FrameError::Version, -32600),
        (r#"{"jsonrpc":"2.00"}"#, FrameError::Version, -32600),
        (r#"{"jsonrpc":"1.0"}"#, FrameError::Version, -32600),
        (
            r#"{"jsonrpc":"#,
            FrameError::Text(ScanError::Unfinished),
            -32700,
        ),
        (
            r#"{"id":1,"id":1}"#,
            FrameError::Text(ScanError::RepeatedKey { at: 8 }),
            -32700,
        ),
    ];
    for (text, expected, code) in cases {
        let refused = parse(text).expect_err(text);
        assert_eq!(refused, expected, "{text}");
        let sent = refused.to_rpc();
        assert_eq!(sent.code, code, "{text}");
        assert_eq!(sent.message, refused.to_string());
    }
}

#[test]
fn wrong_case_members_are_refused() {
    let request = |members: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m",{members}}}"#);
    let cases = [
        (r#""Method":"x""#, "method"),
        (r#""ID":2"#, "id"),
        (r#""Id":2"#, "id"),
        (r#""JSONRPC":"2.0""#, "jsonrpc"),
        (r#""paramS":{}"#, "params"),
        ("\"param\u{17F}\":{}", "params"),
        (r#""param\u017f":{}"#, "params"),
        (r#""re\u017Fult":{}"#, "result"),
        (r#""\u0052esult":{}"#, "result"),
        (r#""ERROR":{}"#, "error"),
        (r#""params":{"Name":"x"}"#, "name"),
        (r#""params":{"name":"x","nAme":"y"}"#, "name"),
        (r#""params":{"Arguments":{}}"#, "arguments"),
        ("\"params\":{\"argument\u{17F}\":{}}", "arguments"),
        (r#""params":{"URI":"x"}"#, "uri"),
        (r#""params":{"_Meta":{}}"#, "_meta"),
    ];
    for (members, member) in cases {
        let refused = parse(&request(members)).expect_err(members);
        assert_eq!(refused, FrameError::WrongCase { member }, "{members}");
        assert_eq!(refused.code(), -32600);
    }
    for members in [
        r#""idx":1,"i":1,"param":{},"Extra":1"#,
        r#""params":{"arguments":{"Name":1,"name":2}}"#,
        r#""params":{"names":1,"Uris":2,"Method":3}"#,
        r#""params":["Name"]"#,
    ] {
        assert!(parse(&request(members)).is_ok(), "{members}");
    }
    assert!(folds_to("tas\u{212A}", "task"));
    let reply = r#"{"jsonrpc":"2.0","id":1,"result":{"Name":1,"URI":2}}"#;
    assert!(parse(reply).is_ok());
    let reply = r#"{"jsonrpc":"2.0","id":1,"result":{},"Error":{}}"#;
    assert!(parse(reply).is_err());
}

#[test]
fn the_parts_of_a_request_are_read() {
    let text = "{\"jsonrpc\":\"2.0\",\n\"id\":\"\\u0061\",\"method\":\"tools\\/call\",\
                \"params\":{\"n\\u0061me\":\"x\",\"_meta\":{\"progressToken\": 5}}}";
    let frame = frame(text);
    assert_eq!(frame.id().map(Id::raw), Some("\"\\u0061\""));
    assert_eq!(frame.method(), Some("tools/call"));
    assert_eq!(
        frame.param("name").and_then(Json::as_str).as_deref(),
        Some("x")
    );
    assert_eq!(frame.param("nope"), None);
    assert_eq!(frame.meta("progressToken").and_then(Json::as_u64), Some(5));
    assert_eq!(frame.result_member("name"), None);
    assert_eq!((frame.result(), frame.error()), (None, None));
    assert!(frame.params().is_some_and(Json::is_object));
    assert!(frame.has_line_breaks());
    assert_eq!(frame.len(), text.len());
    assert!(!frame.is_empty());
    let copy = frame.clone();
    assert_eq!(copy.bytes().as_ptr(), frame.bytes().as_ptr());
    assert_eq!(copy.into_bytes(), text);
}

#[test]
fn the_parts_of_replies_are_read() {
    let reply = frame(r#"{"jsonrpc":"2.0","id":7,"result":{"tools":[],"_meta":{"k":1}}}"#);
    assert_eq!(reply.result_member("tools").map(Json::as_text), Some("[]"));
    assert_eq!(reply.meta("k").and_then(Json::as_u64), Some(1));
    assert_eq!(reply.param("tools"), None);
    assert_eq!(reply.method(), None);
    let failed = frame(r#"{"jsonrpc":"2.0","id":null,"error":{"code":1}}"#);
    assert_eq!(failed.id(), None);
    let code = failed.error().and_then(|error| error.get("code"));
    assert_eq!(code.and_then(Json::as_u64), Some(1));
}

#[test]
fn parts_of_a_frame_are_shared_and_other_json_is_copied() {
    let frame = frame(r#"{"jsonrpc":"2.0","id":7,"result":{"a":[1]}}"#);
    let part = frame.result_member("a").expect("`a` is there");
    let shared = frame.share(part);
    assert_eq!(shared.as_ptr(), part.bytes().as_ptr());
    let stranger = Json::validate(b"[2]", Strictness::Full).expect("JSON");
    assert_eq!(frame.share(stranger), "[2]");
}

#[test]
fn envelope_strictness_accepts_odd_json_below_the_envelope() {
    let text = r#"{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2,"s":"\ud800"}}"#;
    assert_eq!(parse(text).expect_err("strict").code(), -32700);
    let loose = Frame::parse(text.into(), Strictness::Envelope).expect("loose");
    assert_eq!(loose.result_member("a").and_then(Json::as_u64), Some(2));
    assert_eq!(loose.bytes(), text);
}

#[test]
fn batches_are_split_into_frames() {
    let text = r#" [ {"jsonrpc":"2.0","id":1,"method":"m"} , 5, {"jsonrpc":"2.0","method":"n"},
        {"jsonrpc":"2.0","id":2,"method":"m","params":{"a":1,"a":2}}, [] ] "#;
    let outcomes: Vec<_> = Batch::parse(text.into())
        .expect("a batch")
        .into_iter()
        .map(|frame| frame.map(|frame| frame.kind()).map_err(|(error, _)| error))
        .collect();
    assert_eq!(
        outcomes,
        [
            Ok(FrameKind::Request),
            Err(FrameError::NotAnObject),
            Ok(FrameKind::Notification),
            Err(FrameError::Text(ScanError::RepeatedKey { at: 53 })),
            Err(FrameError::Batch),
        ]
    );
    let whole = |text: &'static str| Batch::parse(text.into()).map(|frames| frames.len());
    assert_eq!(whole("[]"), Err(FrameError::EmptyBatch));
    assert_eq!(whole("{}"), Err(FrameError::NotAnObject));
    assert_eq!(whole("[1,"), Err(FrameError::Text(ScanError::Unfinished)));
}

proptest! {
    /// What the scan noted of long strings changes no count.
    #[test]
    fn characters_of_a_result_are_counted_as_those_of_its_text(
        texts in prop::collection::vec(
            (
                prop_oneof![Just("text"), Just("te\\u0078t"), Just("other")],
                prop::collection::vec(
                    prop_oneof![
                        Just("plain "), Just("caf\u{e9} \u{1f600} "), Just(r#"a\nb\\c\" "#), Just(r"\u00e9\u0041 "),
                        Just(r"\ud83d\ude00"), Just(r"\uD83D "), Just("]}"),
                    ],
                    0..4,
                ),
                prop_oneof![Just(1_usize), 1..400_usize],
            ),
            0..5,
        ),
    ) {
        let blocks = texts.iter().map(|(key, parts, times)| {
            format!(r#"{{"n":[1],"{key}":"{}","type":"text"}}"#, parts.concat().repeat(*times))
        });
        let content = format!("[{}]", blocks.collect::<Vec<_>>().join(", "));
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"content": {content} ,"isError":false}}}}"#);
        let frame = Frame::parse(text.into(), Strictness::Envelope).expect("a reply");
        let read = frame.result_member("content").expect("a member");
        prop_assert_eq!(frame.count_result_chars("content", "text"), read.count_chars_under("text"));
    }
}
