//! `/v1/check` as programs use it.

use callgate_testkit::HttpHost;
use serde_json::{Value, json};

use super::{about, asked};
use crate::approvals::{token, told};
use crate::evidence::{all_records, run, stdout};
use crate::setup::Bed;
use crate::talk::parsed;

const POLICY: &str = r#"version: "1"
rules:
  - scope: mcp_tool
    deny: [{pattern: "*:drop_*", message: "never"}]
    require_approval: [{pattern: "mail:*"}]
    allow: [{pattern: "*:*", when: '!has(args.force)'}]
  - scope: filesystem
    deny: [{paths: ["/etc/**"]}]
    allow: [{action: read, paths: ["/srv/**"]}]
  - scope: shell
    allow: [{pattern: "ls*"}]
  - scope: network
    allow: [{domains: ["*.example.com"]}]
  - scope: cost
    limits: {max_per_action: 1.0}
"#;

fn bed(more: &str) -> Bed {
    let bed = Bed::new(&format!("policy: '@dir@/policy.yaml'\n{more}"));
    std::fs::write(bed.path("policy.yaml"), POLICY).expect("it is ours");
    bed
}

#[test]
fn checks_are_answered_by_the_rules_of_their_scope() {
    let bed = bed("");
    let served = bed.serve();
    let agent = served.token.clone();
    for (question, decision, rule) in [
        (
            json!({"scope": "mcp_tool", "command": "fs:read"}),
            "ALLOW",
            "allow:mcp_tool:*:*",
        ),
        (
            json!({"scope": "mcp_tool", "command": "db:drop_all"}),
            "DENY",
            "deny:mcp_tool:*:drop_*",
        ),
        (
            json!({"scope": "cost", "command": "fs:read", "est_cost": 0.5}),
            "ALLOW",
            "allow:cost:limits",
        ),
        (
            json!({"scope": "cost", "command": "fs:read", "est_cost": 1.5}),
            "DENY",
            "deny:cost:max_per_action",
        ),
        (
            json!({"scope": "cost", "command": "fs:read"}),
            "DENY",
            "deny:default",
        ),
        (
            json!({"scope": "mcp_tool", "command": "bare"}),
            "DENY",
            "deny:default",
        ),
        (
            json!({"scope": "mcp_tool", "command": "fs:read", "meta": {"arg_force": true}}),
            "DENY",
            "deny:default",
        ),
        (
            json!({"scope": "mcp_tool", "command": "fs:read", "est_cost": 5}),
            "DENY",
            "deny:cost:max_per_action",
        ),
        (
            json!({"scope": "mcp_tool", "command": "mail:send"}),
            "REQUIRE_APPROVAL",
            "require_approval:mcp_tool:mail:*",
        ),
        (
            json!({"scope": "filesystem", "action": "read", "path": "/srv/a"}),
            "ALLOW",
            "allow:filesystem:/srv/**",
        ),
        (
            json!({"scope": "filesystem", "action": "write", "path": "/srv/a"}),
            "DENY",
            "deny:default",
        ),
        (
            json!({"scope": "filesystem", "action": "read", "path": "/srv/../etc/passwd"}),
            "DENY",
            "deny:filesystem:/etc/**",
        ),
        (
            json!({"scope": "shell", "command": "ls -l"}),
            "ALLOW",
            "allow:shell:ls*",
        ),
        (
            json!({"scope": "shell", "command": "rm -rf /"}),
            "DENY",
            "deny:default",
        ),
        (
            json!({"scope": "network", "domain": "a.example.com"}),
            "ALLOW",
            "allow:network:*.example.com",
        ),
        (
            json!({"scope": "network", "url": "https://evil.com/x"}),
            "DENY",
            "deny:default",
        ),
        (
            json!({"scope": "browser", "url": "https://a.example.com"}),
            "DENY",
            "deny:default",
        ),
        (
            json!({"scope": "made_up", "command": "x"}),
            "DENY",
            "deny:default",
        ),
        // What is named beside the arguments is judged as well.
        (
            json!({"scope": "filesystem", "action": "read", "path": "/etc/x", "meta": {"arg_path": "/srv/a"}}),
            "DENY",
            "deny:filesystem:/etc/**",
        ),
    ] {
        let mut body = question.clone();
        body["schema_version"] = "v1".into();
        let (status, answer) = asked(&served, &agent, "/v1/check", &body.to_string());
        assert_eq!(status, 200, "{question}: {answer}");
        assert_eq!(answer["schema_version"], "v1");
        assert_eq!(
            (&answer["decision"], &answer["matched_rule"]),
            (&decision.into(), &rule.into()),
            "{question}: {answer}"
        );
        assert!(
            answer["reason"]
                .as_str()
                .is_some_and(|reason| !reason.is_empty())
        );
        // Absent members are left out.
        for member in ["approval_id", "approval_url"] {
            let is_there = answer.get(member).is_some();
            assert_eq!(is_there, decision == "REQUIRE_APPROVAL", "{answer}");
        }
        let mut unversioned = question;
        unversioned["meta"]["again"] = "true".into();
        let (status, same) = asked(&served, &agent, "/v1/check", &unversioned.to_string());
        assert_eq!(
            (status, &same["decision"]),
            (200, &decision.into()),
            "{same}"
        );
    }
}

#[test]
fn malformed_and_unauthorised_checks_are_refused() {
    let bed = bed("");
    let served = bed.serve();
    let agent = served.token.clone();
    let ask = |body: &str| asked(&served, &agent, "/v1/check", body).0;
    for body in [
        "",
        "[]",
        "nonsense",
        "{}",
        r#"{"schema_version":"v1"}"#,
        r#"{"schema_version":"v2","scope":"mcp_tool"}"#,
        r#"{"schema_version":null,"scope":"mcp_tool"}"#,
        r#"{"schema_version":"v1","scope":"mcp_tool","command":7}"#,
        r#"{"schema_version":"v1","scope":"a","scope":"b"}"#,
    ] {
        assert_eq!(ask(body), 400, "{body}");
    }
    let long = format!(
        r#"{{"schema_version":"v1","scope":"mcp_tool","path":"{}"}}"#,
        "x".repeat(1 << 20)
    );
    assert_eq!(ask(&long), 413);
    let approver = token(&bed, &["--name", "eve", "--role", "approver"]);
    let question = about("fs:read");
    for (token, status) in [
        ("", 401),
        ("forged", 401),
        (&approver, 403),
        (&served.admin_token, 200),
        (&agent, 200),
    ] {
        assert_eq!(
            asked(&served, token, "/v1/check", &question).0,
            status,
            "{token}"
        );
    }
    for (route, status) in [
        ("/v1/t/local/check", 200),
        ("/v1/t/nobody/check", 404),
        ("/v1/t/../check", 404),
    ] {
        assert_eq!(
            asked(&served, &agent, route, &question).0,
            status,
            "{route}"
        );
    }
    assert_eq!(told(&served, &agent, "GET", "/v1/t/local/health").0, 200);
    assert_eq!(told(&served, &agent, "GET", "/v1/t/nobody/health").0, 404);
}

#[test]
fn checks_are_recorded_and_reported_and_can_be_open_on_loopback() {
    let bed = bed("auth: {open_on_loopback: [check]}\n");
    let served = bed.serve();
    let events = HttpHost::new(&served.url.replace("/mcp", "/events")).expect("an http URL");
    let events = events.header("Authorization", &format!("Bearer {}", served.admin_token));
    let mut heard = events.listen().expect("it listens");
    let body = json!({
        "schema_version": "v1", "scope": "mcp_tool", "command": "db:drop_all", "agent_id": "bot",
        "session_id": "s1", "meta": {"arg_key": "password=hunter2"},
    });
    let (status, answer) = asked(&served, "", "/v1/check", &body.to_string());
    assert_eq!(
        (status, &answer["decision"]),
        (200, &"DENY".into()),
        "{answer}"
    );
    let event = loop {
        let event = heard
            .next_event()
            .expect("it goes on")
            .expect("it stays open");
        if event.name.as_deref() == Some("check") {
            break parsed(&event.data);
        }
    };
    assert_eq!(
        (&event["decision"], &event["agent"]),
        (&"deny".into(), &"bot".into()),
        "{event}"
    );
    assert_eq!(
        (&event["scope"], &event["command"]),
        (&"mcp_tool".into(), &"db:drop_all".into())
    );
    let all = all_records(&stdout(&run(&bed, &["activity", "export"])));
    let checks: Vec<&Value> = all
        .iter()
        .filter(|record| record["type"] == "check")
        .collect();
    assert_eq!(checks.len(), 1, "{all:?}");
    let check = checks[0];
    for (key, value) in [
        ("server", "db"),
        ("tool", "drop_all"),
        ("principal", "loopback"),
        ("agent", "bot"),
        ("session_id", "s1"),
        ("decision", "DENY"),
        ("status", "blocked"),
        ("rule", "deny:mcp_tool:*:drop_*"),
    ] {
        assert_eq!(check[key], value, "{check}");
    }
    assert!(!check.to_string().contains("hunter2"), "{check}");
}
