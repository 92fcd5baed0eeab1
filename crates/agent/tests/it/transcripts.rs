//! Transcripts: what was told of a step is kept, without secrets.

use std::os::unix::fs::PermissionsExt as _;

use callgate_agent::{AgentKind, NoTranscript, Proxy, StepEvent, Transcripts};
use callgate_testkit::agents::AgentScript;
use serde_json::json;

use crate::stage::{Stage, call, isolated};

#[tokio::test]
async fn a_transcript_has_the_events_of_its_step_without_secrets() {
    let stage = Stage::denying("Write");
    let secret = "password=hunter2-hunter2";
    stage.script(AgentScript {
        calls: vec![
            call("Write", json!({"text": secret})),
            call("Read", json!({"n": 1})),
        ],
        text: format!("it is {secret}"),
        ..isolated(AgentKind::Claude)
    });
    let outcome = stage.run(&stage.step(AgentKind::Claude, Proxy::Full)).await;
    let outcome = outcome.unwrap();
    assert!(outcome.text.contains("hunter2"), "the output is unchanged");
    assert_eq!(outcome.calls.refused, 1);
    assert_eq!(outcome.unmet[0].tool, "Write");

    let transcripts = Transcripts::of(&stage.path("data"));
    assert_eq!(transcripts.steps(), [outcome.step.as_str()]);
    let kept = transcripts.read(&outcome.step).unwrap();
    let told = stage.events();
    assert_eq!(kept.len(), told.len());
    let kinds = |events: Vec<&StepEvent>| -> Vec<String> {
        let kind = |event: &StepEvent| json!(event)["type"].as_str().unwrap().to_owned();
        events.into_iter().map(kind).collect()
    };
    let of_kept = kinds(kept.iter().map(|kept| &kept.event).collect());
    assert_eq!(of_kept, kinds(told.iter().collect()));
    let file = stage.path(&format!("data/agents/{}.jsonl", outcome.step));
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("hunter2"), "{text}");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_name_that_is_no_id_reads_no_file() {
    let stage = Stage::new();
    stage.file("data/agents/../x.jsonl", "{}");
    let transcripts = Transcripts::of(&stage.path("data"));
    for name in ["../x", "", "x", "01ARZ3NDEKTSV4RRFFQ69G5FAV"] {
        let failed = transcripts.read(name).unwrap_err();
        assert!(matches!(failed, NoTranscript::Unknown(_)), "{name}");
    }
}
