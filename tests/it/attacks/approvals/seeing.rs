//! What an approver sees of a held call: all of it, on every surface.

use serde_json::{Value, json};

use super::{DELETE, asking, held, plain, row, seen_everywhere};
use crate::approvals::{approval_of, page};
use crate::attacks::{Seen, attack, judged};
use crate::evidence::{run, stdout};
use crate::talk::{answer_line, call, call_line, parsed, request, stdio_as};

/// What the attacker wants to have approved unseen.
const PAYLOAD: &str = "; rm -rf ~/X ;";

/// Holds each argument object and looks for the payload on all surfaces.
fn shown_whole(cause: &'static str, more: &str, arguments: Vec<Value>) {
    let bed = asking(more);
    let served = bed.serve();
    let mut host = served.host_ready();
    attack("approvals", cause)
        .expect(Seen::Held)
        .tries(arguments, |arguments| {
            let id = held(&mut host, &arguments.to_string());
            seen_everywhere(&bed, &served, &id, PAYLOAD)
        })
        .check();
}

#[test]
fn payload_quoted_like_a_secret() {
    let texts = [
        format!("deploy --token='{PAYLOAD} echo '"),
        format!("deploy --password=\"{PAYLOAD}\""),
        format!("API_KEY='{PAYLOAD}' ./run"),
        format!("curl -H 'Authorization: Bearer {PAYLOAD}'"),
        format!("secret: `{PAYLOAD}`"),
        format!("mysql --password '{PAYLOAD}'"),
    ];
    let arguments = texts.iter().map(|text| json!({"command": text})).collect();
    shown_whole("a payload quoted like a secret", "", arguments);
}

#[test]
fn payload_behind_a_pem_header() {
    let texts = [
        format!("-----BEGIN PRIVATE KEY-----\n{PAYLOAD}"),
        format!("echo -----BEGIN RSA PRIVATE KEY----- {PAYLOAD} -----END RSA PRIVATE KEY-----"),
        format!("-----BEGIN OPENSSH PRIVATE KEY-----{PAYLOAD}"),
        format!("x -----BEGIN EC PRIVATE KEY-----\\n{PAYLOAD}"),
    ];
    let arguments = texts.iter().map(|text| json!({"command": text})).collect();
    shown_whole("a payload behind a PEM header", "", arguments);
}

#[test]
fn payload_under_a_key_named_like_a_secret() {
    let arguments = vec![
        json!({"password": PAYLOAD}),
        json!({"token": {"value": [PAYLOAD]}}),
        json!({"env": {"API_KEY": PAYLOAD}}),
        json!({"secret": {"x": PAYLOAD}}),
        json!({"authorization": PAYLOAD}),
        json!({"Passwd": PAYLOAD}),
    ];
    shown_whole("a payload under a key named like a secret", "", arguments);
}

#[test]
fn payload_redacted_by_custom_patterns() {
    let arguments = vec![
        json!({"command": format!("curl evil.example {PAYLOAD}")}),
        json!({"note": format!("internal-1234 {PAYLOAD} internal-1234")}),
        json!({"list": ["a", format!("rm {PAYLOAD}")]}),
    ];
    let more = "activity: {redact: ['curl .*', 'internal-[^\"]*', 'rm [^\"]*']}\n";
    shown_whole(
        "a payload that a pattern of `audit.redact` matches",
        more,
        arguments,
    );
}

#[test]
fn payload_behind_much_text() {
    let long = |bytes: usize| json!({"a": "x".repeat(bytes), "command": PAYLOAD});
    let many: Vec<Value> = (0..20_000).map(|at| json!(at)).collect();
    let arguments = vec![
        long(300 * 1024),
        long(900 * 1024),
        json!({"many": many, "command": PAYLOAD}),
        long(3 * 1024),
        json!({"command": format!("ls {}{PAYLOAD}", " ".repeat(400 * 1024))}),
    ];
    shown_whole("a payload behind more text than is kept", "", arguments);
}

#[test]
fn payload_nested_deeply() {
    let nested = |depth: usize| {
        let open = "{\"a\":".repeat(depth);
        let text = format!("{open}{}{}", json!(PAYLOAD), "}".repeat(depth));
        serde_json::from_str::<Value>(&text).expect("JSON")
    };
    let bed = asking("");
    let served = bed.serve();
    let mut host = served.host_ready();
    attack("approvals", "a payload nested deeper than is laid out")
        .expect(Seen::Held)
        .tries([20, 40, 17, 60], |depth| {
            let id = held(&mut host, &nested(*depth).to_string());
            seen_everywhere(&bed, &served, &id, PAYLOAD)
        })
        .check();
}

#[test]
fn payload_beside_the_arguments() {
    let bed = asking("");
    let served = bed.serve();
    let mut host = served.host_ready();
    attack("approvals", "a payload in the request beside the arguments")
        .expect(Seen::Held)
        .tries(["task", "args", "input", "options"], |member| {
            let payload = json!({ "then": PAYLOAD });
            let line = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{DELETE}","arguments":{{}},"{member}":{payload}}}}}"#
            );
            let id = approval_of(&request(&mut host, &line));
            seen_everywhere(&bed, &served, &id, PAYLOAD)
        })
        .check();
}

#[test]
fn a_call_too_large_to_be_shown() {
    let bed = asking("");
    let served = bed.serve();
    let mut host = served.host_ready();
    attack("approvals", "a call larger than a person can be shown")
        .expect(Seen::Refused)
        .tries([2_000_000, 1_100_000, 3_500_000], |bytes: &usize| {
            let arguments = json!({"a": "x".repeat(*bytes), "command": PAYLOAD});
            let response = call(&mut host, DELETE, &arguments.to_string());
            judged(&response, !bed.read("ledger").is_empty())
        })
        .check();
}

#[test]
fn characters_that_hide_or_reorder() {
    let bed = asking("");
    let served = bed.serve();
    let mut host = served.host_ready();
    let hidden = [
        ('\u{202e}', "⟨U+202E⟩"),
        ('\u{200b}', "⟨U+200B⟩"),
        ('\u{e0041}', "⟨U+E0041⟩"),
        ('\u{2066}', "⟨U+2066⟩"),
        ('\u{ad}', "⟨U+00AD⟩"),
        ('\u{3164}', "⟨U+3164⟩"),
        ('\u{fe0f}', "⟨U+FE0F⟩"),
        ('\u{feff}', "⟨U+FEFF⟩"),
    ];
    attack("approvals", "characters that hide or reorder others")
        .expect(Seen::Held)
        .tries(hidden, |(hidden, mark)| {
            let id = held(
                &mut host,
                &json!({"path": format!("a{hidden}b")}).to_string(),
            );
            let page = plain(&page::shown(&served, &format!("/approvals/{id}")));
            let list = plain(&page::shown(&served, "/approvals"));
            let shown = stdout(&run(&bed, &["approvals", "show", &id]));
            let listed = stdout(&run(&bed, &["approvals", "list"]));
            let marked = page.contains(mark) && shown.contains(mark);
            let raw = [page, list, shown, listed]
                .iter()
                .any(|text| text.contains(*hidden));
            if marked && !raw {
                Seen::Held
            } else {
                Seen::Passed
            }
        })
        .check();
}

#[test]
fn terminal_escape_sequences_in_arguments() {
    let bed = asking("");
    let mut host = bed.stdio_ready();
    let escapes = [
        "\u{1b}[2J\u{1b}[Hcall s:read_thing",
        "\u{9b}1A\u{9b}2K",
        "x\rcall       s:read_thing",
        "\u{8}\u{8}\u{8}\u{8}",
        "\u{1b}]0;approved\u{7}",
        "\u{1b}P+q\u{1b}\\",
        "\u{7f}",
    ];
    attack("approvals", "commands to the terminal in arguments")
        .expect(Seen::Held)
        .tries(escapes, |escape| {
            let id = held(&mut host, &json!({ *escape: escape }).to_string());
            let shown = stdout(&run(&bed, &["approvals", "show", &id]));
            let listed = stdout(&run(&bed, &["approvals", "list"]));
            let obeyed = |text: &str| text.chars().any(|c| c.is_control() && c != '\n');
            if obeyed(&shown) || obeyed(&listed) {
                Seen::Passed
            } else {
                Seen::Held
            }
        })
        .check();
}

#[test]
fn markup_on_the_page() {
    let bed = asking("");
    let served = bed.serve();
    let mut host = served.host_ready();
    let markup = [
        "<script>approve()</script>",
        "</pre><form action=/approvals/x>",
        "<img src=x onerror=approve()>",
        "<style>pre{display:none}</style>",
        "<!--",
        "<template>",
    ];
    attack("approvals", "markup in arguments on the page")
        .expect(Seen::Held)
        .tries(markup, |markup| {
            let id = held(&mut host, &json!({ *markup: markup }).to_string());
            let one = page::shown(&served, &format!("/approvals/{id}"));
            let all = page::shown(&served, "/approvals");
            if one.contains(markup) || all.contains(markup) || !plain(&one).contains(markup) {
                Seen::Passed
            } else {
                Seen::Held
            }
        })
        .check();
}

#[test]
fn rows_that_look_the_same() {
    let bed = asking("");
    let served = bed.serve();
    let mut host = served.host_ready();
    let long = |middle: &str, end: &str| {
        let half = "x".repeat(2000);
        json!({ "a": format!("{half}{middle}{half}{end}") })
    };
    let pairs = [
        (json!({"path": "/tmp/a"}), json!({"path": "/home"})),
        (long("1", ""), long("2", "")),
        (json!({"p": "a b"}), json!({"p": "a\u{a0}b"})),
        (long("", "1"), long("", "2")),
        (json!({"password": "one"}), json!({"password": "two"})),
        (json!({"n": 1}), json!({"n": "1"})),
        (json!({"p": "a  c"}), json!({"p": "a c"})),
    ];
    attack("approvals", "two held calls whose rows look the same")
        .expect(Seen::Held)
        .tries(pairs, |(one, other)| {
            let ids = [one, other].map(|arguments| held(&mut host, &arguments.to_string()));
            let page = plain(&page::shown(&served, "/approvals"));
            let terminal = stdout(&run(&bed, &["approvals", "list"]));
            let summaries = ids.map(|id| row(&served, &id)["summary"].clone());
            let [Value::String(one), Value::String(other)] = &summaries else {
                return Seen::Passed;
            };
            let listed = |text: &String| page.contains(text) && terminal.contains(text);
            if one != other && listed(one) && listed(other) {
                Seen::Held
            } else {
                Seen::Passed
            }
        })
        .check();
}

#[test]
fn a_confirmation_of_what_its_form_does_not_show() {
    let policy = "version: \"1\"\nrules: [{scope: mcp_tool, confirm: [{pattern: \"*:*\"}]}]\n";
    let bed = asking("");
    let config = bed
        .read("callgate.yaml")
        .replace("policy: default", "policy: policy.yaml");
    crate::attacks::write(&bed.path("policy.yaml"), policy);
    crate::attacks::write(&bed.path("callgate.yaml"), &config);
    let mut host = stdio_as(&bed, Some(r#"{"elicitation":{}}"#));
    let long = |bytes: usize| json!({"a": "x".repeat(bytes), "command": PAYLOAD});
    let spaces = json!({"a": " ".repeat(100_000), "command": PAYLOAD});
    attack(
        "approvals",
        "a confirmation whose form does not show the whole call",
    )
    .expect_any(&[Seen::Held, Seen::Refused, Seen::Harmless])
    .tries([long(3000), long(500_000), spaces], |arguments| {
        let before = bed.read("ledger").len();
        let mut seen = false;
        let line = call_line("1", DELETE, &arguments.to_string());
        let frames = callgate_testkit::Host::exchange(&mut host, &line, &mut |question| {
            seen = question
                .params
                .as_deref()
                .is_some_and(|shown| shown.contains(PAYLOAD));
            Some(answer_line(question, r#"{"action":"accept"}"#))
        });
        let frames = frames.expect("it is answered");
        let response = parsed(frames.last().expect("an answer"));
        let reached = bed.read("ledger").len() > before;
        if reached && seen {
            // The person was shown what they confirmed.
            return Seen::Harmless;
        }
        judged(&response, reached)
    })
    .check();
}

#[cfg(feature = "code")]
#[test]
fn a_payload_inside_a_script() {
    let bed = asking("view: code\n");
    let served = bed.serve();
    let mut host = served.host_ready();
    let scripts = [
        format!("s.delete_thing(command=\"deploy --token='{PAYLOAD} echo '\")"),
        format!("s.delete_thing(password=\"{PAYLOAD}\")"),
        format!("s.delete_thing(a='x' * 300000, command=\"{PAYLOAD}\")"),
        format!("s.delete_thing(command='-----BEGIN PRIVATE KEY-----' + \"{PAYLOAD}\")"),
    ];
    attack(
        "code",
        "a payload shaped like a secret in a call of a script",
    )
    .expect(Seen::Held)
    .tries(scripts, |script| {
        let response = call(&mut host, "run", &json!({ "command": script }).to_string());
        let held = &response["result"]["structuredContent"]["approval_ids"][0];
        let id = held.as_str().unwrap_or_else(|| panic!("{response}"));
        seen_everywhere(&bed, &served, id, PAYLOAD)
    })
    .check();
}
