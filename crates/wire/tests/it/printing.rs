//! Laws of what a scan notes: what is accepted can be printed again from it, byte for byte.

use std::ops::Range;

use callgate_wire::{Json, JsonKind, Member, Outline, Strictness, scan};
use proptest::prelude::*;

use crate::texts::{damaged, message, text};

proptest! {
    #[test]
    fn every_spelling_of_json_is_accepted(text in text()) {
        // An element of an array is not an envelope, so repeated keys are allowed.
        let below = format!("[{text}]");
        prop_assert!(scan(below.as_bytes(), Strictness::Envelope).is_ok(), "{}", below);
    }

    #[test]
    fn scanned_json_round_trips(text in text()) {
        printed_again(text.as_bytes())?;
    }

    #[test]
    fn scanned_messages_round_trip(text in message()) {
        printed_again(text.as_bytes())?;
    }

    #[test]
    fn damaged_json_is_refused_or_round_trips(bytes in damaged(text())) {
        printed_again(&bytes)?;
    }

    #[test]
    fn damaged_messages_are_refused_or_round_trip(bytes in damaged(message())) {
        printed_again(&bytes)?;
    }
}

fn printed_again(bytes: &[u8]) -> Result<(), TestCaseError> {
    for strictness in [Strictness::Full, Strictness::Envelope] {
        let Ok(outline) = scan(bytes, strictness) else {
            continue;
        };
        let text = std::str::from_utf8(bytes).expect("an accepted text is UTF-8");
        let value = Json::validate(bytes, strictness).expect("accepted just now");
        prop_assert_eq!(from_values(value), without_space(text));
        prop_assert_eq!(from_spans(text, &outline), text);
        for members in [&outline.top, &outline.body, &outline.meta] {
            spans_stand_apart(text, members)?;
        }
    }
    Ok(())
}

/// The text put together from the spans of the outermost members and what stands between them.
/// Slicing panics outside of the text and inside a character.
fn from_spans(text: &str, outline: &Outline) -> String {
    let mut out = String::new();
    let mut at = 0;
    let mut push = |range: Range<usize>| {
        out.push_str(&text[at..range.start]);
        out.push_str(&text[range.clone()]);
        at = range.end;
    };
    if outline.top.is_empty() {
        push(outline.value.range());
    }
    for member in &outline.top {
        push(member.key.range());
        push(member.value.range());
    }
    push(text.len()..text.len());
    out
}

/// Between a key and its value stands one colon, and between two members one comma.
fn spans_stand_apart(text: &str, members: &[Member]) -> Result<(), TestCaseError> {
    let gap = |range: Range<usize>| text[range].trim_matches([' ', '\t', '\n', '\r']);
    for member in members {
        let between = member.key.range().end..member.value.range().start;
        prop_assert_eq!(gap(between), ":");
        prop_assert!(text[member.key.range()].starts_with('"'));
    }
    for pair in members.windows(2) {
        let between = pair[0].value.range().end..pair[1].key.range().start;
        prop_assert_eq!(gap(between), ",");
    }
    Ok(())
}

fn from_values(value: Json<'_>) -> String {
    let joined = |parts: Vec<String>| parts.join(",");
    match value.kind() {
        JsonKind::Null | JsonKind::Bool | JsonKind::Number | JsonKind::String => {
            value.as_text().to_owned()
        }
        JsonKind::Array => format!("[{}]", joined(value.elements().map(from_values).collect())),
        JsonKind::Object => {
            let member = |(key, value)| format!("{}:{}", from_values(key), from_values(value));
            format!("{{{}}}", joined(value.members().map(member).collect()))
        }
    }
}

/// The text without the space between its tokens, told by its quotes alone.
fn without_space(text: &str) -> String {
    let (mut in_string, mut escaped) = (false, false);
    text.chars()
        .filter(|character| {
            let ends_or_begins = *character == '"' && !escaped;
            escaped = in_string && *character == '\\' && !escaped;
            in_string ^= ends_or_begins;
            in_string || !matches!(character, ' ' | '\t' | '\n' | '\r')
        })
        .collect()
}
