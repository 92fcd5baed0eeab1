//! Large results: handles, pages and searches, bound to their session.

use callgate_testkit::Host;
use serde_json::{Value, json};

use super::{answer_of, call, host_at, refusal, search_host};
use crate::evidence::COUNTER;
use crate::setup::Bed;
use crate::talk;

fn large(host: &mut dyn Host, bytes: usize) -> Value {
    let arguments = json!({"name": "n:big", "args": {"bytes": bytes}, "operation_type": "read"});
    call(host, "call_tool_read", &arguments)
}

fn handle_of(result: &Value) -> String {
    let text = result["content"][0]["text"].as_str().expect("a text");
    let at = text
        .find("result_")
        .unwrap_or_else(|| panic!("no handle: {text}"));
    text[at..]
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect()
}

#[test]
fn large_results_become_handles_read_by_pages() {
    let bed = Bed::new(&format!("{COUNTER}search: {{inline_chars: 10000}}\n"));
    let served = bed.serve();
    let mut host = search_host(&served);
    let small = large(&mut host, 10_000);
    assert_eq!(small["content"][0]["text"], "b".repeat(10_000));
    let result = large(&mut host, 10_001);
    let text = result["content"][0]["text"].as_str().expect("a text");
    assert!(
        text.starts_with("[callgate] The result is too large to show: 10001 characters, 3 lines."),
        "{text}"
    );
    let handle = handle_of(&result);
    let mut whole = String::new();
    let mut offset = json!(0);
    while !offset.is_null() {
        let asked = json!({"handle": handle, "offset": offset, "limit": 1});
        let page = answer_of(&call(&mut host, "read_result", &asked));
        whole.push_str(page["lines"][0].as_str().expect("a line"));
        offset = page["next_offset"].clone();
    }
    assert_eq!(whole, "b".repeat(10_001));
    let mut other = search_host(&served);
    let (code, _) = refusal(&call(&mut other, "read_result", &json!({"handle": handle})));
    assert_eq!(
        code, "RESULT_NOT_FOUND",
        "another session has no such result"
    );
    let (code, _) = refusal(&call(
        &mut host,
        "read_result",
        &json!({"handle": handle, "search": "("}),
    ));
    assert_eq!(code, "INVALID_ARGUMENTS");
    let mut direct = host_at(&served, "/direct");
    let text = talk::call_text(&mut direct, "n__big", r#"{"bytes":30000}"#);
    assert_eq!(text.len(), 30_000, "the direct view replaces nothing");
}
