//! Agents of workflows: every way to run them puts the gate before their tools.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use callgate_testkit::agents::{AgentScript, FakeCall};
use callgate_testkit::goplugin::plugin::RawPlugin;
use callgate_testkit::{ChatModel, ChatReply};
use serde_json::{Value, json};

use super::{given, in_desk, last_run, walked, written};
use crate::agents::{KNOWN, Stage};
use crate::shell::run;
use crate::telemetry::collector::Collector;

const BUILTINS: [&str; 6] = ["Bash", "Edit", "Glob", "Grep", "Read", "Write"];

fn script(calls: &[(&str, Value)]) -> AgentScript {
    let calls = calls.iter().map(|(tool, arguments)| FakeCall {
        tool: (*tool).to_owned(),
        arguments: arguments.clone(),
    });
    AgentScript {
        version: KNOWN[0].to_owned(),
        calls: calls.collect(),
        text: "done".to_owned(),
        ..AgentScript::default()
    }
}

fn stage(config: &str) -> Stage {
    let stage = Stage::with(config);
    let raw = RawPlugin::with_all(stage.bed.path("plugin.log"));
    raw.install(&stage.bed.path("data/plugins"), "raw");
    stage
}

#[test]
fn the_guides_workflow_runs_until_its_tests_pass() {
    let stage = stage("policy: allow-all\n");
    let guide = include_str!("../../../docs/workflows.md");
    let (_, rest) = guide.split_once("```yaml\n").expect("there is an example");
    let (example, _) = rest.split_once("```").expect("it ends");
    written(&stage, example);
    // Tests that want two changes.
    let cargo = stage.bed.path("bin/cargo");
    fs::write(&cargo, "#!/bin/sh\necho \"$@\"\ntest -f made && test -f first && exit 0\ntouch first\nrm -f made\nexit 101\n").expect("it is ours");
    fs::set_permissions(&cargo, PermissionsExt::from_mode(0o755)).expect("it is ours");
    stage.script(script(&[(
        "Write",
        json!({"path": "made", "content": "x"}),
    )]));
    let ran = walked(&stage, &["--input", "target=it's"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.ends_with("success: green\n"), "{}", ran.stderr);
    let agents = given(&stage);
    assert_eq!(agents.len(), 1);
    assert_eq!(agents[0]["tools"], json!(BUILTINS));
    let prompt = agents[0]["stdin"].as_str().expect("a prompt");
    assert!(prompt.contains("test -p it's"), "{prompt}");
    stage.assert_nothing_left();
}

#[test]
fn every_way_to_run_a_step_applies_its_proxy() {
    let stage = stage("policy: allow-all\n");
    stage.script(script(&[]));
    written(
        &stage,
        "
states:
  initial: plain
  plain: {agent: {provider: claude, prompt: x}, on_success: full}
  full: {agent: {provider: claude, prompt: x}, mcp_proxy: {enable: true, plugin_tools: [{plugin: raw, expose: [echo]}]}, on_success: branches}
  branches: {type: parallel, branches: [branch], on_success: rounds}
  branch: {agent: {provider: claude, prompt: x}, mcp_proxy: {enable: true, intercept_builtins: false, plugin_tools: [{plugin: raw, expose: [fail]}]}}
  rounds: {type: for_each, items: [1, 2], body: [round], on_success: last}
  round: {agent: {provider: claude, prompt: x}, mcp_proxy: {enable: true}}
  last: {type: command, command: test -f go, on_success: resumed}
  resumed: {agent: {provider: claude, prompt: x}, mcp_proxy: {enable: true}}
",
    );
    let ran = walked(&stage, &[]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    let full: Vec<&str> = BUILTINS.into_iter().chain(["raw_echo"]).collect();
    let builtins = json!(BUILTINS);
    let tools: Vec<Value> = given(&stage)
        .iter()
        .map(|one| one["tools"].clone())
        .collect();
    let expected = [
        Value::Null,
        json!(full),
        json!(["raw_fail"]),
        builtins.clone(),
        builtins.clone(),
    ];
    assert_eq!(tools, expected);
    let plain = given(&stage)[0]["argv"].to_string();
    assert!(!plain.contains("mcp"), "{plain}");
    let report = last_run(&stage);
    assert_eq!(report["status"], "failure");
    fs::write(stage.bed.path("desk/go"), "").expect("it is ours");
    let id = report["run"].as_str().expect("an id");
    let ran = run(&mut in_desk(&stage, &["workflow", "resume", id]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(given(&stage).len(), 6, "only what was left is done");
    assert_eq!(given(&stage)[5]["tools"], builtins);
    let ran = walked(&stage, &["--step", "full"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(given(&stage)[6]["tools"], json!(full));
    let again = run(&mut in_desk(&stage, &["workflow", "resume", id]));
    assert_eq!(again.code, Some(1), "it has ended well: {}", again.stderr);
    stage.assert_nothing_left();
}

#[test]
fn concurrent_steps_keep_separate_tools_and_records() {
    let collector = Collector::start();
    let stage = stage(&format!(
        "policy: allow-all\ntelemetry: {{otlp: '{}'}}\n",
        collector.url
    ));
    stage.script(script(&[
        ("Write", json!({"path": "made", "content": "x"})),
        ("raw_echo", json!({"text": "x"})),
    ]));
    written(
        &stage,
        "
states:
  both: {type: parallel, branches: [ours, theirs]}
  ours: {agent: {provider: claude, prompt: x}, mcp_proxy: {enable: true}}
  theirs: {agent: {provider: opencode, prompt: x}, mcp_proxy: {enable: true, intercept_builtins: false, plugin_tools: [{plugin: raw, expose: [echo]}]}}
",
    );
    let ran = walked(&stage, &[]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let agents = given(&stage);
    assert_eq!(agents.len(), 2);
    for agent in &agents {
        let is_ours = agent["argv"][0]
            .as_str()
            .is_some_and(|name| name.ends_with("claude"));
        let expected = if is_ours {
            json!(BUILTINS)
        } else {
            json!(["raw_echo"])
        };
        assert_eq!(agent["tools"], expected);
    }
    let log = stage.bed.read("plugin.log");
    assert_eq!(log, "execute echo {\"text\":\"x\"}\nshutdown\n");
    let records = stage.records();
    let session = |agent: &str, tool: &str, status: &str| {
        let found = records.iter().find(|record| {
            record["tool"] == tool && record["agent"] == agent && record["status"] == status
        });
        let found = found.unwrap_or_else(|| panic!("{agent} {tool}: {records:#?}"));
        found["session_id"].clone()
    };
    let ours = session("claude-code", "Write", "success");
    let theirs = session("opencode", "echo", "success");
    assert_ne!(ours, theirs);
    let count = |name: &str, spans: &[opentelemetry_proto::tonic::trace::v1::Span]| {
        spans.iter().filter(|span| span.name == name).count()
    };
    let spans = collector.spans_until(|spans| count("agent.step", spans) == 2);
    for tool in ["tool.call.Write", "tool.call.raw_echo"] {
        assert_eq!(count(tool, &spans), 1, "{tool}");
    }
    let parent = |name: &str| {
        let span = spans.iter().find(|span| span.name == name).expect("a span");
        span.parent_span_id.clone()
    };
    assert_ne!(parent("tool.call.Write"), parent("tool.call.raw_echo"));
    stage.assert_nothing_left();
}

#[test]
fn a_step_with_unavailable_tools_does_not_start_its_agent() {
    let stage = stage("policy: allow-all\n");
    stage.script(script(&[]));
    let model = ChatModel::start(vec![ChatReply::say("done")]);
    for provider in ["claude", "openai_compatible"] {
        for (tools, code, expected) in [
            (
                "{plugin: gone, expose: [x]}",
                3,
                "USER.MCP_PROXY.UNKNOWN_PLUGIN",
            ),
            (
                "{plugin: raw, expose: [none]}",
                3,
                "USER.MCP_PROXY.UNKNOWN_OPERATION",
            ),
            (
                "{plugin: a, expose: [b_c]}, {plugin: a_b, expose: [c]}",
                1,
                "USER.MCP_PROXY.NAME_COLLISION",
            ),
        ] {
            written(
                &stage,
                &format!(
                    "states: {{a: {{agent: {{provider: {provider}, prompt: x, options: {{model: m, base_url: '{}'}}}}, mcp_proxy: {{enable: true, plugin_tools: [{tools}]}}}}}}",
                    model.url
                ),
            );
            let ran = walked(&stage, &[]);
            assert_eq!(ran.code, Some(code), "{provider} {tools}: {}", ran.stderr);
            assert!(ran.stderr.contains(expected), "{provider}: {}", ran.stderr);
        }
    }
    assert_eq!(stage.bed.read("agent.log"), "", "no agent was started");
    assert!(model.requests().is_empty(), "no model was asked");
    stage.assert_nothing_left();
}

#[test]
fn workflow_operations_pass_the_gate() {
    let config = "policy: policy.yaml\n";
    let stage = stage(config);
    let policy = "version: \"1\"\nname: t\nrules:\n  - scope: mcp_tool\n    deny: [{pattern: \"raw:fail\"}]\n    allow: [{pattern: \"*:*\"}]\n";
    fs::write(stage.bed.path("policy.yaml"), policy).expect("it is ours");
    written(
        &stage,
        "
inputs: [{name: text}]
states:
  a: {type: operation, operation: raw.echo, inputs: {text: '{{.inputs.text}}'}, on_success: b}
  b: {type: command, command: 'echo {{escape .states.a.JSON.text}}', on_success: c}
  c: {type: operation, plugin: raw, operation: fail}
",
    );
    let ran = walked(&stage, &["-i", "text=a b", "--json"]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    let events: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("it is JSON"))
        .collect();
    assert_eq!(events[0]["type"], "run_started");
    let last = events.last().expect("an end");
    assert_eq!(
        (&last["type"], &last["status"]),
        (&json!("run_finished"), &json!("failure"))
    );
    let why = last["message"].as_str().expect("a text");
    assert!(why.contains("denied by policy"), "{why}");
    assert_eq!(
        stage.bed.read("plugin.log"),
        "execute echo {\"text\":\"a b\"}\nshutdown\n"
    );
    let records = stage.records();
    let tools: Vec<&Value> = records
        .iter()
        .filter(|record| record["server"] == "raw")
        .map(|record| &record["status"])
        .collect();
    assert_eq!(tools.len(), 2, "{records:?}");
}

#[test]
fn invalid_inputs_are_reported_before_a_workflow_starts() {
    let stage = stage("");
    written(
        &stage,
        "
inputs: [{name: n, type: integer, required: true}, {name: m, enum: [a, b]}]
states: {a: {type: command, command: touch begun}}
",
    );
    let ran = walked(&stage, &["--input", "m=c", "--input", "x=y"]);
    assert_eq!(ran.code, Some(1));
    for expected in [
        "inputs.x: ",
        "inputs.n: a value is required",
        "inputs.m: `c` is not one of a, b",
    ] {
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
    for args in [
        &["--input", "novalue"][..],
        &["--input", "n=1", "--step", "none"],
    ] {
        assert_eq!(walked(&stage, args).code, Some(1), "{args:?}");
    }
    assert_eq!(
        run(&mut in_desk(&stage, &["workflow", "history"]))
            .stdout
            .lines()
            .count(),
        1
    );
}
