//! Reading, prompting and completing: at the one server it belongs to, decided and recorded.

use std::fs;

use callgate_testkit::{Frame, Host, wait_until};
use serde_json::json;

use super::{SEVERAL, ask, greeting, prompts, read, recorded, resources, text_at};
use crate::setup::Bed;
use crate::talk::{DEADLINE, http_as, received, stdio_as};

fn completed(host: &mut dyn Host, reference: &str) -> String {
    let params =
        format!(r#"{{"ref":{reference},"argument":{{"name":"who","value":"m"}},"x":[1.0]}}"#);
    let response = ask(host, "completion/complete", &params);
    let value = response["result"]["completion"]["values"][0].as_str();
    value
        .unwrap_or_else(|| panic!("no value: {response}"))
        .to_owned()
}

#[test]
fn requests_reach_their_server_under_the_servers_own_names() {
    let bed = Bed::new(SEVERAL);
    let served = bed.serve();
    let mut hosts: [Box<dyn Host>; 2] = [
        Box::new(stdio_as(&bed, None)),
        Box::new(http_as(&served, "{}")),
    ];
    for host in &mut hosts {
        let host = &mut **host;
        for (uri, expected) in [
            ("a://1", "a reads a://1"),
            ("b://1", "b reads b://1"),
            ("shared://doc", "a reads shared://doc"),
            ("callgate://b/shared://doc", "b reads shared://doc"),
            ("b://item/77", "b reads b://item/77"),
            ("shared://x/y", "a reads shared://x/y"),
            ("callgate://b/shared://x/y", "b reads shared://x/y"),
        ] {
            assert_eq!(text_at(host, uri), expected);
        }
        for (name, expected) in [
            ("a__p1", "a greets me by p1"),
            ("b:p0", "b greets me by p0"),
        ] {
            assert_eq!(greeting(host, name), expected);
        }
        for (reference, expected) in [
            (
                r#"{"type":"ref/prompt","name":"b__p0","x":1.0}"#,
                "b completes p0",
            ),
            (
                r#"{"type":"ref/resource","uri":"callgate://b/shared://{+path}"}"#,
                "b completes shared://{+path}",
            ),
            (
                r#"{"uri":"a://item/{id}","type":"ref/resource"}"#,
                "a completes a://item/{id}",
            ),
        ] {
            assert_eq!(completed(host, reference), expected);
        }
    }
    let seen = received(&bed, "b.log", "completion/complete");
    let params: Vec<&str> = seen
        .iter()
        .filter_map(|frame| frame.params.as_deref())
        .collect();
    let first = r#"{"ref":{"type":"ref/prompt","name":"p0","x":1.0},"argument":{"name":"who","value":"m"},"x":[1.0]}"#;
    assert_eq!(params[0], first, "only the name differs");
}

#[test]
fn unknown_prompts_and_resources_are_reported() {
    let bed = Bed::new(SEVERAL);
    let mut host = bed.stdio_ready();
    let unknown = read(&mut host, "nobody://x");
    let expected =
        json!({"code": -32002, "message": "resource not found", "data": {"uri": "nobody://x"}});
    assert_eq!(unknown["error"], expected);
    let theirs = read(&mut host, "a://item/missing");
    assert_eq!(theirs["error"]["message"], "not here", "the server's words");
    let prompt = ask(&mut host, "prompts/get", r#"{"name":"b__nope"}"#);
    assert_eq!(
        prompt["error"],
        json!({"code": -32602, "message": "unknown prompt `b__nope` of server `b`; its prompts: b__p0"})
    );
}

#[test]
fn every_request_is_recorded_under_its_type() {
    let bed = Bed::new(SEVERAL);
    let mut host = bed.stdio_ready();
    text_at(&mut host, "b://item/key");
    greeting(&mut host, "a__p0");
    completed(&mut host, r#"{"type":"ref/prompt","name":"a__p0"}"#);
    read(&mut host, "nobody://x");
    drop(host);
    let record = |kind: &str, server: &str, name: &str| {
        (kind.to_owned(), server.to_owned(), name.to_owned())
    };
    assert_eq!(
        recorded(&bed),
        [
            record("resource_read", "b", "b://item/key"),
            record("prompt_get", "a", "p0"),
            record("other", "a", "p0"),
            record("resource_read", "", "nobody://x"),
        ]
    );
}

const POLICY: &str = r#"version: "1"
rules:
  - scope: mcp_prompt
    deny: [{pattern: "a:p1", message: "not this one"}]
    allow: [{pattern: "*:*"}]
  - scope: mcp_resource
    deny: [{pattern: "b:*"}]
    allow: [{pattern: "*:*", when: '!args.uri.endsWith("7")'}]
  - scope: mcp_tool
    allow: [{pattern: "*:*"}]
"#;

#[test]
fn policy_judges_prompts_and_resources_and_hides_denied_ones() {
    let bed = Bed::new(&SEVERAL.replace("allow-all", "policy.yaml"));
    fs::write(bed.path("policy.yaml"), POLICY).expect("it is ours");
    let mut host = bed.stdio_ready();
    assert_eq!(prompts(&mut host), ["a__p0", "b__p0"]);
    assert_eq!(
        resources(&mut host),
        ["a://0", "a://1", "a://2", "shared://doc"]
    );
    assert_eq!(text_at(&mut host, "a://item/1"), "a reads a://item/1");
    for (uri, rule) in [
        ("b://0", "deny:mcp_resource:b:*"),
        ("a://item/7", "deny:default"),
    ] {
        let refused = read(&mut host, uri);
        assert_eq!(refused["error"]["code"], -32000, "{refused}");
        assert_eq!(refused["error"]["data"]["rule"], rule);
    }
    let refused = ask(&mut host, "prompts/get", r#"{"name":"a__p1"}"#);
    assert_eq!(refused["error"]["data"]["reason"], "not this one");
    let completion =
        r#"{"ref":{"type":"ref/prompt","name":"a:p1"},"argument":{"name":"who","value":""}}"#;
    let refused = ask(&mut host, "completion/complete", completion);
    assert_eq!(refused["error"]["data"]["rule"], "deny:mcp_prompt:a:p1");
    let refused = ask(&mut host, "resources/subscribe", r#"{"uri":"b://0"}"#);
    assert_eq!(refused["error"]["code"], -32002, "as if it were not there");
    assert!(received(&bed, "b.log", "resources/read").is_empty());
    assert!(received(&bed, "b.log", "resources/subscribe").is_empty());
    assert!(received(&bed, "a.log", "prompts/get").is_empty());
}

#[test]
fn progress_of_reads_and_prompts_carries_the_hosts_token() {
    let bed = Bed::new(SEVERAL);
    let mut host = bed.stdio_ready();
    for token in [r#""t""#, "7", r#""7""#] {
        for (method, name) in [
            ("resources/read", r#""uri":"b://1""#),
            ("prompts/get", r#""name":"b__p0""#),
        ] {
            let line = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{name},"_meta":{{"progressToken":{token}}}}}}}"#
            );
            let frames = host.exchange(&line, &mut |_| None).expect("it answers");
            let frames = frames.iter().filter_map(|line| Frame::parse(line));
            let tokens: Vec<String> = frames
                .filter_map(|frame| frame.param("progressToken").map(str::to_owned))
                .collect();
            assert_eq!(tokens, [token, token], "{method}");
        }
    }
}

#[test]
fn cancelled_and_timed_out_reads_are_cancelled_at_their_server() {
    let config = SEVERAL.replace("--prompts, '1']}", "--prompts, '1'], timeout: 500ms}");
    let bed = Bed::new(&config);
    let mut host = bed.stdio_ready();
    let slow = |id: &str, uri: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"resources/read","params":{{"uri":"{uri}"}}}}"#
        )
    };
    host.send(&slow("1", "a://item/slow")).expect("it reads");
    assert!(wait_until(DEADLINE, || received(
        &bed,
        "a.log",
        "resources/read"
    )
    .len()
        == 1));
    let timed_out = host.request(&slow("2", "b://item/slow"));
    let timed_out: serde_json::Value =
        serde_json::from_str(&timed_out.expect("an answer")).expect("JSON");
    assert_eq!(
        timed_out["error"],
        json!({
            "code": -32603, "message": "upstream \"b\" timed out after 0.5s",
            "data": {"namespace": "b", "tool": "b://item/slow", "timeout_ms": 500, "effect": "unknown"},
        })
    );
    host.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#)
        .expect("it reads");
    for log in ["a.log", "b.log"] {
        assert!(wait_until(DEADLINE, || {
            received(&bed, log, "notifications/cancelled").len() == 1
        }));
        let asked = received(&bed, log, "resources/read");
        let cancelled = received(&bed, log, "notifications/cancelled");
        assert_eq!(cancelled[0].param("requestId"), asked[0].id.as_deref());
    }
}
