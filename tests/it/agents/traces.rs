//! Spans of steps: the calls of an agent are children of its step's span.

use callgate_testkit::agents::{AgentScript, FakeCall};
use callgate_testkit::{ChatModel, ChatReply};
use serde_json::json;

use super::{KNOWN, PROGRAMS, Stage};
use crate::shell::run;
use crate::telemetry::collector::{Collector, attribute, hex};

#[test]
fn spans_of_calls_are_children_of_their_step() {
    for (provider, version) in PROGRAMS
        .into_iter()
        .zip(KNOWN)
        .chain([("openai_compatible", "")])
    {
        let collector = Collector::start();
        let stage = Stage::with(&format!(
            "policy: allow-all\ntelemetry: {{otlp: '{}'}}\n",
            collector.url
        ));
        let arguments = json!({"path": "made", "content": "x"});
        stage.script(AgentScript {
            version: version.to_owned(),
            calls: vec![FakeCall {
                tool: "Write".to_owned(),
                arguments: arguments.clone(),
            }],
            ..AgentScript::default()
        });
        let model = ChatModel::start(vec![
            ChatReply::call(&[("Write", arguments)]),
            ChatReply::say("ok"),
        ]);
        let mut command = stage.agent(&[provider, "--prompt", "x", "--model", "m"]);
        let ran = run(command.env("OPENAI_BASE_URL", &model.url));
        assert_eq!(ran.code, Some(0), "{provider}: {}", ran.stderr);
        let spans =
            collector.spans_until(|spans| spans.iter().any(|span| span.name == "agent.step"));
        let named = |name: &str| {
            let found = spans.iter().find(|span| span.name == name);
            found.unwrap_or_else(|| panic!("{provider}: no {name}"))
        };
        let (step, call) = (named("agent.step"), named("tool.call.Write"));
        assert_eq!(call.parent_span_id, step.span_id, "{provider}");
        assert_eq!(call.trace_id, step.trace_id, "{provider}");
        assert_eq!(
            attribute(call, "tool.source").as_deref(),
            Some("builtin"),
            "{provider}"
        );
        assert_eq!(
            attribute(call, "tool.name").as_deref(),
            Some("Write"),
            "{provider}"
        );
        assert_eq!(attribute(step, "step.provider").as_deref(), Some(provider));
        if provider != "openai_compatible" {
            let given = stage.given();
            let parent = given["env"]["TRACEPARENT"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            assert!(
                parent.contains(&hex(&step.trace_id)),
                "{provider}: {parent}"
            );
        }
    }
}
