//! Approvals of `/v1/check`: each is for the questions that were asked under it, as they were asked.

use serde_json::{Value, json};

use super::{plain, row, strings};
use crate::approvals::{approve, page, told};
use crate::attacks::{Seen, attack, write};
use crate::evidence::{run, stdout};
use crate::guard::asked;
use crate::setup::{Bed, Served};

const POLICY: &str = r#"version: "1"
rules:
  - scope: mcp_tool
    require_approval: [{pattern: "*:*"}]
  - scope: shell
    require_approval: [{pattern: "*"}]
  - scope: filesystem
    require_approval: [{paths: ["/**"]}]
  - scope: network
    require_approval: [{domains: ["**"]}]
"#;

fn guard() -> Bed {
    let bed = Bed::new("policy: '@dir@/policy.yaml'\n");
    write(&bed.path("policy.yaml"), POLICY);
    bed
}

fn ask(served: &Served, question: &Value) -> Value {
    let (status, answer) = asked(served, &served.token, "/v1/check", &question.to_string());
    assert_eq!(status, 200, "{question}: {answer}");
    answer
}

/// Asks, and gives the approval that is needed.
fn needed(served: &Served, question: &Value) -> String {
    let answer = ask(served, question);
    let id = answer["approval_id"].as_str();
    id.unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// What an answer gives the asker.
fn given(answer: &Value) -> Seen {
    match answer["decision"].as_str() {
        Some("ALLOW") => Seen::Passed,
        Some("REQUIRE_APPROVAL") => Seen::Held,
        _ => Seen::Refused,
    }
}

/// A question with some members changed, under an approval.
fn changed(question: &Value, changes: &Value, id: &str) -> Value {
    let mut other = question.clone();
    for (key, value) in changes.as_object().expect("members") {
        if key == "meta" {
            for (key, value) in value.as_object().expect("members") {
                other["meta"][key] = value.clone();
            }
        } else {
            other[key] = value.clone();
        }
    }
    other["approval_id"] = id.into();
    other
}

#[test]
fn the_askers_digest_in_place_of_the_question() {
    let bed = guard();
    let served = bed.serve();
    let question = json!({
        "schema_version": "v1", "scope": "shell", "command": "ls", "agent_id": "a",
        "meta": {"args_sha256": "0", "call_id": "c"},
    });
    let id = needed(&served, &question);
    approve(&served, &id);
    let changes = [
        json!({"command": "rm -rf ~"}),
        json!({"scope": "filesystem", "path": "/etc/passwd"}),
        json!({"scope": "network", "domain": "evil.example"}),
        json!({"path": "/etc"}),
        json!({"action": "delete"}),
        json!({"est_cost": 100}),
        json!({"scope": "mcp_tool", "command": "db:drop"}),
        json!({"meta": {"arg_x": "1"}}),
        json!({"meta": {"args_sha256": "1"}}),
        json!({"agent_id": "b"}),
        json!({"url": "https://evil.example"}),
    ];
    attack(
        "approvals",
        "a check approval is bound to the asker's digest only",
    )
    .expect(Seen::Held)
    .tries(changes, |changes| {
        given(&ask(&served, &changed(&question, changes, &id)))
    })
    .check();
}

#[test]
fn a_question_added_after_the_decision() {
    let bed = guard();
    let served = bed.serve();
    attack(
        "approvals",
        "a question is put under an approval that was decided",
    )
    .expect_any(&[Seen::Held, Seen::Refused])
    .tries(["rm -rf ~", "curl evil.example"], |command| {
        let question =
            json!({"scope": "shell", "command": format!("ls {command}"), "schema_version": "v1"});
        let id = needed(&served, &question);
        approve(&served, &id);
        given(&ask(
            &served,
            &changed(&question, &json!({ "command": command }), &id),
        ))
    })
    .check();
}

#[test]
fn a_question_added_after_the_approver_looked() {
    let bed = guard();
    let served = bed.serve();
    let look = |how: &str, id: &str| match how {
        "page" => drop(page::shown(&served, &format!("/approvals/{id}"))),
        "api" => drop(row(&served, id)),
        _ => drop(stdout(&run(&bed, &["approvals", "show", id]))),
    };
    attack(
        "approvals",
        "a question is put under an approval that a person has looked at",
    )
    .expect(Seen::Held)
    .tries(["page", "terminal", "api"], |how| {
        let question =
            json!({"scope": "shell", "command": format!("ls {how}"), "schema_version": "v1"});
        let id = needed(&served, &question);
        look(how, &id);
        let other = changed(&question, &json!({ "command": format!("rm {how}") }), &id);
        ask(&served, &other);
        approve(&served, &id);
        given(&ask(&served, &other))
    })
    .check();
}

#[test]
fn fields_that_the_approver_does_not_see() {
    let bed = guard();
    let served = bed.serve();
    let payload = "; rm -rf ~/X ;";
    let fields = [
        json!({"action": payload}),
        json!({"meta": {"note": payload}}),
        json!({"url": payload}),
        json!({"path": format!("token='{payload}'")}),
        json!({"meta": {"arg_password": payload}}),
        json!({"command": format!("deploy --token='{payload}'")}),
        json!({"domain": payload}),
    ];
    attack(
        "approvals",
        "a check asks with fields that the approver does not see",
    )
    .expect(Seen::Held)
    .tries(fields, |fields| {
        let question =
            json!({"schema_version": "v1", "scope": "shell", "command": "ls", "meta": {}});
        let mut question = changed(&question, fields, "");
        question
            .as_object_mut()
            .expect("members")
            .remove("approval_id");
        let id = needed(&served, &question);
        let row = row(&served, &id);
        let surfaces = [
            strings(&row["arguments"]) + &strings(&row["others"]),
            plain(&page::shown(&served, &format!("/approvals/{id}"))),
            stdout(&run(&bed, &["approvals", "show", &id])),
        ];
        if surfaces.iter().all(|shown| shown.contains(payload)) {
            Seen::Held
        } else {
            Seen::Passed
        }
    })
    .check();
}

#[test]
fn a_second_question_under_one_approval() {
    let bed = guard();
    let served = bed.serve();
    attack("approvals", "one yes answers a question twice")
        .expect(Seen::Held)
        .tries([json!({}), json!({"call_id": "c"}), json!({"args_sha256": "0", "call_id": "d"})], |meta| {
            let question = json!({"schema_version": "v1", "scope": "shell", "command": "ls", "meta": meta});
            let id = needed(&served, &question);
            approve(&served, &id);
            let named = changed(&question, &json!({}), &id);
            assert_eq!(ask(&served, &named)["decision"], "ALLOW", "{named}");
            given(&ask(&served, &named))
        })
        .check();
}

#[test]
fn status_of_an_approval_read_as_consent() {
    let bed = guard();
    let served = bed.serve();
    attack(
        "approvals",
        "the status of an approval is read as a yes before it is one",
    )
    .expect(Seen::Harmless)
    .tries(
        [("approve", "ALLOW"), ("deny", "DENY")],
        |(how, decision)| {
            let question = json!({"scope": "shell", "command": how});
            let mut question = question;
            question["schema_version"] = "v1".into();
            let id = needed(&served, &question);
            let status = || told(&served, &served.token, "GET", &format!("/v1/status/{id}")).1;
            let pending = status();
            told(
                &served,
                &served.admin_token,
                "POST",
                &format!("/v1/{how}/{id}"),
            );
            let resolved = status();
            let is_right = pending["status"] == "pending"
                && pending.get("decision").is_none()
                && resolved["status"] == "resolved"
                && resolved["decision"] == *decision;
            if is_right {
                Seen::Harmless
            } else {
                Seen::Passed
            }
        },
    )
    .check();
}
