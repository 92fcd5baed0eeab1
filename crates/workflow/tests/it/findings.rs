//! Every code, several at once, with paths and places.

use std::path::Path;

use callgate_workflow::{PluginOffer, Plugins, check_plugins, read};
use expect_test::{Expect, expect};
use futures_util::future::BoxFuture;
use proptest::prelude::*;

fn told(text: &str) -> String {
    let reading = read(text, Path::new("flow.yaml")).expect("it is YAML");
    let findings = reading.findings.clone();
    let mut lines: Vec<String> = findings
        .iter()
        .map(|finding| {
            let how = if finding.is_error() { "" } else { "warning " };
            format!(
                "{how}{} {}:{} {}: {}",
                finding.code.as_str(),
                finding.line,
                finding.column,
                finding.path,
                finding.message
            )
        })
        .collect();
    let is_right = !findings.iter().any(callgate_workflow::Finding::is_error);
    assert_eq!(reading.workflow().is_some(), is_right);
    lines.push(String::new());
    lines.join("\n")
}

fn check(text: &str, expected: &Expect) {
    expected.assert_eq(&told(text));
}

#[test]
fn all_findings_are_reported_at_once() {
    check(
        "
name: bad
unknown: 1
inputs:
  - {name: n, type: date}
  - {type: string}
  - {name: m, type: integer, default: x, maximum: 3}
states:
  initial: nowhere
  a:
    type: step
    command: echo {{.inputs.none}} {{.states.gone.Output}} {{.states.b.Nothing}} {{.what}}
    timeout: soon
    retry: {max_attempts: 0, backoff: sideways, often: true}
    on_sucess: b
    on_failure: c
    transitions: [{when: 'states.a.ExitCode =', goto: b}, {when: true}]
  b:
    type: agent
    provider: nobody
    options: {model: m, speed: 3}
    depends_on: [z]
  d: {type: dance}
  e: {type: command, command: 'echo {{if}}'}
",
        &expect![[r#"
            warning USER.WORKFLOW.IGNORED_KEY 3:1 unknown: unknown key `unknown`; known keys: name, version, description, author, tags, license, inputs, env, hooks, outputs, plugins, budget, states
            warning USER.WORKFLOW.IGNORED_KEY 5:21 inputs[0].type: unknown type `date`, read as a string; types: string, integer, number, boolean, array, object, int, float, bool, list, map, file
            warning USER.WORKFLOW.IGNORED_KEY 6:5 inputs[1]: ignored: the input has no name
            warning WORKFLOW.PARSE.YAML_SYNTAX 7:39 inputs[2].default: invalid default: `x` is not a valid integer
            warning USER.WORKFLOW.IGNORED_KEY 7:42 inputs[2].maximum: unknown key `maximum`; did you mean `max`?
            WORKFLOW.VALIDATION.MISSING_STATE 9:12 states.initial: unknown state `nowhere`
            USER.WORKFLOW.BAD_TEMPLATE 12:22 states.a.command: unknown input `none`
            USER.WORKFLOW.BAD_TEMPLATE 12:39 states.a.command: unknown state `gone`
            USER.WORKFLOW.BAD_TEMPLATE 12:63 states.a.command: a state has no member `Nothing`; members: Output, Stderr, ExitCode, Status, Response, JSON, TokensInput, TokensOutput, TokensUsed, TokensEstimated, Data
            USER.WORKFLOW.BAD_TEMPLATE 12:85 states.a.command: unknown path `.what`; a path begins with inputs, states, env, vars, workflow.id, workflow.name, loop, error or context
            WORKFLOW.PARSE.YAML_SYNTAX 13:14 states.a.timeout: expected a duration such as `30s` or `10m`
            WORKFLOW.PARSE.YAML_SYNTAX 14:27 states.a.retry.max_attempts: expected an integer from 1
            WORKFLOW.PARSE.YAML_SYNTAX 14:39 states.a.retry.backoff: unknown value `sideways`; allowed values: constant, linear, exponential
            warning USER.WORKFLOW.IGNORED_KEY 14:49 states.a.retry.often: unknown key `often`; known keys: max_attempts, initial_delay, max_delay, backoff, multiplier, jitter, retryable_exit_codes
            WORKFLOW.PARSE.UNKNOWN_FIELD 15:5 states.a.on_sucess: unknown key `on_sucess`; did you mean `on_success`?
            WORKFLOW.VALIDATION.MISSING_STATE 16:17 states.a.on_failure: unknown state `c`
            WORKFLOW.PARSE.YAML_SYNTAX 17:26 states.a.transitions[0].when: bad expression: Syntax error: token recognition error at: '= '
            WORKFLOW.PARSE.YAML_SYNTAX 17:59 states.a.transitions[1]: `goto` is missing
            WORKFLOW.PARSE.YAML_SYNTAX 19:5 states.b: `prompt` is missing
            warning USER.WORKFLOW.FOREIGN_AGENT 20:15 states.b.provider: unknown agent `nobody` (agents: claude, gemini, codex, opencode, openai_compatible)
            warning USER.WORKFLOW.IGNORED_KEY 21:25 states.b.options.speed: unknown key `speed`; known keys: model, permission_mode, approval_mode, sandbox, base_url, api_key, system_prompt, max_tokens, allowed_tools, max_rounds, temperature, top_p, max_completion_tokens, stream
            warning WORKFLOW.VALIDATION.MISSING_STATE 22:18 states.b.depends_on[0]: unknown state `z`
            WORKFLOW.PARSE.YAML_SYNTAX 23:13 states.d.type: unknown value `dance`; allowed values: step, command, agent, terminal, parallel, for_each, while, operation, call_workflow
            USER.WORKFLOW.BAD_TEMPLATE 24:31 states.e.command: `if` is not a valid template expression
        "#]],
    );
}

#[test]
fn every_proxy_mistake_has_its_code_and_path() {
    check(
        "
states:
  initial: a
  a:
    type: agent
    provider: claude
    prompt: x
    mcp_proxy:
      enable: true
      intercept: true
      plugin_tools:
        - {plugin: a, expose: [b_c, b_c], exposes: x}
        - {plugin: a_b, expose: [c]}
        - {plugin: k8s}
        - {plugin: k8s, expose: []}
        - {expose: [x]}
    on_success: b
  b:
    agent: {provider: codex, prompt: x}
    mcp_proxy: {enable: true, intercept_builtins: false}
    on_success: c
  c:
    agent: {provider: codex, prompt: x}
    mcp_proxy: {enable: true, intercept_builtins: false, plugin_tools: [{plugin: p, expose: []}]}
    on_success: d
  d:
    agent: {provider: codex, prompt: x}
    mcp_proxy: {enable: false, intercept_builtins: false, plugin_tools: [{plugin: p, expose: []}, {plugin: a, expose: [b, b]}], nothing: 1}
    on_success: e
  e:
    type: command
    command: x
    mcp_proxy: {enable: true, plugin_tols: []}
",
        &expect![[r#"
            USER.MCP_PROXY.UNKNOWN_KEY 10:7 states.a.mcp_proxy.intercept: unknown key `intercept`; did you mean `intercept_builtins`?
            USER.MCP_PROXY.NAME_COLLISION 12:37 states.a.mcp_proxy.plugin_tools[0].expose[1]: tools `a:b_c` and `a:b_c` are both shown as `a_b_c`
            USER.MCP_PROXY.UNKNOWN_KEY 12:43 states.a.mcp_proxy.plugin_tools[0].exposes: unknown key `exposes`; did you mean `expose`?
            USER.MCP_PROXY.NAME_COLLISION 13:34 states.a.mcp_proxy.plugin_tools[1].expose[0]: tools `a:b_c` and `a_b:c` are both shown as `a_b_c`
            warning USER.MCP_PROXY.EMPTY_PROXY 14:11 states.a.mcp_proxy.plugin_tools[2]: no operation of the plugin is offered: `expose` names none
            USER.MCP_PROXY.NAME_COLLISION 15:11 states.a.mcp_proxy.plugin_tools[3]: `k8s` has two entries
            warning USER.MCP_PROXY.EMPTY_PROXY 15:33 states.a.mcp_proxy.plugin_tools[3].expose: no operation of the plugin is offered: `expose` names none
            WORKFLOW.PARSE.YAML_SYNTAX 16:11 states.a.mcp_proxy.plugin_tools[4]: `plugin` is missing
            USER.MCP_PROXY.EMPTY_PROXY 20:16 states.b.mcp_proxy: the proxy is enabled but offers no tools
            USER.MCP_PROXY.EMPTY_PROXY 24:72 states.c.mcp_proxy.plugin_tools: the proxy is enabled but offers no tools
            warning USER.MCP_PROXY.EMPTY_PROXY 24:93 states.c.mcp_proxy.plugin_tools[0].expose: no operation of the plugin is offered: `expose` names none
            USER.MCP_PROXY.NAME_COLLISION 28:123 states.d.mcp_proxy.plugin_tools[1].expose[1]: tools `a:b` and `a:b` are both shown as `a_b`
            USER.MCP_PROXY.UNKNOWN_KEY 28:129 states.d.mcp_proxy.nothing: unknown key `nothing`; known keys: enable, intercept_builtins, plugin_tools, tools
            warning USER.WORKFLOW.PROXY_WITHOUT_AGENT 33:16 states.e.mcp_proxy: `mcp_proxy` only affects agent states
            USER.MCP_PROXY.UNKNOWN_KEY 33:31 states.e.mcp_proxy.plugin_tols: unknown key `plugin_tols`; did you mean `plugin_tools`?
        "#]],
    );
}

#[test]
fn unreachable_states_cause_a_warning() {
    check(
        "
states:
  a: {type: command, command: x, mcp_proxy: {enable: true}}
  b: {type: command, command: y, depends_on: [d]}
  d: {type: command, command: y, depends_on: [b]}
",
        &expect![[r#"
            warning USER.WORKFLOW.PROXY_WITHOUT_AGENT 3:45 states.a.mcp_proxy: `mcp_proxy` only affects agent states
            warning USER.WORKFLOW.UNREACHABLE 4:6 states.b: no state leads to `b`
            WORKFLOW.PARSE.YAML_SYNTAX 4:46 states.b.depends_on: `b` depends on itself
            warning USER.WORKFLOW.UNREACHABLE 5:6 states.d: no state leads to `d`
            WORKFLOW.PARSE.YAML_SYNTAX 5:46 states.d.depends_on: `d` depends on itself
        "#]],
    );
}

#[test]
fn files_that_are_not_workflows_are_refused() {
    for (text, expected) in [
        ("a: [", "line"),
        ("- a\n", "a workflow must be a map, found a list"),
        ("", "a workflow must be a map, found nothing"),
        ("a: 1\na: 2\n", "a"),
    ] {
        let error = read(text, Path::new("x.yaml")).expect_err(text).to_string();
        assert!(error.contains(expected), "{text:?}: {error}");
    }
}

/// Plugins that are made up.
struct Known;

impl Plugins for Known {
    fn offer<'a>(&'a self, plugin: &'a str) -> BoxFuture<'a, Result<PluginOffer, String>> {
        Box::pin(async move {
            match plugin {
                "good" => Ok(PluginOffer::from([
                    ("get".to_owned(), None),
                    (
                        "odd".to_owned(),
                        Some("plugin `good`, operation `odd`, input `x`: no".to_owned()),
                    ),
                ])),
                _ => Err("it is nowhere".to_owned()),
            }
        })
    }
}

#[tokio::test]
async fn plugin_operations_are_checked_against_the_plugin() {
    let text = "
states:
  a:
    agent: {provider: claude, prompt: x}
    mcp_proxy:
      enable: true
      plugin_tools:
        - {plugin: good, expose: [get, none]}
        - {plugin: bad, expose: [a, b]}
        - {plugin: good, expose: [odd]}
    on_success: b
  b: {type: operation, operation: good.missing, on_success: c}
  c: {type: operation, plugin: gone, operation: x, on_success: nowhere}
";
    let reading = read(text, Path::new("x.yaml")).expect("it is YAML");
    assert_eq!(
        reading.findings.len(),
        2,
        "plugins are checked in a file with findings, too"
    );
    let draft = reading.draft().expect("it is understood");
    let findings = check_plugins(draft, &Known).await;
    let lines: Vec<String> = findings
        .iter()
        .map(|one| format!("{} {}: {}", one.code.as_str(), one.path, one.message))
        .collect();
    expect![[r#"
        USER.MCP_PROXY.UNKNOWN_OPERATION states.a.mcp_proxy.plugin_tools[0].expose[1]: plugin `good` has no operation `none`
        USER.MCP_PROXY.UNKNOWN_PLUGIN states.a.mcp_proxy.plugin_tools[1].plugin: plugin `bad`: it is nowhere
        USER.MCP_PROXY.UNSUPPORTED_SCHEMA states.a.mcp_proxy.plugin_tools[2].expose[0]: plugin `good`, operation `odd`, input `x`: no
        USER.MCP_PROXY.UNKNOWN_OPERATION states.b.operation: plugin `good` has no operation `missing`
        USER.MCP_PROXY.UNKNOWN_PLUGIN states.c.operation: plugin `gone`: it is nowhere"#]].assert_eq(&lines.join("\n"));
}

proptest! {
    #[test]
    fn reading_mutated_workflows_never_panics(cuts in proptest::collection::vec((0usize..2000, 0usize..12, "[a-z{}\\[\\]:, \n.'0-9-]{0,6}"), 1..4)) {
        let guide = include_str!("../../../../docs/workflows.md");
        let mut text = guide.split("```").nth(1).expect("an example").to_owned();
        for (at, length, new) in cuts {
            let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            let from = ends[at % ends.len()];
            let to = ends[(at % ends.len() + length).min(ends.len() - 1)];
            text.replace_range(from..to, &new);
        }
        if let Ok(reading) = read(&text, Path::new("flow.yaml")) {
            let is_wrong = reading.findings.iter().any(callgate_workflow::Finding::is_error);
            prop_assert_eq!(reading.workflow().is_some(), !is_wrong);
        }
    }
}
