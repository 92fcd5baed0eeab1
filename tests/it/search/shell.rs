//! `callgate call tool-…`, `tools search|show`, `activity watch|summary`.

use std::process::Output;

use serde_json::{Value, json};

use crate::evidence::{COUNTER, ledger, record_of, records, run, stdout};
use crate::setup::Bed;

fn ended(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code().unwrap_or(-1),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn call_with_intent_behaves_the_same_with_and_without_a_gateway() {
    let bed = Bed::new(COUNTER);
    let mut expected = Vec::new();
    for at in 0..2 {
        let served = (at == 1).then(|| bed.serve());
        let key = format!("k{at}");
        let arguments = format!(r#"{{"key":"{key}"}}"#);
        let said = [
            "call",
            "tool-write",
            "n:effect",
            "--args",
            &arguments,
            "--reason",
            "to see",
            "--sensitivity",
            "internal",
            "-o",
            "json",
        ];
        let result: Value = serde_json::from_str(&stdout(&run(&bed, &said))).expect("pure JSON");
        assert_eq!(result["content"][0]["text"], format!("did {key}"));
        expected.push(key.clone());
        let (code, out, err) = ended(&run(
            &bed,
            &["call", "tool-read", "-t", "n:wipe", "-j", "{}"],
        ));
        assert_eq!((code, out.as_str()), (1, ""), "{err}");
        let text = "Tool 'n:wipe' is marked destructive by server, use call_tool_destructive";
        assert!(err.contains(text), "{err}");
        let all = records(&bed);
        let record = record_of(&all, &key).expect("it is on record");
        assert_eq!(record["source"], "cli");
        assert_eq!(
            record["metadata"]["intent"],
            json!({"operation_type": "write", "data_sensitivity": "internal", "reason": "to see"})
        );
        let is_beside = record["transport"] == "http";
        assert_eq!(
            is_beside,
            served.is_some(),
            "a running gateway makes the call"
        );
    }
    assert_eq!(ledger(&bed), expected);
    let (code, _, err) = ended(&run(&bed, &["call", "tool", "n:effect"]));
    assert_eq!(code, 1);
    assert!(
        err.contains("tool-read, tool-write or tool-destructive"),
        "{err}"
    );
    let plain = stdout(&run(
        &bed,
        &["call", "n:effect", r#"{"key":"plain"}"#, "--as", "write"],
    ));
    assert_eq!(plain, "did plain\n");
}

#[test]
fn tools_search_and_activity_commands_work_from_the_shell() {
    let bed = Bed::new(COUNTER);
    let found = stdout(&run(
        &bed,
        &[
            "tools",
            "search",
            "append a key to the ledger",
            "--limit",
            "1",
        ],
    ));
    assert!(
        found.contains("n:effect") && found.contains("call_tool_write"),
        "{found}"
    );
    let shown: Value =
        serde_json::from_str(&stdout(&run(&bed, &["tools", "show", "n:wipe"]))).expect("JSON");
    assert_eq!(shown["call_with"], "call_tool_destructive");
    assert_eq!(ended(&run(&bed, &["tools", "show", "n:nothing"])).0, 1);
    for key in ["a", "b"] {
        let arguments = format!(r#"{{"key":"{key}"}}"#);
        stdout(&run(
            &bed,
            &["call", "tool-write", "n:effect", "--args", &arguments],
        ));
    }
    let counted = stdout(&run(
        &bed,
        &["activity", "summary", "--period", "1h", "--json"],
    ));
    let counted: Value = serde_json::from_str(&counted).expect("JSON");
    assert_eq!(counted["by_intent"], json!({"write": 2}), "{counted}");
    let watched = stdout(&run(
        &bed,
        &[
            "activity", "watch", "--since", "1h", "--count", "2", "--json",
        ],
    ));
    let keys: Vec<Value> = watched
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["arguments"]["key"].clone())
        .collect();
    assert_eq!(keys, ["a", "b"], "oldest first");
    assert_eq!(
        ended(&run(&bed, &["activity", "list", "--intent-type", "delete"])).0,
        1
    );
}
