//! Hooks around a workflow and its states, run with real commands.

use callgate_workflow::{Event, Status};

use crate::stage::Stage;

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
