//! `describe_tool`: the full descriptors of a few tools.

use std::sync::Arc;

use callgate_gate::{CallerIdentity, Host, Target, Tool};
use callgate_wire::{Json, Strictness, quote};
use serde_json::Value;

use super::ViewError;
use crate::Gateway;

/// The limit of tools per request.
const MAX_NAMES: usize = 5;

pub(super) async fn answer(
    gateway: Gateway,
    host: Arc<Host>,
    arguments: Value,
) -> Result<String, ViewError> {
    let names = names(&arguments)?;
    gateway.path.providers().first_connect(None).await;
    let mut tools = Vec::new();
    let mut unknown = Vec::new();
    for name in names {
        match seen(&gateway, &host.identity, name) {
            Some(tool) => tools.push(described(&tool)),
            None => unknown.push(name),
        }
    }
    // An error only if every name is unknown: the others are still worth returning.
    if tools.is_empty() {
        let unknown = unknown.join(", ");
        let text = format!("unknown tool: {unknown}. Use retrieve_tools to find names.");
        return Err(ViewError::new("TOOL_NOT_FOUND", text));
    }
    let unknown: Vec<String> = unknown.into_iter().map(quote).collect();
    Ok(format!(
        r#"{{"tools":[{}],"not_found":[{}]}}"#,
        tools.join(","),
        unknown.join(",")
    ))
}

/// The tool of that name, if the policy shows it to this caller.
pub(crate) fn seen(gateway: &Gateway, identity: &CallerIdentity, name: &str) -> Option<Arc<Tool>> {
    let providers = gateway.path.providers();
    let policy = providers.policy();
    // Resolved as for a call, so that a name works here exactly if it works there.
    match providers.catalog().resolve(name, &policy, identity) {
        Ok(Target::Tool(tool)) => policy.shows_to(&tool, identity).then_some(tool),
        Ok(
            Target::Prompt(_) | Target::Resource(_) | Target::Completion(_) | Target::Method { .. },
        )
        | Err(_) => None,
    }
}

/// The server's descriptor, under the name that calls use.
pub(crate) fn described(tool: &Tool) -> String {
    let mut members = vec![format!(r#""name":{}"#, quote(&tool.canonical()))];
    let descriptor = Json::validate(&tool.descriptor, Strictness::Envelope).ok();
    for (key, value) in descriptor.into_iter().flat_map(Json::members) {
        if key.as_str().as_deref() != Some("name") {
            members.push(format!("{}:{}", key.as_text(), value.as_text()));
        }
    }
    let server = quote(tool.server.as_str());
    let call_with = tool.hints.operation().call_tool();
    members.push(format!(r#""server":{server},"call_with":"{call_with}""#));
    format!("{{{}}}", members.join(","))
}

fn names(arguments: &Value) -> Result<Vec<&str>, ViewError> {
    let wrong = || ViewError::arguments("`names` must be 1 to 5 tool names, as `server:tool`");
    let names = match arguments.get("names") {
        Some(Value::String(only)) => vec![only.as_str()],
        Some(Value::Array(names)) => {
            let texts: Option<Vec<&str>> = names.iter().map(Value::as_str).collect();
            texts.ok_or_else(wrong)?
        }
        Some(_) | None => return Err(wrong()),
    };
    if names.is_empty() || names.len() > MAX_NAMES {
        return Err(wrong());
    }
    Ok(names)
}
