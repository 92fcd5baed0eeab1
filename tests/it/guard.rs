//! One gateway asks another: what is asked and answered, what counts when there is no answer, and that
//! tenants have nothing of each other.

mod agreeing;
mod answering;
mod approving;
mod example;
mod failing;
pub(crate) mod fake;
mod tenants;

use callgate_testkit::HttpHost;
use serde_json::Value;

use crate::setup::Served;

/// Asks a route of a gateway with a JSON body.
pub(crate) fn asked(served: &Served, token: &str, route: &str, body: &str) -> (u16, Value) {
    let url = served.url.replace("/mcp", route);
    let bearer = format!("Bearer {token}");
    let mut headers = vec![("Content-Type", "application/json")];
    if !token.is_empty() {
        headers.push(("Authorization", bearer.as_str()));
    }
    let host = HttpHost::new(&url).expect("an http URL");
    let reply = host.send("POST", &headers, body.as_bytes());
    let reply = reply.expect("it answers");
    let status = reply.status;
    let text = reply.text().expect("it has a body");
    let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    (status, body)
}

/// A question about a tool by its name.
fn about(command: &str) -> String {
    serde_json::json!({"schema_version": "v1", "scope": "mcp_tool", "command": command}).to_string()
}

/// The configuration of a gateway that asks another.
fn asker(guard: &Served, more: &str) -> String {
    let url = guard.url.replace("/mcp", "");
    let token = &guard.token;
    format!(
        "\
servers: {{n: {{command: '@counter@', args: [--ledger, '@dir@/ledger', --marker, '@dir@']}}}}
guard: {{url: '{url}', api_key: {token}}}
{more}"
    )
}
