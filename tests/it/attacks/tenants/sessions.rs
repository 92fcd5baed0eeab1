//! Sessions of other tokens, and ids that clients choose.

use serde_json::json;

use super::{RATED, governed, refused_unless};
use crate::approvals::{host_with, token};
use crate::attacks::Seen::Refused;
use crate::attacks::attack;
use crate::setup::VERSION;

#[test]
fn session_ids_of_other_tokens_are_unknown() {
    let (bed, served) = governed(RATED);
    let victim = host_with(&served, &served.token);
    let other = token(&bed, &["--name", "other", "--role", "agent"]);
    let acme = token(
        &bed,
        &["--name", "acme-ci", "--role", "agent", "--tenant", "acme"],
    );
    let ways: Vec<_> = ["POST", "GET", "DELETE"]
        .into_iter()
        .flat_map(|method| [(method, &acme), (method, &other)])
        .collect();
    attack(
        "tenants",
        "a session is used with its `Mcp-Session-Id` and another token",
    )
    .expect(Refused)
    .tries(ways, |(method, secret)| {
        let bearer = format!("Bearer {secret}");
        let line = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        let body = if *method == "POST" { line } else { "" };
        let accept = if *method == "GET" {
            "text/event-stream"
        } else {
            "application/json, text/event-stream"
        };
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Accept", accept),
            ("Content-Type", "application/json"),
        ];
        let reply = victim
            .send(method, &headers, body.as_bytes())
            .expect("it answers");
        refused_unless(reply.status != 404)
    })
    .check();
    let line = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    assert_eq!(
        victim.post(line).expect("it answers").status,
        200,
        "its own token still opens it"
    );
}

#[test]
fn clients_cannot_choose_session_ids() {
    let (_bed, served) = governed(RATED);
    let chosen = "a".repeat(64);
    attack("tenants", "a client fixes the id of a session before it is opened")
        .expect(Refused)
        .tries(["initialize", "tools/list", "ping"], |method| {
            let host = served.host().header("Mcp-Session-Id", &chosen);
            let line = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {
                "protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}});
            let reply = host.post(&line.to_string()).expect("it answers");
            let took = reply.header("mcp-session-id").map(str::to_owned);
            refused_unless(reply.status == 200 || took.as_deref() == Some(chosen.as_str()))
        })
        .check();
}
