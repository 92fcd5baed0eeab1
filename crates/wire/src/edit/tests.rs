use super::*;

fn frame(text: &str) -> Frame {
    Frame::parse(
        Bytes::copy_from_slice(text.as_bytes()),
        Strictness::Envelope,
    )
    .expect("valid")
}

/// Wraps the rest of an envelope in braces and its version.
fn wrap(rest: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0",{rest}}}"#)
}

/// Applies a change and compares; both texts are given without the start of the envelope.
fn check(before: &str, change: impl Fn(Edit<'_>) -> Edit<'_>, after: &str) {
    let frame = frame(&wrap(before));
    let changed = change(frame.edit()).finish();
    assert_eq!(String::from_utf8_lossy(&changed), wrap(after), "{before}");
}

#[test]
fn an_edit_without_changes_keeps_the_bytes() {
    let frame = frame(&wrap(r#" "id" : 1 , "method":"m""#));
    let same = frame.edit().remove_meta(|_| true).finish();
    assert_eq!(same.as_ptr(), frame.bytes().as_ptr());
}

#[test]
fn edits_replace_ids() {
    let id = Id::number(42);
    check(
        r#""id" : "a","method":"m""#,
        |edit| edit.id(&id),
        r#""id" : 42,"method":"m""#,
    );
    check(
        r#""result":{},"\u0069d":1"#,
        |edit| edit.id(&id),
        r#""result":{},"\u0069d":42"#,
    );
    check(
        r#""id":null,"error":{}"#,
        |edit| edit.id(&id),
        r#""id":42,"error":{}"#,
    );
    check(r#""method":"m""#, |edit| edit.id(&id), r#""method":"m""#);
}

#[test]
fn edits_set_params() {
    let cases = [
        (
            r#","params":{"name" : "a", "x":1}"#,
            r#","params":{"name" : "b", "x":1}"#,
        ),
        (r#","params":{"x":1 }"#, r#","params":{"x":1,"name":"b" }"#),
        (r#","params":{ }"#, r#","params":{"name":"b" }"#),
        (r#","params":{}"#, r#","params":{"name":"b"}"#),
        ("", r#","params":{"name":"b"}"#),
        (r#","params":[1]"#, r#","params":[1]"#),
    ];
    for (before, after) in cases {
        check(
            &format!(r#""id":1,"method":"m"{before}"#),
            |edit| edit.param("name", "0").param("name", r#""b""#),
            &format!(r#""id":1,"method":"m"{after}"#),
        );
    }
    let untouched = r#""id":1,"result":{"name":1}"#;
    check(untouched, |edit| edit.param("name", "2"), untouched);
}

#[test]
fn edits_set_result_members() {
    let set = |edit: Edit<'_>, raw: &str| edit.set_result_member("a", raw).finish();
    let change = |before: &str| {
        let frame = frame(&wrap(before));
        String::from_utf8_lossy(&set(frame.edit(), "9")).into_owned()
    };
    assert_eq!(
        change(r#""id":1,"result":{"a":1}"#),
        wrap(r#""id":1,"result":{"a":9}"#)
    );
    assert_eq!(
        change(r#""id":1,"result":{}"#),
        wrap(r#""id":1,"result":{"a":9}"#)
    );
    assert_eq!(
        change(r#""id":1,"result":{"a":1,"b":2,"a":3}"#),
        wrap(r#""id":1,"result":{"a":9,"b":2,"a":9}"#)
    );
    for untouched in [
        r#""id":1,"result":[]"#,
        r#""id":1,"error":{}"#,
        r#""id":1,"method":"m""#,
    ] {
        assert_eq!(change(untouched), wrap(untouched));
    }
}

#[test]
fn meta_members_are_set() {
    let cases = [
        (
            r#""id":1,"method":"m""#,
            r#""id":1,"method":"m","params":{"_meta":{"k":7}}"#,
        ),
        (
            r#""method":"m","params":{}"#,
            r#""method":"m","params":{"_meta":{"k":7}}"#,
        ),
        (
            r#""method":"m","params":{"a":1}"#,
            r#""method":"m","params":{"a":1,"_meta":{"k":7}}"#,
        ),
        (
            r#""method":"m","params":{"_meta":{},"a":1}"#,
            r#""method":"m","params":{"_meta":{"k":7},"a":1}"#,
        ),
        (
            r#""method":"m","params":{"_meta":{"k" : [1]}}"#,
            r#""method":"m","params":{"_meta":{"k" : 7}}"#,
        ),
        (
            r#""method":"m","params":{"_meta":{"j":1 }}"#,
            r#""method":"m","params":{"_meta":{"j":1,"k":7 }}"#,
        ),
        (
            r#""method":"m","params":{"_meta":null}"#,
            r#""method":"m","params":{"_meta":{"k":7}}"#,
        ),
        (
            r#""id":1,"result":{"a":1}"#,
            r#""id":1,"result":{"a":1,"_meta":{"k":7}}"#,
        ),
        (r#""id":1,"result":5"#, r#""id":1,"result":5"#),
        (r#""id":1,"error":{}"#, r#""id":1,"error":{}"#),
    ];
    for (before, after) in cases {
        check(before, |edit| edit.meta("k", "7"), after);
    }
}

#[test]
fn meta_members_are_removed() {
    let ours = |key: &str| key.starts_with("our/");
    let cases = [
        (r#"{"_meta":{"our/a":1,"b":2}}"#, r#"{"_meta":{"b":2}}"#),
        (r#"{"_meta":{"b":2 , "our/a":1}}"#, r#"{"_meta":{"b":2}}"#),
        (
            r#"{"_meta":{"b":2,"our/a":1, "c":3}}"#,
            r#"{"_meta":{"b":2, "c":3}}"#,
        ),
        (
            r#"{"_meta":{ "our/a":1, "our/b":[2] , "c":3, "our/d":4,"our/e":5 }}"#,
            r#"{"_meta":{ "c":3 }}"#,
        ),
        (
            r#"{"_meta":{"o\u0075r/a":1,"b":2}}"#,
            r#"{"_meta":{"b":2}}"#,
        ),
        (r#"{"_meta":{"our/a":1}}"#, "{}"),
        (
            r#"{"x":1,"_meta":{"our/a":1,"our/b":2},"y":2}"#,
            r#"{"x":1,"y":2}"#,
        ),
        (r#"{"_meta":{"our/a":1}, "y":2}"#, r#"{"y":2}"#),
        (r#"{"x":1, "_meta":{"our/a":1}}"#, r#"{"x":1}"#),
        (r#"{"_meta":{}}"#, r#"{"_meta":{}}"#),
        (r#"{"_meta":5}"#, r#"{"_meta":5}"#),
        (r#"{"_meta":{"b":1}}"#, r#"{"_meta":{"b":1}}"#),
    ];
    for (before, after) in cases {
        check(
            &format!(r#""id":1,"method":"m","params":{before}"#),
            |edit| edit.remove_meta(ours),
            &format!(r#""id":1,"method":"m","params":{after}"#),
        );
    }
    let twice = r#""id":1,"result":{"_meta":{"b":1},"_meta":{"our/a":1}}"#;
    let emptied = r#""id":1,"result":{"_meta":{"b":1},"_meta":{}}"#;
    check(twice, |edit| edit.remove_meta(ours), emptied);
}

#[test]
fn edits_can_be_combined() {
    check(
        r#""method":"m","id":"x","params":{"_meta":{"our/a":1,"t":2},"name":"a"}"#,
        |edit| {
            edit.id(&Id::number(3))
                .remove_meta(|key| key.starts_with("our/"))
                .meta("t", "9")
                .meta("new", "{}")
                .param("name", "\"b\"")
                .param("more", "[]")
        },
        r#""method":"m","id":3,"params":{"_meta":{"t":9,"new":{}},"name":"b","more":[]}"#,
    );
    check(
        r#""method":"m","params":{"_meta":{"a":1,"b":2}}"#,
        |edit| edit.remove_meta(|_| true).meta("c", "3"),
        r#""method":"m","params":{"_meta":{"c":3}}"#,
    );
    check(
        r#""method":"m","params":{"_meta":{"a":1,"b":2}}"#,
        |edit| edit.remove_meta(|_| true).meta("b", "3"),
        r#""method":"m","params":{"_meta":{"b":3}}"#,
    );
    check(
        r#""method":"m","params":{"_meta":{"a":1}}"#,
        |edit| edit.remove_meta(|_| true).param("x", "1"),
        r#""method":"m","params":{"x":1}"#,
    );
    check(
        r#""method":"m","params":{"_meta":{"a":1}}"#,
        |edit| edit.meta("b", "1").param("_meta", "{}"),
        r#""method":"m","params":{"_meta":{}}"#,
    );
    check(
        r#""method":"m""#,
        |edit| edit.meta("b", "1").param("x", "2"),
        r#""method":"m","params":{"x":2,"_meta":{"b":1}}"#,
    );
}

#[test]
fn edited_frames_are_written_on_one_line() {
    let text = "{\"jsonrpc\":\"2.0\",\r\n\"id\":1,\"method\":\"a\\nb\"}";
    let frame = frame(text);
    let expected = "{\"jsonrpc\":\"2.0\",  \"id\":1,\"method\":\"a\\nb\"}\n";
    assert_eq!(frame.edit().finish_line(), expected);
    let changed = frame.edit().id(&Id::number(2)).finish_line();
    assert_eq!(changed, expected.replace(":1,", ":2,"));
    let plain = self::frame(r#"{"jsonrpc":"2.0","method":"m"}"#);
    assert_eq!(
        plain.edit().param("a", "[1,\n2]").finish_line(),
        "{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":{\"a\":[1, 2]}}\n"
    );
}

/// What is long stays where it is, and all that is short is copied together.
#[test]
fn editing_a_large_message_copies_only_its_short_parts() {
    let long = |bytes: usize| "x".repeat(bytes);
    for (first, second, pieces) in [
        (100, 100, 1),
        (COPIED_BYTES, 100, 3),
        (100, COPIED_BYTES, 3),
        (COPIED_BYTES, COPIED_BYTES, 5),
    ] {
        let text = wrap(&format!(
            r#""id":1,"method":"m","params":{{"a":"{}","name":"up__x","b":"{}","_meta":{{}}}}"#,
            long(first),
            long(second),
        ));
        let frame = frame(&text);
        let edit = || {
            let edit = frame.edit().id(&Id::number(42));
            edit.param("name", "\"x\"").meta("k", "true")
        };
        let changed = edit().pieces();
        assert_eq!(changed.count(), pieces, "{first} {second}");
        assert_eq!(changed.into_bytes(), edit().finish());
    }
}
