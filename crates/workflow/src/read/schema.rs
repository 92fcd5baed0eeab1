//! The JSON Schema of workflow files, for editors. Its keys and words come from the tables that the parser uses.

use std::collections::BTreeMap;

use callgate_agent::AgentKind;
use serde_json::{Map, Value, json};

use super::{INITIAL, KEYS, PARAMETERS, budget, inputs, kinds, state};

/// The schema as a JSON text.
pub fn schema() -> String {
    let mut root = properties(KEYS.iter().copied().chain([PARAMETERS]), of_root);
    root.insert("states".to_owned(), states());
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Callgate workflow",
        "description": "docs/workflows.md explains the keys; `callgate validate` checks more than this schema",
        "type": "object",
        "required": ["states"],
        "properties": root,
        "$defs": {"state": of_state(), "hook": hook(), "ending": ending()},
    });
    serde_json::to_string_pretty(&schema).unwrap_or_default()
}

fn properties<'k>(
    keys: impl IntoIterator<Item = &'k str>,
    of: fn(&str) -> Value,
) -> Map<String, Value> {
    let keys: BTreeMap<&str, ()> = keys.into_iter().map(|key| (key, ())).collect();
    keys.into_keys()
        .map(|key| (key.to_owned(), of(key)))
        .collect()
}

fn words<T>(table: &[(&str, T)]) -> Value {
    json!({"enum": table.iter().map(|(word, _)| *word).collect::<Vec<_>>()})
}

fn texts() -> Value {
    json!({"type": "array", "items": {"type": "string"}})
}

fn duration() -> Value {
    json!({"type": ["string", "number"], "description": "such as 30s or 10m; a number is seconds"})
}

fn object(keys: &[&str], of: fn(&str) -> Value) -> Value {
    json!({"type": "object", "properties": properties(keys.iter().copied(), of), "additionalProperties": false})
}

fn of_root(key: &str) -> Value {
    match key {
        "version" => {
            json!({"type": ["string", "number"], "description": "marks the full form: name, initial and a terminal state are needed"})
        }
        "tags" | "env" => texts(),
        "inputs" => json!({"type": "array", "items": object(&inputs::KEYS, of_input)}),
        "outputs" => {
            let keys = ["name", "from", "description", "type"];
            json!({"type": "array", "items": object(&keys, |_| json!({"type": "string"}))})
        }
        "hooks" => object(
            &[
                "workflow_start",
                "workflow_end",
                "workflow_error",
                "workflow_cancel",
            ],
            |_| json!({"$ref": "#/$defs/hook"}),
        ),
        "parameters" => json!({"type": "array", "items": {"type": "object", "required": ["name"]}}),
        "plugins" => json!({"type": "object"}),
        budget::KEY => budget(),
        _ => json!({"type": "string"}),
    }
}

fn of_input(key: &str) -> Value {
    match key {
        "type" => words(&inputs::KINDS),
        "validation" => object(&inputs::RULES, of_input),
        "required" | "file_exists" => json!({"type": "boolean"}),
        "min" | "max" => json!({"type": "number"}),
        "enum" => json!({"type": "array"}),
        "file_extension" => texts(),
        "default" => json!({}),
        _ => json!({"type": "string"}),
    }
}

fn states() -> Value {
    json!({
        "type": "object",
        "properties": {INITIAL: {"type": "string", "description": "the first state to run"}},
        "additionalProperties": {"$ref": "#/$defs/state"},
    })
}

fn of_state() -> Value {
    let own = state::TYPES
        .iter()
        .flat_map(|(_, kind)| kinds::own_keys(*kind));
    let keys = state::COMMON.iter().chain(own).copied();
    let mut properties = properties(keys, of_key);
    properties.insert("agent".to_owned(), object(&kinds::AGENT, of_key));
    for key in ["use_template", "parameters"] {
        properties.insert(key.to_owned(), json!({}));
    }
    json!({"type": "object", "properties": properties})
}

fn of_key(key: &str) -> Value {
    match key {
        "type" => words(&state::TYPES),
        "timeout" => duration(),
        "retry" => object(&state::RETRY, of_retry),
        "transitions" => {
            let transition = object(
                &["when", "goto"],
                |_| json!({"type": ["string", "boolean"]}),
            );
            json!({"type": "array", "items": transition})
        }
        "on_success" | "on_failure" | "on_complete" => json!({"$ref": "#/$defs/ending"}),
        "continue_on_error" => json!({"type": "boolean"}),
        "depends_on" | "body" | "tools" => texts(),
        "skills" => json!({"type": "array", "items": {"type": ["string", "object"]}}),
        budget::KEY => budget(),
        "parallel" | "branches" | "steps" => {
            json!({"type": "array", "items": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/state"}]}})
        }
        "strategy" => words(&kinds::STRATEGIES),
        "output_format" => words(&kinds::FORMATS),
        "max_concurrent" => json!({"type": "integer"}),
        "max_iterations" => json!({"type": ["integer", "string"]}),
        "provider" => {
            let known = AgentKind::PROGRAMS
                .iter()
                .chain([&AgentKind::OpenAiCompatible]);
            let known: Vec<&str> = known.map(|kind| kind.as_str()).collect();
            json!({"type": "string", "examples": known})
        }
        "options" => {
            let keys: Vec<&str> = kinds::TEXTS.into_iter().chain(kinds::OTHERS).collect();
            json!({"type": "object", "properties": properties(keys, |_| json!({}))})
        }
        "mode" => json!({"enum": ["single", "conversation"]}),
        "conversation" => object(&["continue_from"], |_| json!({"type": "string"})),
        "mcp_proxy" => object(&super::proxy::KEYS, of_proxy),
        "hooks" => object(&["pre", "post"], |_| json!({"$ref": "#/$defs/hook"})),
        "pre_hook" | "post_hook" => json!({"$ref": "#/$defs/hook"}),
        "capture" => object(
            &["stdout", "stderr", "max_size", "encoding"],
            |_| json!({"type": ["string", "integer"]}),
        ),
        "loop" => json!({"type": "object"}),
        "inputs" | "operation_inputs" | "outputs" | "call_workflow" => json!({"type": "object"}),
        "items" => json!({"type": ["string", "array"]}),
        "when" | "while" | "break_when" => {
            json!({"type": ["string", "boolean"], "description": "a condition"})
        }
        "status" => words(&state::STATUSES),
        _ => json!({"type": "string"}),
    }
}

fn of_retry(key: &str) -> Value {
    match key {
        "backoff" => words(&state::BACKOFFS),
        "initial_delay" | "max_delay" => duration(),
        "retryable_exit_codes" => json!({"type": "array", "items": {"type": "integer"}}),
        _ => json!({"type": "number"}),
    }
}

fn budget() -> Value {
    object(&budget::KEYS, |key| match key {
        "time" => duration(),
        "cost" => json!({"type": "number", "description": "in dollars"}),
        _ => json!({"type": "integer"}),
    })
}

fn of_proxy(key: &str) -> Value {
    match key {
        "tools" => texts(),
        "plugin_tools" => {
            let tools = object(&super::proxy::TOOL_KEYS, |key| match key {
                "expose" => texts(),
                _ => json!({"type": "string"}),
            });
            json!({"type": "array", "items": tools})
        }
        _ => json!({"type": "boolean"}),
    }
}

fn hook() -> Value {
    let action = object(&["log", "command"], |_| json!({"type": "string"}));
    json!({"anyOf": [action, {"type": "array", "items": action}]})
}

fn ending() -> Value {
    json!({
        "description": "the next state, or how the workflow ends",
        "anyOf": [
            {"type": "string"},
            {
                "type": "object",
                "properties": {"message": {"type": "string"}, "status": {"anyOf": [words(&state::STATUSES), {"type": "integer"}]}},
                "additionalProperties": false,
            },
        ],
    })
}
