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
                item.finding(Code::Malformed, what);
            }
            inputs.push(input);
        }
    }
    inputs
}

fn one(field: &Field<'_>) -> Option<Input> {
    field.only(&KEYS, Code::UnknownKey);
    let name = field.must("name")?.text()?;
    let kind = field
        .get("type")
        .map_or(Some(InputKind::String), |kind| kind.one_of(&KINDS))?;
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
        pattern.finding(
            Code::Malformed,
            format!("invalid regular expression: {error}"),
        );
        return None;
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
    if let Some(default) = field.get("default") {
        match given::shaped(&input, &default.node.to_value()) {
            Ok(value) => input.default = Some(value),
            Err(why) => default.finding(Code::Malformed, format!("invalid default: {why}")),
        }
    }
    Some(input)
}
