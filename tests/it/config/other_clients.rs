//! Files of other clients, with `mcpServers`.

use expect_test::expect;
use serde_json::json;

use super::{check, shown};
use crate::{
    setup::Bed,
    shell::{named, run},
};

#[test]
fn configurations_of_other_tools_load_as_maps() {
    let bed = Bed::new(
        r#"{
  "theme": "dark",
  "mcpServers": {
    "plain": {"command": "/opt/my tools/run", "env": {"PORT": 8080, "ON": true, "T": "${env:TOKEN}"}},
    "typed": {"type": "stdio", "command": "cat", "args": ["-n", 5], "alwaysAllow": ["x"], "timeout": 60000},
    "off": {"command": "cat", "disabled": true},
    "Web Search.v2": {"type": "streamable-http", "url": "https://e.com/a"},
    "sse": {"type": "sse", "url": "https://e.com/b"},
    "camel": {"type": "streamableHttp", "serverUrl": "https://e.com/c", "headers": {"A": "${TOKEN}"}},
    "gemini": {"httpUrl": "https://e.com/d", "trust": true}
  }
}"#,
    );
    let (config, said) = shown(&bed);
    assert_eq!(
        config["servers"],
        json!({
            "plain": {"command": "/opt/my tools/run", "args": [], "env": {"ON": "[hidden]", "PORT": "[hidden]", "T": "${TOKEN}"}, "inherit_env": false, "insecure_http": false, "enabled": true},
            "typed": {"command": "cat", "args": ["-n", "5"], "inherit_env": false, "insecure_http": false, "enabled": true},
            "off": {"command": "cat", "args": [], "inherit_env": false, "insecure_http": false, "enabled": false},
            "Web-Search-v2": {"inherit_env": false, "url": "https://e.com/a", "insecure_http": false, "enabled": true},
            "sse": {"inherit_env": false, "url": "https://e.com/b", "insecure_http": false, "enabled": true},
            "camel": {"inherit_env": false, "url": "https://e.com/c", "headers": {"A": "${TOKEN}"}, "insecure_http": false, "enabled": true},
            "gemini": {"inherit_env": false, "url": "https://e.com/d", "insecure_http": false, "enabled": true},
        })
    );
    expect![[r#"
        note: ignoring unknown keys: `theme`
        note: ignoring keys of another client under `mcpServers`: `alwaysAllow`, `timeout`, `trust`
        note: server `Web Search.v2` is renamed to `Web-Search-v2`
    "#]]
    .assert_eq(&said);
}

#[test]
fn configurations_of_other_tools_load_as_arrays() {
    let bed = Bed::new(
        "mcpServers:
  - {name: a, command: '@counter@', args: [--ledger, '@dir@/ledger']}
  - {name: b, type: http, url: 'https://e.com/mcp', disabled: true}
",
    );
    let ran = run(&mut named(&bed, ["call", "a:effect", r#"{"key":"k"}"#]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(bed.read("ledger"), "k\n");
    let (config, said) = shown(&bed);
    let servers = config["servers"].as_object().expect("a map");
    assert!(servers.keys().eq(["a", "b"]), "{servers:?}");
    assert_eq!(said, "");
}

/// What another client's file restricts holds here, too, or the file is refused: never does a key that is not known let a
/// server do more than it could there.
#[test]
fn restrictions_of_other_tools_are_kept_or_the_file_is_refused() {
    let counter = "command: '@counter@', args: [--ledger, '@dir@/ledger']";
    for off in [
        "quarantined: true",
        "quarantined: true, enabled: true",
        "disabled: true, enabled: true",
        "enabled: false, disabled: false",
        "enabled: true, enabled_tools: [other]",
        "includeTools: []",
        "disabled_tools: [effect]",
        "disabledTools: [x, EFFECT]",
        "excludeTools: [effect], trust: true",
    ] {
        let bed = Bed::new(&format!("mcpServers:\n  a: {{{counter}, {off}}}\n"));
        let ran = run(&mut named(&bed, ["call", "a:effect", r#"{"key":"k"}"#]));
        assert!(matches!(ran.code, Some(1 | 3)), "{off}: {}", ran.stderr);
        assert!(!bed.path("ledger").exists(), "{off}");
    }
    for (written, what) in [
        ("readOnly: true", "unknown key `readOnly`"),
        ("sandbox: {network: none}", "unknown key `sandbox`"),
        ("expose_prompts: false", "unknown key `expose_prompts`"),
        ("isolation: {image: 'node:20'}", "replace it with `box`"),
        (
            "enabled_tools: ['*']",
            "`*` in `enabled_tools` is a pattern",
        ),
        ("enabled_tools: [effect], includeTools: [x]", "listed twice"),
    ] {
        let (_, ran) = check(&format!("mcpServers:\n  a: {{command: cat, {written}}}\n"));
        assert_eq!(ran.code, Some(2), "{written}: {}", ran.stdout);
        assert!(ran.stderr.contains(what), "{written}: {}", ran.stderr);
    }
    for written in [
        "read_only_mode: true",
        "read_only_mode: true\nother: {[1]: a, 1: b}",
        "excludeMCPServers: [a]",
        "mcp: {allowed: [b]}",
    ] {
        let (_, ran) = check(&format!("{written}\nmcpServers: {{a: {{command: cat}}}}\n"));
        assert_eq!(ran.code, Some(2), "{written}: {}", ran.stdout);
        assert!(
            ran.stderr.contains("restricts servers or tools"),
            "{}",
            ran.stderr
        );
    }
    for harmless in [
        "isolation: {enabled: false}",
        "isolation: null",
        "oauth: null, created: '2025-01-01'",
    ] {
        let (_, ran) = check(&format!("mcpServers:\n  a: {{command: cat, {harmless}}}\n"));
        assert_eq!(ran.code, Some(0), "{harmless}: {}", ran.stderr);
    }
    let (_, ran) = check("read_only_mode: false\nmcp: {}\nmcpServers: {a: {command: cat}}\n");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

#[test]
fn unsupported_settings_of_other_tools_are_reported_with_their_position() {
    let cases = [
        (
            "a: {type: websocket, url: 'wss://x'}",
            "2:13",
            "unknown variant `websocket`",
        ),
        ("a: {args: [x]}", "2:", "it needs `command` or `url`"),
        (
            "a: {type: stdio, url: 'https://x'}",
            "2:",
            "`type: stdio` needs `command`",
        ),
        (
            "a: {type: http, command: cat}",
            "2:",
            "this `type` needs `url`",
        ),
        ("a: {command: cat, args: {}}", "2:", ""),
        (
            "builtin: {command: cat}",
            "",
            "server name `builtin` is reserved",
        ),
    ];
    for (entry, place, what) in cases {
        let (_, ran) = check(&format!("mcpServers:\n  {entry}\n"));
        assert_eq!(ran.code, Some(2), "{entry}: {}", ran.stdout);
        let place = format!("callgate.yaml:{place}");
        assert!(ran.stderr.contains(&place), "{entry}: {}", ran.stderr);
        assert!(ran.stderr.contains(what), "{entry}: {}", ran.stderr);
    }
    let (_, ran) = check("mcpServers: {a: {command: cat}}\npolcy: allow-all\nactivity: {}\n");
    assert_eq!(ran.code, Some(2), "in a file of ours a typo is an error");
    let (_, ran) = check("mcpServers: [{command: cat}]\n");
    assert!(
        ran.stderr.contains("missing field `name`"),
        "{}",
        ran.stderr
    );
    let (_, ran) = check("servers: {a: {command: cat}}\nmcpServers: {a: {command: cat}}\n");
    assert!(
        ran.stderr.contains("server `a` is defined twice"),
        "{}",
        ran.stderr
    );
}
