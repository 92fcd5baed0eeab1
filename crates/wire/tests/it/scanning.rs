//! Laws of the scanner and of the values it validates.

use bytes::Bytes;
use callgate_wire::{
    Batch, Frame, Json, JsonKind, MAX_DEPTH, Member, Outline, Strictness, quote, scan,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::Value;

use crate::documents::{style, value, written};

proptest! {
    #[test]
    fn generated_documents_are_accepted(value in value(), style in style()) {
        let text = written(&value, &style);
        let outline = scan(text.as_bytes(), Strictness::Full);
        prop_assert!(outline.is_ok(), "{outline:?}: {text}");
        prop_assert_eq!(outline.unwrap().line_breaks, text.contains(['\n', '\r']));
    }

    #[test]
    fn accessors_agree_with_serde_json(value in value(), style in style()) {
        let text = written(&value, &style);
        let json = Json::validate(text.as_bytes(), Strictness::Full).expect("accepted");
        assert_agrees(json, &value);
    }

    #[test]
    fn quoted_text_reads_back(text in any::<String>()) {
        let quoted = quote(&text);
        let json = Json::validate(quoted.as_bytes(), Strictness::Full).expect("a literal");
        let read = json.as_str().map(String::from);
        prop_assert_eq!(read.as_ref(), Some(&text));
        prop_assert_eq!(serde_json::from_str::<String>(&quoted).expect("a literal"), text);
    }

    #[test]
    fn scanning_arbitrary_bytes_never_panics(bytes in vec(any::<u8>(), 0..200)) {
        survives(&bytes)?;
    }

    #[test]
    fn scanning_almost_json_never_panics(text in "[\\[\\]{}\",:\\\\u0-9a-fdE+.\\- \ntrulse]{0,60}") {
        survives(text.as_bytes())?;
    }

    /// What is accepted is JSON to another reader, and what another reader takes is refused only
    /// for the rules that go beyond the grammar, which do not apply below the envelope.
    #[test]
    fn damaged_json_is_judged_like_serde_json(
        value in value(),
        style in style(),
        damage in vec((any::<Index>(), any::<Option<u8>>()), 1..3),
    ) {
        let mut bytes = written(&value, &style).into_bytes();
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            match byte {
                Some(byte) => bytes[place] = byte,
                None if bytes.len() > 1 => drop(bytes.remove(place)),
                None => {}
            }
        }
        let judged: Result<Value, _> = serde_json::from_slice(&bytes);
        if scan(&bytes, Strictness::Full).is_ok() {
            // A number beyond the range of a double is JSON, but not a `Value`.
            let out_of_range = |error: &serde_json::Error| error.to_string().contains("out of range");
            prop_assert!(judged.as_ref().map_or_else(out_of_range, |_| true));
        }
        if judged.is_ok() {
            let below = [b"[[".as_slice(), &bytes, b"]]"].concat();
            prop_assert!(scan(&below, Strictness::Envelope).is_ok());
        }
        survives(&bytes)?;
    }

    #[test]
    fn full_strictness_accepts_no_more_than_envelope_strictness(bytes in "[{}\"a:,\\[\\] ]{0,30}") {
        let envelope = scan(bytes.as_bytes(), Strictness::Envelope);
        if let Ok(outline) = scan(bytes.as_bytes(), Strictness::Full) {
            prop_assert_eq!(envelope, Ok(outline));
        }
    }
}

#[test]
fn values_and_frames_have_the_same_depth_limit() {
    let inner = MAX_DEPTH as usize - 1;
    let frame = |depth: usize| {
        let nested = "[".repeat(depth) + &"]".repeat(depth);
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{nested}}}"#);
        Frame::parse(text.into(), Strictness::Envelope)
    };
    assert!(frame(inner).is_ok());
    assert_eq!(frame(inner + 1).expect_err("too deep").code(), -32700);
}

/// Whatever the bytes are, each reader answers, and spans stay inside the text.
fn survives(bytes: &[u8]) -> Result<(), TestCaseError> {
    for strictness in [Strictness::Full, Strictness::Envelope] {
        if let Ok(outline) = scan(bytes, strictness) {
            inside_bounds(&outline, bytes.len())?;
            let json = Json::validate(bytes, strictness).expect("scanned before");
            prop_assert!(json.members().count() + json.elements().count() <= bytes.len());
        }
        let _ = Frame::parse(Bytes::copy_from_slice(bytes), strictness);
    }
    let _ = Batch::parse(Bytes::copy_from_slice(bytes));
    Ok(())
}

fn inside_bounds(outline: &Outline, length: usize) -> Result<(), TestCaseError> {
    let whole = outline.value.range();
    prop_assert!(whole.start < whole.end && whole.end <= length);
    let lists: [&[Member]; 3] = [&outline.top, &outline.body, &outline.meta];
    for members in lists {
        let mut at = whole.start;
        for member in members {
            let (key, value) = (member.key.range(), member.value.range());
            prop_assert!(at < key.start && key.start < key.end);
            prop_assert!(key.end < value.start && value.start < value.end);
            prop_assert!(value.end < whole.end);
            at = value.end;
        }
    }
    Ok(())
}

fn assert_agrees(json: Json<'_>, value: &Value) {
    assert_eq!(json.as_bool(), value.as_bool());
    assert_eq!(json.as_str().as_deref(), value.as_str());
    if !value.is_f64() {
        assert_eq!(json.as_u64(), value.as_u64());
        assert_eq!(json.as_i64(), value.as_i64());
    }
    match value {
        Value::Null => assert_eq!(json.kind(), JsonKind::Null),
        Value::Bool(_) => assert_eq!(json.kind(), JsonKind::Bool),
        Value::Number(number) => {
            assert_eq!(json.kind(), JsonKind::Number);
            assert_eq!(json.as_text(), number.to_string());
        }
        Value::String(_) => assert_eq!(json.kind(), JsonKind::String),
        Value::Array(elements) => {
            assert_eq!(json.kind(), JsonKind::Array);
            assert_eq!(json.elements().count(), elements.len());
            for (json, value) in json.elements().zip(elements) {
                assert_agrees(json, value);
            }
        }
        Value::Object(members) => {
            assert_eq!(json.kind(), JsonKind::Object);
            assert_eq!(json.members().count(), members.len());
            for ((key, json), (name, value)) in json.members().zip(members) {
                assert_eq!(key.as_str().as_deref(), Some(name.as_str()));
                assert_agrees(json, value);
            }
            for (name, value) in members {
                assert_agrees(json.get(name).expect("the member is there"), value);
            }
        }
    }
}
