//! Tenants: each has its own policy, tokens, records and approvals, and nothing of another's.

use callgate_testkit::HttpHost;
use serde_json::{Value, json};

use super::{about, asked};
use crate::approvals::{ask, host_with, token, told};
use crate::setup::{Bed, Served};
use crate::talk::{parsed, tools};

const TENANTS: [&str; 3] = ["local", "acme", "beta"];

/// What one tenant has.
struct Tenant {
    name: &'static str,
    agent: String,
    approver: String,
    admin: String,
    /// An approval that waits, and the record of a check.
    approval: String,
    record: String,
}

fn bed() -> Bed {
    let bed = Bed::new(
        "\
servers: {n: {command: '@counter@'}}
tenants: {acme: {policy: '@dir@/acme.yaml'}, beta: {}}
",
    );
    let policy = "version: \"1\"\nrules: [{scope: mcp_tool, require_approval: [{pattern: \"*:wipe\"}], allow: [{pattern: \"n:*\"}], deny: [{pattern: \"n:effect\"}]}]\n";
    std::fs::write(bed.path("acme.yaml"), policy).expect("it is ours");
    bed
}

fn tenant(bed: &Bed, served: &Served, name: &'static str) -> Tenant {
    let make = |role: &str| {
        let holder = format!("{name}-{role}");
        token(bed, &["--name", &holder, "--role", role, "--tenant", name])
    };
    let (agent, approver, admin) = (make("agent"), make("approver"), make("admin"));
    let (status, answer) = asked(served, &agent, "/v1/check", &about("n:wipe"));
    assert_eq!(
        (status, &answer["decision"]),
        (200, &"REQUIRE_APPROVAL".into()),
        "{answer}"
    );
    let (_, listed) = told(served, &admin, "GET", "/api/v1/activity?type=check");
    let record = listed["activities"][0]["id"]
        .as_str()
        .expect("its own record")
        .to_owned();
    let approval = answer["approval_id"].as_str().expect("an id").to_owned();
    Tenant {
        name,
        agent,
        approver,
        admin,
        approval,
        record,
    }
}

/// Fails unless an answer names what `tenant` has, if it is theirs, and nothing of it, if it is not.
fn assert_sees(answer: &str, own: bool, tenant: &Tenant, what: &str) {
    let sees = answer.contains(&tenant.approval) || answer.contains(&tenant.record);
    assert_eq!(sees, own, "{what}: {answer}");
}

#[test]
fn tenants_cannot_see_or_decide_anything_of_each_other() {
    let bed = bed();
    let served = bed.serve();
    let all: Vec<Tenant> = TENANTS
        .iter()
        .map(|name| tenant(&bed, &served, name))
        .collect();
    let text = |token: &str, method: &str, route: &str| {
        let reply = ask(&served, token, method, route);
        (reply.status, reply.text().unwrap_or_default())
    };
    for one in &all {
        for other in &all {
            let own = one.name == other.name;
            let Tenant {
                name,
                approval,
                record,
                ..
            } = other;
            // Lists have what is theirs.
            for route in ["/v1/approvals", "/v1/approvals?status=pending"] {
                for token in [&one.approver, &one.admin] {
                    assert_sees(&text(token, "GET", route).1, own, other, route);
                }
            }
            for route in ["/api/v1/activity", "/api/v1/activity/export"] {
                assert_sees(&text(&one.admin, "GET", route).1, own, other, route);
            }
            // What names a tenant, or something of one, is there for that tenant alone.
            let found = if own { 200 } else { 404 };
            for route in [
                format!("/v1/t/{name}/approvals"),
                format!("/v1/t/{name}/health"),
                format!("/v1/t/{name}/status/{approval}"),
                format!("/v1/status/{approval}"),
            ] {
                for token in [&one.approver, &one.admin] {
                    assert_eq!(text(token, "GET", &route).0, found, "{}: {route}", one.name);
                }
            }
            let own_status = format!("/v1/status/{approval}");
            assert_eq!(
                text(&one.agent, "GET", &own_status).0,
                found,
                "{own_status}"
            );
            for route in [
                format!("/api/v1/activity/{record}"),
                format!("/api/v1/activity?tenant={name}"),
                format!("/api/v1/activity/export?tenant={name}"),
            ] {
                assert_eq!(
                    text(&one.admin, "GET", &route).0,
                    found,
                    "{}: {route}",
                    one.name
                );
            }
            let check = format!("/v1/t/{name}/check");
            assert_eq!(
                asked(&served, &one.agent, &check, &about("n:read_thing")).0,
                found
            );
            if own {
                continue;
            }
            for what in ["approve", "deny"] {
                for route in [
                    format!("/v1/{what}/{approval}"),
                    format!("/v1/t/{name}/{what}/{approval}"),
                    format!("/v1/t/{}/{what}/{approval}", one.name),
                ] {
                    for token in [&one.approver, &one.admin] {
                        assert_eq!(text(token, "POST", &route).0, 404, "{}: {route}", one.name);
                    }
                }
            }
        }
        let counted = if one.name == "local" { 200 } else { 403 };
        assert_eq!(text(&one.admin, "GET", "/metrics").0, counted);
        let (_, summary) = told(&served, &one.admin, "GET", "/api/v1/activity/summary");
        let (_, everything) = told(
            &served,
            &served.admin_token,
            "GET",
            "/api/v1/activity/summary",
        );
        let count = |summary: &Value| summary["total"].as_u64().expect("a number");
        assert!(count(&summary) < count(&everything), "{summary}");
    }
    page_shows_its_own(&served, &all);
    // No tenant decided about another's calls: each decides about its own.
    for one in &all {
        let route = format!("/v1/t/{}/approve/{}", one.name, one.approval);
        let (status, answer) = told(&served, &one.approver, "POST", &route);
        assert_eq!(status, 200, "{answer}");
        let (_, answer) = asked(&served, &one.agent, "/v1/check", &about("n:wipe"));
        assert_eq!(answer["decision"], "ALLOW", "{answer}");
    }
    // The gateway's own admin sees all of them.
    let (_, listed) = told(&served, &served.admin_token, "GET", "/v1/approvals");
    assert_eq!(
        listed["approvals"].as_array().map(Vec::len),
        Some(TENANTS.len())
    );
}

fn page_shows_its_own(served: &Served, all: &[Tenant]) {
    for one in all {
        let base = served.url.replace("/mcp", "");
        let send = |method: &str, place: &str, cookie: &str, body: &str| {
            let host = HttpHost::new(&format!("{base}{place}")).expect("an http URL");
            let headers = [
                ("Cookie", cookie),
                ("Origin", base.as_str()),
                ("Content-Type", "application/x-www-form-urlencoded"),
            ];
            host.send(method, &headers, body.as_bytes())
                .expect("it answers")
        };
        let login = send("POST", "/login", "", &format!("token={}", one.approver));
        let cookie = login.header("set-cookie").expect("a cookie");
        let cookie = cookie.split(';').next().expect("its value").to_owned();
        let list = send("GET", "/approvals", &cookie, "")
            .text()
            .expect("a page");
        for other in all {
            let own = one.name == other.name;
            assert_sees(&list, own, other, "the page");
            let place = format!("/approvals/{}", other.approval);
            let status = send("GET", &place, &cookie, "").status;
            assert_eq!(status, if own { 200 } else { 404 }, "{}: {place}", one.name);
        }
    }
}

#[test]
fn each_tenant_has_its_own_policy_and_unknown_tenants_are_404() {
    let bed = bed();
    let served = bed.serve();
    let of = |tenant: &str| {
        let name = format!("{tenant}-x");
        token(
            &bed,
            &["--name", &name, "--role", "agent", "--tenant", tenant],
        )
    };
    let mut acme = host_with(&served, &of("acme"));
    let listed = tools(&mut acme);
    assert!(!listed.contains(&"n__effect".to_owned()), "{listed:?}");
    let refused = crate::talk::call(&mut acme, "n__effect", r#"{"key":"a"}"#).to_string();
    assert!(
        refused.contains("Rule: deny:mcp_tool:n:effect"),
        "{refused}"
    );
    let mut beta = host_with(&served, &of("beta"));
    assert!(tools(&mut beta).contains(&"n__effect".to_owned()));
    let unknown = of("nobody");
    assert_eq!(ask(&served, &unknown, "POST", "/mcp").status, 404);
    assert_eq!(
        asked(&served, &unknown, "/v1/check", &about("n:effect")).0,
        404
    );
}

#[test]
fn a_tenants_admin_gets_events_of_its_own_tenant_only() {
    let bed = bed();
    let served = bed.serve();
    let make = |tenant: &str, role: &str| {
        let name = format!("{tenant}-{role}");
        token(&bed, &["--name", &name, "--role", role, "--tenant", tenant])
    };
    let events = HttpHost::new(&served.url.replace("/mcp", "/events")).expect("an http URL");
    let admin = make("acme", "admin");
    let events = events.header("Authorization", &format!("Bearer {admin}"));
    let mut heard = events.listen().expect("it listens");
    // Events arrive in the order of the questions.
    for tenant in ["beta", "acme"] {
        let body = json!({"schema_version": "v1", "scope": "mcp_tool", "command": format!("n:of_{tenant}")});
        asked(
            &served,
            &make(tenant, "agent"),
            "/v1/check",
            &body.to_string(),
        );
    }
    let first = heard
        .next_event()
        .expect("it goes on")
        .expect("it stays open");
    let first = parsed(&first.data);
    assert_eq!(
        (&first["tenant"], &first["tool"]),
        (&"acme".into(), &"of_acme".into()),
        "{first}"
    );
}

#[test]
fn doctor_and_the_api_show_token_usage_per_tenant() {
    let bed = Bed::new(
        "servers: {n: {command: '@counter@'}}\npolicy: '@dir@/policy.yaml'\ntenants: {acme: {policy: '@dir@/policy.yaml'}}\n",
    );
    let policy = r#"version: "1"
rules:
  - scope: mcp_tool
    allow: [{pattern: "n:effect", conditions: [{require_prior: "read_*", time_window: 1h}]}, {pattern: "n:read_thing"}]
    rate_limit: {max_requests: 9, window: 1m}
"#;
    std::fs::write(bed.path("policy.yaml"), policy).expect("it is ours");
    let served = bed.serve();
    let make = |role: &str| {
        let name = format!("acme-{role}");
        token(&bed, &["--name", &name, "--role", role, "--tenant", "acme"])
    };
    let (agent, admin) = (make("agent"), make("admin"));
    for name in ["x", "x", "acme-agent"] {
        let question = json!({"schema_version": "v1", "scope": "mcp_tool", "command": "n:read_thing", "agent_id": name});
        asked(&served, &agent, "/v1/check", &question.to_string());
    }
    asked(&served, &served.token, "/v1/check", &about("n:read_thing"));
    let lines = crate::shell::run(&mut crate::shell::named(&bed, ["doctor"])).stdout;
    for line in [
        "ok      tenant acme, token acme-agent: mcp_tool 3 of 9 in 60s (agent x 2), 2 calls in history\n",
        "ok      tenant local, token agent: mcp_tool 1 of 9 in 60s, 1 calls in history\n",
    ] {
        assert!(lines.contains(line), "{lines}");
    }
    let (_, own) = told(&served, &admin, "GET", "/api/v1/usage");
    let tenants: Vec<&Value> = own["usage"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| &one["tenant"])
        .collect();
    assert_eq!(tenants, ["acme"], "{own}");
}
