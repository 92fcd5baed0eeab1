//! A guard that is down, slow or answers wrongly: the decision in every failure mode.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use callgate_testkit::StdioHost;
use rustix::process::Signal;
use serde_json::Value;

use super::fake::{Does, Fake, answer, http};
use crate::evidence::{ledger, records, signal};
use crate::setup::Bed;
use crate::talk::{DEADLINE, call, parsed, request};

/// The answer to the host: `done`, or the rule that refused the call.
fn told(host: &mut StdioHost, key: &str) -> String {
    let answer = call(host, "n__effect", &format!(r#"{{"key":"{key}"}}"#));
    rule_of(&answer)
}

fn rule_of(answer: &Value) -> String {
    let text = answer["result"]["content"][0]["text"].as_str();
    let text = text.unwrap_or_else(|| panic!("no text: {answer}"));
    let rule = text.lines().find_map(|line| line.strip_prefix("Rule: "));
    rule.unwrap_or("done").to_owned()
}

const MODES: [(&str, &str); 3] = [
    ("deny", "deny:gateway:fail_closed"),
    ("allow", "allow:gateway:fail_open"),
    ("fail-closed-with-audit", "deny:gateway:fail_closed_audit"),
];

/// What a host is told where this rule counts: only a refusal names its rule.
fn seen(rule: &str) -> &str {
    if rule.starts_with("allow:") {
        "done"
    } else {
        rule
    }
}

fn asking(url: &str, key: &str, mode: &str) -> Bed {
    Bed::new(&format!(
        "\
servers: {{n: {{command: '@counter@', args: [--ledger, '@dir@/ledger']}}}}
guard: {{url: '{url}', api_key: {key}, fail_mode: {mode}, timeout: 1s}}
"
    ))
}

/// The rules that decided the calls, oldest first.
fn rules(bed: &Bed) -> Vec<String> {
    let rule = |record: &Value| record["rule"].as_str().unwrap_or_default().to_owned();
    records(bed).iter().map(rule).collect()
}

#[test]
fn without_a_guard_answer_the_failure_mode_decides() {
    let too_long = answer("ALLOW", &format!("allow:{}", "x".repeat(70_000)));
    let nothing = "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"schema";
    let failing = [
        ("it goes away", Does::Leaves),
        ("it is slow", Does::Nothing),
        ("503", http("503 Service Unavailable", "")),
        ("500", http("500 Internal Server Error", "{}")),
        ("401", http("401 Unauthorized", "")),
        ("404", http("404 Not Found", "")),
    ];
    let garbled = [
        ("it breaks off", Does::Says(nothing.to_owned())),
        ("no HTTP", Does::Says("hello\r\n\r\n".to_owned())),
        ("204", http("204 No Content", "")),
        ("302", http("302 Found", "")),
        ("400", http("400 Bad Request", "{}")),
    ];
    let unclear = [
        ("no JSON", "<html>".to_owned()),
        ("nothing", String::new()),
        ("another value", "[]".to_owned()),
        (
            "another version",
            answer("ALLOW", "allow:x").replace("v1", "v2"),
        ),
        ("no decision", answer("MAYBE", "allow:x")),
        ("no rule", answer("ALLOW", "")),
        ("a lie: yes by a no", answer("ALLOW", "deny:x")),
        ("a lie: no by a yes", answer("DENY", "allow:x")),
        (
            "a lie: yes by a question",
            answer("ALLOW", "require_approval:x"),
        ),
        (
            "an approval of nothing",
            answer("REQUIRE_APPROVAL", "require_approval:x"),
        ),
        (
            "twice",
            answer("DENY", "deny:x").replace('}', r#","decision":"ALLOW"}"#),
        ),
        ("too long", too_long),
    ];
    for (mode, expected) in MODES {
        let fake = Fake::start();
        let bed = asking(&fake.url, "k", mode);
        let mut host = bed.stdio_ready();
        for (what, does) in &failing {
            fake.now(does.clone());
            assert_eq!(told(&mut host, what), seen(expected), "{mode}: {what}");
        }
        let bodies = unclear.iter();
        let bodies = bodies.map(|(what, body)| (*what, http("200 OK", body)));
        for (what, does) in garbled.iter().cloned().chain(bodies) {
            fake.now(does);
            let expected = "deny:gateway:invalid_response";
            assert_eq!(told(&mut host, what), expected, "{mode}: {what}");
        }
        fake.now(http("413 Payload Too Large", ""));
        assert_eq!(
            told(&mut host, "413"),
            "deny:gateway:arguments_too_large",
            "{mode}"
        );
        fake.now(http("200 OK", &answer("DENY", "deny:mcp_tool:n:*")));
        assert_eq!(told(&mut host, "no"), "deny:mcp_tool:n:*", "{mode}");
        fake.now(http("200 OK", &answer("ALLOW", "allow:mcp_tool:*:*")));
        assert_eq!(told(&mut host, "yes"), "done", "{mode}");
        let done = ledger(&bed).len();
        assert_eq!(
            done,
            if mode == "allow" {
                failing.len() + 1
            } else {
                1
            }
        );
        drop(host);
        let mut of_record = vec![expected; failing.len()];
        of_record.extend(vec![
            "deny:gateway:invalid_response";
            garbled.len() + unclear.len()
        ]);
        of_record.extend([
            "deny:gateway:arguments_too_large",
            "deny:mcp_tool:n:*",
            "allow:mcp_tool:*:*",
        ]);
        assert_eq!(rules(&bed), of_record, "{mode}");
        let audit = bed.read("data/fail-audit.jsonl");
        let lines: Vec<Value> = audit.lines().map(parsed).collect();
        if mode == "fail-closed-with-audit" {
            assert_eq!(lines.len(), failing.len(), "{audit}");
            assert_eq!(lines[0]["rule"], expected);
            assert_eq!(lines[0]["tool"], "effect");
            let of_records = records(&bed);
            assert_eq!(lines[0]["record_id"], of_records[0]["id"]);
            let file = std::fs::metadata(bed.path("data/fail-audit.jsonl")).expect("it is there");
            assert_eq!(file.permissions().mode() & 0o777, 0o600);
        } else {
            assert!(lines.is_empty(), "{audit}");
        }
    }
}

#[test]
fn when_the_guard_is_down_the_failure_mode_decides() {
    let guard_bed = Bed::new("policy: allow-all\n");
    let mut guard = guard_bed.serve();
    let url = guard.url.replace("/mcp", "");
    // Nothing listens on a port that was just closed.
    let closed = TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr());
    let closed = format!("http://{}", closed.expect("an address"));
    let mut asking_somebody: Vec<(Bed, StdioHost)> = MODES
        .map(|(mode, _)| {
            let bed = asking(&url, &guard.token, mode);
            let mut host = bed.stdio_ready();
            assert_eq!(told(&mut host, "up"), "done", "{mode}");
            (bed, host)
        })
        .into();
    signal(guard.process.pid(), Signal::KILL);
    guard.process.wait(DEADLINE).expect("it ends");
    for ((mode, rule), (bed, host)) in MODES.into_iter().zip(&mut asking_somebody) {
        assert_eq!(told(host, "it died"), seen(rule), "{mode}");
        let event = |line: &str| line.contains("fail_mode") && line.contains(rule);
        host.wait_stderr(DEADLINE, event)
            .unwrap_or_else(|_| panic!("{mode}: the operator is told"));
        assert_eq!(rules(bed), ["allow:mcp_tool:*:*", rule], "{mode}");
        let never = asking(&closed, "k", mode);
        assert_eq!(
            told(&mut never.stdio_ready(), "never"),
            seen(rule),
            "{mode}"
        );
        assert_eq!(rules(&never), [rule], "{mode}");
        for bed in [bed, &never] {
            let audit = bed.read("data/fail-audit.jsonl").lines().count();
            let audited = usize::from(mode == "fail-closed-with-audit");
            assert_eq!(audit, audited, "{mode}");
        }
    }
}

#[test]
fn oversized_arguments_are_refused_without_asking_in_every_mode() {
    for (mode, _) in MODES {
        let fake = Fake::start();
        fake.now(http("200 OK", &answer("ALLOW", "allow:mcp_tool:*:*")));
        let bed = asking(&fake.url, "k", mode);
        let mut host = bed.stdio_ready();
        let key = "k".repeat(1 << 20);
        let refused = call(&mut host, "n__effect", &format!(r#"{{"key":"{key}"}}"#));
        assert_eq!(
            rule_of(&refused),
            "deny:gateway:arguments_too_large",
            "{mode}"
        );
        assert_eq!(fake.heard(), Vec::<String>::new(), "{mode}");
        assert_eq!(ledger(&bed), Vec::<String>::new(), "{mode}");
        assert_eq!(rules(&bed), ["deny:gateway:arguments_too_large"], "{mode}");
    }
}

#[test]
fn strict_mode_asks_the_guard_about_the_name_and_the_arguments() {
    let fake = Fake::start();
    fake.now(http("200 OK", &answer("ALLOW", "allow:x")));
    let policy = "version: \"1\"\nrules: [{scope: mcp_tool, deny: [{pattern: \"*:*\"}]}]\ntool_scope_map: [{pattern: \"n:effect\", scope: filesystem}]\n";
    for (mode, questions) in [("strict", 2), ("fast", 1)] {
        let before = fake.heard().len();
        let bed = Bed::new(&format!(
            "\
servers: {{n: {{command: '@counter@', args: [--ledger, '@dir@/ledger']}}}}
policy: '@dir@/policy.yaml'
policy_mode: {mode}
"
        ));
        std::fs::write(bed.path("policy.yaml"), policy).expect("it is ours");
        let mut command = bed.command(["stdio", "--guard-url", &fake.url, "--tenant", "acme"]);
        let mut host = StdioHost::connect(&mut command, crate::setup::VERSION).expect("it starts");
        let arguments = r#"{"key":"k","path":"/a/b","n":1e2}"#;
        assert_eq!(rule_of(&call(&mut host, "n__effect", arguments)), "done");
        let heard = fake.heard()[before..].to_vec();
        assert_eq!(heard.len(), questions, "{heard:?}");
        let first = parsed(&heard[0]);
        assert_eq!(first["scope"], "mcp_tool");
        assert_eq!(first["command"], "n:effect");
        assert_eq!(first["schema_version"], "v1");
        let meta = &first["meta"];
        for (key, value) in [
            ("transport", "mcp_gateway"),
            ("namespace", "n"),
            ("tool_name", "effect"),
            ("arg_path", "/a/b"),
        ] {
            assert_eq!(meta[key], value, "{first}");
        }
        assert!(
            heard[0].contains(r#""arg_n":"1e2","json_args":"[\"n\"]""#),
            "as it came, and all values are strings: {}",
            heard[0]
        );
        assert_eq!(meta["args_sha256"].as_str().map(str::len), Some(64));
        if let Some(second) = heard.get(1) {
            let second = parsed(second);
            assert_eq!(second["scope"], "filesystem");
            assert_eq!(second["path"], "/a/b");
        }
        drop(host);
        let of_call = records(&bed);
        let checks = of_call[0]["checks"].as_array().map(Vec::len);
        assert_eq!((of_call.len(), checks), (1, Some(questions)), "one record");
    }
}

#[test]
fn approval_ids_named_by_the_host_are_passed_to_the_guard() {
    let fake = Fake::start();
    fake.now(http("200 OK", &answer("ALLOW", "allow:x")));
    let bed = asking(&fake.url, "k", "deny");
    let mut host = bed.stdio_ready();
    let id = format!("ap_{}", "7".repeat(32));
    for key in ["dev.callgate/approval_id", "dev.agentguard/approval_id"] {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{{"_meta":{{"{key}":"{id}"}},"name":"n__effect","arguments":{{"key":"k"}}}}}}"#
        );
        assert_eq!(rule_of(&request(&mut host, &line)), "done");
        let heard = fake.heard().pop();
        let heard = parsed(&heard.expect("it was asked"));
        assert_eq!(heard["approval_id"], id.as_str(), "{key}: {heard}");
    }
}

#[test]
fn the_guard_key_is_read_from_the_environment_if_not_configured() {
    let fake = Fake::start();
    fake.now(http("200 OK", &answer("ALLOW", "allow:x")));
    let config = format!(
        "servers: {{n: {{command: '@counter@', args: [--ledger, '@dir@/ledger']}}}}\nguard: {{url: '{}'}}\n",
        fake.url
    );
    let warned = |host: &StdioHost| {
        let lines = host.stderr().into_iter();
        lines.filter(|line| line.contains("has no API key")).count()
    };
    for (given, expected) in [
        (&[][..], None),
        (&[("AGENTGUARD_API_KEY", "old")][..], Some("Bearer old")),
        (
            &[
                ("AGENTGUARD_API_KEY", "old"),
                ("CALLGATE_GUARD_API_KEY", "own"),
            ][..],
            Some("Bearer own"),
        ),
    ] {
        let bed = Bed::new(&config);
        let mut command = bed.command(["stdio"]);
        command.env_remove("AGENTGUARD_API_KEY");
        command.envs(given.iter().copied());
        let mut host = StdioHost::connect(&mut command, crate::setup::VERSION).expect("it starts");
        assert_eq!(told(&mut host, "k"), "done");
        assert_eq!(fake.key().as_deref(), expected, "{given:?}");
        assert_eq!(warned(&host), usize::from(expected.is_none()), "{given:?}");
    }
}
