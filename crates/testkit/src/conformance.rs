//! Table: the tools, resources and prompts whose names and answers the MCP conformance suite fixes.

pub mod asked;
pub mod asking;
pub mod reading;

use serde_json::{Value, json};

/// A PNG of one red pixel.
pub const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

/// A WAV file without samples.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

/// The arguments that a tool takes.
enum Takes {
    Nothing,
    /// One text: its name and its description.
    Text(&'static str, &'static str),
    HeaderArguments,
    Schema202012,
}

/// The tools: name, description, arguments.
const TOOLS: &[(&str, &str, Takes)] = &[
    ("test_simple_text", "Returns simple text", Takes::Nothing),
    ("test_image_content", "Returns an image", Takes::Nothing),
    ("test_audio_content", "Returns audio", Takes::Nothing),
    (
        "test_embedded_resource",
        "Returns an embedded resource",
        Takes::Nothing,
    ),
    (
        "test_multiple_content_types",
        "Returns several types of content",
        Takes::Nothing,
    ),
    (
        "test_tool_with_logging",
        "Logs while it works",
        Takes::Nothing,
    ),
    (
        "test_tool_with_progress",
        "Reports progress while it works",
        Takes::Nothing,
    ),
    ("test_error_handling", "Always fails", Takes::Nothing),
    (
        "test_sampling",
        "Asks the client's model",
        Takes::Text("prompt", "What to ask the model"),
    ),
    (
        "test_elicitation",
        "Asks the user",
        Takes::Text("message", "What to ask the user"),
    ),
    (
        "test_elicitation_sep1034_defaults",
        "Asks with default values",
        Takes::Nothing,
    ),
    (
        "test_elicitation_sep1330_enums",
        "Asks with every kind of enum",
        Takes::Nothing,
    ),
    ("test_reconnection", "Answers after a pause", Takes::Nothing),
    (
        "test_custom_headers",
        "Has arguments that stand in headers, too",
        Takes::HeaderArguments,
    ),
    ("test_missing_capability", "Needs sampling", Takes::Nothing),
    ("test_logging_tool", "Logs while it works", Takes::Nothing),
    (
        "test_streaming_elicitation",
        "Asks the user",
        Takes::Nothing,
    ),
    (
        "test_trigger_tool_change",
        "Changes the list of tools",
        Takes::Nothing,
    ),
    (
        "test_trigger_prompt_change",
        "Changes the list of prompts",
        Takes::Nothing,
    ),
    (
        "test_input_required_result_elicitation",
        "Asks the user's name",
        Takes::Nothing,
    ),
    (
        "test_input_required_result_sampling",
        "Asks the client's model",
        Takes::Nothing,
    ),
    (
        "test_input_required_result_list_roots",
        "Asks for roots",
        Takes::Nothing,
    ),
    (
        "test_input_required_result_request_state",
        "Asks with a state",
        Takes::Nothing,
    ),
    (
        "test_input_required_result_multiple_inputs",
        "Asks three things",
        Takes::Nothing,
    ),
    (
        "test_input_required_result_multi_round",
        "Asks twice",
        Takes::Nothing,
    ),
    (
        "test_input_required_result_tampered_state",
        "Checks its state",
        Takes::Nothing,
    ),
    (
        "test_input_required_result_capabilities",
        "Asks what it may",
        Takes::Nothing,
    ),
    (
        "json_schema_2020_12_tool",
        "Tool with JSON Schema 2020-12 features",
        Takes::Schema202012,
    ),
];

/// The descriptors of the tools.
pub fn tools() -> Vec<Value> {
    let descriptor = |(name, description, takes): &(&str, &str, Takes)| json!({"name": name, "description": description, "inputSchema": takes.schema()});
    TOOLS.iter().map(descriptor).collect()
}

impl Takes {
    fn schema(&self) -> Value {
        match self {
            Self::Nothing => json!({"type": "object", "properties": {}}),
            Self::Text(name, description) => json!({
                "type": "object",
                "properties": {*name: {"type": "string", "description": description}},
                "required": [name],
            }),
            Self::HeaderArguments => json!({"type": "object", "properties": {
                "region": {"type": "string", "x-mcp-header": "Region"},
                "priority": {"type": "integer", "x-mcp-header": "Priority"},
                "verbose": {"type": "boolean", "x-mcp-header": "Verbose"},
            }}),
            Self::Schema202012 => schema_2020_12(),
        }
    }
}

/// The content of the tools that only return some.
pub fn content(tool: &str) -> Option<Value> {
    let image = json!({"type": "image", "data": PNG, "mimeType": "image/png"});
    Some(match tool {
        "test_simple_text" => {
            json!([{"type": "text", "text": "This is a simple text response for testing."}])
        }
        "test_image_content" => json!([image]),
        "test_audio_content" => json!([{"type": "audio", "data": WAV, "mimeType": "audio/wav"}]),
        "test_embedded_resource" => json!([{"type": "resource", "resource": {
            "uri": "test://embedded-resource",
            "mimeType": "text/plain",
            "text": "This is an embedded resource content.",
        }}]),
        "test_multiple_content_types" => json!([
            {"type": "text", "text": "Multiple content types test:"},
            image,
            {"type": "resource", "resource": {
                "uri": "test://mixed-content-resource",
                "mimeType": "application/json",
                "text": r#"{"test":"data","value":123}"#,
            }},
        ]),
        "test_custom_headers" => json!([{"type": "text", "text": "done"}]),
        "json_schema_2020_12_tool" => {
            json!([{"type": "text", "text": "JSON Schema 2020-12 tool called"}])
        }
        _ => return None,
    })
}

/// The plain question to the user.
pub fn elicitation(message: &str) -> Value {
    json!({
        "message": message,
        "requestedSchema": {
            "type": "object",
            "properties": {
                "username": {"type": "string", "description": "User's response"},
                "email": {"type": "string", "description": "User's email address"},
            },
            "required": ["username", "email"],
        },
    })
}

/// The question with a default value of every primitive type.
pub fn defaults() -> Value {
    json!({
        "message": "Please review the values",
        "requestedSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "default": "John Doe"},
                "age": {"type": "integer", "default": 30},
                "score": {"type": "number", "default": 95.5},
                "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
                "verified": {"type": "boolean", "default": true},
            },
            "required": [],
        },
    })
}

/// The question with every kind of enum.
pub fn enums() -> Value {
    let titled = |word: &str| {
        json!([
            {"const": "value1", "title": format!("First {word}")},
            {"const": "value2", "title": format!("Second {word}")},
            {"const": "value3", "title": format!("Third {word}")},
        ])
    };
    let options = ["option1", "option2", "option3"];
    json!({
        "message": "Please choose",
        "requestedSchema": {
            "type": "object",
            "properties": {
                "untitledSingle": {"type": "string", "enum": options},
                "titledSingle": {"type": "string", "oneOf": titled("Option")},
                "legacyEnum": {
                    "type": "string",
                    "enum": ["opt1", "opt2", "opt3"],
                    "enumNames": ["Option One", "Option Two", "Option Three"],
                },
                "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
                "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
            },
            "required": [],
        },
    })
}

/// The listed resources.
pub fn resources() -> Value {
    json!([
        {"uri": "test://static-text", "name": "Static Text Resource", "description": "A static text resource", "mimeType": "text/plain"},
        {"uri": "test://static-binary", "name": "Static Binary Resource", "description": "A static image", "mimeType": "image/png"},
        {"uri": "test://watched-resource", "name": "Watched Resource", "description": "A resource to subscribe to", "mimeType": "text/plain"},
    ])
}

/// The listed resource templates.
pub fn templates() -> Value {
    json!([{"uriTemplate": "test://template/{id}/data", "name": "Resource Template", "description": "A resource with a parameter", "mimeType": "application/json"}])
}

/// The listed prompts.
pub fn prompts() -> Value {
    let argument = |name: &str, description: &str| json!({"name": name, "description": description, "required": true});
    json!([
        {"name": "test_simple_prompt", "description": "A prompt without arguments"},
        {"name": "test_prompt_with_arguments", "description": "A prompt with two arguments", "arguments": [
            argument("arg1", "First test argument"),
            argument("arg2", "Second test argument"),
        ]},
        {"name": "test_prompt_with_embedded_resource", "description": "A prompt with a resource in it", "arguments": [
            argument("resourceUri", "URI of the resource to embed"),
        ]},
        {"name": "test_prompt_with_image", "description": "A prompt with an image in it"},
        {"name": "test_input_required_result_prompt", "description": "A prompt that asks first"},
    ])
}

fn schema_2020_12() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            },
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}
