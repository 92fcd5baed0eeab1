//! What files for AWF use, run with real commands: templates, hooks, called workflows, captured output, loops.

use std::path::Path;

use callgate_workflow::{Event, Status, Workflow, check_files, plan, read};
use serde_json::{Map, json};

use crate::stage::{Stage, right};

/// What hooks said, in order.
fn said(stage: &Stage) -> Vec<String> {
    let events = stage.events.lock().expect("no thread panicked");
    let one = |event: &Event| match event {
        Event::Hook {
            hook,
            message,
            failed,
        } => Some(format!("{hook} {failed} {message}")),
        _ => None,
    };
    events.iter().filter_map(one).collect()
}

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
async fn hooks_run_around_the_workflow_and_its_states_in_order() {
    let stage = Stage::default();
    let text = "
hooks:
  workflow_start: [{log: 'begin {{workflow.Name}}'}, {command: 'echo start >> log'}]
  workflow_end: [{command: 'echo end {{.states.b.Output}} >> log'}]
  workflow_error: [{command: 'echo never >> log'}]
states:
  a:
    type: command
    command: echo a >> log
    hooks: {pre: [{command: 'echo pre >> log'}, {command: exit 3}], post: [{log: 'code {{.states.a.ExitCode}}'}]}
    on_success: b
  b: {type: command, command: echo b >> log; echo out, pre_hook: {command: echo before >> log}, post_hook: {command: echo after >> log}}
";
    let ended = stage.run(text, &[]).await;
    assert_eq!(ended.status, Status::Success, "{}", ended.message);
    assert_eq!(
        stage.place.read("log"),
        "start\npre\na\nbefore\nb\nafter\nend out\n"
    );
    let expected = [
        "workflow_start false begin flow",
        "a.pre true hook `a.pre`: a command failed with exit code 3",
        "a.post false code 0",
    ];
    assert_eq!(said(&stage), expected);
}

#[tokio::test]
async fn a_failed_start_hook_keeps_the_workflow_from_starting() {
    let stage = Stage::default();
    let text = "
hooks:
  workflow_start: [{command: 'echo one >> log'}, {command: 'echo two >> log; exit 4'}, {command: 'echo three >> log'}]
  workflow_end: [{command: 'echo end >> log'}]
  workflow_error: [{log: 'failed: {{error.Message}}'}]
states: {a: {type: command, command: echo state >> log}}
";
    let ended = stage.run(text, &[]).await;
    let why = "hook `workflow_start`: a command failed with exit code 4";
    assert_eq!(
        (ended.status, ended.message.as_str()),
        (Status::Failure, why)
    );
    assert_eq!(stage.place.read("log"), "one\ntwo\n");
    assert_eq!(
        said(&stage),
        [format!("workflow_error false failed: {why}")]
    );
    assert_eq!(stage.begun(), [""; 0]);
}

#[tokio::test]
async fn the_error_hook_and_conditions_see_what_failed() {
    let stage = Stage::default();
    let text = "
hooks: {workflow_error: [{log: '{{.error.State}} {{.error.ExitCode}} {{.error.Message}} {{.error.Type}}'}]}
states:
  a: {type: command, when: 'error.Message == \"\"', command: 'echo broken >&2; exit 7', on_failure: b}
  b: {type: command, when: 'error.Message == \"broken\" and error.State == \"a\"', command: exit 5}
";
    let ended = stage.run(text, &[]).await;
    assert_eq!(ended.message, "state `b` failed with exit code 5");
    assert_eq!(
        said(&stage),
        ["workflow_error false b 5 state `b` failed with exit code 5 execution"]
    );
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

#[tokio::test]
async fn called_workflows_get_inputs_and_return_outputs() {
    let stage = Stage::default();
    stage.place.file(
        "child.yaml",
        "
name: child
version: '1.0'
inputs: [{name: who, required: true}, {name: n, type: integer, default: 1}, {name: list}]
outputs: [{name: greeting, from: states.greet.Output}, {name: count, from: inputs.n}]
states:
  initial: greet
  greet: {type: step, command: 'echo hello {{.inputs.who}} {{.inputs.n}} {{escape .inputs.list}}', on_success: done}
  done: {type: terminal, status: success}
",
    );
    let text = "
inputs: [{name: who, default: you}]
outputs: [{name: result, from: states.ask.Output}]
states:
  ask:
    type: call_workflow
    workflow: child
    inputs: {who: '{{.inputs.who}}', n: '7', list: [1, 2]}
    outputs: {greeting: text}
    on_success: all
  all: {type: call_workflow, call_workflow: {workflow: child, inputs: {who: me}, timeout: 60}, on_success: show}
  show: {type: command, command: 'echo {{.vars.text}} / {{.states.all.JSON.count}} {{.vars.greeting}}'}
";
    // A value that the child does not need may be missing.
    let child = stage
        .place
        .read("child.yaml")
        .replace("{name: list}", "{name: list, default: ''}");
    stage.place.file("child.yaml", &child);
    let ended = stage.run(text, &[]).await;
    assert_eq!(
        ended.output, "hello you 7 [1,2] / 1 hello me 1",
        "{}",
        ended.message
    );
    assert_eq!(
        ended.outputs,
        *json!({"result": "hello you 7 [1,2]"})
            .as_object()
            .expect("a map")
    );
    let expected = [
        "ask#1.1",
        "ask#1/greet#1.1",
        "all#1.1",
        "all#1/greet#1.1",
        "show#1.1",
    ];
    assert_eq!(stage.begun(), expected);
}

#[tokio::test]
async fn failures_of_called_workflows_are_failures_of_their_state() {
    for (file, child, expected) in [
        (
            "child.yaml",
            "states: {a: {type: command, command: 'echo no >&2; exit 2'}}",
            "workflow `child`: state `a` failed: no",
        ),
        (
            "child.yaml",
            "states: {a: {type: terminal, status: failure, message: sorry}}",
            "workflow `child`: sorry",
        ),
        (
            "child.yaml",
            "states: {a: {type: dance}}",
            "workflow `child`: states.a.type: unknown value `dance`",
        ),
        ("child.yaml", "a: [", "workflow `child`: "),
        (
            "child.yaml",
            "inputs: [{name: x, required: true}]\nstates: {a: {type: terminal}}",
            "workflow `child`: inputs.x: a value is required",
        ),
        (
            "child.yaml",
            "states: {a: {type: call_workflow, workflow: child}}",
            "workflow `child`: state `a` failed: workflow `child`: it calls itself",
        ),
        (
            "child.yaml",
            "states: {a: {type: command, command: sleep 600}}",
            "workflow `child`: timed out after 0.3 s",
        ),
        (
            "other.yaml",
            "states: {a: {type: terminal}}",
            "unknown workflow `child`",
        ),
    ] {
        let stage = Stage::default();
        stage.place.file(file, child);
        let text = "states: {call: {type: call_workflow, workflow: child, timeout: 300ms, on_failure: caught}, caught: {type: terminal, status: failure, message: '{{.states.call.Stderr}}'}}";
        let ended = stage.run(text, &[]).await;
        assert!(
            ended.message.starts_with(expected),
            "{child}: {}",
            ended.message
        );
    }
}

#[tokio::test]
async fn a_resumed_run_calls_the_workflow_as_it_was() {
    let stage = Stage::default();
    stage.place.file("child.yaml", "states: {one: {type: command, command: echo one >> log, on_success: two}, two: {type: command, command: 'test -f go'}}");
    let text = "states: {call: {type: call_workflow, workflow: child}}";
    let journal = stage.journal(text, &[], None);
    let run = journal.run.clone();
    assert_eq!(
        stage.walk(&journal).await.expect("it ends").status,
        Status::Failure
    );
    drop(journal);
    stage.place.file(
        "child.yaml",
        "states: {other: {type: command, command: exit 9}}",
    );
    stage.place.file("go", "");
    let journal =
        callgate_workflow::Journal::resume(stage.place.path(), &run, None).expect("it is there");
    let ended = stage.walk(&journal).await.expect("it ends");
    assert_eq!(ended.status, Status::Success, "{}", ended.message);
    assert_eq!(
        stage.place.read("log"),
        "one\n",
        "a finished state is not repeated"
    );
}

#[tokio::test]
async fn scripts_are_files_beside_the_workflow() {
    let stage = Stage::default();
    stage.place.file("plain.sh", "echo plain {{.inputs.x}}");
    stage.place.file(
        "tool.sh",
        "#!/bin/sh -e\necho \"$0\" | grep -c script-\necho {{inputs.x}}\nfalse\necho never",
    );
    let text = "
inputs: [{name: x, default: given}]
states:
  a: {type: step, script_file: plain.sh, on_success: b}
  b: {type: step, script_file: '{{.context.WorkingDir}}/tool.sh', continue_on_error: true, on_success: c}
  c: {type: command, command: 'echo {{.states.a.Output}}, {{escape .states.b.Output}} {{.states.b.ExitCode}}', on_success: d}
  d: {script_file: none.sh}
";
    let ended = stage.run(text, &[]).await;
    assert_eq!(ended.output, "", "{}", ended.message);
    assert!(ended.message.contains("none.sh"), "{}", ended.message);
    let runs = std::fs::read_dir(stage.place.path().join("workflows")).expect("there is a run");
    let files = runs
        .flatten()
        .flat_map(|run| std::fs::read_dir(run.path()).expect("a folder"));
    let names: Vec<String> = files
        .flatten()
        .map(|file| file.file_name().to_string_lossy().into_owned())
        .collect();
    assert!(
        !names.iter().any(|name| name.starts_with("script-")),
        "{names:?}"
    );
    let text = text
        .replace("on_success: d}", "}")
        .replace("  d: {script_file: none.sh}\n", "");
    assert_eq!(
        stage.run(&text, &[]).await.output,
        "plain given, 1\ngiven 1"
    );
}

/// A stage with two templates, one of which uses the other.
fn with_templates() -> Stage {
    let stage = Stage::default();
    std::fs::create_dir(stage.place.path().join("templates")).expect("it is ours");
    stage.place.file("templates/say.yaml", "
name: say
parameters: [{name: text, required: true}, {name: seconds, default: 9}]
states: {initial: one, one: {type: command, command: 'echo {{parameters.text}} {{.parameters.seconds}}', timeout: '{{parameters.seconds}}', capture: {stdout: said}}}
");
    stage.place.file(
        "templates/twice.yaml",
        "
name: twice
parameters: [{name: word, required: true}]
states: {twice: {use_template: say, parameters: {text: '{{parameters.word}} {{parameters.word}}'}}}
",
    );
    stage
}

#[test]
fn states_use_templates_beside_the_workflow() {
    let stage = with_templates();
    let file = stage.place.path().join("flow.yaml");
    let text = "
inputs: [{name: x, default: given}]
states:
  a: {use_template: twice, parameters: {word: '{{.inputs.x}}'}, on_success: b}
  b: {type: command, command: 'echo {{.vars.said}}!'}
";
    let reading = read(text, &file).expect("it is YAML");
    assert_eq!(reading.findings, []);
    let workflow = reading.workflow().expect("it is right");
    assert_eq!(
        workflow
            .state("a")
            .and_then(|state| state.timeout)
            .map(|time| time.as_secs()),
        Some(9)
    );
    let (_, states) = planned(&workflow, &file);
    assert_eq!(
        states[0],
        "a command echo given given 9 [(\"success\", \"b\")]"
    );
}

#[test]
fn wrong_uses_of_templates_are_refused() {
    let stage = with_templates();
    let file = stage.place.path().join("flow.yaml");
    for (text, expected) in [
        (
            "states: {a: {use_template: say}}",
            "needs the parameter `text`",
        ),
        (
            "states: {a: {use_template: say, parameters: {text: x, more: y}}}",
            "has no parameter `more`",
        ),
        (
            "states: {a: {use_template: none}}",
            "unknown template `none`",
        ),
        (
            "states: {a: {use_template: ../flow}}",
            "is not the name of a template",
        ),
    ] {
        let reading = read(text, &file).expect("it is YAML");
        let told: Vec<String> = reading
            .findings
            .iter()
            .map(|one| one.message.clone())
            .collect();
        assert!(
            told.iter().any(|one| one.contains(expected)),
            "{text}: {told:?}"
        );
    }
}

fn planned(workflow: &Workflow, file: &Path) -> (usize, Vec<String>) {
    let inputs = json!({"x": "given"})
        .as_object()
        .cloned()
        .unwrap_or_default();
    let (hooks, states) = plan(workflow, inputs, file, Path::new("/"), &[]);
    let line = |state: &callgate_workflow::PlannedState| {
        format!(
            "{} {} {} {:?}",
            state.name, state.kind, state.what, state.next
        )
    };
    (hooks.len(), states.iter().map(line).collect())
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
async fn states_of_a_loop_can_lead_inside_and_out_of_it() {
    let text = |goto: &str| {
        format!("
states:
  again: {{type: while, while: 'true', max_iterations: 3, break_when: 'states.last.Output contains \"STOP\"', body: [first, check, skipped, last], on_complete: after}}
  first: {{type: command, command: 'printf f >> log', on_success: again}}
  check: {{type: command, command: 'printf c >> log; echo fine', transitions: [{{when: 'states.check.Output contains \"fine\"', goto: {goto}}}, {{goto: skipped}}]}}
  skipped: {{type: command, command: 'printf s >> log', on_success: again}}
  last: {{type: command, command: 'printf l >> log; echo {{{{.loop.Index}}}}{{{{.loop.Last}}}}', on_success: again}}
  after: {{type: command, command: 'cat log; echo {{{{.states.again.JSON.iterations}}}}'}}
  out: {{type: terminal, status: success, message: left}}
")
    };
    for (goto, output, message) in [
        ("last", "fclfclfcl3", ""),
        ("out", "fine", "left"),
        ("again", "fcslfcslfcsl3", ""),
        ("nowhere", "fcslfcslfcsl3", ""),
    ] {
        let stage = Stage::default();
        let ended = stage.run(&text(goto), &[]).await;
        assert_eq!(
            (ended.output.as_str(), ended.message.as_str()),
            (output, message),
            "{goto}"
        );
        assert_eq!(ended.status, Status::Success);
    }
}

#[tokio::test]
async fn a_failure_in_a_loop_can_end_the_workflow_with_its_own_exit_code() {
    let stage = Stage::default();
    let text = "
states:
  outer: {type: for_each, items: 'a, b', body: [inner], on_success: never}
  inner: {type: for_each, items: [1, 2], body: [x], on_complete: outer}
  x: {type: command, command: 'printf {{.loop.Parent.Item}}{{.loop.Item}} >> log; test {{.loop.Item}}{{loop.Parent.Index}} != 11', on_success: inner, on_failure: {message: 'no {{.loop.Item}}', status: 42}}
  never: {type: terminal}
";
    let ended = stage.run(text, &[]).await;
    assert_eq!(
        (ended.message.as_str(), ended.exit_code),
        ("no 1", Some(42))
    );
    assert_eq!(ended.status, Status::Failure);
    assert_eq!(stage.place.read("log"), "a1a2b1");
}

#[tokio::test]
async fn a_while_loop_can_depend_on_its_own_states() {
    let stage = Stage::default();
    let text = "
states:
  poll: {type: while, while: \"states.check.Output != 'ready'\", body: [check], max_iterations: 5, on_success: done}
  check: {type: command, command: 'printf x >> n; test $(cat n) = xxx && echo ready || echo waiting', on_success: poll}
  done: {type: terminal, message: 'after {{.states.poll.JSON.iterations}}'}
";
    let ended = stage.run(text, &[]).await;
    assert_eq!(
        (ended.status, ended.message.as_str()),
        (Status::Success, "after 3")
    );
    let text = text.replace("check.Output !=", "done.Output !=");
    let ended = Stage::default().run(&text, &[]).await;
    assert!(
        ended.message.contains("`states.done.Output` has no value"),
        "{}",
        ended.message
    );
}

#[tokio::test]
async fn limits_of_loops_are_computed_when_they_begin() {
    for (limit, expected) in [
        ("'{{.inputs.n}}'", "aa"),
        ("'{{inputs.n * inputs.n - 1}}'", "aaa"),
        (
            "'{{.env.FLOW_LIMIT}}'",
            "state `l` failed: max_iterations: `.env.FLOW_LIMIT` has no value",
        ),
        (
            "'{{.inputs.n}} - 2'",
            "state `l` failed: max_iterations: `0` is not from 1 to 10000",
        ),
        ("0", "aaaa"),
    ] {
        let stage = Stage::default();
        let text = format!(
            "
inputs: [{{name: n, type: integer, default: 2}}]
states:
  l: {{type: for_each, items: [1, 2, 3, 4], max_iterations: {limit}, body: [x], on_complete: show}}
  x: {{type: command, command: 'printf a >> log', on_success: l}}
  show: {{type: command, command: cat log}}
"
        );
        let ended = stage.run(&text, &[]).await;
        assert_eq!(
            format!("{}{}", ended.output, ended.message),
            expected,
            "{limit}"
        );
    }
}

#[tokio::test]
async fn a_loop_on_a_state_repeats_that_state() {
    let stage = Stage::default();
    let text = "
inputs: [{name: items, type: array, default: [a, b, c, d]}]
states:
  each:
    type: step
    loop: {over: '{{inputs.items}}', break_when: 'loop.Index >= 1 and states.each.Output endsWith \"b\"'}
    command: 'printf {{loop.Index1}}{{loop.Item}} >> log; echo {{loop.Item}}'
    retry: {max_attempts: 2}
    on_success: show
  show: {type: step, command: 'cat log; echo {{.states.each.JSON.iterations}}'}
";
    let ended = stage.run(text, &[]).await;
    assert_eq!(ended.output, "1a2b2", "{}", ended.message);
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

#[test]
fn files_that_a_workflow_names_are_checked() {
    let stage = Stage::default();
    stage.place.file("there.md", "x");
    stage.place.file("bad.yaml", "states: {a: {type: dance}}");
    let text = "
states:
  a: {type: agent, provider: claude, prompt_file: there.md, on_success: b}
  b: {type: agent, agent: {provider: claude, prompt_file: none.md}, on_success: c}
  c: {type: step, script_file: none.sh, on_success: d}
  d: {type: call_workflow, workflow: none, on_success: e}
  e: {type: call_workflow, workflow: bad, on_success: f}
  f: {type: agent, provider: claude, prompt_file: '{{.env.HOME}}/x'}
";
    let file = stage.place.path().join("flow.yaml");
    let workflow = right(text);
    let found: Vec<String> = check_files(&workflow, &file)
        .iter()
        .map(|one| {
            format!(
                "{} {} {} {}:{}",
                one.code.as_str(),
                one.is_error(),
                one.path,
                one.line,
                one.column
            )
        })
        .collect();
    let expected = [
        "USER.INPUT.MISSING_FILE true states.b.prompt_file 4:59",
        "USER.INPUT.MISSING_FILE false states.c.script_file 5:32",
        "USER.INPUT.MISSING_FILE false states.d.workflow 6:38",
        "USER.INPUT.MISSING_FILE false states.e.workflow 7:38",
    ];
    assert_eq!(found, expected);
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
