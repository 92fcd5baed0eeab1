//! Both forms of agents, what may be left out, and the four documented cases of a proxy.

use std::path::Path;

use callgate_agent::AgentKind;
use callgate_workflow::{Kind, Proxy, read};

use crate::stage::{Stage, right};

#[test]
fn both_forms_of_an_agent_state_load_alike() {
    for text in [
        "states: {a: {type: step, agent: {provider: claude, prompt: 'do {{.workflow.name}}', options: {model: m}}, timeout: 10m}}",
        "states: {a: {type: agent, provider: claude, prompt: 'do {{.workflow.name}}', options: {model: m}, timeout: 600}}",
        "states: {a: {agent: {provider: claude, prompt: 'do {{.workflow.name}}', options: {model: m}}, timeout: 600s}}",
        "states: {initial: a, a: {type: agent, agent: {provider: claude, prompt: 'do {{.workflow.name}}', options: {model: m}}, timeout: 10m}}",
    ] {
        let workflow = right(text);
        assert_eq!(
            (workflow.name.as_str(), workflow.initial.as_str()),
            ("flow", "a")
        );
        let state = workflow.state("a").expect("it is there");
        assert_eq!(
            state.timeout.map(|time| time.as_secs()),
            Some(600),
            "{text}"
        );
        let Kind::Agent(agent) = &state.kind else {
            panic!("{text}");
        };
        assert_eq!(agent.kind(), Some(AgentKind::Claude));
    }
}

#[test]
fn documented_proxy_settings_load_as_written() {
    let proxy = |written: &str| -> Proxy {
        let text = format!("states:\n  a:\n    agent: {{provider: claude, prompt: x}}\n{written}");
        let workflow = right(&text);
        workflow
            .state("a")
            .expect("it is there")
            .proxy
            .clone()
            .unwrap_or_default()
    };
    let without = proxy("");
    assert!(!without.enable);
    let full = proxy("    mcp_proxy: {enable: true}\n");
    assert!(full.enable && full.intercept_builtins && full.plugin_tools.is_empty());
    let both = proxy(
        "    mcp_proxy:\n      enable: true\n      plugin_tools: [{plugin: kubernetes, expose: [kubectl_apply, kubectl_get]}]\n",
    );
    assert!(both.intercept_builtins);
    assert_eq!(
        both.plugin_tools[0].expose,
        ["kubectl_apply", "kubectl_get"]
    );
    let additive = proxy(
        "    mcp_proxy:\n      enable: true\n      intercept_builtins: false\n      plugin_tools: [{plugin: notify, expose: [send]}]\n",
    );
    assert!(additive.enable && !additive.intercept_builtins);
}

#[test]
fn the_generated_schema_is_up_to_date() {
    let kept = include_str!("../../../../docs/workflow.schema.json");
    let schema = format!("{}\n", callgate_workflow::schema());
    assert!(
        kept == schema,
        "docs/workflow.schema.json is stale: run `cargo xtask docs`"
    );
}

#[test]
fn the_guides_example_is_valid() {
    let guide = include_str!("../../../../docs/workflows.md");
    let (_, rest) = guide.split_once("```yaml\n").expect("there is an example");
    let (example, _) = rest.split_once("```").expect("it ends");
    let reading = read(example, Path::new("fix.yaml")).expect("it is YAML");
    assert_eq!(reading.findings, []);
    assert!(reading.workflow().is_some());
}

#[tokio::test]
async fn agents_get_the_configured_tools() {
    let stage = Stage::default();
    let text = "
inputs: [{name: model, default: m}]
states:
  a: {agent: {provider: claude, prompt: one, options: {model: '{{.inputs.model}}'}}, on_success: b}
  b: {agent: {provider: claude, prompt: two}, mcp_proxy: {enable: true}, on_success: c}
  c: {agent: {provider: claude, prompt: three}, mcp_proxy: {enable: true, plugin_tools: [{plugin: k, expose: [x, y]}]}, on_success: d}
  d: {agent: {provider: claude, prompt: four}, mcp_proxy: {enable: true, intercept_builtins: false, plugin_tools: [{plugin: k, expose: [x]}]}, on_success: e}
  e: {agent: {provider: claude, prompt: five}, mcp_proxy: {enable: false, plugin_tools: [{plugin: k, expose: [x]}]}}
";
    let ended = stage.run(text, &[]).await;
    assert_eq!(ended.output, "did five");
    let expected = [
        "a off m [] one",
        "b full [] two",
        "c full [k:x,y] three",
        "d additive [k:x] four",
        "e off [] five",
    ];
    assert_eq!(stage.fake.lines(), expected);
}
