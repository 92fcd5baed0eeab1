//! What a run used, and the budgets that limit it.

use callgate_testkit::agents::{AgentScript, FakeCall};
use serde_json::json;

use super::{in_desk, last_run, walked, written};
use crate::agents::{KNOWN, Stage};
use crate::shell::run;

fn stage(calls: usize) -> Stage {
    let stage = Stage::new();
    let call = |at: usize| FakeCall {
        tool: "Write".to_owned(),
        arguments: json!({"path": format!("made{at}"), "content": "x"}),
    };
    stage.script(AgentScript {
        version: KNOWN[0].to_owned(),
        calls: (0..calls).map(call).collect(),
        text: "done".to_owned(),
        ..AgentScript::default()
    });
    stage
}

#[test]
fn a_run_reports_time_tokens_and_cost_of_each_state() {
    let stage = stage(1);
    written(
        &stage,
        "
states:
  initial: a
  a: {agent: {provider: claude, prompt: x}, mcp_proxy: {enable: true}, on_success: both}
  both: {type: parallel, branches: [b, c]}
  b: {agent: {provider: claude, prompt: x}, mcp_proxy: {enable: true}}
  c: {type: command, command: 'true'}
",
    );
    let ran = walked(&stage, &[]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let is_told = |line: &str| line.starts_with("a: Write {") && line.ends_with("-> allowed");
    assert!(ran.stderr.lines().any(is_told), "{}", ran.stderr);
    let report = last_run(&stage);
    let usage = &report["usage"];
    // Counted once, although the state around the branches sums them up.
    assert_eq!(
        (&usage["tokens_input"], &usage["calls"]),
        (&json!(200), &json!(2))
    );
    assert_eq!(usage["cost_usd"], 0.5);
    let id = report["run"].as_str().expect("an id");
    let status = run(&mut in_desk(&stage, &["workflow", "status", id])).stdout;
    assert!(
        status.contains("100 tokens in, 20 out, $0.2500"),
        "{status}"
    );
    assert!(
        status.contains("200 tokens in, 40 out, $0.5000"),
        "{status}"
    );
    let agent = usage["agents"][0].as_str().expect("a step");
    let shown = run(&mut in_desk(&stage, &["agent", "show", agent]));
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
    assert!(shown.stdout.contains("-> allowed"), "{}", shown.stdout);
    let listed = run(&mut in_desk(&stage, &["agent", "list"])).stdout;
    assert!(
        listed.contains(agent) && listed.contains("100+20"),
        "{listed}"
    );
}

#[test]
fn a_run_over_its_budget_ends_with_the_reason() {
    let flow = |budget: &str, of_state: &str| {
        format!(
            "
budget: {budget}
states:
  initial: a
  a: {{agent: {{provider: claude, prompt: x}}, mcp_proxy: {{enable: true}}, budget: {of_state}, on_success: b}}
  b: {{agent: {{provider: claude, prompt: x}}, mcp_proxy: {{enable: true}}, on_success: c}}
  c: {{type: command, command: 'touch ended'}}
"
        )
    };
    for (budget, of_state, expected) in [
        (
            "{calls: 3}",
            "{calls: 9}",
            "workflow `flow` is used up: it allows 3 calls",
        ),
        (
            "{tokens: 200}",
            "{calls: 9}",
            "workflow `flow` is used up: it allows 200 tokens, and 240 were used",
        ),
        (
            "{cost: 0.3}",
            "{calls: 9}",
            "workflow `flow` is used up: it allows $0.3, and $0.5000 was spent",
        ),
        (
            "{calls: 9}",
            "{calls: 1}",
            "state `a` is used up: it allows 1 calls",
        ),
    ] {
        let stage = stage(2);
        written(&stage, &flow(budget, of_state));
        let ran = walked(&stage, &[]);
        assert_eq!(ran.code, Some(3), "{budget}: {}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{budget}: {}", ran.stderr);
        assert!(!stage.bed.path("desk/ended").exists(), "{budget}");
        stage.assert_nothing_left();
    }
}

#[test]
fn a_run_over_its_time_ends_with_the_reason() {
    let stage = stage(0);
    written(
        &stage,
        "budget: {time: 1s}\nstates: {a: {type: command, command: sleep 600}}\n",
    );
    let ran = walked(&stage, &[]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("it allows 1 s, and they are over"),
        "{}",
        ran.stderr
    );
    stage.assert_nothing_left();
}

#[test]
fn tools_of_servers_are_offered_exactly_and_collisions_start_no_agent() {
    let config = "policy: allow-all\nservers:\n  n: {command: '@counter@', args: [--marker, '@dir@']}\n  off: {command: nothing, enabled: false}\n";
    let flow = |tools: &str| {
        format!(
            "states:\n  a: {{agent: {{provider: claude, prompt: x}}, mcp_proxy: {{enable: true, intercept_builtins: false, tools: {tools}}}}}\n"
        )
    };
    let stage = Stage::with(config);
    stage.script(AgentScript {
        version: KNOWN[0].to_owned(),
        ..AgentScript::default()
    });
    written(&stage, &flow("['n:read_*', 'n:effect']"));
    let ran = walked(&stage, &[]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let tools = stage.given()["tools"].clone();
    assert_eq!(tools, json!(["n_effect", "n_read_thing"]));
    for (tools, expected) in [
        (
            "['nowhere:*']",
            "USER.MCP_PROXY.UNKNOWN_SERVER: `nowhere:*`: no such server is configured",
        ),
        (
            "['off:*']",
            "USER.MCP_PROXY.UNKNOWN_SERVER: `off:*`: the server is disabled",
        ),
        (
            "['n:no_such']",
            "server `n` lists no tool that matches `no_such`",
        ),
    ] {
        let before = stage.bed.read("agent.log");
        written(&stage, &flow(tools));
        let ran = walked(&stage, &[]);
        assert_eq!(ran.code, Some(3), "{tools}: {}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{tools}: {}", ran.stderr);
        assert_eq!(stage.bed.read("agent.log"), before, "no agent was started");
    }
    stage.assert_nothing_left();
}
