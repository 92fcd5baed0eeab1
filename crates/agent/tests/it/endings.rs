//! How a step ends: what is believed of an agent, and what is left behind.

use std::{path::Path, time::Duration};

use callgate_agent::{AgentKind, Proxy, StepEvent, StepFailed};
use callgate_record::Entry;
use callgate_testkit::agents::{AgentScript, Misbehave};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::stage::{Stage, call, isolated};

async fn failure(kind: AgentKind, misbehave: Misbehave) -> StepFailed {
    let stage = Stage::new();
    stage.script(AgentScript {
        misbehave,
        ..isolated(kind)
    });
    let ended = stage.run(&stage.step(kind, Proxy::Full)).await;
    ended.expect_err("a step that went wrong has failed")
}

#[tokio::test]
async fn agents_that_list_tools_and_report_success_succeed() {
    for kind in AgentKind::PROGRAMS {
        let stage = Stage::new();
        stage.script(isolated(*kind));
        let outcome = stage.run(&stage.step(*kind, Proxy::Full)).await.unwrap();
        assert_eq!(outcome.text, "all is well", "{kind}");
        assert_eq!((outcome.tokens.input, outcome.tokens.output), (100, 20));
        assert_eq!(outcome.bypassed, 0, "{kind}");
    }
}

#[tokio::test]
async fn success_without_a_tool_list_is_a_failure() {
    for kind in AgentKind::PROGRAMS {
        for misbehave in [Misbehave::NoServer, Misbehave::ServerCrashes] {
            let failed = failure(*kind, misbehave).await;
            let StepFailed::NoTools { stderr } = &failed else {
                panic!("{kind}: {failed}");
            };
            // What the agent itself says about why it could not start.
            let says = misbehave == Misbehave::NoServer;
            assert_eq!(stderr == "no login was found", says, "{kind}: {stderr}");
        }
    }
}

#[tokio::test]
async fn exit_code_0_without_a_final_event_is_a_failure() {
    for kind in AgentKind::PROGRAMS {
        let failed = failure(*kind, Misbehave::NoFinal).await;
        let StepFailed::NoFinalEvent { how, .. } = &failed else {
            panic!("{kind}: {failed}");
        };
        assert_eq!(how, "exit code 0", "{kind}");
    }
}

#[tokio::test]
async fn a_bad_exit_code_fails_despite_a_good_final_event() {
    for kind in AgentKind::PROGRAMS {
        let failed = failure(*kind, Misbehave::FinalThenFails).await;
        let told = failed.to_string();
        assert!(told.contains("exit code 9"), "{kind}: {told}");
    }
}

#[tokio::test]
async fn a_failed_final_event_fails_despite_exit_code_0() {
    for kind in AgentKind::PROGRAMS {
        let failed = failure(*kind, Misbehave::SaysFailed).await;
        assert_eq!(failed.to_string(), "the agent failed: it did not work");
    }
}

#[tokio::test]
async fn a_hanging_agent_is_stopped_at_its_timeout() {
    let stage = Stage::new();
    stage.script(AgentScript {
        misbehave: Misbehave::Hangs,
        ..isolated(AgentKind::Codex)
    });
    let mut step = stage.step(AgentKind::Codex, Proxy::Full);
    step.timeout = Some(Duration::from_secs(2));
    let failed = stage.run(&step).await.unwrap_err();
    assert!(matches!(failed, StepFailed::TimedOut(_)), "{failed}");
    let place = stage.path("").display().to_string();
    let left = callgate_testkit::processes_with(place.trim_end_matches('/'));
    assert_eq!(left, Vec::<u32>::new());
}

#[tokio::test]
async fn a_stopped_agent_fails_even_with_exit_code_0() {
    let stage = Stage::new();
    stage.script(AgentScript {
        misbehave: Misbehave::ExitsWellWhenTold,
        calls: vec![call("Read", json!({"path": "a"}))],
        ..isolated(AgentKind::Claude)
    });
    let step = stage.step(AgentKind::Claude, Proxy::Full);
    let stop = CancellationToken::new();
    let stopping = async {
        callgate_testkit::until("the call arrives", || !stage.reached().is_empty()).await;
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(stage.run_until(&step, stop.clone()), stopping);
    let failed = ended.unwrap_err();
    assert!(matches!(failed, StepFailed::Stopped), "{failed}");
}

#[tokio::test]
async fn the_private_folder_is_deleted_however_a_step_ends() {
    for misbehave in [Misbehave::No, Misbehave::NoFinal, Misbehave::FinalThenFails] {
        let stage = Stage::new();
        stage.script(AgentScript {
            misbehave,
            ..isolated(AgentKind::Claude)
        });
        let _ = stage.run(&stage.step(AgentKind::Claude, Proxy::Full)).await;
        let given = stage.given();
        let folder = Path::new(given.value("--mcp-config").unwrap()).parent();
        let folder = folder.unwrap();
        let name = folder.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with("callgate-step-"), "{name}");
        assert!(!folder.exists(), "{misbehave:?}");
    }
}

#[tokio::test]
async fn a_missing_program_is_named() {
    let stage = Stage::new();
    std::fs::remove_file(stage.path("bin/gemini")).unwrap();
    stage.script(isolated(AgentKind::Gemini));
    let failed = stage.run(&stage.step(AgentKind::Gemini, Proxy::Full)).await;
    let failed = failed.unwrap_err();
    let StepFailed::NotStarted { program, .. } = &failed else {
        panic!("{failed}");
    };
    assert_eq!(program, "gemini");
}

#[tokio::test]
async fn the_record_and_the_last_event_carry_the_steps_status() {
    for (misbehave, status) in [
        (Misbehave::No, "success"),
        (Misbehave::NoServer, "NO_TOOLS"),
        (Misbehave::NoFinal, "NO_FINAL_EVENT"),
    ] {
        let stage = Stage::new();
        stage.script(AgentScript {
            misbehave,
            ..isolated(AgentKind::OpenCode)
        });
        let _ = stage
            .run(&stage.step(AgentKind::OpenCode, Proxy::Full))
            .await;
        let Some(StepEvent::Finished { status: told, .. }) = stage.events().pop() else {
            panic!("{:?}", stage.events());
        };
        assert_eq!(told, status);
        let steps: Vec<String> = stage
            .entries()
            .into_iter()
            .filter_map(step_reason)
            .collect();
        assert_eq!(steps.len(), 1);
        let expected = format!("provider=opencode status={status}");
        assert!(steps[0].contains(&expected), "{steps:?}");
    }
}

fn step_reason(entry: Entry) -> Option<String> {
    match entry {
        Entry::Event(event) if event.name == "agent.step" => event.reason,
        _ => None,
    }
}
