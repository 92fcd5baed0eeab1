//! Client names, and what one token can use up.

use serde_json::json;

use super::{RATED, WAYS, Way, allowed, calling_itself, governed, refused_unless};
use crate::approvals::{host_with, token};
use crate::attacks::Seen::{Harmless, Passed, Refused};
use crate::attacks::{attack, reporting};
use crate::eras::{post_with, stateless_as};
use crate::guard::asked;
use crate::setup::Served;
use crate::talk::request;

#[test]
fn client_names_do_not_use_up_another_tokens_rate() {
    attack(
        "tenants",
        "a client calls itself `ci` and uses up the rate of the token `ci`",
    )
    .expect(Harmless)
    .tries(WAYS, |way| {
        let (bed, served) = governed(RATED);
        let ci = token(&bed, &["--name", "ci", "--role", "agent"]);
        for _ in 0..2 {
            allowed(&served, &served.token, (*way, "ci"), "read_thing");
        }
        match allowed(&served, &ci, (Way::Check, "ci"), "read_thing") {
            true => Harmless,
            false => Passed,
        }
    })
    .check();
}

#[test]
fn client_names_do_not_use_another_tokens_history() {
    let policy = r#"version: "1"
rules:
  - scope: mcp_tool
    allow: [{pattern: "n:effect", conditions: [{require_prior: "read_*", time_window: 1h}]}, {pattern: "n:read_thing"}]
"#;
    let (bed, served) = governed(policy);
    let ci = token(&bed, &["--name", "ci", "--role", "agent"]);
    assert!(allowed(&served, &ci, (Way::Handshake, "ci"), "read_thing"));
    assert!(allowed(&served, &ci, (Way::Handshake, "ci"), "effect"));
    attack(
        "tenants",
        "a client calls itself `ci` and does what only the earlier calls of the token `ci` allow",
    )
    .expect(Refused)
    .tries(WAYS, |way| {
        refused_unless(allowed(&served, &served.token, (*way, "ci"), "effect"))
    })
    .check();
}

#[test]
fn invented_client_names_get_no_rate_of_their_own() {
    attack(
        "tenants",
        "a client takes another name for each call and has the rate of all of them",
    )
    .expect(Refused)
    .tries(WAYS, |way| {
        let (_bed, served) = governed(RATED);
        let done = (0..4).filter(|n| {
            allowed(
                &served,
                &served.token,
                (*way, &format!("n{n}")),
                "read_thing",
            )
        });
        refused_unless(done.count() > 2)
    })
    .check();
}

#[test]
fn invented_client_names_lock_out_no_other_token() {
    // More names than any table holds; CI tries fewer and leaves the size of the tables to unit tests.
    let names = if reporting() { 10_100 } else { 30 };
    let policy = RATED.replace("max_requests: 2", "max_requests: 1000000");
    let (bed, served) = governed(&policy);
    let of = |name: &str, tenant: &str| {
        token(
            &bed,
            &["--name", name, "--role", "agent", "--tenant", tenant],
        )
    };
    let (flood, neighbour, acme) = (
        of("flood", "local"),
        of("neighbour", "local"),
        of("acme-ci", "acme"),
    );
    for n in 0..names {
        allowed(
            &served,
            &flood,
            (Way::Check, &format!("invented-{n}")),
            "read_thing",
        );
    }
    attack(
        "tenants",
        "one token invents names until the tables are full, and others are refused",
    )
    .expect(Harmless)
    .tries(
        [
            ("another tenant", &acme),
            ("another token", &neighbour),
            ("the same token", &flood),
        ],
        |(_, secret)| match allowed(&served, secret, (Way::Check, "x"), "read_thing") {
            true => Harmless,
            false => Passed,
        },
    )
    .check();
}

#[test]
fn many_sessions_of_one_tenant_end_none_of_another() {
    // More sessions than a tenant has at once; CI tries fewer.
    let sessions = if reporting() { 10_100 } else { 20 };
    let (bed, served) = governed(RATED);
    let acme = token(
        &bed,
        &["--name", "acme-ci", "--role", "agent", "--tenant", "acme"],
    );
    let victim = host_with(&served, &served.token);
    for n in 0..sessions {
        calling_itself(&served, &acme, &format!("n{n}"));
    }
    attack(
        "tenants",
        "one tenant opens sessions until another's are given up",
    )
    .expect(Harmless)
    .tries(["tools/list"], |method| {
        let line = json!({"jsonrpc": "2.0", "id": 1, "method": method}).to_string();
        let status = victim.post(&line).expect("it answers").status;
        if status == 200 { Harmless } else { Passed }
    })
    .check();
}

#[test]
fn new_sessions_get_no_budget_of_their_own() {
    let policy = "version: '1'\nrules:\n  - {scope: mcp_tool, allow: [{pattern: '*'}]}\n  - {scope: cost, limits: {max_per_session: 1.5}}\n";
    let spend = |served: &Served, way: &str, n: usize| -> bool {
        let params = json!({"name": "n__effect", "arguments": {"key": "k"}, "_meta": {"dev.callgate/est_cost": 1}});
        let answer = match way {
            "a session each" | "one session ended before the next" => {
                let mut host = host_with(served, &served.token);
                let line =
                    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
                let answer = request(&mut host, &line.to_string());
                if way.starts_with("one") {
                    host.send("DELETE", &[], b"").expect("it answers");
                }
                answer
            }
            "requests without sessions" => {
                post_with(
                    served,
                    &served.token,
                    &stateless_as("tools/call", params, &json!({})),
                )
                .1
            }
            _ => {
                let question = json!({"schema_version": "v1", "scope": "mcp_tool", "command": "n:effect", "est_cost": 1, "session_id": format!("s{n}")});
                let (_, answer) = asked(served, &served.token, "/v1/check", &question.to_string());
                return answer["decision"] == "ALLOW";
            }
        };
        answer["result"]["isError"] != true
    };
    let ways = [
        "a session each",
        "questions with a `session_id` each",
        "requests without sessions",
        "one session ended before the next",
    ];
    attack(
        "tenants",
        "a client opens another session and may spend `max_per_session` again",
    )
    .expect(Refused)
    .tries(ways, |way| {
        let (_bed, served) = governed(policy);
        let done = (0..3).filter(|n| spend(&served, way, *n)).count();
        assert!(done > 0, "the first call is within the budget");
        refused_unless(done > 1)
    })
    .check();
}

#[test]
fn client_names_get_no_wider_rules() {
    let policy = r#"version: "1"
rules:
  - {scope: mcp_tool, allow: [{pattern: "n:read_thing"}]}
agents:
  "ci-*": {override: [{scope: mcp_tool, allow: [{pattern: "*:*"}]}]}
"#;
    let (_bed, served) = governed(policy);
    let names = ["ci-1", "ci-", "ci-agent"];
    let tries: Vec<_> = WAYS
        .into_iter()
        .flat_map(|way| names.map(|name| (way, name)))
        .collect();
    attack(
        "tenants",
        "a client gives itself a name that has rules which allow more",
    )
    .expect(Refused)
    .tries(tries, |(way, name)| {
        refused_unless(allowed(&served, &served.token, (*way, name), "effect"))
    })
    .check();
}
