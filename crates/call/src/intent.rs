//! intent: checks a declared intent against the tool, and the arguments against the tool's schema, before policy is asked.
//! Calls without a declaration pass.
//!
//! The check of arguments serves the model, which learns how to correct them; it is not a security check. A schema that cannot
//! be compiled, refers to other documents or is too large checks nothing: the server validates its arguments itself.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use callgate_gate::{Attempt, Call, DeclaredIntent, Fault, Policy, Target, Tool};
use callgate_wire::{Json, Strictness};
use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

/// A schema larger than this is not compiled.
const MAX_SCHEMA_BYTES: usize = 256 * 1024;
/// Arguments larger than this are not checked.
const MAX_ARGUMENT_BYTES: usize = 1024 * 1024;
/// How many compiled schemas are cached. A full cache is emptied.
const MAX_COMPILED: usize = 1000;
/// How many violations are listed.
const MAX_NAMED: usize = 5;
/// How much of one violation is shown.
const MAX_NAMED_CHARS: usize = 200;
/// How much of a schema is shown.
const MAX_SHOWN_CHARS: usize = 6000;

/// The fault of a malformed declaration, which is independent of the target.
pub(crate) fn declaration_fault(attempt: &Attempt) -> Option<&Fault> {
    attempt.declared.as_ref()?.fault.as_ref()
}

/// Checks a declaration and the arguments against the tool as it is now. `Ok` may carry a warning.
pub(crate) fn check(
    declared: &DeclaredIntent,
    call: &Call,
    policy: &Policy,
    schemas: &Schemas,
) -> Result<Option<String>, Fault> {
    let Target::Tool(tool) = &call.target else {
        return Ok(None);
    };
    let warning = declared.against(tool)?;
    // The error shows the schema, which must stay hidden from callers that may not see the tool. Policy denies their call.
    if policy.shows_to(tool, &call.attempt.host.identity) {
        schemas.check(tool, call.attempt.frame.param("arguments"))?;
    }
    Ok(warning)
}

/// A cache of compiled schemas.
#[derive(Debug, Default)]
pub(crate) struct Schemas {
    /// By the tool's address, which differs between snapshots. An address can be reused, so `CompiledSchema::of` is compared too.
    compiled: Mutex<HashMap<usize, CompiledSchema>>,
}

#[derive(Debug)]
struct CompiledSchema {
    of: Weak<Tool>,
    /// `None` for a schema that checks nothing.
    validator: Option<Arc<Validator>>,
}

impl Schemas {
    fn check(&self, tool: &Arc<Tool>, arguments: Option<Json<'_>>) -> Result<(), Fault> {
        let text = arguments.map_or("{}", |arguments| arguments.as_text());
        if text.len() > MAX_ARGUMENT_BYTES {
            return Ok(());
        }
        let Some(validator) = self.validator(tool) else {
            return Ok(());
        };
        let Ok(arguments) = serde_json::from_str::<Value>(text) else {
            return Ok(());
        };
        // The fast check first; collecting the errors is needed only for the text.
        if validator.is_valid(&arguments) {
            return Ok(());
        }
        let errors = validator.iter_errors(&arguments);
        let named: Vec<String> = errors
            .take(MAX_NAMED)
            .map(|error| named(&error.instance_path().to_string(), &error.to_string()))
            .collect();
        Err(Fault::Arguments {
            text: correction_text(tool, &named),
        })
    }

    fn validator(&self, tool: &Arc<Tool>) -> Option<Arc<Validator>> {
        let key = Arc::as_ptr(tool) as usize;
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = compiled.get(&key)
            // The address may belong to another tool by now.
            && kept.of.upgrade().is_some_and(|of| Arc::ptr_eq(&of, tool))
        {
            return kept.validator.clone();
        }
        if compiled.len() >= MAX_COMPILED {
            compiled.clear();
        }
        let validator = compile(tool).map(Arc::new);
        let of = Arc::downgrade(tool);
        let kept = validator.clone();
        compiled.insert(key, CompiledSchema { of, validator });
        kept
    }
}

fn compile(tool: &Tool) -> Option<Validator> {
    let text = schema_text(tool)?;
    if text.len() > MAX_SCHEMA_BYTES {
        return None;
    }
    let schema: Value = serde_json::from_str(text).ok()?;
    // Patterns come from the server and run over the host's arguments. This engine is linear in time; a pattern that needs
    // backtracking makes the schema check nothing, instead of being a way to stall the gateway.
    let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
    options.build(&schema).ok()
}

fn schema_text(tool: &Tool) -> Option<&str> {
    let descriptor = Json::validate(&tool.descriptor, Strictness::Envelope).ok()?;
    Some(descriptor.get("inputSchema")?.as_text())
}

fn named(path: &str, what: &str) -> String {
    let what: String = what.chars().take(MAX_NAMED_CHARS).collect();
    match path.trim_start_matches('/') {
        "" => format!("- {what}"),
        path => format!("- {path}: {what}"),
    }
}

/// The text from which a model can correct its call.
fn correction_text(tool: &Tool, named: &[String]) -> String {
    let schema = schema_text(tool).unwrap_or("{}");
    let (shown, cut): (String, &str) = match schema.char_indices().nth(MAX_SHOWN_CHARS) {
        None => (schema.to_owned(), ""),
        Some((at, _)) => (schema[..at].to_owned(), "… (cut; use describe_tool)"),
    };
    format!(
        "Arguments do not fit the schema of '{}':\n{}\nSchema: {shown}{cut}\nCorrect the arguments and call again.",
        tool.canonical(),
        named.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use callgate_gate::ServerName;

    use super::*;

    fn tool(schema: &str) -> Arc<Tool> {
        let text = format!(r#"{{"name":"open","inputSchema":{schema}}}"#);
        let server = ServerName::new("files").unwrap();
        Arc::new(Tool::from_descriptor(&server, Bytes::from(text)).unwrap())
    }

    fn check(schema: &str, arguments: &str) -> Result<(), String> {
        let arguments = Json::validate(arguments.as_bytes(), Strictness::Full).unwrap();
        let checked = Schemas::default().check(&tool(schema), Some(arguments));
        checked.map_err(|fault| fault.to_string())
    }

    #[test]
    fn schema_violations_are_reported_with_the_schema() {
        let schema = r#"{"type":"object","properties":{"path":{"type":"string"},"depth":{"type":"integer"}},"required":["path"]}"#;
        assert_eq!(check(schema, r#"{"path":"/a","depth":1}"#), Ok(()));
        let text = check(schema, r#"{"depth":"x"}"#).unwrap_err();
        assert!(
            text.starts_with("Arguments do not fit the schema of 'files:open':\n- "),
            "{text}"
        );
        assert!(
            text.contains("- depth: \"x\" is not of type \"integer\""),
            "{text}"
        );
        assert!(text.contains("\"path\" is a required property"), "{text}");
        assert!(text.contains(&format!("Schema: {schema}\n")), "{text}");
    }

    #[test]
    fn unusable_schemas_check_nothing() {
        for schema in [
            r#"{"type":"nonsense"}"#,
            r#"{"$ref":"https://example.com/schema.json"}"#,
            r#"{"properties":{"a":{"pattern":"(?=look)"}}}"#,
            "7",
        ] {
            assert_eq!(check(schema, r#"{"a":1}"#), Ok(()), "{schema}");
        }
    }

    #[test]
    fn a_schema_is_compiled_once_per_tool() {
        let schemas = Schemas::default();
        let (one, other) = (tool(r#"{"required":["a"]}"#), tool(r#"{"required":["b"]}"#));
        let compiled = schemas.validator(&one).unwrap();
        assert!(Arc::ptr_eq(&compiled, &schemas.validator(&one).unwrap()));
        let arguments = Json::validate(br#"{"a":1}"#, Strictness::Full).unwrap();
        assert!(schemas.check(&one, Some(arguments)).is_ok());
        assert!(schemas.check(&other, Some(arguments)).is_err());
    }
}
