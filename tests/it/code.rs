//! The `code` view, as hosts, servers and auditors see it.

mod held;
mod limits;
mod packs;
mod records;
mod servers;
mod shell;
mod ways;

use callgate_testkit::{Host, HttpHost, processes_with};
use serde_json::{Value, json};

use crate::setup::{Bed, Served, VERSION};
use crate::talk;

/// Two servers, one of which answers structured content and one JSON text.
const CONFIG: &str = "\
servers:
  wix: {command: '@canned@', args: [--answers, '@dir@/wix.json', --ledger, '@dir@/ledger']}
  my-notes: {command: '@canned@', args: [--answers, '@dir@/notes.json', --ledger, '@dir@/ledger']}
  off: {command: '@canned@', enabled: false}
  dead: {command: /nonexistent/server}
server_defaults: {connect_wait: 3s}
";

fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn tool(name: &str, properties: Value, annotations: Value, result: Value) -> Value {
    json!({
        "tool": {
            "name": name,
            "description": format!("About {name}. More text."),
            "inputSchema": {"type": "object", "properties": properties},
            "annotations": annotations,
        },
        "result": result,
    })
}

/// A bed with both servers, and more configuration behind.
fn bed(more: &str) -> Bed {
    bed_of(&format!("{CONFIG}{more}"))
}

/// A bed with this configuration, and the answers of both servers beside it.
fn bed_of(config: &str) -> Bed {
    let bed = Bed::new(config);
    let reads = || json!({"readOnlyHint": true});
    let sites = json!({"sites": [{"id": "s1", "name": "Alpha"}, {"id": "s2", "name": "Beta"}]});
    let listed = json!({"content": [], "structuredContent": sites});
    let image = json!({"content": [{"type": "image", "mimeType": "image/png", "data": "AAAA"}]});
    let failure =
        json!({"content": [{"type": "text", "text": "no such product"}], "isError": true});
    let id = || json!({"product_id": {"type": "string"}, "include_variants": {"type": "boolean"}});
    let mut slow = tool("slow", json!({}), reads(), text("slow"));
    slow["delay_ms"] = json!(1000);
    let mut stuck = tool("stuck", json!({}), reads(), text("late"));
    stuck["delay_ms"] = json!(60_000);
    let wix = json!([
        tool("ListSites", json!({}), reads(), listed),
        tool("get-product", id(), reads(), json!("$arguments")),
        tool("picture", json!({}), reads(), image),
        tool("fails", json!({}), reads(), failure),
        tool(
            "large",
            json!({}),
            reads(),
            text(&"line of text\n".repeat(2000))
        ),
        tool("dup-name", json!({}), reads(), text("1")),
        tool("dupName", json!({}), reads(), text("2")),
        tool(
            "delete_site",
            json!({"id": {}}),
            json!({"destructiveHint": true}),
            text("gone")
        ),
        slow,
        stuck,
    ]);
    let pages = text(r#"[{"title": "Alpha page", "n": 12345678901234567890}]"#);
    let notes = json!([
        tool(
            "search",
            json!({"query": {"type": "string"}}),
            reads(),
            pages
        ),
        tool("plain", json!({}), reads(), text("plain text")),
    ]);
    std::fs::write(bed.path("wix.json"), wix.to_string()).expect("the folder is writable");
    std::fs::write(bed.path("notes.json"), notes.to_string()).expect("the folder is writable");
    bed
}

fn host(served: &Served) -> HttpHost {
    let url = format!("{}/code", served.url);
    let host = HttpHost::new(&url).expect("it listens on plain HTTP");
    let mut host = host.header("Authorization", &format!("Bearer {}", served.token));
    host.initialize(VERSION).expect("the gateway shakes hands");
    host
}

/// The workers that this gateway started.
fn workers_of(served: &Served) -> Vec<u32> {
    let parent = format!("PPid:\t{}\n", served.process.pid());
    let mut workers = processes_with("worker\u{0}134217728");
    workers.retain(|pid| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
        status.is_ok_and(|status| status.contains(&parent))
    });
    workers
}

/// Runs a script and gives the result.
fn run(host: &mut dyn Host, command: &str) -> Value {
    result_of(host, &json!({"command": command}))
}

fn result_of(host: &mut dyn Host, arguments: &Value) -> Value {
    let response = talk::call(host, "run", &arguments.to_string());
    assert!(response.get("error").is_none(), "{response}");
    response["result"].clone()
}

/// The text of a run that went well.
fn ran(host: &mut dyn Host, command: &str) -> String {
    let result = run(host, command);
    assert!(result.get("isError").is_none(), "{command}: {result}");
    said(&result)
}

/// The text of a run that did not.
fn failed(host: &mut dyn Host, command: &str) -> String {
    let result = run(host, command);
    assert_eq!(result["isError"], true, "{command}: {result}");
    said(&result)
}

fn said(result: &Value) -> String {
    let text = result["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("no text: {result}"))
        .to_owned()
}
