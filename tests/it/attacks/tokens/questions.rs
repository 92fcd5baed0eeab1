//! Questions at `/v1/check` beyond the limits of the asker's token.

use serde_json::{Value, json};

use super::{TWO, refused_unless};
use crate::approvals::token;
use crate::attacks::Seen::{Passed, Refused};
use crate::attacks::{Seen, attack};
use crate::guard::asked;
use crate::setup::{Bed, Served};

/// Whether a question about this tool is answered with yes.
fn check_allows(served: &Served, secret: &str, scope: &str, command: &str, meta: Value) -> Seen {
    let question =
        json!({"schema_version": "v1", "scope": scope, "command": command, "meta": meta});
    let (_, answer) = asked(served, secret, "/v1/check", &question.to_string());
    refused_unless(answer["decision"] == "ALLOW")
}

#[test]
fn token_ceilings_apply_to_checks() {
    let bed = Bed::new(TWO);
    let served = bed.serve();
    let reader = token(
        &bed,
        &["--name", "reader", "--role", "agent", "--ceiling", "read"],
    );
    let writer = token(
        &bed,
        &["--name", "writer", "--role", "agent", "--ceiling", "write"],
    );
    let destructive = || json!({"annotations": {"destructiveHint": true}});
    assert_eq!(
        check_allows(
            &served,
            &reader,
            "mcp_tool",
            "n:x",
            json!({"annotations": {"readOnlyHint": true}})
        ),
        Passed
    );
    let questions = [
        ("n:effect", json!({}), &reader),
        ("n:effect", destructive(), &reader),
        ("n:delete_all", json!({}), &writer),
        ("n:effect", destructive(), &writer),
        (
            "n:effect",
            json!({"annotations": {"readOnlyHint": false}}),
            &reader,
        ),
        (
            "n:x",
            json!({"namespace": "n", "tool_name": "delete_all"}),
            &writer,
        ),
    ];
    attack(
        "tokens",
        "a question is answered with yes beyond the ceiling of its token",
    )
    .expect(Refused)
    .tries(questions, |(command, meta, secret)| {
        check_allows(&served, secret, "mcp_tool", command, meta.clone())
    })
    .check();
}

#[test]
fn token_server_limits_apply_to_checks() {
    let bed = Bed::new(TWO);
    let served = bed.serve();
    let secret = token(
        &bed,
        &["--name", "only-a", "--role", "agent", "--servers", "a"],
    );
    assert_eq!(
        check_allows(&served, &secret, "mcp_tool", "a:echo", json!({})),
        Passed
    );
    let questions = [
        ("mcp_tool", "n:effect", json!({})),
        (
            "mcp_tool",
            "a:echo",
            json!({"namespace": "n", "tool_name": "effect"}),
        ),
        (
            "mcp_tool",
            "n:read_thing",
            json!({"annotations": {"readOnlyHint": true}}),
        ),
        ("mcp_resource", "n:file:///x", json!({})),
        ("mcp_prompt", "n:p", json!({})),
        ("mcp_tool", "other:tool", json!({})),
    ];
    attack(
        "tokens",
        "a question about a server is answered with yes to a token that is not for it",
    )
    .expect(Refused)
    .tries(questions, |(scope, command, meta)| {
        check_allows(&served, &secret, scope, command, meta.clone())
    })
    .check();
}
