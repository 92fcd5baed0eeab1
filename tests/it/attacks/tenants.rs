//! One tenant or token using, reading or starving another.

mod names;
mod sessions;

use callgate_testkit::{Host, HttpHost, HttpReply, INITIALIZED, StatelessHost};
use serde_json::{Value, json};

use super::Seen::{Harmless, Passed, Refused};
use super::{Seen, attack, write};
use crate::approvals::{approval_of, ask, host_with, token, told};
use crate::eras::{post_with, stateless_as};
use crate::guard::asked;
use crate::setup::{Bed, Served, VERSION};
use crate::talk::{call, parsed};

/// One counting server under the policy `policy.yaml`, which tenant `acme` has as well.
const GOVERNED: &str = "\
servers: {n: {command: '@counter@', args: [--ledger, '@dir@/ledger']}}
policy: '@dir@/policy.yaml'
tenants: {acme: {policy: '@dir@/policy.yaml'}}
";

/// Two calls an hour.
const RATED: &str = r#"version: "1"
rules:
  - scope: mcp_tool
    allow: [{pattern: "*:*"}]
    rate_limit: {max_requests: 2, window: 1h}
"#;

/// How a client says who it is.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// In `clientInfo` of a handshake.
    Handshake,
    /// In `agent_id` of a question.
    Check,
    /// In `clientInfo` of a stateless request.
    Stateless,
}

const WAYS: [Way; 3] = [Way::Handshake, Way::Check, Way::Stateless];

fn governed(policy: &str) -> (Bed, Served) {
    let bed = Bed::new(GOVERNED);
    write(&bed.path("policy.yaml"), policy);
    let served = bed.serve();
    (bed, served)
}

/// Whether a call of `n:TOOL` is allowed to a client that calls itself `name`. Each call is in a session of its own.
fn allowed(served: &Served, secret: &str, (way, name): (Way, &str), tool: &str) -> bool {
    let arguments = json!({"key": name});
    let answer = match way {
        Way::Handshake => {
            let mut host = calling_itself(served, secret, name);
            call(&mut host, &format!("n__{tool}"), &arguments.to_string())
        }
        Way::Stateless => {
            let params = json!({"name": format!("n__{tool}"), "arguments": arguments});
            let line = stateless_as("tools/call", params, &json!({}));
            let line = line.replace(r#""name":"modern""#, &format!(r#""name":"{name}""#));
            post_with(served, secret, &line).1
        }
        Way::Check => {
            let question = json!({"schema_version": "v1", "scope": "mcp_tool", "command": format!("n:{tool}"), "agent_id": name});
            let (_, answer) = asked(served, secret, "/v1/check", &question.to_string());
            return answer["decision"] == "ALLOW";
        }
    };
    assert!(answer.get("error").is_none(), "{answer}");
    answer["result"]["isError"] != true
}

/// A host with this token whose handshake gives it a name.
fn calling_itself(served: &Served, secret: &str, name: &str) -> HttpHost {
    let host = served.host();
    let mut host = host.header("Authorization", &format!("Bearer {secret}"));
    let line = json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": {
        "protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": name, "version": "1"},
    }});
    let reply = host.post(&line.to_string()).expect("it answers");
    let session = reply.header("mcp-session-id").expect("a session");
    let session = session.to_owned();
    host.set_header("Mcp-Session-Id", &session);
    host.set_header("MCP-Protocol-Version", VERSION);
    host.notify(INITIALIZED).expect("it is accepted");
    host
}

fn refused_unless(passed: bool) -> Seen {
    if passed { Passed } else { Refused }
}

#[test]
fn stored_results_of_other_tokens_cannot_be_read() {
    let bed = Bed::new(
        "servers: {n: {command: '@counter@'}}\npolicy: allow-all\ntenants: {acme: {policy: allow-all}}\nsearch: {inline_chars: 1000}\n",
    );
    let served = bed.serve();
    let other = token(&bed, &["--name", "other", "--role", "agent"]);
    let acme = token(
        &bed,
        &["--name", "acme-ci", "--role", "agent", "--tenant", "acme"],
    );
    let at = |secret: &str, line: &str| {
        let host = HttpHost::new(&format!("{}/search", served.url)).expect("an http URL");
        let host = host.header("Authorization", &format!("Bearer {secret}"));
        let host = StatelessHost::new(host).headed(line).expect("a request");
        host.post(line)
            .and_then(HttpReply::text)
            .expect("it answers")
    };
    let big = json!({"name": "call_tool_read", "arguments": {"name": "n:big", "args": {"bytes": 5000}, "operation_type": "read"}});
    let made = at(&served.token, &stateless_as("tools/call", big, &json!({})));
    let from = made
        .find("result_")
        .unwrap_or_else(|| panic!("no handle: {made}"));
    let handle: String = made[from..]
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect();
    let read = json!({"name": "read_result", "arguments": {"handle": handle}});
    let line = stateless_as("tools/call", read.clone(), &json!({}));
    assert!(
        at(&served.token, &line).contains("bbb"),
        "its own token reads it"
    );
    attack(
        "tenants",
        "a large result is read with its handle and another token",
    )
    .expect(Refused)
    .tries([("tenant", &acme), ("token", &other)], |(_, secret)| {
        refused_unless(at(secret, &line).contains("bbb"))
    })
    .tries(["a session of another token"], |_| {
        let host = HttpHost::new(&format!("{}/search", served.url)).expect("an http URL");
        let mut host = host.header("Authorization", &format!("Bearer {other}"));
        host.initialize(VERSION).expect("it shakes hands");
        let answer = call(
            &mut host,
            "read_result",
            &json!({"handle": handle}).to_string(),
        );
        refused_unless(answer.to_string().contains("bbb"))
    })
    .check();
}

#[cfg(feature = "code")]
#[test]
fn held_runs_of_other_tokens_cannot_be_resumed() {
    let bed = Bed::new(
        "servers: {n: {command: '@counter@', args: [--ledger, '@dir@/ledger']}}\npolicy: default\ntenants: {acme: {}}\n",
    );
    let served = bed.serve();
    let code = |secret: &str| {
        let host = HttpHost::new(&format!("{}/code", served.url)).expect("an http URL");
        let mut host = host.header("Authorization", &format!("Bearer {secret}"));
        host.initialize(VERSION).expect("it shakes hands");
        host
    };
    let held = call(
        &mut code(&served.token),
        "run",
        &json!({"command": "n.wipe(key='k')"}).to_string(),
    );
    let run = held["result"]["structuredContent"]["run_id"].as_str();
    let run = run
        .unwrap_or_else(|| panic!("it is not held: {held}"))
        .to_owned();
    let approval = held["result"]["structuredContent"]["approval_ids"][0]
        .as_str()
        .expect("an id")
        .to_owned();
    crate::approvals::approve(&served, &approval);
    let other = token(&bed, &["--name", "other", "--role", "agent"]);
    let acme = token(
        &bed,
        &["--name", "acme-ci", "--role", "agent", "--tenant", "acme"],
    );
    attack("tenants", "an approved run of another token is resumed")
        .expect(Refused)
        .tries([("tenant", &acme), ("token", &other)], |(_, secret)| {
            let answer = call(
                &mut code(secret),
                "run",
                &json!({"resume": run}).to_string(),
            );
            refused_unless(answer["result"]["isError"] != true || !bed.read("ledger").is_empty())
        })
        .check();
}

#[test]
fn request_states_of_other_tokens_are_refused() {
    let bed = Bed::new(
        "servers: {n: {command: '@counter@', args: [--ledger, '@dir@/ledger']}}\npolicy: default\ntenants: {acme: {}}\n",
    );
    let served = bed.serve();
    let other = token(&bed, &["--name", "other", "--role", "agent"]);
    let acme = token(
        &bed,
        &["--name", "acme-ci", "--role", "agent", "--tenant", "acme"],
    );
    let pages = json!({"elicitation": {"form": {}, "url": {}}});
    let wipe = json!({"name": "n__wipe", "arguments": {"key": "k"}});
    let held = post_with(
        &served,
        &served.token,
        &stateless_as("tools/call", wipe.clone(), &pages),
    )
    .1;
    crate::approvals::approve(&served, &approval_of(&held));
    let mut back = wipe;
    back["requestState"] = held["result"]["requestState"].clone();
    back["inputResponses"] = json!({"approval": {"action": "accept"}});
    let line = stateless_as("tools/call", back, &pages);
    attack(
        "tenants",
        "the `requestState` of an approved call is brought back with another token",
    )
    .expect(Refused)
    .tries([("tenant", &acme), ("token", &other)], |(_, secret)| {
        let answer = post_with(&served, secret, &line).1;
        refused_unless(answer.get("error").is_none() || !bed.read("ledger").is_empty())
    })
    .check();
}

#[test]
fn headers_and_urls_cannot_choose_a_tenant() {
    let bed = Bed::new(
        "servers: {n: {command: '@counter@'}}\npolicy: '@dir@/policy.yaml'\ntenants: {acme: {policy: allow-all}}\n",
    );
    write(
        &bed.path("policy.yaml"),
        "version: '1'\nrules: [{scope: mcp_tool, deny: [{pattern: '*'}]}]\n",
    );
    let served = bed.serve();
    let question = json!({"schema_version": "v1", "scope": "mcp_tool", "command": "n:effect", "tenant": "acme", "meta": {"tenant": "acme"}}).to_string();
    let ways = [
        ("/v1/t/acme/check", ""),
        ("/v1/check", "X-Tenant"),
        ("/v1/check", "X-Callgate-Tenant"),
        ("/v1/check?tenant=acme", "Tenant"),
        ("/v1/t/%61cme/check", ""),
        ("/v1/t/local/../acme/check", ""),
        ("//v1/t/acme/check", ""),
        ("/v1/t/acme/check/", "X-Tenant-Id"),
        ("/V1/T/acme/check", ""),
        ("/v1/t/acme;local/check", ""),
        ("/v1/t//acme/check", ""),
        ("/v1/t/local%2f..%2facme/check", ""),
    ];
    attack(
        "tenants",
        "a request names a tenant that its token does not belong to",
    )
    .expect(Refused)
    .tries(ways, |(route, header)| {
        let host = HttpHost::new(&served.url.replace("/mcp", route)).expect("an http URL");
        let bearer = format!("Bearer {}", served.token);
        let mut headers = vec![
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
        ];
        if !header.is_empty() {
            headers.push((header, "acme"));
        }
        let reply = host
            .send("POST", &headers, question.as_bytes())
            .expect("it answers");
        let status = reply.status;
        let text = reply.text().unwrap_or_default();
        refused_unless(status == 200 && text.contains(r#""decision":"ALLOW""#))
    })
    .check();
}

#[test]
fn records_and_approvals_of_other_tenants_are_not_found() {
    let bed = Bed::new("servers: {n: {command: '@counter@'}}\ntenants: {acme: {}}\n");
    let served = bed.serve();
    let held = call(
        &mut host_with(&served, &served.token),
        "n__wipe",
        r#"{"key":"k"}"#,
    );
    let approval = approval_of(&held);
    let (_, listed) = told(&served, &served.admin_token, "GET", "/api/v1/activity");
    let record = listed["activities"][0]["id"]
        .as_str()
        .expect("a record")
        .to_owned();
    let admin = token(
        &bed,
        &[
            "--name",
            "acme-admin",
            "--role",
            "admin",
            "--tenant",
            "acme",
        ],
    );
    let approver = token(
        &bed,
        &[
            "--name", "acme-eve", "--role", "approver", "--tenant", "acme",
        ],
    );
    let ways = [
        ("POST", format!("/v1/approve/{approval}"), &approver),
        ("GET", format!("/api/v1/activity/{record}"), &admin),
        ("GET", "/api/v1/activity".to_owned(), &admin),
        ("GET", "/v1/approvals".to_owned(), &approver),
        ("POST", format!("/v1/t/local/approve/{approval}"), &approver),
        ("POST", format!("/v1/deny/{approval}"), &admin),
        ("GET", format!("/v1/status/{approval}"), &approver),
        ("GET", "/api/v1/activity/export".to_owned(), &admin),
        ("GET", "/api/v1/activity?tenant=local".to_owned(), &admin),
        ("GET", "/api/v1/activity/summary".to_owned(), &admin),
        ("GET", "/metrics".to_owned(), &admin),
    ];
    attack(
        "tenants",
        "an admin or approver of one tenant asks for what another has",
    )
    .expect_any(&[Refused, Harmless])
    .tries(ways, |(method, route, secret)| {
        let reply = ask(&served, secret, method, route);
        let status = reply.status;
        let text = reply.text().unwrap_or_default();
        let counts = serde_json::from_str::<Value>(&text)
            .is_ok_and(|json| json["total"].as_u64().unwrap_or(0) > 0);
        match status {
            200 if text.contains(&approval)
                || text.contains(&record)
                || text.contains("n:wipe")
                || counts =>
            {
                Passed
            }
            200 if method == &"POST" || route == "/metrics" => Passed,
            200 => Harmless,
            _ => Refused,
        }
    })
    .check();
}

#[test]
fn events_of_other_tenants_are_not_delivered() {
    let bed = Bed::new("servers: {n: {command: '@counter@'}}\ntenants: {acme: {}}\n");
    let served = bed.serve();
    let admin = token(
        &bed,
        &[
            "--name",
            "acme-admin",
            "--role",
            "admin",
            "--tenant",
            "acme",
        ],
    );
    let acme = token(
        &bed,
        &["--name", "acme-ci", "--role", "agent", "--tenant", "acme"],
    );
    let ways = [
        "/events",
        "/events?tenant=local",
        "/events with Last-Event-ID",
    ];
    attack(
        "tenants",
        "an admin of one tenant listens to the events of another",
    )
    .expect(Harmless)
    .tries(ways, |way| {
        let route = way.split(' ').next().unwrap_or_default();
        let events = HttpHost::new(&served.url.replace("/mcp", route)).expect("an http URL");
        let mut events = events.header("Authorization", &format!("Bearer {admin}"));
        if way.ends_with("ID") {
            events.set_header("Last-Event-ID", "0");
        }
        let mut heard = events.listen().expect("it listens");
        for secret in [&served.token, &acme] {
            allowed(&served, secret, (Way::Check, "x"), "read_thing");
        }
        loop {
            let event = heard
                .next_event()
                .expect("it goes on")
                .expect("it stays open");
            let event = parsed(&event.data);
            match event["tenant"].as_str() {
                Some("acme") => return Harmless,
                Some(_) => return Passed,
                None => {}
            }
        }
    })
    .check();
}
