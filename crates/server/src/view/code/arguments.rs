//! Maps a script's arguments to the parameters of a tool's schema: by position, by name, or by a unique prefix of a name.

use std::sync::Arc;

use callgate_gate::Tool;
use callgate_wire::{Json, Strictness, quote};

use crate::view::search::signature;

/// A tool that a script calls, with its parameters read once for all calls.
#[derive(Debug)]
pub(super) struct Callable {
    pub(super) tool: Arc<Tool>,
    pub(super) canonical: String,
    /// The parameters in the schema's order, for positional arguments.
    parameters: Vec<String>,
}

impl Callable {
    pub(super) fn new(tool: Arc<Tool>) -> Self {
        let descriptor = Json::validate(&tool.descriptor, Strictness::Envelope).ok();
        let parameters = descriptor
            .and_then(|json| json.get("inputSchema")?.get("properties"))
            .into_iter()
            .flat_map(Json::members)
            .filter_map(|(name, _)| name.as_str().map(|name| name.into_owned()))
            .collect();
        Self {
            canonical: tool.canonical(),
            parameters,
            tool,
        }
    }

    fn signature(&self) -> String {
        let descriptor = Json::validate(&self.tool.descriptor, Strictness::Envelope).ok();
        signature(descriptor.and_then(|json| json.get("inputSchema")))
    }
}

/// The arguments as one JSON object. Values are not re-serialized.
pub(super) fn named(called: &Callable, args: &str, kwargs: &str) -> Result<String, String> {
    let unreadable = |_| "could not read the arguments".to_owned();
    let args = Json::validate(args.as_bytes(), Strictness::Full).map_err(unreadable)?;
    let kwargs = Json::validate(kwargs.as_bytes(), Strictness::Full)
        .map_err(|error| format!("could not send the arguments: {error}"))?;
    let parameters = &called.parameters;
    let mut given: Vec<(String, &str)> = Vec::new();
    let by_place: Vec<Json<'_>> = args.elements().collect();
    match by_place.as_slice() {
        // Models often pass one dict with all arguments. It is taken as such only if every key is a parameter, since a
        // dict can also be the first parameter's value.
        [only] if kwargs.members().next().is_none() && is_arguments(*only, parameters) => {
            for (key, value) in only.members() {
                let key = key.as_str().unwrap_or_default();
                given.push((parameter(&key, parameters)?, value.as_text()));
            }
        }
        places => {
            // The message includes the signature, so that a model can correct its call without looking the tool up.
            if places.len() > parameters.len() {
                let most = parameters.len();
                return Err(format!(
                    "`{}` takes {most} arguments: {}",
                    called.tool.name,
                    called.signature()
                ));
            }
            for (name, value) in parameters.iter().zip(places) {
                given.push((name.clone(), value.as_text()));
            }
        }
    }
    for (key, value) in kwargs.members() {
        let key = key.as_str().unwrap_or_default();
        let name = parameter(&key, parameters)?;
        if given.iter().any(|(known, _)| *known == name) {
            return Err(format!("`{name}` is given twice"));
        }
        given.push((name, value.as_text()));
    }
    let members: Vec<String> = given
        .iter()
        .map(|(name, value)| format!("{}:{value}", quote(name)))
        .collect();
    Ok(format!("{{{}}}", members.join(",")))
}

fn is_arguments(value: Json<'_>, parameters: &[String]) -> bool {
    let mut keys = value.members().peekable();
    value.is_object()
        && keys.peek().is_some()
        && keys.all(|(key, _)| {
            let key = key.as_str().unwrap_or_default();
            parameters.iter().any(|parameter| *parameter == key)
        })
}

/// The parameter that a name stands for: exact, or the only one with this prefix. An unknown name is passed on, and the
/// server reports it.
fn parameter(name: &str, parameters: &[String]) -> Result<String, String> {
    if parameters.iter().any(|parameter| parameter == name) {
        return Ok(name.to_owned());
    }
    let meant: Vec<&str> = parameters
        .iter()
        .filter(|parameter| parameter.starts_with(name))
        .map(String::as_str)
        .collect();
    match meant.as_slice() {
        [] => Ok(name.to_owned()),
        [only] => Ok((*only).to_owned()),
        several => Err(format!("`{name}` could be {}", several.join(" or "))),
    }
}

#[cfg(test)]
mod tests {
    use callgate_gate::ServerName;

    use super::*;

    fn tool() -> Callable {
        let descriptor = r#"{"name":"get","inputSchema":{"type":"object","properties":{"product_id":{"type":"string"},"include_variants":{"type":"boolean"},"include_all":{},"n":{}}}}"#;
        let server = ServerName::new("wix").unwrap();
        Callable::new(Arc::new(
            Tool::from_descriptor(&server, descriptor.into()).unwrap(),
        ))
    }

    #[test]
    fn script_arguments_are_matched_to_parameters() {
        let cases = [
            ("[]", r#"{"product_id":"a"}"#, r#"{"product_id":"a"}"#),
            (
                "[]",
                r#"{"product":"a","n":1.0}"#,
                r#"{"product_id":"a","n":1.0}"#,
            ),
            (
                r#"["a",true]"#,
                "{}",
                r#"{"product_id":"a","include_variants":true}"#,
            ),
            (
                r#"["a"]"#,
                r#"{"n":null}"#,
                r#"{"product_id":"a","n":null}"#,
            ),
            (r#"[{"product_id":"a"}]"#, "{}", r#"{"product_id":"a"}"#),
            (r#"[{"x":1}]"#, "{}", r#"{"product_id":{"x":1}}"#),
            ("[]", r#"{"other":[1,{"b":2}]}"#, r#"{"other":[1,{"b":2}]}"#),
            ("[]", "{}", "{}"),
        ];
        for (args, kwargs, expected) in cases {
            assert_eq!(named(&tool(), args, kwargs).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn an_ambiguous_argument_is_an_error_naming_both_parameters() {
        let wrong = |args, kwargs| named(&tool(), args, kwargs).unwrap_err();
        let both = "`include` could be include_variants or include_all";
        assert_eq!(wrong("[]", r#"{"include":1}"#), both);
        let twice = wrong(r#"["a"]"#, r#"{"product_id":"b"}"#);
        assert_eq!(twice, "`product_id` is given twice");
        assert!(wrong("[1,2,3,4,5]", "{}").starts_with("`get` takes 4 arguments"));
    }
}
