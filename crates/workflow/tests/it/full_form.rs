//! What the full form of a workflow refuses, as AWF does, and what is only a warning there.

use std::path::Path;

use callgate_workflow::read;

/// A file in the full form whose one state has these keys.
fn full(keys: &str) -> String {
    format!(
        "name: x\nversion: '1'\nstates: {{initial: a, a: {{{keys}}}, b: {{type: terminal}}, c: {{type: terminal}}}}\n"
    )
}

/// The codes of a file's errors and of its warnings, without those about states that nothing leads to.
fn codes(text: &str) -> (Vec<&'static str>, Vec<&'static str>) {
    let reading = read(text, Path::new("flow.yaml")).expect(text);
    let of = |is_error: bool| {
        let findings = reading.findings.iter();
        let findings = findings.filter(|one| one.code.as_str() != "USER.WORKFLOW.UNREACHABLE");
        let findings = findings.filter(|one| one.is_error() == is_error);
        findings.map(|one| one.code.as_str()).collect()
    };
    (of(true), of(false))
}

const STEP: &str = "type: step, command: x, on_success: b";
const AGENT: &str = "type: agent, provider: claude, on_success: b";

const TEMPLATE: &str = "USER.WORKFLOW.BAD_TEMPLATE";
const EXPRESSION: &str = "USER.WORKFLOW.BAD_EXPRESSION";
const IGNORED: &str = "USER.WORKFLOW.IGNORED_KEY";
const STATE: &str = "WORKFLOW.VALIDATION.MISSING_STATE";

/// Keys of a state with a mistake that AWF finds only once a run gets there, with the code of the warning. `AGENT` and
/// `STEP` stand for the keys above.
const LATE: &[(&str, &str)] = &[
    ("AGENT, prompt: '{{.inputs.none}}'", TEMPLATE),
    ("AGENT, prompt: '{{.states.none.Output}}'", TEMPLATE),
    (
        "type: agent, provider: someagent, prompt: x, on_success: b",
        "USER.WORKFLOW.FOREIGN_AGENT",
    ),
    ("AGENT, prompt: x, model: m", IGNORED),
    ("AGENT, prompt: x, options: {temperature: warm}", IGNORED),
    (
        "type: operation, operation: noop, on_success: b",
        "USER.MCP_PROXY.UNKNOWN_PLUGIN",
    ),
    (
        "type: operation, operation: p.x, inputs: {n: '{{.inputs.none}}'}, on_success: b",
        TEMPLATE,
    ),
    ("STEP, when: 'states.b.exit_code == 0'", EXPRESSION),
    ("STEP, when: '((('", EXPRESSION),
    (
        "STEP, transitions: [{when: 'states.none.Output == 1', goto: b}]",
        EXPRESSION,
    ),
    ("STEP, output_format: xml", IGNORED),
    (
        "STEP, capture: {max_size: much, encoding: latin-1}",
        IGNORED,
    ),
    (
        "STEP, hooks: {pre: [{log: x, command: y}], post: [{}]}",
        IGNORED,
    ),
    ("STEP, depends_on: [none]", STATE),
    ("STEP, on_failure: {message: m, status: 300}", IGNORED),
    ("STEP, on_failure: {message: m, status: bad}", IGNORED),
    ("type: parallel, parallel: [b, none], on_success: c", STATE),
    (
        "type: while, while: '((', body: [b], on_complete: c",
        EXPRESSION,
    ),
    (
        "type: while, while: 'true', body: [b], max_iterations: abc, on_complete: c",
        TEMPLATE,
    ),
];

#[test]
fn mistakes_that_only_matter_once_a_run_gets_there_are_warnings() {
    for (keys, code) in LATE {
        let keys = keys.replace("AGENT", AGENT).replace("STEP", STEP);
        let (errors, mut warnings) = codes(&full(&keys));
        warnings.dedup();
        assert_eq!((errors, warnings), (vec![], vec![*code]), "{keys}");
    }
    let inputs = "inputs: [{name: a, type: date}, {name: b, type: integer, default: x}, {name: c, validation: {pattern: '('}}, {type: string}, {name: a}]\n";
    let (errors, warnings) = codes(&format!("{inputs}{}", full(STEP)));
    assert_eq!((errors, warnings.len()), (vec![], 5));
    for keys in [
        "type: STEP, command: x, on_success: b, timeout: '', retry: {max_attempts: 5000, multiplier: 9999, backoff: ''}",
        "type: step, command: x, on_success: b, continue_on_error: yes, dir: '', on_failure: ''",
        "type: agent, provider: ' claude ', mode: Conversation, prompt: x, output_format: JSON, on_success: b",
        "type: parallel, parallel: [b], max_concurrent: 99999, strategy: '', on_success: c",
        "type: step, command: '{{if .env.X}}{{range $i, $x := split .env.X \",\"}}{{$x}}{{end}}{{end}}', on_success: b",
    ] {
        assert_eq!(codes(&full(keys)), (vec![], vec![]), "{keys}");
    }
}

const SYNTAX: &str = "WORKFLOW.PARSE.YAML_SYNTAX";

/// Keys of a state that the full form refuses, with the code.
const REFUSED: &[(&str, &str)] = &[
    ("command: x, on_success: b", SYNTAX),
    ("type: step, command: x", SYNTAX),
    ("type: step, command: '', on_success: b", SYNTAX),
    (
        "type: step, command: x, script_file: y, on_success: b",
        SYNTAX,
    ),
    (
        "type: step, command: x, on_success: b, on_failure: 3",
        SYNTAX,
    ),
    (
        "type: step, command: x, on_success: b, on_failure: {status: 3}",
        SYNTAX,
    ),
    (
        "type: step, command: x, on_success: b, retry: {max_attempts: 0}",
        SYNTAX,
    ),
    (
        "type: step, command: x, transitions: [{when: 'a = 1', goto: b}]",
        SYNTAX,
    ),
    ("type: terminal, status: failed", SYNTAX),
    (
        "type: agent, provider: custom, prompt: x, on_success: b",
        SYNTAX,
    ),
    (
        "type: agent, provider: claude, prompt: '', on_success: b",
        SYNTAX,
    ),
    (
        "type: agent, provider: claude, mode: conversation, prompt_file: x, on_success: b",
        SYNTAX,
    ),
    (
        "type: agent, provider: claude, prompt: x, role: ../up, on_success: b",
        SYNTAX,
    ),
    (
        "type: agent, provider: claude, prompt: x, skills: [''], on_success: b",
        SYNTAX,
    ),
    (
        "type: agent, provider: claude, prompt: x, conversation: {continue_from: none}, on_success: b",
        SYNTAX,
    ),
    (
        "type: parallel, parallel: [b], strategy: ALL_SUCCEED, on_success: c",
        SYNTAX,
    ),
    (
        "type: for_each, items: [1], body: [], on_complete: b",
        SYNTAX,
    ),
    (
        "type: while, while: 'true', body: [b], max_iterations: 10001, on_complete: c",
        SYNTAX,
    ),
    (
        "type: step, command: x, on_success: none",
        "WORKFLOW.VALIDATION.MISSING_STATE",
    ),
    (
        "type: while, while: 'true', body: [none], on_complete: c",
        "WORKFLOW.VALIDATION.MISSING_STATE",
    ),
    (
        "type: agent, provider: claude, prompt: x, on_success: b, mcp_proxy: {enable: true, plugin_tools: [{plugin: p, expose: [a]}, {plugin: p, expose: [b]}]}",
        "USER.MCP_PROXY.NAME_COLLISION",
    ),
    (
        "type: step, command: 'echo {{.states.a}}', on_success: b",
        "USER.WORKFLOW.BAD_TEMPLATE",
    ),
    (
        "type: step, command: 'echo {{.error.Message}}', on_success: b",
        "USER.WORKFLOW.BAD_TEMPLATE",
    ),
    (
        "type: step, command: 'echo {{.states.b.output}}', on_success: b",
        "USER.WORKFLOW.BAD_TEMPLATE",
    ),
];

#[test]
fn the_full_form_refuses_what_awf_refuses() {
    for (keys, code) in REFUSED {
        let (mut errors, _) = codes(&full(keys));
        errors.dedup();
        assert_eq!(errors, [*code], "{keys}");
    }
}
