//! Tools of a step: ours pass the gate, native ones are put on record.

use std::{fs, path::Path, process::Command};

use callgate_agent::{AgentKind, CallDecision, Proxy, StepEvent, Verdict};
use callgate_record::{CallEntry, Entry, Status};
use callgate_testkit::agents::AgentScript;
use serde_json::json;

use crate::stage::{Stage, call, isolated};

fn bypassed(stage: &Stage) -> Vec<CallEntry> {
    let entries = stage.entries().into_iter();
    let refused = entries.filter_map(|entry| match entry {
        Entry::Refused(call) => Some(*call),
        _ => None,
    });
    refused
        .filter(|call| call.status == Some(Status::Bypassed))
        .collect()
}

#[tokio::test]
async fn agent_calls_pass_the_gate_in_the_steps_session() {
    for kind in AgentKind::PROGRAMS {
        let stage = Stage::new();
        let arguments = json!({"path": "a\"\u{202e}é🦀"});
        stage.script(AgentScript {
            calls: vec![call("Write", arguments.clone())],
            ..isolated(*kind)
        });
        let outcome = stage.run(&stage.step(*kind, Proxy::Full)).await.unwrap();
        assert_eq!(stage.reached(), [arguments], "{kind}");
        let given = stage.given();
        assert_eq!(given.0["tools"], json!(["Read", "Write"]), "{kind}");
        let forwarded = stage.entries().into_iter().find_map(|entry| match entry {
            Entry::Forwarding(call) => Some(*call),
            _ => None,
        });
        let forwarded = forwarded.unwrap();
        assert_eq!(forwarded.session_id, outcome.step, "{kind}");
        assert_eq!(forwarded.principal, "user");
        let events = stage.events();
        let call = events.iter().find_map(|event| match event {
            StepEvent::Call(call) => Some(call),
            _ => None,
        });
        let call = call.unwrap();
        assert_eq!(
            (call.tool.as_str(), call.decision),
            ("Write", CallDecision::Allowed)
        );
        assert!(call.arguments.contains("⟨U+202E⟩"), "{}", call.arguments);
        let ended = |event: &StepEvent| matches!(event, StepEvent::CallEnded(ended) if ended.call == call.call && ended.status == "success");
        assert!(events.iter().any(ended), "{kind}: {events:?}");
        assert_eq!((outcome.calls.made, outcome.unmet.len()), (1, 0));
    }
}

#[tokio::test]
async fn native_tool_uses_are_recorded_as_bypassed() {
    for kind in AgentKind::PROGRAMS {
        let stage = Stage::new();
        stage.script(AgentScript {
            native: vec![
                call("Bash", json!({"command": "a\nb"})),
                call("Bash", json!({"command": "c"})),
            ],
            ..isolated(*kind)
        });
        let outcome = stage.run(&stage.step(*kind, Proxy::Full)).await.unwrap();
        assert_eq!(outcome.bypassed, 2, "{kind}");
        let recorded = bypassed(&stage);
        assert_eq!(recorded.len(), 2, "{kind}");
        assert_eq!(recorded[0].server.as_deref(), Some(kind.as_str()));
        assert_eq!(recorded[0].session_id, outcome.step);
        let told = stage.events().into_iter();
        let told = told.filter(|event| matches!(event, StepEvent::Bypassed { .. }));
        assert_eq!(told.count(), 2, "{kind}");
        assert_eq!(stage.reached(), Vec::<serde_json::Value>::new());
    }
}

#[tokio::test]
async fn native_tools_that_their_agent_refused_are_not_recorded_as_bypassed() {
    for kind in AgentKind::PROGRAMS {
        let stage = Stage::new();
        stage.script(AgentScript {
            native_refused: vec![call("Bash", json!({"command": "a"}))],
            ..isolated(*kind)
        });
        let outcome = stage.run(&stage.step(*kind, Proxy::Full)).await.unwrap();
        assert_eq!(outcome.bypassed, 0, "{kind}");
        let of_agent = stage.entries().into_iter().find_map(|entry| match entry {
            Entry::Refused(call) if call.server.as_deref() == Some(kind.as_str()) => Some(*call),
            _ => None,
        });
        let status = of_agent.and_then(|call| call.status);
        assert_eq!(status, Some(Status::Blocked), "{kind}");
        let told = |event: &StepEvent| matches!(event, StepEvent::NativeRefused { .. });
        assert!(stage.events().iter().any(told), "{kind}");
    }
}

#[tokio::test]
async fn unknown_agent_versions_cause_a_warning_and_a_prompt_suffix() {
    let stage = Stage::new();
    stage.script(AgentScript {
        version: "9.9.9".to_owned(),
        ..isolated(AgentKind::Claude)
    });
    let step = stage.step(AgentKind::Claude, Proxy::Full);
    stage.run(&step).await.unwrap();
    let warned = stage.events().into_iter().find_map(|event| match event {
        StepEvent::Warning { text } => Some(text),
        _ => None,
    });
    let warned = warned.expect("a warning");
    assert!(warned.contains("provider=claude runs in coexistence mode"));
    let prompt = "do it\n\nUse only MCP tools, never built-in tools";
    assert_eq!(stage.task(), prompt);
}

#[tokio::test]
async fn known_agent_versions_cause_no_warning() {
    let stage = Stage::new();
    stage.script(isolated(AgentKind::Claude));
    let step = stage.step(AgentKind::Claude, Proxy::Full);
    stage.run(&step).await.unwrap();
    let warns = |event: &StepEvent| matches!(event, StepEvent::Warning { .. });
    assert!(!stage.events().iter().any(warns));
    assert_eq!(stage.task(), "do it");
}

/// Puts another copy of a program in its place. `cp` writes it: a file that this process has open for writing could not be
/// started while one of its threads forks.
fn replace(program: &Path) {
    let fresh = program.with_extension("new");
    let mut cp = Command::new("cp");
    let copied = cp.arg("-L").arg(program).arg(&fresh).status().unwrap();
    assert!(copied.success());
    fs::rename(fresh, program).unwrap();
}

#[tokio::test]
async fn a_replaced_agent_program_is_asked_for_its_version_again() {
    let stage = Stage::new();
    stage.script(isolated(AgentKind::Codex));
    replace(&stage.path("bin/codex"));
    let verdict = || {
        let (warden, env) = (&stage.context.warden_program, &stage.context.env);
        let verdicts = &stage.context.verdicts;
        verdicts.of_installed(warden, AgentKind::Codex, env)
    };
    assert_eq!(verdict().await, Some(Verdict::Isolated));
    stage.script(AgentScript {
        version: "9.9.9".to_owned(),
        ..AgentScript::default()
    });
    let same = "the same program is not asked twice";
    assert_eq!(verdict().await, Some(Verdict::Isolated), "{same}");
    replace(&stage.path("bin/codex"));
    assert_eq!(verdict().await, None);
}

#[tokio::test]
async fn agents_without_a_program_are_always_isolated() {
    let stage = Stage::new();
    let (warden, env) = (&stage.context.warden_program, &stage.context.env);
    let verdicts = &stage.context.verdicts;
    let kind = AgentKind::OpenAiCompatible;
    let verdict = verdicts.of_installed(warden, kind, env).await;
    assert_eq!(verdict, Some(Verdict::Isolated));
}
