//! The tokens a model reads: the view's own list, and compact answers over a large catalog.

use serde_json::{Value, json};

use super::{answer_of, bed_with, call, search_host};
use crate::talk;

/// An estimate of tokens that is high for JSON: six letters, three digits or two signs are one.
fn tokens(text: &str) -> usize {
    let kind = |c: char| match c {
        c if c.is_alphabetic() => 6,
        c if c.is_numeric() => 3,
        _ => 2,
    };
    let mut tokens = 0;
    let mut run = (0, 0);
    for c in text.chars().filter(|c| *c != ' ') {
        if run.0 != kind(c) || run.1 == run.0 {
            tokens += 1;
            run = (kind(c), 0);
        }
        run.1 += 1;
    }
    tokens
}

const VERBS: [(&str, &str); 10] = [
    ("create", "Create a new"),
    ("list", "List every"),
    ("get", "Get the details of one"),
    ("update", "Update an existing"),
    ("delete", "Delete a"),
    ("search", "Search for a"),
    ("archive", "Archive an old"),
    ("share", "Share with somebody else a"),
    ("export", "Export to a file a"),
    ("assign", "Assign to a person a"),
];

const NOUNS: [&str; 50] = [
    "invoice",
    "customer",
    "order",
    "shipment",
    "product",
    "ticket",
    "comment",
    "project",
    "sprint",
    "milestone",
    "branch",
    "release",
    "pipeline",
    "container",
    "cluster",
    "secret",
    "certificate",
    "domain",
    "alert",
    "dashboard",
    "metric",
    "incident",
    "contact",
    "deal",
    "campaign",
    "newsletter",
    "survey",
    "form",
    "page",
    "folder",
    "document",
    "spreadsheet",
    "slide",
    "photo",
    "video",
    "playlist",
    "event",
    "meeting",
    "room",
    "employee",
    "contract",
    "payment",
    "refund",
    "subscription",
    "coupon",
    "warehouse",
    "vehicle",
    "driver",
    "route",
    "ticketing queue",
];

/// 500 tools as servers write them, with a few parameters each.
fn catalog() -> Value {
    let tool = |noun: &str, (verb, said): (&str, &str)| {
        let name = format!("{verb}_{}", noun.replace(' ', "_"));
        let description = format!(
            "{said} {noun}. Returns the {noun} as JSON, with its id, its owner and all its dates."
        );
        let schema = json!({"type": "object", "required": ["id"], "properties": {
            "id": {"type": "string", "description": format!("The id of the {noun}")},
            "fields": {"type": "array", "items": {"type": "string"}, "description": "Which fields to return"},
            "dry_run": {"type": "boolean", "default": false, "description": "Only say what would happen"},
        }});
        let annotations = match verb {
            "list" | "get" | "search" | "export" => json!({"readOnlyHint": true}),
            "delete" => json!({"destructiveHint": true}),
            _ => json!({"readOnlyHint": false}),
        };
        json!({"name": name, "description": description, "inputSchema": schema, "annotations": annotations})
    };
    let all = NOUNS
        .iter()
        .flat_map(|noun| VERBS.map(|verb| tool(noun, verb)));
    Value::Array(all.collect())
}

#[test]
fn search_views_and_answers_stay_within_the_token_budget() {
    let bed = bed_with(&catalog(), "");
    let served = bed.serve();
    let mut host = search_host(&served);
    let own = tokens(&talk::list(&mut host, "")["result"].to_string());
    assert!(own <= 2500, "the view's own list has {own} tokens");
    let mut sizes = Vec::new();
    let mut firsts = 0;
    for (at, noun) in NOUNS.iter().enumerate() {
        let (verb, said) = VERBS[at % VERBS.len()];
        let query = format!("{} {noun}", said.to_lowercase());
        let compact = call(
            &mut host,
            "retrieve_tools",
            &json!({"query": query, "detail": "compact"}),
        );
        let full = call(
            &mut host,
            "retrieve_tools",
            &json!({"query": query, "detail": "full"}),
        );
        let names = |result: &Value| -> Vec<Value> {
            let answer = answer_of(result);
            answer["tools"]
                .as_array()
                .expect("a list")
                .iter()
                .map(|tool| tool["name"].clone())
                .collect()
        };
        assert_eq!(names(&compact), names(&full), "the ranking is the same");
        firsts += usize::from(names(&full)[0] == format!("s:{verb}_{}", noun.replace(' ', "_")));
        let size = |result: &Value| tokens(result["content"][0]["text"].as_str().expect("a text"));
        assert!(
            size(&compact) * 2 <= size(&full),
            "{} of {}",
            size(&compact),
            size(&full)
        );
        sizes.push(size(&compact));
    }
    sizes.sort_unstable();
    let (median, most) = (sizes[sizes.len() / 2], sizes[sizes.len() - 1]);
    println!(
        "own list {own}, compact answers: median {median}, most {most} tokens; {firsts} of 50 first"
    );
    assert!(
        median <= 700 && most <= 1500,
        "median {median}, most {most}"
    );
    assert!(firsts >= 48, "{firsts}");
}
