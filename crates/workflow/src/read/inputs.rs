//! Parses the inputs of a workflow.

use serde_json::Value;

use super::field::Field;
use crate::{Code, Input, InputKind, given};

const KEYS: [&str; 10] = [
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
const RULES: [&str; 4] = ["pattern", "enum", "min", "max"];

const KINDS: [(&str, InputKind); 6] = [
    ("string", InputKind::String),
    ("integer", InputKind::Integer),
    ("number", InputKind::Number),
    ("boolean", InputKind::Boolean),
    ("array", InputKind::Array),
    ("object", InputKind::Object),
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
                item.finding(Code::WrongType, what);
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
            Code::WrongType,
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
    };
    if let Some(default) = field.get("default") {
        match given::checked(&input, &default.node.to_value()) {
            Ok(value) => input.default = Some(value),
            Err(why) => default.finding(Code::WrongType, format!("invalid default: {why}")),
        }
    }
    Some(input)
}
