//! Questions of a server that reach a host despite policy.

mod server;

use std::fs::{self, OpenOptions};
use std::io::Write;

use callgate_testkit::{Frame, Host, wait_until};
use serde_json::{Value, json};

use self::server::{bed, questions, rules};
use super::{Seen, attack, write};
use crate::eras::{post, stateless};
use crate::evidence::{all_records, run, stdout};
use crate::setup::{Bed, Served};
use crate::talk::{DEADLINE, answer_line, call_line, http_as, parsed, stdio_as};

const CLASS: &str = "questions";
const CAPABILITIES: &str = r#"{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}"#;

/// An answer of the host to any question.
fn given(question: &Frame) -> Option<String> {
    let result = match question.method.as_deref()? {
        "roots/list" => r#"{"roots":[{"uri":"file:///srv/project"}]}"#,
        "sampling/createMessage" => {
            r#"{"role":"assistant","model":"m","content":{"type":"text","text":"hello"}}"#
        }
        _ => r#"{"action":"accept","content":{"ok":true,"password":"password=hunter2hunter2"}}"#,
    };
    Some(answer_line(question, result))
}

/// Calls a tool and says whether its server's question reached the host.
fn asked(host: &mut dyn Host, tool: &str) -> Seen {
    let mut heard = 0;
    let frames = host.exchange(&call_line("1", tool, "{}"), &mut |question| {
        heard += 1;
        given(question)
    });
    let frames = frames.expect("the call is answered");
    let last = parsed(frames.last().expect("a response"));
    // An error can ask, too.
    if heard > 0 || last["error"]["code"] == -32042 {
        Seen::Passed
    } else {
        Seen::Refused
    }
}

/// The questions on record.
fn on_record(bed: &Bed) -> Vec<Value> {
    let all = all_records(&stdout(&run(bed, &["activity", "export"])));
    all.into_iter()
        .filter(|record| record["type"] == "other")
        .collect()
}

fn denied_of(tool: &str, cause: &'static str, patterns: &[&str]) {
    attack(CLASS, cause)
        .expect(Seen::Refused)
        .tries(patterns, |pattern| {
            // A rule behind one that matches everything is an error.
            let allow = match **pattern {
                "*" => "",
                _ => ", allow: [{pattern: '*'}]",
            };
            let bed = bed(&rules(&format!("deny: [{{pattern: '{pattern}'}}]{allow}")));
            let mut host = stdio_as(&bed, Some(CAPABILITIES));
            asked(&mut host, &format!("s__{tool}"))
        })
        .check();
}

#[test]
fn sampling_that_policy_denies() {
    denied_of(
        "sample",
        "a server samples the host's model although policy denies `sampling/createMessage`",
        &[
            "s:sampling/createMessage",
            "sampling/createMessage",
            "sampling/*",
            "*:sampling/*",
            "*create*",
        ],
    );
}

#[test]
fn elicitation_that_policy_denies() {
    denied_of(
        "elicit",
        "a server asks the person at the host although policy denies `elicitation/create`",
        &[
            "elicitation/create",
            "s:elicitation/*",
            "elicitation/*",
            "s:*",
        ],
    );
}

#[test]
fn url_elicitation_that_policy_denies() {
    denied_of(
        "open_url",
        "a server sends the person at the host to a URL although policy denies elicitation",
        &["elicitation/create", "s:elicitation/create", "*"],
    );
}

#[test]
fn url_elicitation_through_an_error() {
    denied_of(
        "refuse_url",
        "a server sends the person to a URL by an error instead of a question",
        &["elicitation/create", "s:elicitation/create", "*"],
    );
}

#[test]
fn roots_that_policy_denies() {
    denied_of(
        "list_roots",
        "a server lists the host's folders although policy denies `roots/list`",
        &["roots/list", "s:roots/list", "roots/*"],
    );
}

#[test]
fn questions_without_a_rule_in_a_scope_with_rules() {
    attack(
        CLASS,
        "a server asks what no rule of a scope with rules allows",
    )
    .expect(Seen::Refused)
    .tries(
        ["s__sample", "s__elicit", "s__list_roots", "s__open_url"],
        |tool| {
            let bed = bed(&rules("allow: [{pattern: 'prompts/*'}]"));
            asked(&mut stdio_as(&bed, Some(CAPABILITIES)), tool)
        },
    )
    .check();
}

#[test]
fn questions_that_need_approval() {
    attack(
        CLASS,
        "a server asks what policy allows only with a person's yes, and no person is asked",
    )
    .expect(Seen::Refused)
    .tries(["require_approval", "confirm"], |list| {
        let bed = bed(&rules(&format!(
            "{list}: [{{pattern: 'sampling/*'}}], allow: [{{pattern: '*'}}]"
        )));
        asked(&mut stdio_as(&bed, Some(CAPABILITIES)), "s__sample")
    })
    .check();
}

#[test]
fn questions_over_http() {
    attack(CLASS, "a server asks a host over HTTP what policy denies")
        .expect(Seen::Refused)
        .tries(["s__sample", "s__elicit", "s__list_roots"], |tool| {
            let bed = bed(&rules("deny: [{pattern: '*'}]"));
            let served = bed.serve();
            asked(&mut http_as(&served, CAPABILITIES), tool)
        })
        .check();
}

/// A server of the conformance suite in one of the eras, with every question denied.
fn conformance(era: &str) -> (Bed, Served) {
    let bed = Bed::new(&format!(
        "servers: {{c: {{command: '@conformance@', args: [--era, {era}]}}}}\nnaming: {{prefix: never}}\npolicy: '@dir@/policy.yaml'\n"
    ));
    let allowed = "deny: [{pattern: 'elicitation/*'}, {pattern: 'sampling/*'}, {pattern: 'roots/*'}], allow: [{pattern: '*'}]";
    write(&bed.path("policy.yaml"), &rules(allowed));
    let served = bed.serve();
    (bed, served)
}

const ASKING: [&str; 4] = [
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_list_roots",
];

#[test]
fn questions_of_a_stateless_server_to_a_handshake_host() {
    let (_bed, served) = conformance("stateless");
    attack(
        CLASS,
        "a server of 2026-07-28 has a host of the handshake versions asked what policy denies",
    )
    .expect(Seen::Refused)
    .tries(ASKING, |tool| {
        asked(&mut http_as(&served, CAPABILITIES), tool)
    })
    .check();
}

/// Calls a tool as a host of 2026-07-28 and says whether questions come back.
fn asked_in_answer(served: &Served, tool: &str) -> Seen {
    let line = stateless("tools/call", json!({"name": tool, "arguments": {}}));
    let answer = post(served, &line).1;
    if answer.to_string().contains("inputRequests") {
        Seen::Passed
    } else {
        Seen::Refused
    }
}

#[test]
fn questions_in_answers_of_a_stateless_server() {
    let (_bed, served) = conformance("stateless");
    attack(
        CLASS,
        "a server of 2026-07-28 asks a host of its own era in its answer what policy denies",
    )
    .expect(Seen::Refused)
    .tries(ASKING, |tool| asked_in_answer(&served, tool))
    .check();
}

#[test]
fn questions_of_a_handshake_server_to_a_stateless_host() {
    let (_bed, served) = conformance("handshake");
    attack(
        CLASS,
        "a server of the handshake versions asks a host of 2026-07-28 what policy denies",
    )
    .expect(Seen::Refused)
    .tries(ASKING, |tool| asked_in_answer(&served, tool))
    .check();
}

#[test]
fn questions_outside_of_any_call() {
    let bed = Bed::new(
        "servers: {s: {command: '@herald@', args: [--tag, s, --cue, '@dir@/cue']}}\npolicy: '@dir@/policy.yaml'\n",
    );
    write(
        &bed.path("policy.yaml"),
        &rules("deny: [{pattern: 's:*'}], allow: [{pattern: '*'}]"),
    );
    write(&bed.path("cue"), "");
    let mut host = stdio_as(&bed, Some(CAPABILITIES));
    crate::talk::call_text(&mut host, "s__t0", "{}");
    attack(
        CLASS,
        "a server asks the only host outside of any call what policy denies",
    )
    .expect(Seen::Refused)
    .tries(
        ["sampling/createMessage", "roots/list", "elicitation/create"],
        |method| {
            let mut cue = OpenOptions::new()
                .append(true)
                .open(bed.path("cue"))
                .expect("it is ours");
            writeln!(cue, "ask {method}").expect("it is ours");
            let refused = || {
                on_record(&bed)
                    .iter()
                    .any(|record| record["tool"] == **method && record["status"] == "blocked")
            };
            let mut heard = false;
            let mut hears = || {
                let line = host.recv_within(std::time::Duration::from_millis(20));
                heard |= line.is_ok_and(|line| line.contains(method));
                heard
            };
            wait_until(DEADLINE, || hears() || refused());
            if heard { Seen::Passed } else { Seen::Refused }
        },
    )
    .check();
}

#[test]
fn questions_without_a_record() {
    let bed = bed("version: '1'\nrules: [{scope: mcp_tool, allow: [{pattern: '*:*'}]}]\n");
    let mut host = stdio_as(&bed, Some(CAPABILITIES));
    attack(CLASS, "a server asks the host and leaves no record of it")
        .expect(Seen::Detected)
        .tries(questions(), |(tool, method, _)| {
            assert_eq!(asked(&mut host, &format!("s__{tool}")), Seen::Passed);
            let is_on_record = || {
                let all = all_records(&stdout(&run(&bed, &["activity", "export"])));
                let call = all.iter().rev().find(|record| record["tool"] == *tool);
                let call = call.map(|call| call["id"].clone());
                all.iter().any(|record| {
                    record["type"] == "other"
                        && record["tool"] == *method
                        && Some(&record["parent_id"]) == call.as_ref()
                        && record["source"] == "server"
                        && record["status"] == "success"
                        && record["server"] == "s"
                        && record["response"] != Value::Null
                })
            };
            if wait_until(std::time::Duration::from_secs(2), is_on_record) {
                Seen::Detected
            } else {
                Seen::Passed
            }
        })
        .check();
}

#[test]
fn questions_in_answers_without_a_record() {
    let bed = Bed::new(
        "servers: {c: {command: '@conformance@', args: [--era, stateless]}}\nnaming: {prefix: never}\npolicy: allow-all\n",
    );
    let served = bed.serve();
    attack(
        CLASS,
        "a server of 2026-07-28 asks in its answer and leaves no record of it",
    )
    .expect(Seen::Detected)
    .tries(
        [
            (ASKING[0], "elicitation/create"),
            (ASKING[1], "sampling/createMessage"),
            (ASKING[3], "roots/list"),
        ],
        |(tool, method)| {
            assert_eq!(asked_in_answer(&served, tool), Seen::Passed);
            let is_on_record = || {
                on_record(&bed)
                    .iter()
                    .any(|record| record["tool"] == *method)
            };
            if wait_until(std::time::Duration::from_secs(2), is_on_record) {
                Seen::Detected
            } else {
                Seen::Passed
            }
        },
    )
    .check();
}

#[test]
fn secrets_in_questions() {
    let bed = bed("version: '1'\nrules: [{scope: mcp_tool, allow: [{pattern: '*:*'}]}]\n");
    let mut host = stdio_as(&bed, Some(CAPABILITIES));
    attack(
        CLASS,
        "a secret in a server's question or in the host's answer is kept in the record, or a question of any size is",
    )
    .expect(Seen::Detected)
    .tries(["s__secret"], |tool| {
        assert_eq!(asked(&mut host, tool), Seen::Passed);
        let kept = || on_record(&bed);
        wait_until(std::time::Duration::from_secs(2), || !kept().is_empty());
        let text = json!(kept()).to_string();
        let log = fs::read_dir(bed.path("data/activity")).expect("a log");
        assert!(log.count() > 0);
        let leaks = ["AKIAIOSFODNN7EXAMPLE", "ghp_16C7e42F", "hunter2"]
            .iter()
            .any(|secret| text.contains(secret));
        if kept().is_empty() || leaks || text.len() > 8000 {
            Seen::Passed
        } else {
            Seen::Detected
        }
    })
    .check();
}

#[test]
fn questions_during_calls_of_a_script() {
    let bed = bed(&rules("deny: [{pattern: '*'}]"));
    let served = bed.serve();
    attack(
        CLASS,
        "a server asks the host what policy denies, for a call that a script made",
    )
    .expect(Seen::Refused)
    .tries(["s.sample()", "s.elicit()", "s.list_roots()"], |command| {
        let mut host = http_as(&served, CAPABILITIES).at("/mcp/code");
        let line = json!({"command": command}).to_string();
        let mut heard = 0;
        let line = call_line("1", "run", &line);
        let frames = host.exchange(&line, &mut |question| {
            heard += 1;
            given(question)
        });
        frames.expect("it is answered");
        if heard > 0 {
            Seen::Passed
        } else {
            Seen::Refused
        }
    })
    .check();
}
