//! Loops, run with real commands.

use callgate_workflow::Status;

use crate::stage::Stage;

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
    // Of a state outside of the loop that has not run: the loop does not begin.
    let text = text.replace("check.Output !=", "done.Output !=");
    let ended = Stage::default().run(&text, &[]).await;
    assert_eq!(ended.message, "after 0");
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
        ("'{{trimSpace `3`}}'", "aaa"),
        ("'{{if eq .inputs.n 2}}1{{else}}2{{end}} + 1'", "aa"),
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
