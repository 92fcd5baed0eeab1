//! Tokens used for more than they are for.

mod questions;

use callgate_testkit::{EventStream, HttpHost};
use serde_json::{Value, json};

use super::Seen::{Passed, Refused};
use super::{Seen, attack};
use crate::approvals::{ask, host_with, token};
use crate::eras::{listening, stateless};
use crate::evidence::{run, stdout};
use crate::guard::asked;
use crate::setup::{Bed, Served, VERSION};
use crate::talk::{call, request, tools};

const TWO: &str = "\
servers:
  n: {command: '@counter@', args: [--ledger, '@dir@/ledger']}
  a: {command: '@shelf@', args: [--tag, a]}
policy: allow-all
";

fn refused_unless(passed: bool) -> Seen {
    if passed { Passed } else { Refused }
}

/// A host of a view, with its handshake done.
fn host_of(served: &Served, secret: &str, view: &str) -> HttpHost {
    let host = HttpHost::new(&format!("{}{view}", served.url)).expect("an http URL");
    let mut host = host.header("Authorization", &format!("Bearer {secret}"));
    host.initialize(VERSION).expect("it shakes hands");
    host
}

#[test]
fn agent_tokens_cannot_use_admin_routes() {
    let bed = Bed::new(TWO);
    let served = bed.serve();
    let secret = token(&bed, &["--name", "ci", "--role", "agent"]);
    let routes = [
        ("GET", "/api/v1/activity"),
        ("GET", "/v1/approvals"),
        ("POST", "/v1/approve/ap_0"),
        ("GET", "/events"),
        ("GET", "/metrics"),
        ("GET", "/api/v1/servers"),
        ("POST", "/api/v1/tools/call"),
        ("POST", "/v1/deny/ap_0"),
        ("GET", "/api/v1/activity/export"),
        ("GET", "/api/v1/activity/summary"),
        ("POST", "/v1/t/local/approve/ap_0"),
        ("GET", "/v1/t/local/approvals"),
        ("GET", "/api/v1/usage"),
    ];
    let tries: Vec<_> = routes
        .into_iter()
        .flat_map(|route| [(route, &secret), (route, &served.token)])
        .collect();
    attack(
        "tokens",
        "the token of an agent opens what is for admins and approvers",
    )
    .expect(Refused)
    .tries(tries, |((method, route), secret)| {
        let status = ask(&served, secret, method, route).status;
        refused_unless(!matches!(status, 401 | 403 | 404))
    })
    .check();
}

#[test]
fn approver_tokens_cannot_make_calls() {
    let bed = Bed::new(TWO);
    let served = bed.serve();
    let approver = token(&bed, &["--name", "eve", "--role", "approver"]);
    let routes = [
        "/mcp",
        "/api/v1/tools/call",
        "/v1/check",
        "/mcp/search",
        "/mcp/code",
        "/mcp/direct",
    ];
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"n__effect","arguments":{"key":"k"}}}"#;
    attack("tokens", "the token of an approver makes calls")
        .expect(Refused)
        .tries(routes, |route| {
            let (status, _) = asked(&served, &approver, route, body);
            refused_unless(status != 403 || !bed.read("ledger").is_empty())
        })
        .check();
}

#[test]
fn token_ceilings_apply_in_every_view() {
    let bed = Bed::new(TWO);
    let served = bed.serve();
    let reader = token(
        &bed,
        &["--name", "reader", "--role", "agent", "--ceiling", "read"],
    );
    let admin = token(
        &bed,
        &[
            "--name",
            "admin-reader",
            "--role",
            "admin",
            "--ceiling",
            "read",
        ],
    );
    let called = |view: &str, tool: &str, arguments: Value| {
        call(
            &mut host_of(&served, &reader, view),
            tool,
            &arguments.to_string(),
        );
    };
    let inner = |operation: &str| json!({"name": "n:effect", "args": {"key": "k"}, "intent": {"operation_type": operation}});
    let ways = [
        "direct",
        "search",
        "code",
        "search as read",
        "the API",
        "the API as read",
        "direct, canonical name",
    ];
    attack("tokens", "a token that may only read has an effect")
        .expect(Refused)
        .tries(ways, |way| {
            match *way {
                "direct" => called("/direct", "n__effect", json!({"key": "k"})),
                "direct, canonical name" => called("/direct", "n:effect", json!({"key": "k"})),
                "search" => called("/search", "call_tool_destructive", inner("destructive")),
                "search as read" => called("/search", "call_tool_read", inner("read")),
                "code" => called("/code", "run", json!({"command": "n.effect(key='k')"})),
                way => {
                    let tool = if way.ends_with("read") { "call_tool_read" } else { "call_tool_write" };
                    let body = json!({"tool_name": tool, "arguments": inner(tool.trim_start_matches("call_tool_"))});
                    asked(&served, &admin, "/api/v1/tools/call", &body.to_string());
                }
            }
            refused_unless(!bed.read("ledger").is_empty())
        })
        .check();
}

#[test]
fn tokens_for_other_servers_cannot_read() {
    let bed = Bed::new(TWO);
    let served = bed.serve();
    tools(&mut served.host_ready());
    let secret = token(
        &bed,
        &["--name", "only-n", "--role", "agent", "--servers", "n"],
    );
    let mut host = host_with(&served, &secret);
    let asks = [
        ("resources/read", json!({"uri": "a://0"})),
        ("prompts/get", json!({"name": "p0"})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "p0"}, "argument": {"name": "who", "value": ""}}),
        ),
        ("resources/subscribe", json!({"uri": "a://0"})),
        ("resources/read", json!({"uri": "callgate://a/a://0"})),
        ("prompts/get", json!({"name": "a__p0"})),
        ("resources/read", json!({"uri": "a://item/7"})),
        ("resources/read", json!({"uri": "shared://doc"})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/resource", "uri": "a://item/{id}"}, "argument": {"name": "id", "value": ""}}),
        ),
        ("tools/call", json!({"name": "a__echo", "arguments": {}})),
        ("tools/call", json!({"name": "a:echo", "arguments": {}})),
        (
            "tools/call",
            json!({"name": "a__echo", "arguments": {}, "task": {}}),
        ),
    ];
    attack(
        "tokens",
        "a token reads something of a server that it is not for",
    )
    .expect(Refused)
    .tries(asks, |(method, params)| {
        let line = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let answer = request(&mut host, &line.to_string());
        refused_unless(answer.get("error").is_none() && answer["result"]["isError"] != true)
    })
    .check();
}

#[test]
fn revoked_tokens_are_refused() {
    let bed = Bed::new(TWO);
    let served = bed.serve();
    let secret = token(&bed, &["--name", "ci", "--role", "agent"]);
    let host = host_with(&served, &secret);
    stdout(&run(&bed, &["token", "revoke", "ci"]));
    let line = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    attack(
        "tokens",
        "a session that was opened before its token was revoked goes on",
    )
    .expect(Refused)
    .tries(["POST", "GET", "DELETE"], |method| {
        let headers = [
            ("Accept", "application/json, text/event-stream"),
            ("Content-Type", "application/json"),
        ];
        let reply = host
            .send(method, &headers, line.as_bytes())
            .expect("it answers");
        refused_unless(reply.status != 401)
    })
    .check();
}

/// What a stream does after its token was revoked and something happened.
fn goes_on(stream: &mut EventStream, news: &str) -> Seen {
    loop {
        match stream.next_event() {
            Ok(None) | Err(_) => return Refused,
            Ok(Some(event)) if event.data.contains(news) => return Passed,
            Ok(Some(_)) => {}
        }
    }
}

#[test]
fn open_streams_end_when_their_token_is_revoked() {
    let config = "servers:\n  a: {command: '@herald@', args: [--tag, a, --cue, '@dir@/a.cue']}\npolicy: allow-all\n";
    attack(
        "tokens",
        "a stream that was opened before its token was revoked goes on",
    )
    .expect(Refused)
    .tries(
        ["/events", "the standing stream", "subscriptions/listen"],
        |way| {
            let bed = Bed::new(config);
            let served = bed.serve();
            let role = if *way == "/events" { "admin" } else { "agent" };
            let secret = token(&bed, &["--name", "gone", "--role", role]);
            let mut stream = match *way {
                "/events" => {
                    let events =
                        HttpHost::new(&served.url.replace("/mcp", "/events")).expect("an http URL");
                    events
                        .header("Authorization", &format!("Bearer {secret}"))
                        .listen()
                        .expect("it listens")
                }
                "the standing stream" => {
                    let mut host = host_with(&served, &secret);
                    tools(&mut host);
                    host.listen().expect("it listens")
                }
                _ => {
                    let line = stateless(
                        "subscriptions/listen",
                        json!({"notifications": {"toolsListChanged": true}}),
                    );
                    let mut stream = listening(&served, &secret, &line);
                    stream
                        .next_event()
                        .expect("it goes on")
                        .expect("it is acknowledged");
                    stream
                }
            };
            stdout(&run(&bed, &["token", "revoke", "gone"]));
            let question =
                json!({"schema_version": "v1", "scope": "mcp_tool", "command": "n:after"})
                    .to_string();
            asked(&served, &served.token, "/v1/check", &question);
            std::fs::write(bed.path("a.cue"), "say after\ntools\n").expect("the bed is writable");
            let news = if way.starts_with("sub") {
                "list_changed"
            } else {
                "after"
            };
            goes_on(&mut stream, news)
        },
    )
    .check();
}

#[test]
fn token_names_are_unique() {
    let bed = Bed::new("servers: {n: {command: '@counter@'}}\ntenants: {acme: {}}\n");
    token(&bed, &["--name", "ci", "--role", "agent"]);
    token(&bed, &["--name", "old", "--role", "agent"]);
    stdout(&run(&bed, &["token", "revoke", "old"]));
    let names = [
        "ci",
        "loopback",
        "old",
        "admin",
        "agent",
        "anonymous",
        "callgate",
        "local:root",
        "",
        "a b",
        "Ci\u{200b}",
        "../x",
    ];
    attack("tokens", "a second principal gets the name of another")
        .expect(Refused)
        .tries(names, |name| {
            let made = run(
                &bed,
                &[
                    "token", "create", "--name", name, "--role", "agent", "--tenant", "acme",
                ],
            );
            refused_unless(made.status.success())
        })
        .check();
}

#[test]
fn tokens_name_configured_servers_only() {
    let bed = Bed::new(TWO);
    let servers = [
        "nn",
        "n,b",
        "N",
        "*",
        "n ",
        "",
        "n,",
        "callgate",
        "n:effect",
        "n__effect",
        "local",
    ];
    attack("tokens", "a token is made for a server that is not configured, and is for whatever gets that name later")
        .expect(Refused)
        .tries(servers.into_iter().enumerate(), |(at, servers)| {
            let made = run(&bed, &["token", "create", "--name", &format!("t{at}"), "--role", "agent", "--servers", servers]);
            refused_unless(made.status.success())
        })
        .check();
}

#[test]
fn tokens_are_accepted_only_in_a_bearer_header() {
    let bed = Bed::new(TWO);
    let served = bed.serve();
    let secret = served.token.clone();
    let line = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#;
    let ways = [
        ("", "X-Api-Key", secret.clone()),
        ("?token=TOKEN", "X-None", String::new()),
        ("", "Cookie", format!("token={secret}")),
        ("", "Authorization", secret.clone()),
        ("", "Authorization", format!("Basic {secret}")),
        ("", "Authorization", format!("Bearer{secret}")),
        ("", "Authorization", format!("Bearer {secret}x")),
        ("", "Authorization", format!("Bearer {}", &secret[1..])),
        (
            "",
            "Authorization",
            format!("Bearer {}", secret.to_uppercase()),
        ),
        ("", "Authorization", "Bearer ".to_owned()),
        ("?access_token=TOKEN", "X-None", String::new()),
        ("", "Proxy-Authorization", format!("Bearer {secret}")),
    ];
    attack(
        "tokens",
        "a token counts elsewhere than whole behind `Authorization: Bearer`",
    )
    .expect(Refused)
    .tries(ways, |(query, header, value)| {
        let url = format!("{}{}", served.url, query.replace("TOKEN", &secret));
        let host = HttpHost::new(&url).expect("an http URL");
        let headers = [
            (*header, value.as_str()),
            ("Accept", "application/json, text/event-stream"),
            ("Content-Type", "application/json"),
        ];
        let reply = host
            .send("POST", &headers, line.as_bytes())
            .expect("it answers");
        refused_unless(reply.status != 401)
    })
    .check();
}
