//! Maps operations to tool descriptors: inputs become JSON Schema, outputs go into the description.
//!
//! Nothing is guessed: if the type, validation or default of one input has no counterpart, the whole operation
//! is refused, with the input's name.

use serde_json::{Map, Value, json};

use crate::proto::v1::{InputSchema, OperationSchema, OutputSchema};

/// For `_meta`: without it Claude Code cuts results at 50,000 characters.
const RESULT_CHARS: u64 = 500_000;

/// An input that has no form in JSON Schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("plugin `{plugin}`, operation `{operation}`, input `{input}`: {why}")]
pub struct UnsupportedSchema {
    pub plugin: String,
    pub operation: String,
    pub input: String,
    pub why: String,
}

/// The input types that map to JSON Schema.
#[derive(Clone, Copy)]
enum Kind {
    String,
    Integer,
    Boolean,
    Array,
    Object,
}

pub(crate) fn descriptor(
    plugin: &str,
    operation: &OperationSchema,
) -> Result<Value, UnsupportedSchema> {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for input in &operation.inputs {
        let property = property(input).map_err(|why| UnsupportedSchema {
            plugin: plugin.to_owned(),
            operation: operation.name.clone(),
            input: input.name.clone(),
            why,
        })?;
        if properties.insert(input.name.clone(), property).is_some() {
            return Err(UnsupportedSchema {
                plugin: plugin.to_owned(),
                operation: operation.name.clone(),
                input: input.name.clone(),
                why: "it is declared twice".to_owned(),
            });
        }
        if input.required {
            required.push(input.name.clone());
        }
    }
    Ok(json!({
        "name": operation.name,
        "description": description(operation),
        "inputSchema": {"type": "object", "properties": properties, "required": required},
        "_meta": {"anthropic/maxResultSizeChars": RESULT_CHARS},
    }))
}

/// All mistakes in the inputs of a call; empty if there are none. Inputs that the operation does not declare are
/// passed on: agents add some of their own.
pub(crate) fn mistakes(operation: &OperationSchema, inputs: &Map<String, Value>) -> Vec<String> {
    let one = |input: &InputSchema| {
        let name = &input.name;
        match inputs.get(name) {
            None if input.required => Some(format!("input `{name}` is missing")),
            None => None,
            Some(value) => mistake(input, value).map(|why| format!("input `{name}` {why}")),
        }
    };
    operation.inputs.iter().filter_map(one).collect()
}

fn mistake(input: &InputSchema, value: &Value) -> Option<String> {
    let kind = Kind::of(&input.r#type)?;
    if !kind.fits(value) {
        let (wanted, found) = (kind.as_str(), type_of(value));
        return Some(format!("must have the type {wanted}, found {found}"));
    }
    let text = value.as_str()?;
    let (fits, wanted) = match input.validation.as_str() {
        "url" => (is_url(text), "a URL"),
        "email" => (is_email(text), "an email address"),
        _ => return None,
    };
    (!fits).then(|| format!("must be {wanted}"))
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn is_url(text: &str) -> bool {
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    text.split_once("://").is_some_and(|(scheme, rest)| {
        !scheme.is_empty()
            && scheme.chars().all(is_scheme)
            && !rest.is_empty()
            && !text.contains(char::is_whitespace)
    })
}

fn is_email(text: &str) -> bool {
    let parts = text.split_once('@');
    parts.is_some_and(|(name, host)| {
        !name.is_empty() && !host.is_empty() && !text.contains(char::is_whitespace)
    })
}

fn description(operation: &OperationSchema) -> String {
    let mut text = operation.description.trim().to_owned();
    let outputs: Vec<String> = operation.outputs.iter().map(output).collect();
    if !outputs.is_empty() {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str("Outputs: ");
        text.push_str(&outputs.join("; "));
        text.push('.');
    }
    text
}

fn output(output: &OutputSchema) -> String {
    let OutputSchema {
        name,
        r#type,
        description,
    } = output;
    match description.trim().trim_end_matches('.') {
        "" => format!("{name} ({type})"),
        text => format!("{name} ({type}): {text}"),
    }
}

fn property(input: &InputSchema) -> Result<Value, String> {
    let kind = Kind::of(&input.r#type)
        .ok_or_else(|| format!("type `{}` cannot be mapped", input.r#type))?;
    let mut property = Map::new();
    property.insert("type".to_owned(), kind.as_str().into());
    // Some models refuse a list without it. The plugin's schema does not say what the items are.
    if matches!(kind, Kind::Array) {
        property.insert("items".to_owned(), json!({}));
    }
    if !input.description.is_empty() {
        property.insert("description".to_owned(), input.description.clone().into());
    }
    match input.validation.as_str() {
        "" => {}
        "url" => drop(property.insert("format".to_owned(), "uri".into())),
        "email" => drop(property.insert("format".to_owned(), "email".into())),
        other => return Err(format!("validation `{other}` cannot be mapped")),
    }
    if !input.default.is_empty() {
        let default = kind.coerced(&input.default);
        let wrong = || {
            format!(
                "default `{}` is not a valid {}",
                input.default,
                kind.as_str()
            )
        };
        property.insert("default".to_owned(), default.ok_or_else(wrong)?);
    }
    Ok(property.into())
}

impl Kind {
    fn of(word: &str) -> Option<Self> {
        match word {
            "string" => Some(Self::String),
            "integer" => Some(Self::Integer),
            "boolean" => Some(Self::Boolean),
            "array" => Some(Self::Array),
            "object" => Some(Self::Object),
            _ => None,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Boolean => "boolean",
            Self::Array => "array",
            Self::Object => "object",
        }
    }

    fn fits(self, value: &Value) -> bool {
        match self {
            Self::String => value.is_string(),
            // As in JSON Schema, 3.0 is an integer.
            Self::Integer => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            Self::Boolean => value.is_boolean(),
            Self::Array => value.is_array(),
            Self::Object => value.is_object(),
        }
    }

    fn coerced(self, text: &str) -> Option<Value> {
        let parsed = || serde_json::from_str::<Value>(text).ok();
        match self {
            Self::String => Some(text.into()),
            Self::Integer => text.trim().parse::<i64>().ok().map(Value::from),
            Self::Boolean => text.trim().parse::<bool>().ok().map(Value::from),
            Self::Array => parsed().filter(Value::is_array),
            Self::Object => parsed().filter(Value::is_object),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(r#type: &str, default: &str, validation: &str) -> InputSchema {
        InputSchema {
            name: "x".to_owned(),
            r#type: r#type.to_owned(),
            required: true,
            default: default.to_owned(),
            description: String::new(),
            validation: validation.to_owned(),
        }
    }

    #[test]
    fn supported_inputs_are_mapped_to_json_schema() {
        for (kind, default, validation, expected) in [
            ("string", "", "", json!({"type": "string"})),
            (
                "string",
                "12",
                "",
                json!({"type": "string", "default": "12"}),
            ),
            (
                "integer",
                "12",
                "",
                json!({"type": "integer", "default": 12}),
            ),
            (
                "boolean",
                "true",
                "",
                json!({"type": "boolean", "default": true}),
            ),
            (
                "array",
                "[1]",
                "",
                json!({"type": "array", "items": {}, "default": [1]}),
            ),
            (
                "object",
                r#"{"a":1}"#,
                "",
                json!({"type": "object", "default": {"a": 1}}),
            ),
            (
                "string",
                "",
                "url",
                json!({"type": "string", "format": "uri"}),
            ),
            (
                "string",
                "",
                "email",
                json!({"type": "string", "format": "email"}),
            ),
        ] {
            let mapped = property(&input(kind, default, validation));
            assert_eq!(mapped, Ok(expected), "{kind} {default} {validation}");
        }
    }

    #[test]
    fn unsupported_inputs_are_refused() {
        for (kind, default, validation, expected) in [
            ("float", "", "", "type `float` cannot be mapped"),
            ("", "", "", "type `` cannot be mapped"),
            ("integer", "x", "", "default `x` is not a valid integer"),
            ("integer", "1.5", "", "default `1.5` is not a valid integer"),
            ("boolean", "yes", "", "default `yes` is not a valid boolean"),
            ("array", "{}", "", "default `{}` is not a valid array"),
            ("object", "[]", "", "default `[]` is not a valid object"),
            ("string", "", "regex", "validation `regex` cannot be mapped"),
        ] {
            let mapped = property(&input(kind, default, validation));
            assert_eq!(mapped, Err(expected.to_owned()));
        }
    }

    #[test]
    fn all_mistakes_in_inputs_are_found() {
        let named = |name: &str, kind: &str, required: bool, validation: &str| InputSchema {
            name: name.to_owned(),
            required,
            ..input(kind, "", validation)
        };
        let operation = OperationSchema {
            name: "get".to_owned(),
            description: String::new(),
            inputs: vec![
                named("text", "string", true, ""),
                named("n", "integer", true, ""),
                named("yes", "boolean", false, ""),
                named("list", "array", false, ""),
                named("map", "object", false, ""),
                named("at", "string", false, "url"),
                named("to", "string", false, "email"),
            ],
            outputs: Vec::new(),
        };
        let found = |inputs: Value| {
            let inputs = inputs.as_object().cloned().expect("a map");
            mistakes(&operation, &inputs)
        };
        let right = json!({"text": "", "n": 3.0, "yes": false, "list": [], "map": {}, "at": "https://x.y/z", "to": "a@b", "more": 1});
        assert_eq!(found(right), [""; 0]);
        assert_eq!(found(json!({"text": "x", "n": -4})), [""; 0]);
        let wrong =
            json!({"n": 1.5, "yes": "true", "list": {}, "map": null, "at": "x.y", "to": "@b"});
        let expected = [
            "input `text` is missing",
            "input `n` must have the type integer, found number",
            "input `yes` must have the type boolean, found string",
            "input `list` must have the type array, found object",
            "input `map` must have the type object, found null",
            "input `at` must be a URL",
            "input `to` must be an email address",
        ];
        assert_eq!(found(wrong), expected);
    }

    #[test]
    fn outputs_are_listed_in_the_description() {
        let operation = OperationSchema {
            name: "get".to_owned(),
            description: "Gets pods.".to_owned(),
            inputs: vec![input("string", "", "")],
            outputs: vec![
                OutputSchema {
                    name: "pods".to_owned(),
                    r#type: "array".to_owned(),
                    description: "what runs.".to_owned(),
                },
                OutputSchema {
                    name: "count".to_owned(),
                    r#type: "integer".to_owned(),
                    description: String::new(),
                },
            ],
        };
        let tool = descriptor("k8s", &operation).expect("it can be mapped");
        assert_eq!(
            tool["description"],
            "Gets pods. Outputs: pods (array): what runs; count (integer)."
        );
        assert_eq!(tool["inputSchema"]["required"], json!(["x"]));
    }
}
