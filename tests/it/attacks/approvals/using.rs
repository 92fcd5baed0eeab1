//! An approval covers the exact call of the caller that asked, once.

use serde_json::json;

use super::{DELETE, asking, held};
use crate::approvals::{approve, host_with, token, told};
use crate::attacks::{Seen, attack, judged, write};
use crate::setup::Bed;
use crate::talk::{call, request};

/// A call of the tool with an approval's id and these raw params beside the name.
fn line(id: &str, params: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"_meta":{{"dev.callgate/approval_id":"{id}"}},"name":"{DELETE}",{params}}}}}"#
    )
}

fn reached(bed: &Bed) -> bool {
    !bed.read("ledger").is_empty()
}

#[test]
fn a_retry_with_other_arguments() {
    let bed = asking("");
    let served = bed.serve();
    let mut host = served.host_ready();
    let id = held(&mut host, r#"{"path":"/tmp/a","n":1}"#);
    approve(&served, &id);
    let others = [
        r#""arguments":{"path":"/","n":1}"#,
        r#""arguments":{"path":"/tmp/a","n":1,"force":true}"#,
        r#""arguments":{"n":1,"path":"/tmp/a"}"#,
        r#""arguments":{"path":"/tmp/a","n":1.0}"#,
        r#""arguments":{"path":"/tmp/a","n":1},"task":{}"#,
        r#""arguments":{"path":"/tmp/a","n":1 }"#,
        r#""arguments":{"path":"\u002ftmp/a","n":1}"#,
        r#""arguments":{}"#,
    ];
    attack(
        "approvals",
        "a retry with other arguments under an approved id",
    )
    .expect_any(&[Seen::Held, Seen::Refused])
    .tries(others, |params| {
        let response = request(&mut host, &line(&id, params));
        judged(&response, reached(&bed))
    })
    .check();
}

#[test]
fn another_principal_with_the_approval() {
    let bed = asking("");
    let served = bed.serve();
    let mut host = served.host_ready();
    let id = held(&mut host, r#"{"path":"a"}"#);
    approve(&served, &id);
    let same = line(&id, r#""arguments":{"path":"a"}"#);
    attack("approvals", "another principal uses the approval")
        .expect(Seen::Held)
        .tries(["ci", "agent2"], |name| {
            let secret = token(&bed, &["--name", name, "--role", "agent"]);
            let mut other = host_with(&served, &secret);
            let response = request(&mut other, &same);
            judged(&response, reached(&bed))
        })
        .check();
}

#[test]
fn a_second_use_of_one_approval() {
    let bed = asking("");
    let served = bed.serve();
    let mut host = served.host_ready();
    attack("approvals", "one yes is used twice")
        .expect(Seen::Held)
        .tries(["by id", "as the same call"], |how| {
            let arguments = json!({ "key": how }).to_string();
            let id = held(&mut host, &arguments);
            approve(&served, &id);
            call(&mut host, DELETE, &arguments);
            let before = bed.read("ledger");
            assert!(before.contains(how), "the first use runs");
            let response = match *how {
                "by id" => request(
                    &mut host,
                    &line(&id, &format!(r#""arguments":{arguments}"#)),
                ),
                _ => call(&mut host, DELETE, &arguments),
            };
            judged(&response, bed.read("ledger") != before)
        })
        .check();
}

#[test]
fn a_second_decision_on_one_approval() {
    let bed = asking("");
    let served = bed.serve();
    let mut host = served.host_ready();
    let decide = |what: &str, id: &str| {
        told(
            &served,
            &served.admin_token,
            "POST",
            &format!("/v1/{what}/{id}"),
        )
        .0
    };
    attack("approvals", "a decision is turned into its opposite")
        .expect(Seen::Refused)
        .tries(
            [("deny", "approve"), ("approve", "deny")],
            |(first, then)| {
                let id = held(&mut host, &json!({ "key": first }).to_string());
                assert_eq!(decide(first, &id), 200);
                if decide(then, &id) == 409 {
                    Seen::Refused
                } else {
                    Seen::Passed
                }
            },
        )
        .check();
}

#[cfg(feature = "code")]
#[test]
fn a_run_resumed_as_another_script() {
    let bed = asking("view: code\n");
    let served = bed.serve();
    let mut host = served.host_ready();
    attack("code", "another script under the approval of a held run")
        .expect_any(&[Seen::Held, Seen::Refused])
        .tries(
            [
                "s.delete_thing(path='/')",
                "s.delete_thing(path='/tmp/a', force=True)",
            ],
            |other| {
                let script = json!({"command": "s.delete_thing(path='/tmp/a')"});
                let response = call(&mut host, "run", &script.to_string());
                let held = &response["result"]["structuredContent"];
                let (run, id) = (held["run_id"].clone(), held["approval_ids"][0].clone());
                approve(&served, id.as_str().unwrap_or_else(|| panic!("{response}")));
                let resumed = json!({"resume": run, "command": other});
                let response = call(&mut host, "run", &resumed.to_string());
                let ledger = bed.read("ledger");
                let bad = ledger
                    .lines()
                    .any(|line| !line.ends_with(r#"{"path":"/tmp/a"}"#));
                if bad {
                    return Seen::Passed;
                }
                // Only the approved call may have run.
                if response["result"]["isError"] == true || !ledger.is_empty() {
                    Seen::Refused
                } else {
                    Seen::Passed
                }
            },
        )
        .check();
}

/// A bed whose calls ask and are limited to one an hour.
fn rated(most: u32) -> Bed {
    let bed = asking("");
    let policy = format!(
        "version: \"1\"\nrules: [{{scope: mcp_tool, require_approval: [{{pattern: \"*:*\"}}], rate_limit: {{max_requests: {most}, window: 1h}}}}]\n"
    );
    write(&bed.path("policy.yaml"), &policy);
    let config = bed
        .read("callgate.yaml")
        .replace("policy: default", "policy: policy.yaml");
    write(&bed.path("callgate.yaml"), &config);
    bed
}

#[test]
fn an_approved_retry_over_the_rate_limit() {
    attack(
        "approvals",
        "the rate that a held call paid refuses its approved retry",
    )
    .expect(Seen::Harmless)
    .tries(["same call", "by id"], |how| {
        let bed = rated(1);
        let served = bed.serve();
        let mut host = served.host_ready();
        let id = held(&mut host, r#"{"key":"a"}"#);
        // Asking again in between is refused by the rate, and costs the approval nothing.
        call(&mut host, DELETE, r#"{"key":"a"}"#);
        approve(&served, &id);
        match *how {
            "same call" => call(&mut host, DELETE, r#"{"key":"a"}"#),
            _ => request(&mut host, &line(&id, r#""arguments":{"key":"a"}"#)),
        };
        if reached(&bed) {
            Seen::Harmless
        } else {
            Seen::Passed
        }
    })
    .check();
}

#[test]
fn a_held_call_used_to_bypass_the_rate_limit() {
    let bed = rated(1);
    let served = bed.serve();
    let mut host = served.host_ready();
    held(&mut host, r#"{"key":"a"}"#);
    attack("approvals", "a held call lets others past the rate")
        .expect(Seen::Refused)
        .tries([r#"{"key":"a"}"#, r#"{"key":"b"}"#, "{}"], |arguments| {
            let response = call(&mut host, DELETE, arguments);
            judged(&response, reached(&bed))
        })
        .check();
}
