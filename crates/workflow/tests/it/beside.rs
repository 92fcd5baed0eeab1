//! Files beside a workflow: called workflows, scripts, templates.

use callgate_workflow::{Journal, Resumption, Status, check_files, read};
use serde_json::json;

use crate::stage::{Stage, planned, right};

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
        Journal::resume(stage.place.path(), &run, Resumption::default()).expect("it is there");
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
