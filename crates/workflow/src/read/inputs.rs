//! Parses the inputs of a workflow.

use serde_json::Value;

use super::field::Field;
use crate::{Code, Input, InputKind, given};

pub(super) const KEYS: [&str; 10] = [
    "name",
    "type",
    "description",
    "required",
    "default",
    "pattern",
    "enum",
    "min",
    "max",
    "validation",
];
pub(super) const RULES: [&str; 6] = [
    "pattern",
    "enum",
    "min",
    "max",
    "file_exists",
    "file_extension",
];

pub(super) const KINDS: [(&str, InputKind); 12] = [
    ("string", InputKind::String),
    ("integer", InputKind::Integer),
    ("number", InputKind::Number),
    ("boolean", InputKind::Boolean),
    ("array", InputKind::Array),
    ("object", InputKind::Object),
    ("int", InputKind::Integer),
    ("float", InputKind::Number),
    ("bool", InputKind::Boolean),
    ("list", InputKind::Array),
    ("map", InputKind::Object),
    ("file", InputKind::String),
];

pub(super) fn read(root: &Field<'_>) -> Vec<Input> {
    let Some(field) = root.get("inputs") else {
        return Vec::new();
    };
    let items = field.items().unwrap_or_default();
    let mut inputs: Vec<Input> = Vec::new();
    for item in &items {
        if let Some(input) = one(item) {
            if inputs.iter().any(|known| known.name == input.name) {
                let what = format!("duplicate input `{}`", input.name);
                item.warning(Code::IgnoredKey, what);
                continue;
            }
            inputs.push(input);
        }
    }
    inputs
}

fn one(field: &Field<'_>) -> Option<Input> {
    field.only(&KEYS, Code::UnknownKey);
    let Some(name) = field.get("name") else {
        let what = "ignored: the input has no name".to_owned();
        field.warning(Code::IgnoredKey, what);
        return None;
    };
    let name = name.text()?;
    let kind = field
        .get("type")
        .map_or(Some(InputKind::String), |kind| kind_of(&kind))?;
    let validation = field.get("validation");
    if let Some(validation) = &validation {
        validation.only(&RULES, Code::UnknownKey);
    }
    // Rules are accepted on the input itself and under `validation`.
    let rule = |key: &str| {
        let inner = validation.as_ref().and_then(|rules| rules.get(key));
        field.get(key).or(inner)
    };
    let pattern = rule("pattern");
    let written = pattern.as_ref().and_then(Field::text);
    if let (Some(pattern), Some(text)) = (&pattern, &written)
        && let Err(error) = regex::Regex::new(text)
    {
        // No value matches it.
        let what = format!("invalid regular expression: {error}");
        pattern.warning(Code::Malformed, what);
    }
    let allowed = rule("enum").and_then(|field| field.items());
    let allowed: Vec<Value> = allowed
        .unwrap_or_default()
        .iter()
        .map(|item| item.node.to_value())
        .collect();
    let mut input = Input {
        name,
        kind,
        required: field.get("required").and_then(|field| field.yes_or_no()) == Some(true),
        default: None,
        pattern: written,
        allowed,
        min: rule("min").and_then(|field| field.number()),
        max: rule("max").and_then(|field| field.number()),
        file_exists: rule("file_exists").and_then(|field| field.yes_or_no()) == Some(true),
        file_extension: rule("file_extension")
            .map(|field| field.texts())
            .unwrap_or_default(),
    };
    if let Some(default) = field.given("default") {
        let value = default.node.to_value();
        input.default = Some(given::shaped(&input, &value).unwrap_or_else(|why| {
            // A run without another value for it does not begin.
            default.warning(Code::Malformed, format!("invalid default: {why}"));
            value
        }));
    }
    Some(input)
}

/// The type of an input. An unknown one is a text.
fn kind_of(field: &Field<'_>) -> Option<InputKind> {
    let text = field.text()?;
    let known = KINDS.iter().find(|(word, _)| *word == text);
    if known.is_none() {
        let words: Vec<&str> = KINDS.iter().map(|(word, _)| *word).collect();
        let what = format!(
            "unknown type `{text}`, read as a string; types: {}",
            words.join(", ")
        );
        field.warning(Code::IgnoredKey, what);
    }
    Some(known.map_or(InputKind::String, |(_, kind)| *kind))
}
