//! States inside of states: parallel strategies, dependencies, loops.

use callgate_workflow::Status;

use crate::stage::Stage;

#[tokio::test]
async fn parallel_strategies_decide_success() {
    let branches = |strategy: &str, a: &str, b: &str| {
        format!(
            "states: {{p: {{type: parallel, strategy: {strategy}, branches: [a, b]}}, a: {{type: command, command: '{a}'}}, b: {{type: command, command: '{b}'}}}}"
        )
    };
    for (strategy, a, b, status, message) in [
        ("all_succeed", "true", "true", Status::Success, ""),
        (
            "all_succeed",
            "exit 2",
            "sleep 600",
            Status::Failure,
            "state `p` failed: failed: a",
        ),
        ("any_succeed", "exit 2", "true", Status::Success, ""),
        ("any_succeed", "sleep 600", "true", Status::Success, ""),
        (
            "any_succeed",
            "exit 2",
            "exit 3",
            Status::Failure,
            "state `p` failed: failed: a, b",
        ),
        ("best_effort", "exit 2", "exit 3", Status::Success, ""),
    ] {
        let stage = Stage::default();
        let ended = stage.run(&branches(strategy, a, b), &[]).await;
        let seen = (ended.status, ended.message.as_str());
        assert_eq!(seen, (status, message), "{strategy} {a} {b}");
    }
}

#[tokio::test]
async fn branches_wait_for_dependencies_and_their_output_is_visible() {
    let stage = Stage::default();
    let text = "
states:
  p:
    type: parallel
    max_concurrent: 1
    steps:
      - {name: last, command: 'echo {{.states.first.Output}} then last', depends_on: [first]}
      - {name: first, command: echo first}
    on_success: show
  show: {type: command, command: 'echo {{.states.last.Output}} / {{.states.p.JSON.first.Output}}'}
";
    let ended = stage.run(text, &[]).await;
    assert_eq!(ended.output, "first then last / first");
    let expected = ["p#1.1", "p#1/first#1.1", "p#1/last#1.1", "show#1.1"];
    assert_eq!(stage.begun(), expected);
}

#[tokio::test]
async fn branches_are_stopped_at_the_timeout() {
    let stage = Stage::default();
    let text = "states: {p: {type: parallel, timeout: 200ms, branches: [a]}, a: {agent: {provider: claude, prompt: wait}}}";
    let ended = stage.run(text, &[]).await;
    assert_eq!(ended.message, "state `p` failed: timed out after 0.2 s");
}

#[tokio::test]
async fn for_each_loops_expose_item_and_position() {
    for (items, expected) in [
        (
            "[a, 2, '{{.inputs.x}}']",
            "0/3 a true;1/3 2 false;2/3 given false;",
        ),
        ("'{{.inputs.list}}'", "0/2 x true;1/2 y false;"),
        ("'[\"p\"]'", "0/1 p true;"),
        ("[]", ""),
    ] {
        let stage = Stage::default();
        let text = format!(
            "
inputs: [{{name: x}}, {{name: list, type: array}}]
states:
  l: {{type: for_each, items: {items}, body: [say], on_complete: show}}
  say: {{type: command, command: 'printf \"{{{{.loop.index}}}}/{{{{.loop.length}}}} {{{{.loop.item}}}} {{{{.loop.first}}}};\" >> out'}}
  show: {{type: command, command: 'cat out 2>/dev/null; true'}}
"
        );
        let ended = stage
            .run(&text, &[("x", "given"), ("list", "[\"x\",\"y\"]")])
            .await;
        assert_eq!(ended.output, expected, "{items}: {}", ended.message);
    }
}

#[tokio::test]
async fn loops_nest_and_break_early() {
    let stage = Stage::default();
    let text = "
states:
  outer: {type: for_each, items: [A, B], body: [inner], on_success: show}
  inner: {type: for_each, items: [1, 2, 3], body: [say], break_when: 'loop.item == 2'}
  say: {type: command, command: 'printf {{.loop.parent.item}}{{.loop.item}} >> out'}
  show: {type: command, command: cat out}
";
    let ended = stage.run(text, &[]).await;
    assert_eq!(ended.output, "A1A2B1B2");
    assert_eq!(stage.begun()[2], "outer#1/0/inner#1/0/say#1.1");
}

#[tokio::test]
async fn a_while_loop_runs_while_its_condition_holds() {
    let text = |most: u32| {
        format!(
            "
states:
  test: {{type: command, command: 'test \"$(cat n 2>/dev/null)\" = xxx', continue_on_error: true, on_success: again}}
  again: {{type: while, while: states.test.ExitCode != 0, body: [more, test], max_iterations: {most}}}
  more: {{type: command, command: 'printf x >> n'}}
"
        )
    };
    let stage = Stage::default();
    let ended = stage.run(&text(9), &[]).await;
    assert_eq!(
        (ended.status, stage.place.read("n").as_str()),
        (Status::Success, "xxx")
    );
    let ended = Stage::default().run(&text(2), &[]).await;
    assert_eq!(
        ended.message,
        "state `again` failed: `states.test.ExitCode != 0` still holds after 2 iterations (`max_iterations`)"
    );
}

#[tokio::test]
async fn oversized_loops_do_not_start_and_a_failed_body_ends_a_loop() {
    let stage = Stage::default();
    let text = "states: {l: {type: for_each, items: [1, 2, 3], max_iterations: 2, body: [x]}, x: {type: command, command: 'true'}}";
    let ended = stage.run(text, &[]).await;
    assert_eq!(
        ended.message,
        "state `l` failed: there are 3 items, more than `max_iterations` (2)"
    );
    let stage = Stage::default();
    let text = "states: {l: {type: for_each, items: [1, 2, 3], body: [x]}, x: {type: command, command: 'test {{.loop.item}} = 1'}}";
    let ended = stage.run(text, &[]).await;
    assert_eq!(ended.status, Status::Failure);
    assert_eq!(stage.begun(), ["l#1.1", "l#1/0/x#1.1", "l#1/1/x#1.1"]);
}
