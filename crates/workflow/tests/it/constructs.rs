//! What files for AWF use, run with real commands: paths, conditions, variables, captured output, plans, mocks.

use std::path::Path;

use callgate_workflow::{Status, read};
use serde_json::Map;

use crate::stage::{Stage, planned, right};

#[tokio::test]
async fn paths_in_templates_need_no_dot() {
    let stage = Stage::default();
    let text = "
inputs: [{name: who, default: 'wor ld'}]
states:
  a: {type: command, command: 'echo {{escape inputs.who}} {{ inputs.who | escape }} {{.inputs.who}}', on_success: b}
  b: {type: command, dir: '{{context.WorkingDir}}', command: 'echo {{states.a.Output}}; test \"$PWD\" = {{escape context.WorkingDir}}'}
";
    let ended = stage.run(text, &[]).await;
    assert_eq!(ended.output, "wor ld wor ld wor ld", "{}", ended.message);
}

#[tokio::test]
async fn a_state_whose_condition_does_not_hold_is_skipped() {
    let stage = Stage::default();
    let text = "
inputs: [{name: yes, type: boolean, default: false}]
states:
  a: {type: command, when: inputs.yes, command: echo a >> log, on_success: b, on_failure: c}
  b: {type: command, when: not inputs.yes, command: echo b >> log}
  c: {type: command, command: echo c >> log}
";
    let ended = stage.run(text, &[]).await;
    assert_eq!(ended.status, Status::Success);
    assert_eq!(stage.place.read("log"), "b\n");
    assert_eq!(stage.begun(), ["b#1.1"]);
}

#[tokio::test]
async fn a_transition_about_a_state_that_has_not_run_is_passed_over() {
    let stage = Stage::default();
    let text = "
inputs: [{name: none}]
states:
  a:
    type: command
    command: echo a
    transitions:
      - {when: states.c.ExitCode != 0, goto: c}
      - {when: states.c.Output contains 'x' or true, goto: c}
      - {when: env.FLOW_NOT_SET == 'true' or inputs.none > 3, goto: c}
      - {when: has(states.c.Output), goto: c}
      - {when: inputs.none != 'x', goto: b}
      - {goto: c}
  b: {type: terminal, message: right}
  c: {type: command, command: echo wrong}
";
    assert_eq!(stage.run(text, &[]).await.message, "right");
}

#[tokio::test]
async fn a_workflow_starts_only_with_its_variables() {
    let stage = Stage::default();
    let text = "
env: [FLOW_TEST, NOT_SET_ONE, NOT_SET_TWO]
states: {a: {type: command, command: echo started >> log}}
";
    let ended = stage.run(text, &[]).await;
    assert_eq!(
        ended.message,
        "the environment lacks `NOT_SET_ONE`, `NOT_SET_TWO`"
    );
    assert_eq!(stage.begun(), [""; 0]);
    let text = "env: [FLOW_TEST]\nstates: {a: {type: command, command: 'echo {{.env.FLOW_TEST}}'}}";
    assert_eq!(stage.run(text, &[]).await.output, "set");
}

#[tokio::test]
async fn captured_output_is_a_variable_of_limited_size() {
    let stage = Stage::default();
    let text = "
states:
  a:
    type: command
    command: printf 0123456789; printf oops >&2
    capture: {stdout: digits, stderr: said, max_size: 4B, encoding: utf-8}
    on_success: b
  b: {type: command, command: 'echo {{.vars.digits}} {{vars.said}} {{.states.a.Output}}'}
";
    assert_eq!(stage.run(text, &[]).await.output, "0123 oops 0123");
}

#[test]
fn a_plan_shows_what_is_known_and_starts_nothing() {
    let text = "
inputs: [{name: x}]
hooks: {workflow_start: [{command: touch started}]}
states:
  a: {type: step, command: 'echo {{.inputs.x}} {{.states.b.Output | trimSpace}}', loop: {over: '[1]'}, on_failure: {message: 'no {{.inputs.x}}'}}
  b: {type: while, while: 'states.c.ExitCode != 0', body: [c], max_iterations: '{{2 * 3}}', transitions: [{when: inputs.x == 'y', goto: a}, {goto: d}]}
  c: {type: operation, operation: k.get, inputs: {n: '{{inputs.x}}'}}
  d: {type: terminal, status: failure, message: end}
";
    let reading = read(text, Path::new("flow.yaml")).expect("it is YAML");
    let workflow = reading.draft().expect("it is understood");
    let (hooks, states) = planned(workflow, Path::new("flow.yaml"));
    assert_eq!(hooks, 1);
    let expected = [
        r#"a command for each of [1], at most 100: a: echo given {{.states.b.Output | trimSpace}} [("failure", "failure: no given")]"#,
        r#"b loop while states.c.ExitCode != 0, at most 6: c [("inputs.x == 'y'", "a"), ("otherwise", "d")]"#,
        r#"c operation k.get {"n":"given"} []"#,
        "d terminal failure end []",
    ];
    assert_eq!(states, expected);
}

#[tokio::test]
async fn an_agent_continues_the_conversation_of_an_earlier_one() {
    let stage = Stage::default();
    let text = "
states:
  seed: {type: agent, provider: claude, mode: single, system_prompt: be brief, prompt: one, conversation: {}, on_success: more}
  more: {type: agent, provider: '{{.env.FLOW_AGENT}}', prompt: two, conversation: {continue_from: seed}, on_success: last}
  last: {type: agent, provider: claude, prompt: three, conversation: {continue_from: seed}, on_success: none}
  none: {type: agent, provider: claude, prompt: four, on_success: wrong}
  wrong: {type: agent, provider: claude, prompt: five, conversation: {continue_from: none}}
";
    let ended = stage
        .run(&text.replace("'{{.env.FLOW_AGENT}}'", "codex"), &[])
        .await;
    assert!(
        ended
            .message
            .contains("continue_from: state `none` has no conversation"),
        "{}",
        ended.message
    );
    let lines = stage.fake.lines();
    assert_eq!(lines[0], "seed off [] be brief\n\none");
    let earlier = "This continues an earlier conversation. It went:\n\n[user]\none\n\n[you]\ndid be brief\n\none\n\nThe user now says:\n\n";
    assert_eq!(lines[1], format!("more off [] {earlier}two"));
    assert_eq!(lines[2], format!("last off [] {earlier}three"));
    let ended = Stage::default().run(text, &[]).await;
    assert!(
        ended
            .message
            .contains("provider: `.env.FLOW_AGENT` has no value"),
        "{}",
        ended.message
    );
}

#[tokio::test]
async fn single_states_run_with_mocked_values() {
    let stage = Stage::default();
    let text = "
states:
  build: {type: command, command: exit 9, on_success: show}
  show: {type: command, depends_on: [build], command: 'echo {{.states.build.Output}} {{.states.build.ExitCode}} {{.states.build.JSON.a}}'}
";
    let mut journal = stage.journal(text, &[], Some("show"));
    journal.mocks = [
        ("states.build.output", "v1"),
        ("states.build.ExitCode", "3"),
        ("states.build.JSON", "{\"a\": 1}"),
    ]
    .map(|(path, text)| (path.to_owned(), text.to_owned()))
    .to_vec();
    let ended = stage.walk(&journal).await.expect("it ends");
    assert_eq!(ended.output, "v1 3 1", "{}", ended.message);
}

#[test]
fn inputs_can_have_to_be_files() {
    let workflow = right(
        "inputs: [{name: f, validation: {file_exists: true, file_extension: [.toml, .lock]}}]\nstates: {a: {type: terminal}}",
    );
    let given = |text: &str| {
        let pairs = [("f".to_owned(), text.to_owned())];
        callgate_workflow::given(&workflow, &pairs).map_err(|error| error.to_string())
    };
    let mut right = Map::new();
    right.insert("f".to_owned(), "Cargo.toml".into());
    assert_eq!(given("Cargo.toml"), Ok(right));
    assert_eq!(
        given("none.toml"),
        Err("inputs.f: the file `none.toml` does not exist".to_owned())
    );
    assert_eq!(
        given("src/lib.rs"),
        Err("inputs.f: `src/lib.rs` does not end in .toml or .lock".to_owned())
    );
}

#[tokio::test]
async fn skills_and_a_role_come_before_the_prompt() {
    let stage = Stage::default();
    for folder in [".awf/skills/go/docs", "own/audit", ".agents/roles/senior"] {
        std::fs::create_dir_all(stage.place.path().join(folder)).expect("it is fresh");
    }
    stage.place.file(
        ".awf/skills/go/SKILL.md",
        "---\nname: go\n---\n\nReturn early.\n",
    );
    stage.place.file(".awf/skills/go/docs/more.md", "x");
    stage.place.file("own/audit/SKILL.md", "Look twice.");
    stage
        .place
        .file(".agents/roles/senior/AGENTS.md", "You are old.\n");
    let text = "
states:
  a: {agent: {provider: claude, prompt: do it, system_prompt: Be brief., role: '{{.env.FLOW_ROLE}}', skills: [go, {path: own/audit}]}, on_success: b}
  b: {agent: {provider: claude, prompt: x, skills: [none]}}
";
    let ended = stage
        .run(&text.replace("{{.env.FLOW_ROLE}}", "senior"), &[])
        .await;
    let why = "state `b` failed: unknown skill `none`: it is not in ";
    assert!(ended.message.starts_with(why), "{}", ended.message);
    let root = std::fs::canonicalize(stage.place.path()).expect("it is there");
    let root = root.display();
    let note = "Relative paths in this skill are relative to the skill directory.";
    let expected = format!(
        "a off [] You are old.\n\nBe brief.\n\n<skill_content name=\"go\">\nReturn early.\n\nSkill directory: {root}/.awf/skills/go\n{note}\n\n<skill_resources>\n<file>docs/more.md</file>\n</skill_resources>\n</skill_content>\n\n<skill_content name=\"audit\">\nLook twice.\n\nSkill directory: {root}/own/audit\n{note}\n</skill_content>\n\ndo it"
    );
    assert_eq!(stage.fake.lines(), [expected]);
}
