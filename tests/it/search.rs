//! The `search` view, as hosts, servers and auditors see it.

mod api;
mod budgets;
mod endings;
mod finding;
mod intent;
mod large;
mod shell;

use callgate_testkit::{Host, HttpHost};
use serde_json::{Value, json};

use crate::setup::{Bed, Served, VERSION};
use crate::talk;

/// One upstream `s` whose tools are in a file, and which counts what reaches it.
const CATALOG: &str = "\
servers: {s: {command: '@counter@', args: [--ledger, '@dir@/ledger', --catalog, '@dir@/tools.json']}}
policy: allow-all
";

/// A bed whose upstream has these tools, with more configuration behind.
fn bed_with(tools: &Value, more: &str) -> Bed {
    let bed = Bed::new(&format!("{CATALOG}{more}"));
    offer(&bed, tools);
    bed
}

/// Changes what the upstream lists from now on.
fn offer(bed: &Bed, tools: &Value) {
    std::fs::write(bed.path("tools.json"), tools.to_string()).expect("the folder is writable");
}

/// A tool with these annotations, which takes a key.
fn tool(name: &str, annotations: Value) -> Value {
    let schema = json!({"type": "object", "properties": {"key": {"type": "string"}}});
    let mut tool =
        json!({"name": name, "description": format!("the tool {name}"), "inputSchema": schema});
    if !annotations.is_null() {
        tool["annotations"] = annotations;
    }
    tool
}

/// A host of the `search` view, by its URL.
fn search_host(served: &Served) -> HttpHost {
    host_at(served, "/search")
}

/// A host of the view under this path below `/mcp`.
fn host_at(served: &Served, path: &str) -> HttpHost {
    let url = format!("{}{path}", served.url);
    let host = HttpHost::new(&url).expect("it listens on plain HTTP");
    let mut host = host.header("Authorization", &format!("Bearer {}", served.token));
    host.initialize(VERSION).expect("the gateway shakes hands");
    host
}

/// Calls one of the view's tools and gives the result.
fn call(host: &mut dyn Host, tool: &str, arguments: &Value) -> Value {
    let response = talk::call(host, tool, &arguments.to_string());
    assert!(response.get("error").is_none(), "{response}");
    response["result"].clone()
}

/// The JSON in the first text of a result.
fn answer_of(result: &Value) -> Value {
    let text = result["content"][0]["text"].as_str().expect("a text");
    serde_json::from_str(text).unwrap_or_else(|_| panic!("no JSON: {text}"))
}

/// The code and text of a refused call; the text is in both places.
fn refusal(result: &Value) -> (String, String) {
    assert_eq!(result["isError"], true, "{result}");
    let text = result["content"][0]["text"].as_str().expect("a text");
    let structured = &result["structuredContent"];
    assert_eq!(structured["message"], text, "{result}");
    let code = structured["code"].as_str().expect("a code");
    (code.to_owned(), text.to_owned())
}
