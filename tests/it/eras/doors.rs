//! 2026-07-28 at both doors.

use callgate_testkit::frame::Frame;
use serde_json::{Value, json};

use super::{config, exchange, headed, post, stateless, stateless_as};
use crate::setup::Bed;
use crate::talk::{call_text, parsed};

#[test]
fn a_server_is_discovered_and_called_without_a_handshake() {
    let bed = Bed::new(&config("dual"));
    let served = bed.serve();
    let mut stdio = bed.stdio();
    for over_http in [true, false] {
        let mut ask = |line: &str| {
            if over_http {
                post(&served, line).1
            } else {
                exchange(&mut stdio, line)
            }
        };
        let found = ask(&stateless("server/discover", json!({})))["result"].clone();
        assert_eq!(found["supportedVersions"], json!(["2026-07-28"]));
        assert_eq!(found["resultType"], "complete");
        assert_eq!(
            (&found["ttlMs"], &found["cacheScope"]),
            (&json!(0), &json!("private"))
        );
        let info = &found["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(info["name"], "callgate");
        assert_eq!(found["serverInfo"], Value::Null);
        let listed = ask(&stateless("tools/list", json!({})))["result"].clone();
        assert_eq!(listed["resultType"], "complete");
        assert_eq!(listed["cacheScope"], "private");
        let call = json!({"name": "test_simple_text", "arguments": {}});
        let called = ask(&stateless("tools/call", call))["result"].clone();
        assert_eq!(called["resultType"], "complete");
        let text = "This is a simple text response for testing.";
        assert_eq!(called["content"][0]["text"], text);
        let info = &called["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(info["name"], "callgate", "never an upstream's");
    }
}

#[test]
fn both_eras_can_share_a_stream_and_a_url() {
    let bed = Bed::new(&config("dual"));
    let served = bed.serve();
    let mut stdio = bed.stdio_ready();
    let mut http = served.host_ready();
    let call = stateless("tools/call", json!({"name": "test_simple_text"}));
    let text = "This is a simple text response for testing.";
    for _ in 0..2 {
        assert_eq!(call_text(&mut stdio, "test_simple_text", "{}"), text);
        assert_eq!(call_text(&mut http, "test_simple_text", "{}"), text);
        let answers = [exchange(&mut stdio, &call), post(&served, &call).1];
        for answer in answers {
            assert_eq!(answer["result"]["content"][0]["text"], text);
            assert_eq!(answer["result"]["resultType"], "complete");
        }
    }
}

/// A request, what is changed in its headers, and the status and code that it gets.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], u16, i64);

#[test]
fn each_fault_of_a_stateless_request_has_its_code_and_status() {
    let bed = Bed::new(&config("dual"));
    let served = bed.serve();
    let send = |line: &str, change: &[(&str, &str)]| {
        let mut host = headed(&served, line);
        for (name, value) in change {
            host.set_header(name, value);
        }
        let reply = host.post(line).expect("HTTP");
        let status = reply.status;
        let answer = parsed(&reply.text().expect("a body"));
        assert_eq!(answer["id"], "m", "{answer}");
        (status, answer["error"]["code"].clone())
    };
    let fine = stateless("tools/call", json!({"name": "test_simple_text"}));
    let plain = |params: Value| {
        json!({"jsonrpc": "2.0", "id": "m", "method": "tools/list", "params": params}).to_string()
    };
    let version = ("MCP-Protocol-Version", "2026-07-28");
    let cases: [Case<'_>; 9] = [
        (&plain(json!({})), &[version], 400, -32602),
        (
            &plain(json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}})),
            &[],
            400,
            -32602,
        ),
        (
            &fine,
            &[("MCP-Protocol-Version", "2025-11-25")],
            400,
            -32020,
        ),
        (&fine, &[("Mcp-Method", "tools/list")], 400, -32020),
        (&fine, &[("Mcp-Name", "other")], 400, -32020),
        (
            &fine.replace("\"2026-07-28\"", "\"2031-01-01\""),
            &[("MCP-Protocol-Version", "2031-01-01")],
            400,
            -32022,
        ),
        (&stateless("initialize", json!({})), &[], 404, -32601),
        (&stateless("ping", json!({})), &[], 404, -32601),
        (&stateless("unknown/method", json!({})), &[], 404, -32601),
    ];
    for (line, change, status, code) in cases {
        assert_eq!(
            send(line, change),
            (status, json!(code)),
            "{line} {change:?}"
        );
    }
    let name = "=?base64?dGVzdF9zaW1wbGVfdGV4dA==?=";
    let reply = headed(&served, &fine);
    let mut reply = reply;
    reply.set_header("Mcp-Name", name);
    assert_eq!(
        reply.post(&fine).expect("HTTP").status,
        200,
        "a wrapped name is the same name"
    );
    for method in ["GET", "DELETE"] {
        let headers = [
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Accept", "text/event-stream"),
        ];
        let reply = served.host().send(method, &headers, b"").expect("HTTP");
        assert_eq!(reply.status, 405, "{method}");
    }
}

#[test]
fn argument_headers_must_match_the_body() {
    let bed = Bed::new(&config("dual"));
    let served = bed.serve();
    let arguments = json!({"region": "köln", "priority": 7});
    let line = stateless(
        "tools/call",
        json!({"name": "test_custom_headers", "arguments": arguments}),
    );
    let status = |region: Option<&str>, priority: &str| {
        let mut host = headed(&served, &line).header("Mcp-Param-Priority", priority);
        if let Some(region) = region {
            host.set_header("Mcp-Param-Region", region);
        }
        host.post(&line).expect("HTTP").status
    };
    // A first list, so that the tool is known.
    assert_eq!(post(&served, &stateless("tools/list", json!({}))).0, 200);
    assert_eq!(status(Some("=?base64?a8O2bG4=?="), "7.0"), 200);
    assert_eq!(status(Some("=?base64?a8O2bG4=?="), "8"), 400);
    assert_eq!(status(Some("koeln"), "7"), 400);
    assert_eq!(status(None, "7"), 400);
}

#[test]
fn stateless_log_messages_and_progress_follow_the_request() {
    for speaks in ["dual", "handshake"] {
        let bed = Bed::new(&config(speaks));
        let served = bed.serve();
        let frames = |params: Value| {
            let line = stateless_as("tools/call", params, &json!({}));
            let reply = headed(&served, &line).post(&line).expect("HTTP");
            reply.frames().expect("a whole response")
        };
        let level = "io.modelcontextprotocol/logLevel";
        let silent = frames(json!({"name": "test_logging_tool"}));
        assert_eq!(silent.len(), 1, "{speaks}: {silent:?}");
        let loud = frames(json!({"name": "test_logging_tool", "_meta": {level: "info"}}));
        assert_eq!(loud.len(), 4, "{speaks}: {loud:?}");
        let severe = frames(json!({"name": "test_logging_tool", "_meta": {level: "error"}}));
        assert_eq!(severe.len(), 1, "{speaks}: {severe:?}");
        let told =
            frames(json!({"name": "test_tool_with_progress", "_meta": {"progressToken": "7"}}));
        let tokens: Vec<_> = told
            .iter()
            .filter_map(|raw| {
                parsed(raw)["params"]["progressToken"]
                    .as_str()
                    .map(str::to_owned)
            })
            .collect();
        assert_eq!(tokens, ["7"; 3], "{speaks}");
    }
}

#[test]
fn a_listen_request_gets_subscribed_changes_and_its_end() {
    let bed = Bed::new(&config("stateless"));
    let mut host = bed.stdio();
    let change = |id: &str, kind: &str| {
        let tool = format!("test_trigger_{kind}_change");
        stateless("tools/call", json!({"name": tool}))
            .replace("\"id\":\"m\"", &format!("\"id\":\"{id}\""))
    };
    let wanted =
        json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": ["test://a"]}});
    exchange(&mut host, &stateless("tools/list", json!({})));
    host.send(
        &stateless("subscriptions/listen", wanted.clone()).replace("\"id\":\"m\"", "\"id\":77"),
    )
    .expect("it reads");
    let tag = |raw: &str| {
        parsed(raw)["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone()
    };
    let acknowledged = host.recv().expect("the first thing said");
    assert_eq!(
        parsed(&acknowledged)["method"],
        "notifications/subscriptions/acknowledged"
    );
    assert_eq!(
        parsed(&acknowledged)["params"]["notifications"],
        wanted["notifications"]
    );
    assert_eq!(tag(&acknowledged), 77);
    for (id, kind) in [("p", "prompt"), ("t", "tool")] {
        host.send(&change(id, kind)).expect("it reads");
    }
    let changed = host.recv_where(|frame: &Frame| {
        assert_ne!(
            frame.method.as_deref(),
            Some("notifications/prompts/list_changed")
        );
        frame.method.as_deref() == Some("notifications/tools/list_changed")
    });
    assert_eq!(tag(&changed.expect("it is told")), 77);
    host.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}"#)
        .expect("it reads");
    host.send(&change("again", "tool")).expect("it reads");
    let answer = host.recv_where(|frame: &Frame| {
        assert_ne!(
            frame.id.as_deref(),
            Some("77"),
            "a cancelled request has no answer"
        );
        frame.id.as_deref() == Some("\"again\"")
    });
    answer.expect("the call is answered");
}
