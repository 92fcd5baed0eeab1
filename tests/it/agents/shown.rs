//! What a step shows: its calls with the gate's decisions, what it used, and its transcript.

use std::io::Write as _;

use callgate_testkit::agents::{AgentScript, FakeCall};
use callgate_testkit::wait_until;
use serde_json::{Value, json};

use super::{KNOWN, Stage};
use crate::approvals::terminal::on_a_terminal;
use crate::shell::run;
use crate::talk::DEADLINE;

/// A policy that denies `Write` and asks about `Bash`.
const POLICY: &str = r#"version: "1"
name: shown
rules:
  - scope: mcp_tool
    deny: [{pattern: "builtin:Write", message: "nothing is written here"}]
    require_approval: [{pattern: "builtin:Bash"}]
    allow: [{pattern: "*:*"}]
"#;

fn stage() -> Stage {
    let stage = Stage::with("policy: policy.yaml\n");
    std::fs::write(stage.bed.path("policy.yaml"), POLICY).expect("it is ours");
    let call = |tool: &str, arguments: Value| FakeCall {
        tool: tool.to_owned(),
        arguments,
    };
    stage.script(AgentScript {
        version: KNOWN[0].to_owned(),
        calls: vec![
            call("Glob", json!({"pattern": "*"})),
            call("Write", json!({"path": "made", "content": "x"})),
            call("Bash", json!({"command": "touch approved"})),
        ],
        text: "all done".to_owned(),
        ..AgentScript::default()
    });
    stage
}

#[test]
fn calls_are_shown_with_their_decision_and_those_that_did_not_get_through_at_the_end() {
    let stage = stage();
    let ran = run(&mut stage.agent(&["claude", "--prompt", "tidy\nup"]));
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "all done\n"),
        "{}",
        ran.stderr
    );
    for (begins, contains) in [
        ("Glob {", "-> allowed"),
        (
            "Write {",
            "-> refused: nothing is written here (deny:mcp_tool:builtin:Write)",
        ),
        ("Bash {", "-> needs approval (ap_"),
        (
            "ended after",
            "3 calls, 1 refused, 1 held, 100 tokens in, 20 out, $0.2500",
        ),
        ("note: refused: Write {", ""),
        (
            "note: still needs approval: Bash {",
            "callgate approvals approve ap_",
        ),
    ] {
        let is_it = |line: &str| line.starts_with(begins) && line.contains(contains);
        assert!(
            ran.stderr.lines().any(is_it),
            "no `{begins}`: {}",
            ran.stderr
        );
    }
    let listed = run(&mut stage.callgate(&["agent", "list", "--json"]));
    let listed: Value = serde_json::from_str(&listed.stdout).expect("it is JSON");
    assert_eq!(listed[0]["task"], "tidy");
    assert_eq!(
        (&listed[0]["status"], &listed[0]["calls"]),
        (&json!("success"), &json!(3))
    );
    let id = listed[0]["run"].as_str().expect("an id");
    let shown = run(&mut stage.callgate(&["agent", "show", id]));
    let live = ran.stderr.lines().filter(|line| !line.starts_with("WARN"));
    let live: Vec<&str> = live.chain(["all done"]).collect();
    assert_eq!(shown.stdout.lines().collect::<Vec<_>>(), live);
    let unknown = run(&mut stage.callgate(&["agent", "show", "../x"]));
    assert_eq!(unknown.code, Some(1), "{}", unknown.stderr);
}

#[test]
fn the_log_level_of_the_configuration_holds_for_steps_and_runs() {
    for (level, is_logged) in [
        ("", false),
        ("telemetry: {log: info}\n", true),
        ("telemetry: {log: 'off'}\n", false),
    ] {
        let stage = Stage::with(&format!("policy: allow-all\n{level}"));
        stage.script(AgentScript {
            version: KNOWN[0].to_owned(),
            calls: vec![FakeCall {
                tool: "Glob".to_owned(),
                arguments: json!({"pattern": "*"}),
            }],
            ..AgentScript::default()
        });
        let flow = "states: {a: {agent: {provider: claude, prompt: x}, mcp_proxy: {enable: true}}}";
        std::fs::write(stage.bed.path("desk/flow.yaml"), flow).expect("it is ours");
        let mut walked = stage.callgate(&["workflow", "run", "flow.yaml"]);
        walked.current_dir(stage.bed.path("desk"));
        for mut command in [stage.agent(&["claude", "--prompt", "x"]), walked] {
            let ran = run(&mut command);
            assert_eq!(ran.code, Some(0), "{level}: {}", ran.stderr);
            let logged = ran.stderr.contains("\"message\":\"agent.step\"");
            assert_eq!(logged, is_logged, "{level}: {}", ran.stderr);
        }
    }
}

#[test]
fn events_have_the_decisions_one_per_line() {
    let stage = stage();
    let ran = run(&mut stage.agent(&["claude", "--prompt", "x", "--json"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let events: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("it is JSON"))
        .collect();
    let decisions: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "call")
        .map(|event| &event["decision"])
        .collect();
    assert_eq!(decisions, ["allowed", "refused", "held"]);
    let last = events.last().expect("an end");
    assert_eq!(last["type"], "finished");
    assert_eq!(last["calls"], json!({"made": 3, "refused": 1, "held": 1}));
    assert_eq!(last["unmet"][1]["tool"], "Bash");
    assert_eq!(
        last["tokens"],
        json!({"input": 100, "output": 20, "cost_usd": 0.25})
    );
}

#[test]
fn a_held_call_is_approved_at_the_terminal_of_its_step() {
    let stage = stage();
    let shown = stage.bed.path("shown");
    let agent = stage.agent(&["claude", "--prompt", "x"]);
    let mut typed = on_a_terminal(&agent, &shown);
    for (name, value) in agent.get_envs() {
        match value {
            Some(value) => typed.env(name, value),
            None => typed.env_remove(name),
        };
    }
    let mut running = typed.spawn().expect("`script` of util-linux is there");
    let mut keyboard = running.stdin.take().expect("it is piped");
    let sees = |text: &str| {
        let seen = wait_until(DEADLINE, || stage.bed.read("shown").contains(text));
        assert!(seen, "no `{text}` in {}", stage.bed.read("shown"));
    };
    sees("leaves it open:");
    assert!(!stage.bed.path("desk/approved").exists());
    keyboard.write_all(b"y 1\n").expect("it reads");
    sees("-> approved (ap_");
    sees("all done");
    running.wait().expect("it ends");
    assert!(stage.bed.path("desk/approved").exists());
    assert!(!stage.bed.read("shown").contains("still needs approval"));
    let records = stage.records();
    let by = records
        .iter()
        .find(|record| record["tool"] == "approval.approved");
    assert!(by.is_some(), "{records:?}");
    stage.assert_nothing_left();
}
