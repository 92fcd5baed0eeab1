//! A guard that is down, slow, lies or talks nonsense: what counts then, in every mode.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Mutex};
use std::thread;

use callgate_testkit::StdioHost;
use serde_json::Value;

use crate::evidence::{ledger, records};
use crate::setup::Bed;
use crate::talk::{call, parsed};

/// What the other side does with a question.
#[derive(Debug, Clone)]
enum Does {
    /// Answers this, raw.
    Says(String),
    /// Takes it and says nothing.
    Nothing,
    /// Goes away.
    Leaves,
}

/// A guard that does what it is told.
struct Fake {
    url: String,
    does: Arc<Mutex<Does>>,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let does = Arc::new(Mutex::new(Does::Leaves));
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (doing, hearing) = (does.clone(), heard.clone());
        thread::spawn(move || {
            let mut silent = Vec::new();
            for stream in listener.incoming().flatten() {
                let body = question(&stream);
                hearing.lock().expect("nobody panicked").push(body);
                let does = doing.lock().expect("nobody panicked").clone();
                match does {
                    // Whoever has been answered may have gone.
                    Does::Says(answer) => drop((&stream).write_all(answer.as_bytes())),
                    Does::Nothing => silent.push(stream),
                    Does::Leaves => {}
                }
            }
        });
        Self { url, does, heard }
    }

    fn now(&self, does: Does) {
        *self.does.lock().expect("nobody panicked") = does;
    }

    fn heard(&self) -> usize {
        self.heard.lock().expect("nobody panicked").len()
    }
}

fn question(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line).unwrap_or(0) > 0 && !line.trim().is_empty() {
        let lower = line.to_ascii_lowercase();
        if let Some(bytes) = lower.strip_prefix("content-length:") {
            length = bytes.trim().parse().unwrap_or(0);
        }
        line.clear();
    }
    let mut body = vec![0; length];
    // A connection that breaks off has asked nothing.
    let _ = reader.read_exact(&mut body);
    String::from_utf8_lossy(&body).into_owned()
}

fn http(status: &str, body: &str) -> Does {
    let length = body.len();
    Does::Says(format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    ))
}

fn answer(decision: &str, rule: &str) -> String {
    format!(
        r#"{{"schema_version":"v1","decision":"{decision}","reason":"so","matched_rule":"{rule}","approval_id":null,"approval_url":null}}"#
    )
}

/// What the host is told about a call: `done`, or the rule that refuses it.
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
    ("allow", "done"),
    ("fail-closed-with-audit", "deny:gateway:fail_closed_audit"),
];

fn asking(fake: &Fake, mode: &str) -> Bed {
    Bed::new(&format!(
        "\
servers: {{n: {{command: '@counter@', args: [--ledger, '@dir@/ledger']}}}}
guard: {{url: '{}', api_key: k, fail_mode: {mode}, timeout: 1s}}
",
        fake.url
    ))
}

#[test]
fn what_counts_without_an_answer_is_what_the_mode_says() {
    let too_long = answer("ALLOW", &format!("allow:{}", "x".repeat(70_000)));
    let nothing = "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"schema";
    let failing = [
        ("it goes away", Does::Leaves),
        ("it is slow", Does::Nothing),
        ("503", http("503 Service Unavailable", "")),
        ("500", http("500 Internal Server Error", "{}")),
        ("401", http("401 Unauthorized", "")),
        ("404", http("404 Not Found", "")),
        ("it breaks off", Does::Says(nothing.to_owned())),
        ("no HTTP", Does::Says("hello\r\n\r\n".to_owned())),
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
        let bed = asking(&fake, mode);
        let mut host = bed.stdio_ready();
        for (what, does) in &failing {
            fake.now(does.clone());
            assert_eq!(told(&mut host, what), expected, "{mode}: {what}");
        }
        for (what, body) in &unclear {
            fake.now(http("200 OK", body));
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
fn arguments_that_are_too_large_are_refused_unasked_in_every_mode() {
    for (mode, _) in MODES {
        let fake = Fake::start();
        fake.now(http("200 OK", &answer("ALLOW", "allow:mcp_tool:*:*")));
        let bed = asking(&fake, mode);
        let mut host = bed.stdio_ready();
        let key = "k".repeat(1 << 20);
        let refused = call(&mut host, "n__effect", &format!(r#"{{"key":"{key}"}}"#));
        assert_eq!(
            rule_of(&refused),
            "deny:gateway:arguments_too_large",
            "{mode}"
        );
        assert_eq!(fake.heard(), 0, "{mode}");
        assert_eq!(ledger(&bed), Vec::<String>::new(), "{mode}");
    }
}

#[test]
fn a_gateway_asks_by_name_and_in_strict_mode_by_what_the_arguments_mean() {
    let fake = Fake::start();
    fake.now(http("200 OK", &answer("ALLOW", "allow:x")));
    let policy = "version: \"1\"\nrules: [{scope: mcp_tool, deny: [{pattern: \"*:*\"}]}]\ntool_scope_map: [{pattern: \"n:effect\", scope: filesystem}]\n";
    for (mode, questions) in [("strict", 2), ("fast", 1)] {
        let before = fake.heard();
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
        let heard = fake.heard.lock().expect("nobody panicked")[before..].to_vec();
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
            heard[0].contains(r#""arg_n":1e2"#),
            "as it came: {}",
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
