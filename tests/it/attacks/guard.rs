//! Getting past a gateway that asks another, or misusing the one that answers.

use callgate_testkit::{HttpHost, StdioHost};
use serde_json::json;

use super::Seen::{Held, Passed, Refused};
use super::{Seen, attack, attempt, write};
use crate::guard::asked;
use crate::guard::fake::{Does, Fake, answer, http};
use crate::setup::Bed;

/// A gateway that goes on when its guard cannot be asked.
fn open_asker(url: &str) -> (Bed, StdioHost) {
    let bed = Bed::new(&format!(
        "servers: {{n: {{command: '@counter@', args: [--ledger, '@dir@/ledger']}}}}\nguard: {{url: '{url}', api_key: k, fail_mode: allow, timeout: 1s}}\n"
    ));
    let host = bed.stdio_ready();
    (bed, host)
}

fn call(bed: &Bed, host: &mut StdioHost) -> Seen {
    attempt(bed, host, "n__effect", r#"{"key":"k"}"#)
}

#[test]
fn unlisted_guard_statuses_permit_nothing() {
    let fake = Fake::start();
    let (bed, mut host) = open_asker(&fake.url);
    let statuses = [
        "204 No Content",
        "302 Found",
        "400 Bad Request",
        "201 Created",
        "202 Accepted",
        "206 Partial Content",
        "301 Moved Permanently",
        "303 See Other",
        "304 Not Modified",
        "307 Temporary Redirect",
        "308 Permanent Redirect",
        "402 Payment Required",
        "405 Method Not Allowed",
        "406 Not Acceptable",
        "407 Proxy Authentication Required",
        "408 Request Timeout",
        "409 Conflict",
        "418 I'm a teapot",
        "421 Misdirected Request",
        "429 Too Many Requests",
        "431 Request Header Fields Too Large",
        "451 Unavailable For Legal Reasons",
        "299 Odd",
        "600 Odd",
        "999 Odd",
    ];
    attack(
        "guard",
        "`fail_mode: allow` opens for an answer with a status that is not listed",
    )
    .expect(Refused)
    .tries(statuses, |status| {
        fake.now(http(status, ""));
        call(&bed, &mut host)
    })
    .check();
    fake.now(http("503 Service Unavailable", ""));
    assert_eq!(call(&bed, &mut host), Passed, "what is listed opens");
}

#[test]
fn broken_guard_answers_permit_nothing() {
    let fake = Fake::start();
    let (bed, mut host) = open_asker(&fake.url);
    let whole = answer("DENY", "deny:x");
    let cut = |length: usize| {
        format!(
            "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{}",
            &whole[..length]
        )
    };
    let broken = [
        cut(20),
        "hello\r\n\r\n".to_owned(),
        format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20\r\n{}",
            &whole[..20]
        ),
        cut(0),
        cut(whole.len()),
        "HTTP/1.1 abc\r\n\r\n".to_owned(),
        format!("HTTP/1.1 200 OK\r\nContent-Length: 9\r\nContent-Length: 8\r\n\r\n{whole}"),
        format!("HTTP/9.9 200 OK\r\n\r\n{whole}"),
    ];
    attack(
        "guard",
        "`fail_mode: allow` opens for an answer that began and cannot be read",
    )
    .expect(Refused)
    .tries(broken, |raw| {
        fake.now(Does::Says(raw.clone()));
        call(&bed, &mut host)
    })
    .check();
}

#[test]
fn contradictory_guard_answers_permit_nothing() {
    let fake = Fake::start();
    let (bed, mut host) = open_asker(&fake.url);
    let bodies = [
        answer("ALLOW", "deny:x"),
        answer("ALLOW", ""),
        answer("DENY", "deny:x").replace('}', r#","decision":"ALLOW"}"#),
        answer("ALLOW", "require_approval:x"),
        answer("allow", "allow:x"),
        answer("ALLOW", "allow:x").replace("v1", "v2"),
        answer("ALLOW", "allow:x").replace(r#""decision""#, r#""Decision""#),
        answer("ALLOW", "allow:x").replace(r#""ALLOW""#, r#"["ALLOW"]"#),
        format!("{}{}", answer("ALLOW", "allow:x"), answer("DENY", "deny:x")),
        format!("[{}]", answer("ALLOW", "allow:x")),
        "true".to_owned(),
    ];
    attack("guard", "an answer that contradicts itself counts as a yes")
        .expect(Refused)
        .tries(bodies, |body| {
            fake.now(http("200 OK", body));
            call(&bed, &mut host)
        })
        .check();
}

#[test]
fn guard_redirects_are_not_followed() {
    let (fake, other) = (Fake::start(), Fake::start());
    other.now(http("200 OK", &answer("ALLOW", "allow:x")));
    let (bed, mut host) = open_asker(&fake.url);
    attack("guard", "a redirect leads to a guard that says yes")
        .expect(Refused)
        .tries(["307 Temporary Redirect", "302 Found", "308 Permanent Redirect", "301 Moved Permanently", "303 See Other"], |status| {
            let raw = format!("HTTP/1.1 {status}\r\nLocation: {}/v1/check\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", other.url);
            fake.now(Does::Says(raw));
            let seen = call(&bed, &mut host);
            assert_eq!(other.heard(), Vec::<String>::new(), "the key went to another host");
            seen
        })
        .check();
}

#[test]
fn oversized_guard_questions_permit_nothing() {
    let fake = Fake::start();
    fake.now(http("413 Payload Too Large", ""));
    let (bed, mut host) = open_asker(&fake.url);
    attack(
        "guard",
        "arguments that are too large to be asked about pass with `fail_mode: allow`",
    )
    .expect(Refused)
    .tries([1 << 20, 10, (1 << 20) + 1], |size| {
        let arguments = json!({"key": "k", "pad": "x".repeat(*size)}).to_string();
        attempt(&bed, &mut host, "n__effect", &arguments)
    })
    .check();
}

#[test]
fn forwarded_requests_do_not_count_as_local() {
    let bed = Bed::new(
        "servers: {n: {command: '@counter@'}}\nauth: {open_on_loopback: [check, metrics]}\npolicy: allow-all\n",
    );
    let served = bed.serve();
    let question =
        json!({"schema_version": "v1", "scope": "mcp_tool", "command": "n:effect"}).to_string();
    let (status, _) = asked(&served, "", "/v1/check", &question);
    assert_eq!(status, 200, "a program of this machine may ask");
    let headers = [
        ("X-Forwarded-For", "203.0.113.7"),
        ("Forwarded", "for=203.0.113.7"),
        ("Via", "1.1 proxy"),
        ("X-Real-IP", "203.0.113.7"),
        ("x-forwarded-for", "127.0.0.1"),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Host", "gate.example.com"),
        ("X-Forwarded-Server", "p"),
        ("X-Forwarded-Port", "443"),
        ("X-Forwarded-Prefix", "/g"),
        ("X-Forwarded", "for=1.2.3.4"),
        ("Forwarded-For", "1.2.3.4"),
        ("X-Client-IP", "1.2.3.4"),
        ("True-Client-IP", "1.2.3.4"),
        ("CF-Connecting-IP", "1.2.3.4"),
        ("Fastly-Client-IP", "1.2.3.4"),
        ("X-Cluster-Client-IP", "1.2.3.4"),
        ("X-Original-Forwarded-For", "1.2.3.4"),
        ("X-Envoy-External-Address", "1.2.3.4"),
        ("X-ProxyUser-Ip", "1.2.3.4"),
        ("Fly-Client-IP", "1.2.3.4"),
        ("CDN-Loop", "x"),
        ("X-Azure-ClientIP", "1.2.3.4"),
        ("X-Appengine-User-IP", "1.2.3.4"),
        ("Proxy-Connection", "keep-alive"),
        ("X-Original-Host", "h"),
    ];
    let send = |method: &str, route: &str, headers: &[(&str, &str)], body: &str| {
        let host = HttpHost::new(&served.url.replace("/mcp", route)).expect("an http URL");
        host.send(method, headers, body.as_bytes())
            .expect("it answers")
            .status
    };
    attack(
        "guard",
        "a request that came through a proxy counts as one of this machine",
    )
    .expect(Refused)
    .tries(headers, |header| {
        let statuses = [
            send(
                "POST",
                "/v1/check",
                &[*header, ("Content-Type", "application/json")],
                &question,
            ),
            send("GET", "/metrics", &[*header], ""),
        ];
        if statuses == [401, 401] {
            Refused
        } else {
            Passed
        }
    })
    .check();
}

#[test]
fn checks_about_cost_respect_limits() {
    let bed = Bed::new("servers: {n: {command: '@counter@'}}\npolicy: '@dir@/policy.yaml'\n");
    write(
        &bed.path("policy.yaml"),
        "version: '1'\nrules:\n  - {scope: cost, limits: {max_per_action: 1, max_per_session: 5}}\n",
    );
    let served = bed.serve();
    let costs = [
        "1.01", "-1", "\"1\"", "1e400", "[1]", "{}", "true", "1e308", "-0.001", "\"\"",
    ];
    attack(
        "guard",
        "a question about cost is answered with yes beyond its limits",
    )
    .expect(Refused)
    .tries(costs, |cost| {
        let question = format!(
            r#"{{"schema_version":"v1","scope":"cost","command":"n:effect","est_cost":{cost}}}"#
        );
        let (status, answer) = asked(&served, &served.token, "/v1/check", &question);
        if status == 200 && answer["decision"] == "ALLOW" {
            Passed
        } else {
            Refused
        }
    })
    .check();
}

/// A guard that looks at `path` alone, and allows nothing under `/secret`.
fn by_path_alone(question: &str) -> Does {
    let question: serde_json::Value = serde_json::from_str(question).expect("it is JSON");
    let path = question["path"].as_str().unwrap_or_default();
    match path.starts_with("/secret") {
        true => http("200 OK", &answer("DENY", "deny:secret")),
        false => http("200 OK", &answer("ALLOW", "allow:x")),
    }
}

#[test]
fn the_guard_is_asked_about_every_path() {
    let fake = Fake::start();
    fake.now(Does::Judges(by_path_alone));
    let bed = Bed::new(&format!(
        "servers: {{n: {{command: '@counter@', args: [--ledger, '@dir@/ledger']}}}}\npolicy: '@dir@/policy.yaml'\npolicy_mode: strict\nguard: {{url: '{}', api_key: k, timeout: 5s}}\n",
        fake.url
    ));
    write(
        &bed.path("policy.yaml"),
        "version: '1'\nrules: [{scope: mcp_tool, deny: [{pattern: '*:*'}]}]\ntool_scope_map: [{pattern: 'n:effect', scope: filesystem}]\n",
    );
    let mut host = bed.stdio_ready();
    let plain = r#"{"key":"k","path":"/a"}"#;
    assert_eq!(attempt(&bed, &mut host, "n__effect", plain), Passed);
    let many = |count: usize| {
        let paths: Vec<String> = (0..count).map(|at| format!("/a/{at}")).collect();
        json!({"key": "k", "paths": [paths, ["/secret/key"]]}).to_string()
    };
    attack(
        "guard",
        "a guard is asked about the first path of a call, and the call names another",
    )
    .expect(Refused)
    .tries(
        [
            r#"{"key":"k","path":"/a","target":"/secret/key"}"#.to_owned(),
            r#"{"key":"k","paths":["/a","/secret/key"]}"#.to_owned(),
            many(40),
            many(300),
            r#"{"key":"k","path":"/a","more":[{"file":"/b"},{"file":"/secret/key"}]}"#.to_owned(),
            r#"{"key":"k","source":"/a","destination":"/secret/new"}"#.to_owned(),
            many(30),
        ],
        |arguments| attempt(&bed, &mut host, "n__effect", arguments),
    )
    .check();
}

#[test]
fn checks_about_protected_paths_are_not_allowed() {
    let bed = Bed::new("servers: {n: {command: '@counter@'}}\npolicy: '@dir@/policy.yaml'\n");
    write(
        &bed.path("policy.yaml"),
        "version: '1'\nrules: [{scope: mcp_tool, allow: [{pattern: '*'}]}, {scope: filesystem, allow: [{paths: ['**']}]}, {scope: shell, allow: [{pattern: '**'}]}]\n",
    );
    let served = bed.serve();
    let config = bed.path("callgate.yaml").display().to_string();
    let data = bed.path("data").display().to_string();
    let ask = |question: &serde_json::Value| {
        let (status, answer) = asked(&served, &served.token, "/v1/check", &question.to_string());
        assert_eq!(status, 200, "{answer}");
        match answer["decision"].as_str() {
            Some("ALLOW") => Passed,
            Some("REQUIRE_APPROVAL") => Held,
            _ => Refused,
        }
    };
    let about = |scope: &str, command: &str, more: serde_json::Value| {
        let mut question = json!({"schema_version": "v1", "scope": scope, "command": command});
        let members = more.as_object().expect("an object").clone();
        question.as_object_mut().expect("an object").extend(members);
        question
    };
    let plain = about(
        "filesystem",
        "Write",
        json!({"action": "write", "path": "/tmp/x"}),
    );
    assert_eq!(ask(&plain), Passed, "what is not protected");
    attack(
        "guard",
        "a program that asks before it writes is told that it may change what governs",
    )
    .expect_any(&[Held, Refused])
    .tries(
        [
            about(
                "filesystem",
                "Write",
                json!({"action": "write", "path": config}),
            ),
            about("shell", &format!("echo x > {config}"), json!({})),
            about(
                "mcp_tool",
                "n:effect",
                json!({"meta": {"arg_path": config}}),
            ),
            about(
                "filesystem",
                "Write",
                json!({"action": "write", "path": format!("{data}/tokens.json")}),
            ),
            about(
                "filesystem",
                "Edit",
                json!({"path": format!("{data}/../callgate.yaml")}),
            ),
            about("shell", &format!("sed -i s/a/b/ '{config}'"), json!({})),
        ],
        ask,
    )
    .check();
}
