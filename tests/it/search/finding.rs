//! `retrieve_tools`, `describe_tool` and the list of the view itself.

use callgate_testkit::Host;
use serde_json::{Value, json};

use super::{answer_of, bed_with, call, host_at, refusal, search_host};
use crate::setup::VERSION;
use crate::talk;

const USAGE: &str = "Use call_tool_read for read-only operations, call_tool_write for modifications, call_tool_destructive for deletions. Intent must match tool variant.";

fn library() -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    json!([
        {"name": "lend_book", "description": "Lend a book to a reader. It must be on the shelf.",
         "inputSchema": {"type": "object", "properties": {"title": text("The book"), "reader": text("Who gets it"),
            "days": {"type": "integer", "default": 14}}, "required": ["title", "reader"]}},
        {"name": "list_books", "description": "List all books", "inputSchema": {"type": "object"},
         "annotations": {"readOnlyHint": true}},
        {"name": "burn_book", "description": "Destroy a book for good", "inputSchema": {"type": "object"},
         "annotations": {"destructiveHint": true}},
        {"name": "order_online", "description": "Order a book from a shop", "inputSchema": {"type": "object"},
         "annotations": {"openWorldHint": true}},
        {"name": "secret_books", "description": "List hidden books", "inputSchema": {"type": "object"}},
        {"name": "old_books", "description": "List old books", "inputSchema": {"type": "object"}},
    ])
}

/// `secret_books` is hidden by policy, `old_books` switched off by the configuration.
fn library_bed() -> crate::setup::Bed {
    let bed = bed_with(&library(), "");
    let rules = "version: '1'\nname: hide\nrules:\n  - scope: mcp_tool\n    deny: [{pattern: 's:secret_*'}]\n    allow: [{pattern: '*:*'}]\n";
    std::fs::write(bed.path("policy.yaml"), rules).expect("the folder is writable");
    let text = bed
        .filled_in(super::CATALOG)
        .replace("policy: allow-all", "policy: policy.yaml");
    let text = text.replace("tools.json']}}", "tools.json'], tools: {deny: ['old_*']}}}");
    std::fs::write(bed.path("callgate.yaml"), text).expect("the folder is writable");
    bed
}

fn found(host: &mut dyn Host, arguments: Value) -> Vec<String> {
    let answer = answer_of(&call(host, "retrieve_tools", &arguments));
    let tools = answer["tools"].as_array().expect("a list").clone();
    let name = |tool: &Value| tool["name"].as_str().expect("a name").to_owned();
    tools.iter().map(name).collect()
}

#[test]
fn search_answers_have_the_documented_form() {
    let bed = library_bed();
    let served = bed.serve();
    let mut host = search_host(&served);
    let asked = json!({"query": "lend somebody a book", "limit": 1});
    let answer = answer_of(&call(&mut host, "retrieve_tools", &asked));
    let schema = library()[0]["inputSchema"].clone();
    let score = answer["tools"][0]["score"].as_f64().expect("a number");
    assert!(
        score > 0.0 && score <= 1.0 && (score * 1000.0).fract().abs() < 1e-6,
        "{score}"
    );
    assert_eq!(
        answer,
        json!({"tools": [{"name": "s:lend_book", "description": "Lend a book to a reader. It must be on the shelf.",
            "inputSchema": schema, "score": score, "server": "s", "call_with": "call_tool_write"}],
            "query": "lend somebody a book", "total": answer["total"], "usage_instructions": USAGE})
    );
    let compact = json!({"query": "lend somebody a book", "limit": 1, "detail": "compact"});
    let compact = answer_of(&call(&mut host, "retrieve_tools", &compact));
    assert_eq!(
        compact["tools"][0],
        json!({"name": "s:lend_book", "description": "Lend a book to a reader",
            "signature": "(title*:str, reader*:str, days:int=14)", "score": score, "server": "s",
            "call_with": "call_tool_write"})
    );
    let nothing = answer_of(&call(&mut host, "retrieve_tools", &json!({"query": "zzz"})));
    assert_eq!(
        (&nothing["tools"], &nothing["total"]),
        (&json!([]), &json!(0))
    );
    let (code, _) = refusal(&call(&mut host, "retrieve_tools", &json!({})));
    assert_eq!(code, "INVALID_ARGUMENTS");
}

#[test]
fn filters_apply_before_the_limit_and_hidden_tools_stay_hidden() {
    let bed = library_bed();
    let served = bed.serve();
    let mut host = search_host(&served);
    let all = found(&mut host, json!({"query": "book", "limit": 100}));
    assert_eq!(all.len(), 4, "{all:?}");
    let again = found(&mut host, json!({"query": "book", "limit": 100}));
    assert_eq!(all, again, "the same question has the same answer");
    let only = |host: &mut dyn Host, flag: &str| {
        found(host, json!({"query": "book", "limit": 1, flag: true}))
    };
    assert_eq!(only(&mut host, "read_only_only"), ["s:list_books"]);
    assert!(
        !found(
            &mut host,
            json!({"query": "destroy a book", "exclude_destructive": true})
        )
        .contains(&"s:burn_book".to_owned())
    );
    assert!(
        !found(
            &mut host,
            json!({"query": "order a book", "exclude_open_world": true})
        )
        .contains(&"s:order_online".to_owned())
    );
    let asked = json!({"query": "book", "limit": 100, "include_disabled": true});
    let answer = answer_of(&call(&mut host, "retrieve_tools", &asked));
    let tools = answer["tools"].as_array().expect("a list");
    assert_eq!(tools.len(), 5, "{answer}");
    let old = tools
        .iter()
        .find(|tool| tool["name"] == "s:old_books")
        .expect("it is there");
    assert_eq!(
        old["disabled"],
        "the configuration disables this tool (`tools.deny` of its server)"
    );
    assert!(!answer.to_string().contains("secret_books"));
    let destroy = found(&mut host, json!({"query": "delete a book"}));
    assert_eq!(destroy[0], "s:burn_book", "{destroy:?}");
}

#[test]
fn visible_tools_are_described_in_full_and_hidden_ones_are_not() {
    let bed = library_bed();
    let served = bed.serve();
    let mut host = search_host(&served);
    let asked = json!({"names": ["s:lend_book", "s__list_books", "s:secret_books"]});
    let answer = answer_of(&call(&mut host, "describe_tool", &asked));
    assert_eq!(
        answer["tools"][0]["inputSchema"],
        library()[0]["inputSchema"]
    );
    assert_eq!(answer["tools"][1]["name"], "s:list_books");
    assert_eq!(answer["tools"][1]["call_with"], "call_tool_read");
    assert_eq!(answer["not_found"], json!(["s:secret_books"]));
    let (code, _) = refusal(&call(
        &mut host,
        "describe_tool",
        &json!({"names": ["s:secret_books"]}),
    ));
    assert_eq!(code, "TOOL_NOT_FOUND");
    for wrong in [
        json!({}),
        json!({"names": []}),
        json!({"names": ["a", "b", "c", "d", "e", "f"]}),
    ] {
        assert_eq!(
            refusal(&call(&mut host, "describe_tool", &wrong)).0,
            "INVALID_ARGUMENTS"
        );
    }
}

#[test]
fn the_search_view_is_selected_by_url_or_flag() {
    let bed = library_bed();
    let served = bed.serve();
    let own = [
        "retrieve_tools",
        "describe_tool",
        "call_tool_read",
        "call_tool_write",
        "call_tool_destructive",
        "read_result",
    ];
    assert_eq!(talk::tools(&mut search_host(&served)), own);
    assert_eq!(talk::tools(&mut host_at(&served, "/direct")).len(), 4);
    assert_eq!(talk::tools(&mut host_at(&served, "")).len(), 4);
    let mut command = bed.command(["stdio", "--view", "search"]);
    let mut host = callgate_testkit::StdioHost::spawn(&mut command).expect("the gateway starts");
    host.initialize(VERSION).expect("it shakes hands");
    let listed = talk::list(&mut host, "");
    assert_eq!(talk::names(&listed), own);
    let tools = listed["result"]["tools"].as_array().expect("a list");
    let hints: Vec<&Value> = tools.iter().map(|tool| &tool["annotations"]).collect();
    for own in [0, 1, 5] {
        assert_eq!(hints[own]["readOnlyHint"], true, "{}", tools[own]["name"]);
    }
    assert_eq!(
        hints[2],
        &json!({"readOnlyHint": true, "destructiveHint": false})
    );
    assert_eq!(
        hints[3],
        &json!({"readOnlyHint": false, "destructiveHint": false})
    );
    assert_eq!(
        hints[4],
        &json!({"readOnlyHint": false, "destructiveHint": true})
    );
    let summary = tools[0]["description"].as_str().expect("a text");
    assert!(
        summary.contains("Connected: 4 tools of s (4)."),
        "{summary}"
    );
    let text = listed["result"].to_string();
    assert!(text.len() / 3 < 2500, "about {} tokens", text.len() / 3);
}

#[test]
fn flat_intent_declaration_shows_a_schema_without_nested_objects() {
    let bed = bed_with(
        &library(),
        "intent_declaration: {form: flat, required: false}\n",
    );
    let served = bed.serve();
    let listed = talk::list(&mut search_host(&served), "");
    let schema = &listed["result"]["tools"][2]["inputSchema"];
    let properties = schema["properties"].as_object().expect("an object");
    assert!(
        properties
            .values()
            .all(|property| property["type"] != "object"),
        "{schema}"
    );
    assert!(properties.contains_key("operation_type"));
    assert_eq!(schema["required"], json!(["name"]));
}
