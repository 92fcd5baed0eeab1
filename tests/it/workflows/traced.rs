//! One trace for a run: the workflow, its states, the steps of agents, calls, commands and plugins.

use std::collections::BTreeMap;
use std::fs;

use callgate_testkit::agents::{AgentScript, FakeCall};
use callgate_testkit::goplugin::plugin::RawPlugin;
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::json;

use super::{in_desk, written};
use crate::agents::{KNOWN, Stage};
use crate::shell::run;
use crate::telemetry::collector::{Collector, hex};
use crate::upstreams_http::Remote;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

const FLOW: &str = "
name: ship
states:
  initial: local
  local: {agent: {provider: claude, prompt: x}, mcp_proxy: {enable: true, tools: ['near:read_thing']}, on_success: remote}
  remote: {agent: {provider: codex, prompt: x}, mcp_proxy: {enable: true, intercept_builtins: false}, tools: ['web:read_*'], on_success: tell}
  tell: {type: command, command: 'echo $TRACEPARENT > traceparent', on_success: last}
  last: {type: operation, operation: raw.echo, inputs: {text: x}}
";

/// Spans, each after those around it.
const PATHS: [&[&str]; 4] = [
    &[
        "workflow.ship",
        "state.local",
        "agent.step",
        "tool.call.near_read_thing",
    ],
    &[
        "workflow.ship",
        "state.remote",
        "agent.step",
        "tool.call.web_read_thing",
    ],
    &["workflow.ship", "state.tell", "command"],
    &["workflow.ship", "state.last", "tool.call.raw_echo"],
];

fn script(version: &str, tool: &str) -> AgentScript {
    AgentScript {
        version: version.to_owned(),
        calls: vec![FakeCall {
            tool: tool.to_owned(),
            arguments: json!({"key": "a"}),
        }],
        text: "done".to_owned(),
        ..AgentScript::default()
    }
}

/// The names of a span and of all spans around it, the outermost first.
fn path<'s>(spans: &'s [Span], span: &'s Span) -> Vec<&'s str> {
    let by_id: BTreeMap<&[u8], &Span> = spans
        .iter()
        .map(|span| (span.span_id.as_slice(), span))
        .collect();
    let mut names = vec![span.name.as_str()];
    let mut at = span;
    while let Some(around) = by_id.get(at.parent_span_id.as_slice()) {
        names.insert(0, &around.name);
        at = around;
    }
    names
}

/// A workflow with a server over stdio, one over HTTP, and a plugin.
fn stage(collector: &Collector, remote: &Remote) -> Stage {
    let stage = Stage::with(&format!(
        "policy: allow-all\ntelemetry: {{otlp: '{}'}}\nservers:\n  near: {{command: '@counter@', args: [--marker, '@dir@', --log, '@dir@/upstream.log']}}\n  web: {{url: '{}'}}\n",
        collector.url,
        remote.upstream.url()
    ));
    let raw = RawPlugin::with_all(stage.bed.path("plugin.log"));
    raw.install(&stage.bed.path("data/plugins"), "raw");
    written(&stage, FLOW);
    // Each agent has the tools of one server: it makes the call that it can.
    let mut both = script(KNOWN[0], "near_read_thing");
    both.calls.extend(script(KNOWN[0], "web_read_thing").calls);
    stage.script(both);
    stage
}

#[test]
fn a_run_with_agents_a_command_and_a_plugin_is_one_trace() {
    let (collector, remote) = (Collector::start(), Remote::start(&[]));
    let stage = stage(&collector, &remote);
    let mut command = in_desk(&stage, &["workflow", "run", "flow.yaml"]);
    command.env("TRACEPARENT", format!("00-{TRACE}-{PARENT}-01"));
    let ran = run(&mut command);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let spans =
        collector.spans_until(|spans| spans.iter().any(|span| span.name == "workflow.ship"));
    for span in &spans {
        assert_eq!(hex(&span.trace_id), TRACE, "{}", span.name);
    }
    let named = |name: &str| {
        let found = spans.iter().find(|span| span.name == name);
        found.unwrap_or_else(|| {
            panic!(
                "no {name} in {:?}",
                spans.iter().map(|span| &span.name).collect::<Vec<_>>()
            )
        })
    };
    assert_eq!(hex(&named("workflow.ship").parent_span_id), PARENT);
    for expected in PATHS {
        let name = expected.last().expect("a name");
        assert_eq!(path(&spans, named(name)), *expected);
    }
    // It is passed on: to servers over stdio and HTTP, to the command, to the plugin.
    let command = fs::read_to_string(stage.bed.path("desk/traceparent")).expect("it was told");
    let of_command = hex(&named("command").span_id);
    assert!(
        command.contains(TRACE) && command.contains(&of_command),
        "{command}"
    );
    assert!(stage.bed.read("upstream.log").contains(TRACE));
    let calls = remote.received("tools/call");
    assert!(
        calls.iter().any(|call| call.raw.contains(TRACE)),
        "{calls:?}"
    );
    assert!(stage.bed.read("plugin.trace").contains(TRACE));
    stage.assert_nothing_left();
}
