//! `validate` and `explain`: codes, paths, exit codes, warnings.

use callgate_testkit::agents::AgentScript;
use callgate_testkit::goplugin::plugin::{RawPlugin, Wrong};
use serde_json::{Value, json};

use super::{in_desk, written};
use crate::agents::{KNOWN, Stage};
use crate::shell::run;

fn validated(stage: &Stage, more: &[&str]) -> (Option<i32>, Value) {
    let args = [&["validate", "flow.yaml", "--json"], more].concat();
    let ran = run(&mut in_desk(stage, &args));
    let report = serde_json::from_str(&ran.stdout).unwrap_or_default();
    (ran.code, report)
}

/// Codes and paths of what was found.
fn found(report: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let findings = report["findings"].as_array().expect("findings");
    findings
        .iter()
        .map(|finding| (text(&finding["code"]), text(&finding["path"])))
        .collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected
        .iter()
        .map(|(code, path)| ((*code).to_owned(), (*path).to_owned()))
        .collect()
}

#[test]
fn all_workflow_errors_are_reported_at_once_with_exit_1() {
    let stage = Stage::new();
    written(
        &stage,
        "
states:
  deploy:
    type: agent
    provider: claude
    prompt: x
    mcp_proxy: {enable: true, intercept_builtins: false, plugin_tools: [{plugin: k, expose: [a_b]}, {plugin: k_a, expose: [x, b], all: true}]}
    on_success: nowhere
  empty: {agent: {provider: claude, prompt: x}, mcp_proxy: {enable: true, intercept_builtins: false}}
",
    );
    let (code, report) = validated(&stage, &[]);
    assert_eq!(code, Some(1));
    assert_eq!(report["valid"], false);
    let expected = pairs(&[
        (
            "WORKFLOW.VALIDATION.MISSING_STATE",
            "states.deploy.on_success",
        ),
        (
            "USER.MCP_PROXY.UNKNOWN_KEY",
            "states.deploy.mcp_proxy.plugin_tools[1].all",
        ),
        (
            "USER.MCP_PROXY.NAME_COLLISION",
            "states.deploy.mcp_proxy.plugin_tools[1].expose[1]",
        ),
        ("USER.WORKFLOW.UNREACHABLE", "states.empty"),
        ("USER.MCP_PROXY.EMPTY_PROXY", "states.empty.mcp_proxy"),
        (
            "USER.MCP_PROXY.UNKNOWN_PLUGIN",
            "states.deploy.mcp_proxy.plugin_tools[0].plugin",
        ),
        (
            "USER.MCP_PROXY.UNKNOWN_PLUGIN",
            "states.deploy.mcp_proxy.plugin_tools[1].plugin",
        ),
    ]);
    let mut found = found(&report);
    found.sort();
    let mut sorted = expected.clone();
    sorted.sort();
    assert_eq!(found, sorted);
    let finding = &report["findings"][0];
    assert_eq!(finding["step"], "deploy");
    assert!(finding["line"].as_u64() > Some(0), "{finding}");
    let ran = run(&mut in_desk(&stage, &["workflow", "validate", "flow.yaml"]));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    let line = "error: USER.MCP_PROXY.EMPTY_PROXY: the proxy is enabled but offers no tools\n  --> flow.yaml:9:";
    assert!(ran.stderr.contains(line), "{}", ran.stderr);
}

#[test]
fn unreadable_workflows_exit_with_2_and_warnings_with_0() {
    let stage = Stage::new();
    let ran = run(&mut in_desk(&stage, &["validate", "none.yaml"]));
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    written(&stage, "states: [\n");
    let ran = run(&mut in_desk(&stage, &["validate", "flow.yaml"]));
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    // An unknown agent, and a proxy without an agent.
    stage.script(AgentScript {
        version: "0.0.1".to_owned(),
        ..AgentScript::default()
    });
    written(
        &stage,
        "
states:
  a: {agent: {provider: codex, prompt: x}, mcp_proxy: {enable: true}, on_success: b}
  b: {type: command, command: x, mcp_proxy: {enable: true}}
",
    );
    let (code, report) = validated(&stage, &[]);
    assert_eq!((code, &report["valid"]), (Some(0), &json!(true)));
    let expected = pairs(&[
        ("USER.WORKFLOW.PROXY_WITHOUT_AGENT", "states.b.mcp_proxy"),
        (
            "USER.MCP_PROXY.UNSUPPORTED_PROVIDER",
            "states.a.mcp_proxy.intercept_builtins",
        ),
    ]);
    assert_eq!(found(&report), expected);
    stage.script(AgentScript {
        version: KNOWN[2].to_owned(),
        ..AgentScript::default()
    });
    // The version is asked for when the program is another.
    let codex = stage.bed.path("bin/codex");
    let program = std::fs::read(&codex).expect("it is there");
    std::fs::remove_file(&codex).expect("it is ours");
    std::fs::write(&codex, program).expect("it is ours");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&codex, mode).expect("it is ours");
    let (code, report) = validated(&stage, &[]);
    assert_eq!((code, found(&report).len()), (Some(0), 1), "{report}");
}

#[test]
fn validate_asks_plugins_unless_no_plugins_is_given() {
    let stage = Stage::new();
    let plugins = stage.bed.path("data/plugins");
    RawPlugin::with_all(stage.bed.path("log")).install(&plugins, "raw");
    let odd = RawPlugin {
        operations: vec![("odd".to_owned(), vec!["x:float".to_owned()])],
        ..RawPlugin::default()
    };
    odd.install(&plugins, "odd");
    let slow = RawPlugin {
        wrong: Wrong::Silent,
        ..RawPlugin::default()
    };
    slow.install(&plugins, "slow");
    written(
        &stage,
        "
states:
  a:
    agent: {provider: claude, prompt: x}
    mcp_proxy:
      enable: true
      intercept_builtins: false
      plugin_tools:
        - {plugin: raw, expose: [echo, none]}
        - {plugin: odd, expose: [odd]}
        - {plugin: slow, expose: [a]}
        - {plugin: gone, expose: [a]}
    on_success: b
  b: {type: operation, operation: raw.nothing}
",
    );
    let (code, report) = validated(&stage, &[]);
    assert_eq!(code, Some(1));
    let at = |path: &str| format!("states.a.mcp_proxy.plugin_tools{path}");
    let expected = pairs(&[
        ("USER.MCP_PROXY.UNKNOWN_OPERATION", &at("[0].expose[1]")),
        ("USER.MCP_PROXY.UNSUPPORTED_SCHEMA", &at("[1].expose[0]")),
        ("USER.MCP_PROXY.UNKNOWN_PLUGIN", &at("[2].plugin")),
        ("USER.MCP_PROXY.UNKNOWN_PLUGIN", &at("[3].plugin")),
        ("USER.MCP_PROXY.UNKNOWN_OPERATION", "states.b.operation"),
    ]);
    assert_eq!(found(&report), expected);
    let message = report["findings"][2]["message"].as_str().expect("a text");
    assert!(message.contains("not ready within 5 s"), "{message}");
    let (code, report) = validated(&stage, &["--no-plugins"]);
    assert_eq!((code, found(&report)), (Some(0), Vec::new()));
    stage.assert_nothing_left();
}

#[test]
fn every_finding_code_is_explained() {
    let stage = Stage::new();
    let ran = run(&mut in_desk(&stage, &["explain", "--json"]));
    let codes: Value = serde_json::from_str(&ran.stdout).expect("it is JSON");
    let codes = codes.as_array().expect("codes");
    assert!(codes.len() >= 16, "{codes:?}");
    for code in codes {
        let name = code["code"].as_str().expect("a text");
        let ran = run(&mut in_desk(&stage, &["explain", name]));
        assert_eq!(ran.code, Some(0), "{name}");
        let explained = code["explained"].as_str().expect("a text");
        assert_eq!(ran.stdout, format!("{name}\n{explained}\n"));
    }
    let ran = run(&mut in_desk(&stage, &["explain", "NOTHING"]));
    assert_eq!(ran.code, Some(1));
}
