//! Where states lead: success and failure, transitions, retries, timeouts, ends.

use callgate_workflow::Status;

use crate::stage::Stage;

/// A workflow, and how it ends: the status, the message, the output, the states that were begun.
struct Case {
    text: &'static str,
    status: Status,
    message: &'static str,
    output: &'static str,
    begun: &'static [&'static str],
}

async fn check(case: &Case) {
    let stage = Stage::default();
    stage
        .fake
        .fails
        .lock()
        .expect("no thread panicked")
        .extend([("flaky".to_owned(), 2), ("broken".to_owned(), 99)]);
    let ended = stage.run(case.text, &[]).await;
    let seen = (ended.status, ended.message.as_str(), ended.output.as_str());
    assert_eq!(
        seen,
        (case.status, case.message, case.output),
        "{}",
        case.text
    );
    assert_eq!(stage.begun(), case.begun, "{}", case.text);
}

#[tokio::test]
async fn states_follow_their_transitions() {
    let success = Status::Success;
    let failure = Status::Failure;
    for case in [
        Case {
            text: "states: {a: {type: command, command: 'echo hello'}}",
            status: success,
            message: "",
            output: "hello",
            begun: &["a#1.1"],
        },
        Case {
            text: "states: {a: {type: command, command: 'echo no >&2; exit 3'}}",
            status: failure,
            message: "state `a` failed: no",
            output: "",
            begun: &["a#1.1"],
        },
        Case {
            text: "states: {a: {type: command, command: 'exit 3', on_failure: {message: 'code {{.states.a.ExitCode}}', status: failure}}}",
            status: failure,
            message: "code 3",
            output: "",
            begun: &["a#1.1"],
        },
        Case {
            text: "states: {a: {type: command, command: 'exit 3', on_failure: b}, b: {type: terminal, status: success, message: fine}}",
            status: success,
            message: "fine",
            output: "",
            begun: &["a#1.1"],
        },
        Case {
            text: "states: {a: {type: command, command: 'echo x; exit 3', continue_on_error: true, on_success: b}, b: {type: command, command: 'echo {{.states.a.Output}}-{{.states.a.Status}}'}}",
            status: success,
            message: "",
            output: "x-failure",
            begun: &["a#1.1", "b#1.1"],
        },
        Case {
            text: "states: {a: {type: command, command: 'echo 7', output_format: json, transitions: [{when: states.a.JSON > 9, goto: b}, {when: states.a.JSON > 5, goto: c}], on_success: b}, b: {type: terminal, status: failure}, c: {type: terminal, status: success, message: seven}}",
            status: success,
            message: "seven",
            output: "7",
            begun: &["a#1.1"],
        },
        Case {
            text: "states: {a: {type: command, command: 'echo 7', transitions: [{when: states.a.JSON > 9, goto: b}]}, b: {type: terminal}}",
            status: failure,
            message: "states.a.transitions[0].when: `states.a.JSON` has no value",
            output: "7",
            begun: &["a#1.1"],
        },
        Case {
            text: "states: {a: {type: command, command: 'echo nope', output_format: json}}",
            status: failure,
            message: "state `a` failed: the output is not valid JSON: expected ident at line 1 column 2",
            output: "nope",
            begun: &["a#1.1"],
        },
        Case {
            text: "states: {a: {agent: {provider: claude, prompt: flaky}, retry: {max_attempts: 3}}}",
            status: success,
            message: "",
            output: "did flaky",
            begun: &["a#1.1", "a#1.2", "a#1.3"],
        },
        Case {
            text: "states: {a: {agent: {provider: claude, prompt: broken}, retry: {max_attempts: 2, initial_delay: 1ms, backoff: exponential, jitter: 0.5}}}",
            status: failure,
            message: "state `a` failed: broken fails",
            output: "",
            begun: &["a#1.1", "a#1.2"],
        },
        Case {
            text: "states: {a: {type: command, command: 'exit 4', retry: {max_attempts: 5, retryable_exit_codes: [7]}}}",
            status: failure,
            message: "state `a` failed with exit code 4",
            output: "",
            begun: &["a#1.1"],
        },
        Case {
            text: "states: {a: {type: command, command: 'sleep 600', timeout: 100ms}}",
            status: failure,
            message: "state `a` failed: timed out after 0.1 s",
            output: "",
            begun: &["a#1.1"],
        },
        Case {
            text: "states: {a: {type: operation, operation: p.wait, timeout: 100ms}}",
            status: failure,
            message: "state `a` failed: timed out after 0.1 s",
            output: "",
            begun: &["a#1.1"],
        },
        Case {
            text: "states: {a: {type: command, command: 'echo {{.env.FLOW_TEST}} {{.workflow.name}} {{.env.NOT_THERE_AT_ALL}}'}}",
            status: failure,
            message: "state `a` failed: command: `.env.NOT_THERE_AT_ALL` has no value",
            output: "",
            begun: &["a#1.1"],
        },
        Case {
            text: "states: {a: {type: command, command: 'true', dir: nowhere}}",
            status: failure,
            message: "state `a` failed: working folder `@/nowhere` does not exist",
            output: "",
            begun: &["a#1.1"],
        },
        Case {
            text: "states: {a: {type: command, command: 'true', depends_on: [b]}, b: {type: terminal}}",
            status: failure,
            message: "state `a` failed: it depends on `b`, which has not succeeded",
            output: "",
            begun: &["a#1.1"],
        },
    ] {
        if case.message.contains('@') {
            // The folder is another each time.
            let stage = Stage::default();
            let ended = stage.run(case.text, &[]).await;
            let folder = stage.place.path().display().to_string();
            assert_eq!(ended.message.replace(&folder, "@"), case.message);
            continue;
        }
        check(&case).await;
    }
}

#[tokio::test]
async fn a_cycle_of_states_is_limited_in_visits() {
    let stage = Stage::default();
    let text = "
states:
  initial: test
  test: {type: command, command: 'test -f fixed', on_success: done, on_failure: fix}
  fix: {type: command, command: 'test -f first && touch fixed; touch first', on_success: test}
  done: {type: terminal, status: success}
";
    let ended = stage.run(text, &[]).await;
    assert_eq!(ended.status, Status::Success);
    let expected = ["test#1.1", "fix#1.1", "test#2.1", "fix#2.1", "test#3.1"];
    assert_eq!(stage.begun(), expected);
    let text = "states: {a: {type: operation, operation: p.x, on_success: a}}";
    let ended = Stage::default().run(text, &[]).await;
    assert_eq!(ended.status, Status::Failure);
    assert_eq!(ended.message, "state `a` was visited more than 1000 times");
}

#[tokio::test]
async fn inputs_of_operations_keep_their_types() {
    let stage = Stage::default();
    let text = "
inputs: [{name: n, type: integer}, {name: list, type: array}]
states:
  a:
    type: operation
    operation: p.do
    inputs: {n: '{{.inputs.n}}', text: 'n is {{.inputs.n}}', deep: {list: '{{.inputs.list}}', yes: true}}
    on_success: b
  b: {type: command, command: 'echo {{.states.a.JSON.deep.list.0}} {{.states.a.Output}}'}
";
    let ended = stage.run(text, &[("n", "7"), ("list", "[\"x\"]")]).await;
    assert_eq!(ended.output, "x operated");
    let expected = r#"p.do {"n":7,"text":"n is 7","deep":{"list":["x"],"yes":true}}"#;
    assert_eq!(stage.fake.lines(), [expected]);
}

#[tokio::test]
async fn prompts_are_read_from_files_beside_the_workflow() {
    let stage = Stage::default();
    stage.place.file("task.md", "do {{.inputs.what}}");
    let text = "
inputs: [{name: what}]
states:
  a: {type: agent, provider: gemini, prompt_file: task.md, output_format: json, continue_on_error: true, on_success: b}
  b: {type: agent, provider: gemini, prompt_file: none.md}
";
    let ended = stage.run(text, &[("what", "it")]).await;
    assert_eq!(stage.fake.lines(), ["a off [] do it"]);
    assert!(ended.message.contains("none.md"), "{}", ended.message);
}
