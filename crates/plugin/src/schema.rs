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
            ("array", "[1]", "", json!({"type": "array", "default": [1]})),
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
