//! A tool's definition: a digest that ignores how the JSON was written, and a summary for people.
//!
//! The digest covers every member of the descriptor, `_meta` included: hosts get all of it. Keys are sorted and strings
//! unescaped, so that printing members in another order is not a change.

use std::{borrow::Cow, collections::BTreeMap, fmt::Write as _};

use callgate_wire::{Json, JsonKind, Strictness, quote};

use crate::{Digest, Operation, Tool};

/// The members of a descriptor that have their own summary, and its name.
const SUMMARISED: [&str; 7] = [
    "name",
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "annotations",
    "icons",
];
/// The longest text in a summary, in characters; the digest covers the whole text.
const SUMMARY_CHARS: usize = 600;

/// A tool's definition as its server lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// Covers the whole descriptor.
    pub digest: Digest,
    /// The operation that the annotations declare.
    pub class: Operation,
    pub title: Option<String>,
    /// `description`, shortened.
    pub description: Option<String>,
    /// The parameters: type, whether it is required, description.
    pub parameters: BTreeMap<String, String>,
    /// A short digest of the whole input schema.
    pub input: Option<String>,
    /// A short digest of the whole output schema.
    pub output: Option<String>,
    pub annotations: BTreeMap<String, String>,
    /// The `src` of each icon.
    pub icons: Vec<String>,
    /// Short digests of every other member: `_meta`, `execution`, unknown members.
    pub more: BTreeMap<String, String>,
}

impl Definition {
    pub fn of(tool: &Tool) -> Self {
        let whole = Json::validate(&tool.descriptor, Strictness::Full).ok();
        let member = |key: &str| whole.and_then(|json| json.get(key));
        let text = |key: &str| member(key).and_then(Json::as_str).map(shortened);
        let schema = |key: &str| member(key).map(|schema| digest_of(schema).short());
        Self {
            digest: tool.digest,
            class: tool.hints.operation(),
            title: text("title"),
            description: text("description"),
            parameters: member("inputSchema").map(parameters).unwrap_or_default(),
            input: schema("inputSchema"),
            output: schema("outputSchema"),
            annotations: member("annotations").map(annotations).unwrap_or_default(),
            icons: member("icons").map(icons).unwrap_or_default(),
            more: whole.map(more).unwrap_or_default(),
        }
    }
}

/// The digest of a descriptor.
pub(crate) fn digest_of(json: Json<'_>) -> Digest {
    let mut canonical = String::with_capacity(json.bytes().len());
    write_canonical(json, &mut canonical);
    Digest::of(canonical.as_bytes())
}

/// Writes the canonical form of `json`.
fn write_canonical(json: Json<'_>, out: &mut String) {
    match json.kind() {
        JsonKind::Object => {
            let mut members: Vec<(Cow<'_, str>, Json<'_>)> = named(json).collect();
            // Key order has no meaning in JSON, and a server may print its members in any order.
            members.sort_by(|(one, _), (other, _)| one.cmp(other));
            out.push('{');
            for (at, (key, value)) in members.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                out.push_str(&quote(&key));
                out.push(':');
                write_canonical(value, out);
            }
            out.push('}');
        }
        JsonKind::Array => {
            out.push('[');
            for (at, element) in json.elements().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_canonical(element, out);
            }
            out.push(']');
        }
        JsonKind::String => out.push_str(&quote(&json.as_str().unwrap_or_default())),
        // Numbers stay text: parsing would make two different numbers equal by rounding.
        JsonKind::Number | JsonKind::Bool | JsonKind::Null => out.push_str(json.as_text()),
    }
}

/// The members of an object with their keys unescaped.
fn named(object: Json<'_>) -> impl Iterator<Item = (Cow<'_, str>, Json<'_>)> {
    let members = object.members();
    members.map(|(key, value)| (key.as_str().unwrap_or_default(), value))
}

fn shortened(text: Cow<'_, str>) -> String {
    match text.char_indices().nth(SUMMARY_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}

fn parameters(schema: Json<'_>) -> BTreeMap<String, String> {
    let required: Vec<Cow<'_, str>> = schema
        .get("required")
        .map(|names| names.elements().filter_map(Json::as_str).collect())
        .unwrap_or_default();
    let Some(properties) = schema.get("properties") else {
        return BTreeMap::new();
    };
    named(properties)
        .map(|(name, property)| {
            let mut says = kind_of(property);
            if required.contains(&name) {
                says.push_str(", required");
            }
            if let Some(default) = property.get("default") {
                // Writing to a string cannot fail.
                let _ = write!(says, ", default {}", default.as_text());
            }
            if let Some(text) = property.get("description").and_then(Json::as_str) {
                let _ = write!(says, ": {text}");
            }
            (name.into_owned(), shortened(says.into()))
        })
        .collect()
}

fn kind_of(property: Json<'_>) -> String {
    match property.get("type") {
        Some(kind) => kind
            .as_str()
            .map_or_else(|| kind.as_text().to_owned(), Cow::into_owned),
        None => "any".to_owned(),
    }
}

fn annotations(written: Json<'_>) -> BTreeMap<String, String> {
    let one = |(key, value): (Cow<'_, str>, Json<'_>)| {
        let text = value
            .as_str()
            .unwrap_or_else(|| Cow::Borrowed(value.as_text()));
        (key.into_owned(), shortened(text))
    };
    named(written).map(one).collect()
}

fn icons(written: Json<'_>) -> Vec<String> {
    let source = |icon: Json<'_>| icon.get("src").and_then(Json::as_str).map(shortened);
    written.elements().filter_map(source).collect()
}

fn more(descriptor: Json<'_>) -> BTreeMap<String, String> {
    named(descriptor)
        // Digests only: these members have no known meaning that a summary could show.
        .filter(|(key, _)| !SUMMARISED.contains(&key.as_ref()))
        .map(|(key, value)| (key.into_owned(), digest_of(value).short()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(text: &str) -> Digest {
        digest_of(Json::validate(text.as_bytes(), Strictness::Full).unwrap())
    }

    #[test]
    fn equivalent_spellings_of_a_definition_have_one_digest() {
        let one =
            r#"{"name":"a","description":"x\u0041","inputSchema":{"type":"object","n":[1,2]}}"#;
        let other = r#"{ "inputSchema" : {"n":[1, 2], "type":"object"},
            "description":"xA", "name":"a" }"#;
        assert_eq!(digest(one), digest(other));
    }

    #[test]
    fn every_change_of_content_changes_the_digest() {
        let base = r#"{"name":"a","annotations":{"destructiveHint":true},"x":{"_meta":1}}"#;
        let others = [
            r#"{"name":"b","annotations":{"destructiveHint":true},"x":{"_meta":1}}"#,
            r#"{"name":"a","annotations":{"destructiveHint":false},"x":{"_meta":1}}"#,
            r#"{"name":"a","annotations":{},"x":{"_meta":1}}"#,
            r#"{"name":"a","annotations":{"destructiveHint":true},"x":{"_meta":2}}"#,
            r#"{"name":"a","annotations":{"destructiveHint":"true"},"x":{"_meta":1}}"#,
            r#"{"name":"a","annotations":{"destructiveHint":true}}"#,
            r#"{"name":"a","annotations":{"destructiveHint":true},"x":{"_meta":1},"_meta":{"t":1}}"#,
        ];
        for other in others {
            assert_ne!(digest(base), digest(other), "{other}");
        }
    }
}
