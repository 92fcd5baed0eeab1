use super::*;

fn full(text: impl AsRef<[u8]>) -> Result<Outline, ScanError> {
    scan(text.as_ref(), Strictness::Full)
}

fn envelope(text: impl AsRef<[u8]>) -> Result<Outline, ScanError> {
    scan(text.as_ref(), Strictness::Envelope)
}

#[test]
fn invalid_json_is_refused_at_either_strictness() {
    use ScanError::*;
    let cases: &[(&[u8], ScanError)] = &[
        (b"", Unfinished),
        (b"  ", Unfinished),
        (b"{", Unfinished),
        (b"{\"a\"", Unfinished),
        (b"{\"a\":", Unfinished),
        (b"{\"a\":1", Unfinished),
        (b"[1,", Unfinished),
        (b"\"abc", Unfinished),
        (b"\"\\", Unfinished),
        (b"\"\\u12", Unfinished),
        (b"-", Unfinished),
        (b"1.", Unfinished),
        (b"1e", Unfinished),
        (b"tru", Unfinished),
        (b"{} {}", TrailingText { at: 3 }),
        (b"01", TrailingText { at: 1 }),
        (b"1\0", TrailingText { at: 1 }),
        (b"[1,]", UnexpectedByte { at: 3 }),
        (b"{,}", UnexpectedByte { at: 1 }),
        (b"{\"a\":1,}", UnexpectedByte { at: 7 }),
        (b"{\"a\" 1}", UnexpectedByte { at: 5 }),
        (b"{1:1}", UnexpectedByte { at: 1 }),
        (b"[1}", UnexpectedByte { at: 2 }),
        (b"{\"a\":1]", UnexpectedByte { at: 6 }),
        (b"+1", UnexpectedByte { at: 0 }),
        (b"[.5]", UnexpectedByte { at: 1 }),
        (b"[-a]", UnexpectedByte { at: 2 }),
        (b"[1.a]", UnexpectedByte { at: 3 }),
        (b"[1e+]", UnexpectedByte { at: 4 }),
        (b"NaN", UnexpectedByte { at: 0 }),
        (b"nuLl", UnexpectedByte { at: 2 }),
        (b"'a'", UnexpectedByte { at: 0 }),
        (b"\x0C[]", UnexpectedByte { at: 0 }),
        (b"[\xC2\xA0]", UnexpectedByte { at: 1 }),
        (b"\"\\x41\"", UnexpectedByte { at: 2 }),
        (b"\"\\u00g0\"", UnexpectedByte { at: 5 }),
        (b"\"a\0b\"", ControlCharacter { at: 2 }),
        (b"\"a\nb\"", ControlCharacter { at: 2 }),
        (b"\"\x1F\"", ControlCharacter { at: 1 }),
        (b"\"\xFF\"", NotUtf8 { at: 1 }),
        (b"\"\xC0\xAF\"", NotUtf8 { at: 1 }),
        (b"\"\xED\xA0\x80\"", NotUtf8 { at: 1 }),
        (b"\xEF\xBB\xBF{}", ByteOrderMark),
        (b"\xFF\xFE{\0", NotUtf8 { at: 0 }),
        (b"{\"a\":1,\"b\":2,\"a\":3}", RepeatedKey { at: 13 }),
        (b"{\"a\":1,\"\\u0061\":3}", RepeatedKey { at: 7 }),
        (b"{\"\":1,\"\":3}", RepeatedKey { at: 6 }),
        (b"{\"\\ud800\":1}", LoneSurrogate { at: 2 }),
        (b"{\"id\":\"\\udc00\"}", LoneSurrogate { at: 7 }),
    ];
    for (text, expected) in cases {
        let shown = String::from_utf8_lossy(text);
        assert_eq!(full(text), Err(*expected), "{shown}");
        assert_eq!(envelope(text), Err(*expected), "{shown}");
    }
}

#[test]
fn ambiguous_json_is_refused_only_in_full_strictness() {
    use ScanError::*;
    let cases = [
        (r#"{"a":{"b":1,"b":2}}"#, RepeatedKey { at: 12 }),
        (r#"{"a":[{"b":1,"\u0062":2}]}"#, RepeatedKey { at: 13 }),
        (r#"{"a":{"b":{"c":1},"c":2,"b":1}}"#, RepeatedKey { at: 24 }),
        (r#"{"a":["\ud800"]}"#, LoneSurrogate { at: 7 }),
        (r#"{"a":["\ud800\ud800"]}"#, LoneSurrogate { at: 7 }),
        (r#"{"a":["\ud800\u0041"]}"#, LoneSurrogate { at: 7 }),
        (r#"{"a":["\ud800x"]}"#, LoneSurrogate { at: 7 }),
        (r#"{"a":["\udc00\ud800"]}"#, LoneSurrogate { at: 7 }),
        (r#"{"a":{"\udc00":1}}"#, LoneSurrogate { at: 7 }),
    ];
    for (text, expected) in cases {
        assert_eq!(full(text), Err(expected), "{text}");
        assert!(envelope(text).is_ok(), "{text}");
    }
}

#[test]
fn valid_json_is_accepted() {
    for text in [
        "null",
        " \t[ ] ",
        "-0.0e-0",
        "1E400",
        "123456789012345678901234567890.5",
        r#""\u0000\ud83d\ude00\/""#,
        r#"{"a":1,"A":2,"a ":3,"":4}"#,
        r#"[{"a":1},{"a":1},{"b":{"a":1,"b":{"a":1}}}]"#,
        "\"\u{7f}\u{2028}😀\"",
    ] {
        assert!(full(text).is_ok(), "{text}");
        assert!(envelope(text).is_ok(), "{text}");
    }
}

#[test]
fn depth_is_limited() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let limit = MAX_DEPTH as usize;
    assert!(full(nested(limit)).is_ok());
    let too_deep = ScanError::TooDeep { at: limit };
    assert_eq!(full(nested(limit + 1)), Err(too_deep));
    assert_eq!(
        envelope("{\"a\":".repeat(1 << 16)),
        Err(ScanError::TooDeep { at: 5 * limit })
    );
    let objects = "{\"a\":".repeat(limit) + "1" + &"}".repeat(limit);
    assert!(full(objects).is_ok());
}

#[test]
fn control_characters_are_found_at_every_place_of_a_long_string() {
    for length in [0, 1, 23, 24, 25, 63, 64, 87, 88, 89, 150] {
        for place in 0..length {
            let mut text = vec![b'x'; length];
            text[place] = 0x1F;
            let text = [b"\"".as_slice(), &text, b"\""].concat();
            let expected = ScanError::ControlCharacter { at: place + 1 };
            assert_eq!(full(text), Err(expected), "{place} of {length}");
        }
        let text = format!("\"{}\"", "x".repeat(length));
        assert!(full(text).is_ok());
    }
}

#[test]
fn repeated_keys_are_found_in_objects_of_any_size() {
    let members = |count: usize| {
        let keys = (0..count).map(|index| format!("\"k{index}\":0"));
        keys.collect::<Vec<_>>().join(",")
    };
    for count in [2, 11, 12, 13, 14, 400_000] {
        let distinct = format!("{{{}}}", members(count));
        assert!(full(&distinct).is_ok(), "{count}");
        let at = distinct.len();
        let repeated = format!("{{{},\"k\\u0030\":1}}", members(count));
        assert_eq!(
            full(repeated),
            Err(ScanError::RepeatedKey { at }),
            "{count}"
        );
    }
}

#[test]
fn line_breaks_between_tokens_are_noted() {
    for (text, expected) in [
        ("{\"a\": 1}", false),
        ("{\"a\":\t\"\\n\\r\"} ", false),
        ("{\"a\":\n1}", true),
        ("{\r\"a\":1}", true),
        ("{}\n", true),
        ("\n{}", true),
    ] {
        let outline = full(text).expect("valid");
        assert_eq!(outline.line_breaks, expected, "{text:?}");
    }
}

/// The outline's members as text.
fn shown(text: &str, members: &[Member]) -> Vec<String> {
    let part = |span: Span| String::from_utf8_lossy(span.of(text.as_bytes())).into_owned();
    members
        .iter()
        .map(|member| format!("{}={}", part(member.key), part(member.value)))
        .collect()
}

#[test]
fn outlines_hold_the_parts_of_a_message() {
    let text = r#" {"jsonrpc" : "2.0", "params": { "name":"x" ,"_meta" : {"t" : [1, {"u":2}] , "_meta":{}}, "arguments":{"_meta":{"no":1}} } ,"id":1 } "#;
    let outline = full(text).expect("valid");
    assert_eq!(outline.value.range(), 1..text.len() - 1);
    let params = r#"{ "name":"x" ,"_meta" : {"t" : [1, {"u":2}] , "_meta":{}}, "arguments":{"_meta":{"no":1}} }"#;
    assert_eq!(
        shown(text, &outline.top),
        [
            r#""jsonrpc"="2.0""#.to_owned(),
            format!("\"params\"={params}"),
            "\"id\"=1".to_owned()
        ]
    );
    assert_eq!(
        shown(text, &outline.body),
        [
            r#""name"="x""#,
            r#""_meta"={"t" : [1, {"u":2}] , "_meta":{}}"#,
            r#""arguments"={"_meta":{"no":1}}"#
        ]
    );
    assert_eq!(
        shown(text, &outline.meta),
        [r#""t"=[1, {"u":2}]"#, r#""_meta"={}"#]
    );
}

#[test]
fn outlines_follow_keys_after_unescaping_and_take_the_last() {
    let text = r#"{"r\u0065sult":{"_meta":{"a":1},"\u005fmeta":{"b":2}}}"#;
    let outline = envelope(text).expect("valid");
    assert_eq!(shown(text, &outline.meta), ["\"b\"=2"]);
    let text = r#"{"result":{"_meta":{"a":1},"_meta":[{"b":2}]}}"#;
    let outline = envelope(text).expect("valid");
    assert!(outline.meta.is_empty());
    assert_eq!(outline.body.len(), 2);
    for text in [r#"{"params":[{"a":1}]}"#, r#"[{"params":{"a":1}}]"#] {
        assert!(full(text).expect("valid").body.is_empty(), "{text}");
    }
}

#[test]
fn half_characters_are_accepted_in_the_values_of_arguments_alone() {
    let request = |params: &str| format!(r#"{{"method":"m","params":{params}}}"#);
    for params in [
        r#"{"arguments":{"a":"\ud83d"}}"#,
        r#"{"arguments":{"a":[{"b":"x\udc00"}]},"name":"n"}"#,
        r#"{"arguments":{"a":"\ud83d \ud83d\ude00"}}"#,
    ] {
        assert!(full(request(params)).is_ok(), "{params}");
    }
    for params in [
        r#"{"arguments":"\ud83d"}"#,
        r#"{"arguments":{"\ud83d":1}}"#,
        r#"{"arguments":{"a":1},"name":"\ud83d"}"#,
        r#"{"name":{"arguments":{"a":"\ud83d"}}}"#,
        r#"{"_meta":{"arguments":{"a":"\ud83d"}}}"#,
        r#"{"arguments":["\ud83d"]}"#,
        r#"["\ud83d"]"#,
    ] {
        let refused = full(request(params)).expect_err(params);
        assert!(
            matches!(refused, ScanError::LoneSurrogate { .. }),
            "{params}"
        );
    }
    let at_top = r#"{"arguments":{"a":"\ud83d"}}"#;
    assert!(full(at_top).is_err());
}
