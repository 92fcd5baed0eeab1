//! The scanner: what it accepts is JSON to another reader too, what it refuses it refuses for a
//! reason that holds, and where it says that things stand they stand.

use callgate_wire::{Json, JsonKind, Outline, ScanError, Strictness, scan};

use crate::outline;
use crate::reference::{Judgement, Tree};

/// Scans the input as one text, in both strictnesses.
pub fn scanner(data: &[u8]) {
    let judgement = Judgement::of(data);
    let full = scan(data, Strictness::Full);
    let envelope = scan(data, Strictness::Envelope);
    if let Ok(accepted) = &full {
        assert_eq!(
            envelope.as_ref(),
            Ok(accepted),
            "full strictness accepts nothing more"
        );
    }
    for (strictness, outcome) in [(Strictness::Full, &full), (Strictness::Envelope, &envelope)] {
        match outcome {
            Ok(accepted) => check_accepted(data, accepted, strictness, &judgement),
            Err(refused) => check_refused(data, *refused, strictness, &judgement),
        }
    }
}

fn check_accepted(text: &[u8], accepted: &Outline, strictness: Strictness, other: &Judgement) {
    outline::check(text, accepted, strictness);
    match (other, strictness) {
        (Judgement::NotJson, _) => panic!("accepted, and not JSON"),
        (Judgement::LoneSurrogate, Strictness::Full) => {
            let without = without_arguments(text, accepted);
            let left = Judgement::of(&without);
            assert!(
                !matches!(left, Judgement::LoneSurrogate),
                "accepted with a lone surrogate outside of arguments"
            );
        }
        (Judgement::Read(tree), Strictness::Full) => {
            assert!(!tree.repeats_a_key(), "accepted with a repeated key");
            let value = Json::validate(text, strictness).expect("it was accepted just now");
            check_content(value, tree);
        }
        (Judgement::Read(tree), Strictness::Envelope) => {
            assert!(!tree.repeats_a_key_here(), "accepted with a repeated key");
        }
        (Judgement::LoneSurrogate, Strictness::Envelope) | (Judgement::BeyondIt, _) => {}
    }
}

/// The text with every member `arguments` of its body empty.
fn without_arguments(text: &[u8], outline: &Outline) -> Vec<u8> {
    let mut rest = text.to_vec();
    for member in outline.body.iter().rev() {
        let key = Json::validate(member.key.of(text), Strictness::Full).expect("a key");
        if key.as_str().as_deref() == Some("arguments") {
            rest.splice(member.value.range(), *b"{}");
        }
    }
    rest
}

fn check_refused(text: &[u8], refused: ScanError, strictness: Strictness, other: &Judgement) {
    match refused {
        ScanError::UnexpectedByte { at }
        | ScanError::TrailingText { at }
        | ScanError::ControlCharacter { at } => {
            assert!(at < text.len(), "the place is in the text");
            assert!(!other.is_json(), "JSON, and refused by the grammar");
        }
        ScanError::Unfinished => assert!(!other.is_json(), "JSON, and said to be unfinished"),
        ScanError::NotUtf8 { at } => {
            let found = std::str::from_utf8(text).map_err(|error| error.valid_up_to());
            assert_eq!(found, Err(at));
        }
        ScanError::ByteOrderMark => assert!(text.starts_with("\u{FEFF}".as_bytes())),
        ScanError::LoneSurrogate { at } => {
            assert!(text[at..].starts_with(b"\\u"), "an escape stands there");
            let was_read = matches!(other, Judgement::Read(_));
            assert!(!was_read, "refused for a surrogate that is not alone");
        }
        ScanError::RepeatedKey { at } => {
            assert_eq!(text[at], b'"', "a key stands there");
            if let Judgement::Read(tree) = other {
                let repeats = match strictness {
                    Strictness::Full => tree.repeats_a_key(),
                    Strictness::Envelope => tree.repeats_a_key_here(),
                };
                assert!(repeats, "refused for a key that is not repeated");
            }
        }
        ScanError::TooDeep { at } => {
            assert!(matches!(text[at], b'[' | b'{'), "a container opens there");
            let was_read = matches!(other, Judgement::Read(_));
            assert!(!was_read, "refused for a depth that it does not have");
        }
        ScanError::TooLong => panic!("no input is that long"),
    }
}

/// Our accessors find what the other reader found.
fn check_content(value: Json<'_>, tree: &Tree) {
    match tree {
        Tree::Plain => assert!(matches!(
            value.kind(),
            JsonKind::Null | JsonKind::Bool | JsonKind::Number
        )),
        Tree::Text(text) => {
            assert_eq!(value.as_str().as_deref(), Some(text.as_str()));
            assert_eq!(value.char_count(), Some(text.chars().count()));
        }
        Tree::Array(elements) => {
            assert_eq!(value.elements().count(), elements.len());
            for (value, tree) in value.elements().zip(elements) {
                check_content(value, tree);
            }
        }
        Tree::Object(members) => {
            assert_eq!(value.members().count(), members.len());
            for ((key, value), (name, tree)) in value.members().zip(members) {
                assert_eq!(key.as_str().as_deref(), Some(name.as_str()));
                check_content(value, tree);
            }
        }
    }
}
