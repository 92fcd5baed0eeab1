//! A server of 2026-07-28 that breaks its rules: every call of it ends, hosts of both eras see nothing that their own rules
//! forbid, and the server's other tools stay usable.

use callgate_testkit::{Frame, Host};
use serde_json::{Value, json};

use super::{post, stateless};
use crate::evidence::{assert_sound, records};
use crate::setup::Bed;
use crate::talk::{call_line, parsed, stdio_as, text_of};

const CONFIG: &str =
    "servers: {h: {command: '@hostile@'}}\nnaming: {prefix: never}\npolicy: allow-all\n";

/// The tools, and whether a host may be given a good result of them.
const TOOLS: [(&str, bool); 17] = [
    ("unknown_kind", false),
    ("kind_is_a_number", false),
    ("kind_is_missing", true),
    ("unasked_task", false),
    ("no_questions", false),
    ("empty_questions", false),
    ("questions_in_a_list", false),
    ("question_of_no_method", false),
    ("forbidden_question", false),
    ("endless_questions", false),
    ("endless_waiting", false),
    ("state_is_an_object", false),
    ("asks_a_request", true),
    ("answers_twice", true),
    ("answers_another", true),
    ("claims_our_fault", false),
    ("progress_of_others", true),
];

fn is_good(answer: &Value) -> bool {
    answer.get("error").is_none() && answer["result"]["isError"] != json!(true)
}

#[test]
fn a_hostile_stateless_server_harms_no_handshake_host() {
    let bed = Bed::new(CONFIG);
    let mut host = stdio_as(&bed, Some(r#"{"elicitation":{},"sampling":{},"roots":{}}"#));
    for (tool, expected) in TOOLS {
        let mut questions = 0;
        let mut answer = |question: &Frame| {
            questions += 1;
            let method = question.method.as_deref().unwrap_or_default();
            assert!(
                ["elicitation/create", "roots/list"].contains(&method),
                "{tool}: a host is never asked {method}"
            );
            let id = question.id.as_deref()?;
            let result = match method {
                "roots/list" => r#"{"roots":[]}"#,
                _ => r#"{"action":"accept","content":{}}"#,
            };
            Some(format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#
            ))
        };
        let frames = host.exchange(&call_line("1", tool, "{}"), &mut answer);
        let frames = frames.expect("it is answered");
        let last = parsed(frames.last().expect("a response"));
        assert_eq!(is_good(&last), expected, "{tool}: {last}");
        assert!(questions <= 16, "{tool}: rounds have an end");
        assert_eq!(last["result"].get("resultType"), None, "{tool}: {last}");
        let strange = |line: &String| line.contains("somebody else") || line.contains("second");
        assert!(!frames.iter().any(strange), "{tool}: {frames:?}");
        let honest = host.exchange(&call_line("2", "honest", "{}"), &mut |_| None);
        let honest = honest.expect("it is answered");
        assert_eq!(
            text_of(&parsed(&honest[honest.len() - 1])),
            "honest",
            "{tool}"
        );
    }
    assert!(
        records(&bed)
            .iter()
            .all(|record| record["status"] != Value::Null)
    );
    assert_sound(&bed);
}

#[test]
fn a_hostile_stateless_server_harms_no_stateless_host() {
    let bed = Bed::new(CONFIG);
    let served = bed.serve();
    for (tool, _) in TOOLS {
        let (_, answer) = post(&served, &stateless("tools/call", json!({"name": tool})));
        // What the two say to each other is theirs; the answer is to this request and to no other.
        assert_eq!(answer["id"], "m", "{tool}: {answer}");
        assert!(!answer.to_string().contains("second"), "{tool}: {answer}");
        let (status, honest) = post(&served, &stateless("tools/call", json!({"name": "honest"})));
        assert_eq!(
            (status, text_of(&honest)),
            (200, "honest".to_owned()),
            "{tool}"
        );
    }
    assert_sound(&bed);
}
