//! Generated JSON texts with every way that the grammar has to write a thing down: short and long
//! escapes, numbers of any form, white space between all tokens, keys that may repeat.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// A text of one value, with space around it.
pub(crate) fn text() -> impl Strategy<Value = String> {
    spaced(scalar().prop_recursive(5, 48, 6, |inner| {
        prop_oneof![array(inner.clone()), object(key(), inner)]
    }))
}

/// A text that looks like a message, so that there are members to be noted at each depth.
pub(crate) fn message() -> impl Strategy<Value = String> {
    let meta = prop_oneof![object(key(), scalar()), array(scalar()), scalar()];
    let body = object(likely(&["_meta", "name", "\\u005fmeta"]), spaced(meta));
    let body = prop_oneof![4 => body, 1 => scalar(), 1 => array(scalar())];
    let top = likely(&["params", "result", "id", "r\\u0065sult"]);
    spaced(object(top, spaced(body)))
}

/// A text with some of its bytes changed, dropped or doubled.
pub(crate) fn damaged(text: impl Strategy<Value = String>) -> impl Strategy<Value = Vec<u8>> {
    let damage = vec((any::<Index>(), 0..4u8, damaging()), 1..4);
    (text, damage).prop_map(|(text, damage)| {
        let mut bytes = text.into_bytes();
        for (place, how, byte) in damage {
            let place = place.index(bytes.len());
            match how {
                0 => bytes[place] = byte,
                1 => bytes.insert(place, byte),
                2 => bytes.extend_from_within(place..),
                _ if bytes.len() > 1 => drop(bytes.remove(place)),
                _ => {}
            }
        }
        bytes
    })
}

/// Bytes that mean something, and any other.
fn damaging() -> impl Strategy<Value = u8> {
    prop_oneof![
        select(b"{}[]\",:\\ \n\r\t0-.eEu\x00\x1f\x7f\x80\xC3\xEF\xFF".to_vec()),
        any::<u8>(),
    ]
}

fn scalar() -> impl Strategy<Value = String> {
    prop_oneof![
        select(vec!["null", "true", "false"]).prop_map(str::to_owned),
        "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,9})?([eE][+-]?[0-9]{1,4})?",
        string(),
    ]
}

fn string() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "[ !#-\\[\\]-~]{0,30}",
        "[é😀\u{7f}\u{17F}\u{2028}\u{FEFF}]{1,3}",
        "\\\\[\"\\\\/bfnrt]",
        "\\\\u[0-9a-cA-C][0-9a-fA-F]{3}",
        "\\\\u[dD][89abAB][0-9a-f]{2}\\\\u[dD][c-fC-F][0-9a-f]{2}",
    ];
    vec(part, 0..4).prop_map(|parts| format!("\"{}\"", parts.concat()))
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        string(),
        "\"[a-c]\"",
        select(vec!["\"\\u0061\"".to_owned()])
    ]
}

fn likely(keys: &[&str]) -> impl Strategy<Value = String> + use<> {
    let keys: Vec<String> = keys.iter().map(|key| format!("\"{key}\"")).collect();
    prop_oneof![3 => select(keys), 1 => key()]
}

fn array(inner: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    vec(spaced(inner), 0..5).prop_map(|elements| match elements.len() {
        0 => "[ ]".to_owned(),
        _ => format!("[{}]", elements.join(",")),
    })
}

fn object(
    key: impl Strategy<Value = String>,
    inner: impl Strategy<Value = String>,
) -> impl Strategy<Value = String> {
    let member = (spaced(key), spaced(inner)).prop_map(|(key, value)| format!("{key}:{value}"));
    vec(member, 0..5).prop_map(|members| match members.len() {
        0 => "{\n}".to_owned(),
        _ => format!("{{{}}}", members.join(",")),
    })
}

fn spaced(inner: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let space = || prop_oneof![4 => Just(String::new()), 1 => "[ \t\n\r]{1,3}"];
    (space(), inner, space()).prop_map(|(before, inner, after)| before + &inner + &after)
}
