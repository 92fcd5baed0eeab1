//! `call_tool_*`: a call of another tool with a declared intent. This file only translates the request; the call path
//! checks everything.

use std::{borrow::Cow, sync::Arc};

use callgate_call::Reading;
use callgate_gate::{DeclaredIntent, Fault, Host, IntentRules, Operation};
use callgate_wire::{Frame, Json, JsonKind, Strictness, quote};

use super::super::{Interpreted, results};
use crate::Gateway;

/// A parsed `call_tool_*`: the tool, its arguments and the declared intent.
#[derive(Debug)]
pub(crate) struct DeclaredCall {
    /// The tool as named by the caller; `None` when the request names none.
    pub(crate) name: Option<String>,
    /// The tool's arguments, a JSON object.
    pub(crate) arguments: String,
    /// The intent, with the fault of a malformed request.
    pub(crate) declared: DeclaredIntent,
}

/// Translates a `call_tool_*` to the call that it stands for.
pub(super) fn take(
    gateway: &Gateway,
    host: &Arc<Host>,
    frame: Frame,
    variant: Operation,
) -> Interpreted {
    let settings = gateway.views.settings();
    let asked = read_call(variant, frame.param("arguments"), settings.intent);
    let DeclaredCall {
        name,
        arguments,
        declared,
    } = asked;
    let frame = match &name {
        // A malformed request is passed on too, with its fault: the path records and refuses it like any call.
        Some(name) => translated(&frame, name, &arguments).unwrap_or(frame),
        None => frame,
    };
    let (views, host) = (gateway.views.clone(), host.clone());
    // Applied to the finished answer, after it was recorded: the record has the whole result.
    let shape = move |answer| results::shaped(&views.results, &host, settings.inline_chars, answer);
    Interpreted::Call {
        frame,
        reading: Reading::Declared(Arc::new(declared)),
        shape: Some(Box::new(shape)),
    }
}

/// Reads the arguments of a `call_tool_*`. A malformed request sets the declaration's fault.
pub(crate) fn read_call(
    variant: Operation,
    given: Option<Json<'_>>,
    rules: IntentRules,
) -> DeclaredCall {
    let mut declared = DeclaredIntent::read(variant, given, rules);
    let name = given.and_then(|given| given.get("name"));
    let name = name.and_then(|name| name.as_str()).map(Cow::into_owned);
    let name = name.filter(|name| !name.is_empty());
    let arguments = match arguments(given) {
        Ok(arguments) => arguments,
        Err(text) => {
            declared.fault.get_or_insert(Fault::Arguments { text });
            // The record shows the malformed arguments as they were sent.
            given.map_or("{}", |given| given.as_text()).to_owned()
        }
    };
    if name.is_none() {
        let text = "`name` is required: the tool to call, as `server:tool`".to_owned();
        declared.fault.get_or_insert(Fault::Arguments { text });
    }
    DeclaredCall {
        name,
        arguments,
        declared,
    }
}

fn arguments(given: Option<Json<'_>>) -> Result<String, String> {
    let of = |key| {
        let value = given?.get(key)?;
        (!value.is_null()).then_some(value)
    };
    match (of("args"), of("args_json")) {
        (Some(_), Some(_)) => Err("give either `args` or `args_json`, not both".to_owned()),
        (None, None) => Ok("{}".to_owned()),
        (Some(args), None) if args.is_object() => Ok(args.as_text().to_owned()),
        (Some(_), None) => Err("`args` must be an object".to_owned()),
        (None, Some(text)) if text.kind() == JsonKind::String => {
            let text = text.as_str().unwrap_or_default();
            // Strict: duplicate keys could be read differently by the policy and by the server.
            let json = Json::validate(text.trim().as_bytes(), Strictness::Full)
                .map_err(|error| format!("`args_json` is not valid JSON: {error}"))?;
            if !json.is_object() {
                return Err("`args_json` must be a JSON object in a string".to_owned());
            }
            Ok(json.as_text().to_owned())
        }
        (None, Some(_)) => Err("`args_json` must be a string".to_owned()),
    }
}

/// The translated request: the same id and `_meta`, with the tool's name and arguments.
fn translated(frame: &Frame, name: &str, arguments: &str) -> Option<Frame> {
    let edit = frame.edit().param("name", &quote(name));
    let bytes = edit.param("arguments", arguments).finish();
    Frame::parse(bytes, Strictness::Full).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (String, Option<String>) {
        let json = Json::validate(text.as_bytes(), Strictness::Full).unwrap();
        let asked = read_call(Operation::Read, Some(json), IntentRules::default());
        (
            asked.arguments,
            asked.declared.fault.map(|fault| fault.to_string()),
        )
    }

    #[test]
    fn arguments_are_accepted_as_an_object_or_as_json_text() {
        let ok = r#""name":"s:t","operation_type":"read""#;
        let cases = [
            (r#""args":{"a": 1.0}"#, r#"{"a": 1.0}"#, None),
            (r#""args_json":" {\"a\": 1.0} ""#, r#"{"a": 1.0}"#, None),
            (r#""args":null"#, "{}", None),
            (
                r#""args":{},"args_json":"{}""#,
                "",
                Some("give either `args` or `args_json`, not both"),
            ),
            (r#""args":[]"#, "", Some("`args` must be an object")),
            (
                r#""args_json":"[]""#,
                "",
                Some("`args_json` must be a JSON object in a string"),
            ),
            (r#""args_json":7"#, "", Some("`args_json` must be a string")),
        ];
        for (given, arguments, fault) in cases {
            let (found, wrong) = read(&format!("{{{ok},{given}}}"));
            assert_eq!(wrong.as_deref(), fault, "{given}");
            if fault.is_none() {
                assert_eq!(found, arguments, "{given}");
            }
        }
        let (_, wrong) = read(&format!(r#"{{{ok},"args_json":"{{\"a\":1,\"a\":2}}"}}"#));
        assert!(wrong.is_some_and(|wrong| wrong.starts_with("`args_json` is not valid JSON: ")));
    }

    #[test]
    fn a_missing_tool_name_and_a_missing_intent_are_reported() {
        let (_, wrong) = read(r#"{"operation_type":"read"}"#);
        assert_eq!(
            wrong.as_deref(),
            Some("`name` is required: the tool to call, as `server:tool`")
        );
        let (_, wrong) = read(r#"{"args":[]}"#);
        assert_eq!(
            wrong.as_deref(),
            Some("intent parameter is required for call_tool_read")
        );
    }

    #[test]
    fn a_translated_request_keeps_its_id_and_meta() {
        let text = r#"{"jsonrpc":"2.0","id":"7","method":"tools/call","params":{"_meta":{"progressToken":3},"name":"call_tool_read","arguments":{"name":"s:t","args":{"x": 1e2}}}}"#;
        let frame = Frame::parse(text.into(), Strictness::Full).unwrap();
        let frame = translated(&frame, "s:t", r#"{"x": 1e2}"#).unwrap();
        let expected = r#"{"jsonrpc":"2.0","id":"7","method":"tools/call","params":{"_meta":{"progressToken":3},"name":"s:t","arguments":{"x": 1e2}}}"#;
        assert_eq!(frame.bytes(), expected);
    }
}
