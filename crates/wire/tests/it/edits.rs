//! Laws of edits, checked against the same change made to a parsed document.

use callgate_wire::{Edit, Frame, Id, Json, Strictness};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::documents::{object, style, value, written};

#[derive(Debug, Clone)]
enum Change {
    Id(u64),
    Param(String, Value),
    Meta(String, Value),
    RemoveMeta(String),
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("name".to_owned()),
        Just("progressToken".to_owned()),
        Just("dev/é\"\n".to_owned()),
        "[a-c]",
    ]
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        any::<u64>().prop_map(Change::Id),
        (key(), value()).prop_map(|(key, value)| Change::Param(key, value)),
        (key(), value()).prop_map(|(key, value)| Change::Meta(key, value)),
        key().prop_map(Change::RemoveMeta),
    ]
}

/// A request's `params`: absent, or an object with likely keys, with or without `_meta`.
fn params() -> impl Strategy<Value = Option<Map<String, Value>>> {
    let members = || vec((key(), value()), 0..4).prop_map(Map::from_iter);
    let meta = prop_oneof![
        Just(None),
        members().prop_map(|members| Some(Value::Object(members))),
        Just(Some(Value::Null)),
    ];
    let object = (members(), meta, any::<bool>()).prop_map(|(members, meta, first)| {
        let mut out = Map::new();
        let meta = meta.map(|meta| ("_meta".to_owned(), meta));
        if first {
            out.extend(meta.clone());
        }
        out.extend(members);
        out.extend(meta);
        out
    });
    proptest::option::weighted(0.9, object)
}

fn request(params: &Option<Map<String, Value>>) -> Value {
    let mut request = json!({"jsonrpc": "2.0", "id": "x\n", "method": "tools/call"});
    if let Some(params) = params {
        request["params"] = Value::Object(params.clone());
    }
    request
}

fn parse(text: &str) -> Frame {
    Frame::parse(text.to_owned().into(), Strictness::Full).expect("a valid request")
}

fn apply<'f>(edit: Edit<'f>, change: &Change) -> Edit<'f> {
    match change {
        Change::Id(id) => edit.id(&Id::number(*id)),
        Change::Param(key, value) => edit.param(key, &value.to_string()),
        Change::Meta(key, value) => edit.meta(key, &value.to_string()),
        Change::RemoveMeta(key) => edit.remove_meta(|name| name == key),
    }
}

/// The same changes made to a document: removals first, since a setting wins over them.
fn model(mut request: Value, changes: &[Change]) -> Value {
    for change in changes {
        if let Change::RemoveMeta(key) = change
            && let Some(Value::Object(meta)) = request.pointer_mut("/params/_meta")
        {
            meta.shift_remove(key);
            meta.insert("\0removed".to_owned(), Value::Null);
        }
    }
    for change in changes {
        match change {
            Change::Id(id) => request["id"] = json!(id),
            Change::Param(key, value) => request["params"][key] = value.clone(),
            Change::Meta(key, value) => {
                let params = &mut request["params"];
                if !params["_meta"].is_object() {
                    params["_meta"] = json!({});
                }
                params["_meta"][key] = value.clone();
            }
            Change::RemoveMeta(_) => {}
        }
    }
    request
}

/// Takes the model's mark of a removal away, and `_meta` with it where a removal emptied it.
fn settled(mut request: Value, before: &Value) -> Value {
    let held = before.pointer("/params/_meta").and_then(Value::as_object);
    let held = held.is_some_and(|meta| !meta.is_empty());
    let mut emptied = false;
    if let Some(Value::Object(meta)) = request.pointer_mut("/params/_meta") {
        let marked = meta.shift_remove("\0removed").is_some();
        emptied = marked && held && meta.is_empty();
    }
    if emptied && let Some(params) = request["params"].as_object_mut() {
        params.shift_remove("_meta");
    }
    request
}

proptest! {
    #[test]
    fn editing_nothing_is_the_identity(params in params(), style in style()) {
        let text = written(&request(&params), &style);
        let frame = parse(&text);
        prop_assert_eq!(frame.edit().finish(), text.clone());
        let same = frame.edit().remove_meta(|_| false).finish();
        prop_assert_eq!(same, text.clone());
        let expected = text.replace(['\n', '\r'], " ") + "\n";
        prop_assert_eq!(frame.edit().finish_line(), expected);
    }

    #[test]
    fn edits_change_exactly_the_named_parts(
        params in params(),
        style in style(),
        changes in vec(change(), 0..6),
    ) {
        let before = request(&params);
        let text = written(&before, &style);
        let frame = parse(&text);
        let edit = || changes.iter().fold(frame.edit(), apply);
        let changed = edit().finish();
        let again = Frame::parse(changed.clone(), Strictness::Full);
        prop_assert!(again.is_ok(), "{again:?}: {changed:?}");
        let read: Value = serde_json::from_slice(&changed).expect("JSON");
        // Written and read again, because the other reader rounds some numbers when it reads.
        let expected = settled(model(before.clone(), &changes), &before).to_string();
        let expected: Value = serde_json::from_str(&expected).expect("JSON");
        prop_assert_eq!(read, expected);
        let one_line = edit().finish_line();
        let breaks = one_line.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count();
        prop_assert_eq!(breaks, 1);
        prop_assert_eq!(one_line.last(), Some(&b'\n'));
    }

    #[test]
    fn untouched_members_keep_their_bytes(
        params in params(),
        style in style(),
        change in change(),
    ) {
        let text = written(&request(&params), &style);
        let frame = parse(&text);
        let changed = apply(frame.edit(), &change).finish();
        let changed = Frame::parse(changed, Strictness::Full).expect("valid");
        let touched = match &change {
            Change::Id(_) => "",
            Change::Param(key, _) => key,
            Change::Meta(..) | Change::RemoveMeta(_) => "_meta",
        };
        prop_assert_eq!(changed.method(), frame.method());
        for (key, value) in frame.params().into_iter().flat_map(Json::members) {
            let key = key.as_str().expect("a key");
            if key != touched {
                prop_assert_eq!(changed.param(&key), Some(value));
            }
        }
        for (key, value) in frame.param("_meta").into_iter().flat_map(Json::members) {
            let key = key.as_str().expect("a key");
            match &change {
                Change::Meta(name, _) | Change::RemoveMeta(name) if *name == key => {}
                Change::Id(_) | Change::Param(..) | Change::Meta(..) | Change::RemoveMeta(_) => {
                    prop_assert_eq!(changed.meta(&key), Some(value));
                }
            }
        }
    }

    #[test]
    fn removing_inserted_meta_restores_the_text(members in object(), style in style()) {
        let mut params = members;
        params.retain(|key, _| key.is_ascii() && !["_META", "NAME", "URI"].contains(&key.to_uppercase().as_str()));
        let before = request(&Some(params));
        let text = written(&before, &style);
        let frame = parse(&text);
        let inserted = frame.edit().meta("our/key", "[1]").finish();
        let inserted = Frame::parse(inserted, Strictness::Full).expect("valid");
        prop_assert_eq!(inserted.meta("our/key").map(Json::as_text), Some("[1]"));
        let restored = inserted.edit().remove_meta(|key| key == "our/key").finish();
        prop_assert_eq!(restored, text);
    }
}
