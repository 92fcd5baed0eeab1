//! Calls that need a person: held, released once, and never made without.

use std::time::Duration;

use callgate_call::{ApprovalService, ApprovalSettings};
use callgate_gate::ApprovalId;
use callgate_record::{Answer, Approver, DecisionChannel};
use tokio_util::sync::CancellationToken;

use crate::stage::{Setting, Stage, json, refusal, replies, tool_call};

const FINE: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"ok"}]}}"#;

fn asking(wait: Duration) -> Stage {
    let settings = ApprovalSettings {
        wait,
        base_url: "http://gate".to_owned(),
        ..ApprovalSettings::default()
    };
    let setting = Setting {
        settings: Some(settings),
        ..Setting::default()
    };
    setting.played_by(replies(FINE))
}

fn approval_service(stage: &Stage) -> &ApprovalService {
    stage.path.approval_service().expect("people are there")
}

async fn decide(stage: &Stage, answer: Answer) -> ApprovalId {
    let id = stage.people.newest().expect("it was asked").id;
    let by = Approver {
        principal: "admin".to_owned(),
        person: None,
        tenant: None,
        way: DecisionChannel::Api,
    };
    approval_service(stage)
        .resolve(&id, answer, by)
        .await
        .expect("it counts");
    id
}

/// Waits until a call is held, on record and all.
async fn held(stage: &Stage) {
    while stage.journal.story().is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn calls_needing_approval_are_refused_without_approvers() {
    let stage = Stage::played_by(replies(FINE));
    let told = refusal(&stage.call("fs__delete").await);
    assert_eq!(
        told,
        "[callgate] Action denied by policy.\nReason: it needs approval, but this gateway has no approval service\nRule: deny:gateway:no_approvals"
    );
    assert_eq!(stage.journal.story(), ["owe refused Blocked"]);
}

#[tokio::test]
async fn a_held_call_runs_once_when_resent_after_approval() {
    let stage = asking(Duration::ZERO);
    let answer = stage.call("fs__delete").await;
    let id = stage.people.newest().expect("it was asked").id;
    let url = format!("http://gate/approvals/{id}");
    let told = refusal(&answer);
    assert!(
        told.starts_with("[callgate] Action requires approval.\nReason: `fs:delete` "),
        "{told}"
    );
    let end = format!("\nApproval ID: {id}\nApprove at: {url}");
    assert!(told.ends_with(&end), "{told}");
    let meta = &answer["result"]["_meta"];
    for prefix in ["dev.callgate", "dev.agentguard"] {
        assert_eq!(meta[format!("{prefix}/approval_id")], id.as_str());
        assert_eq!(meta[format!("{prefix}/approval_url")], url);
    }
    let again = refusal(&stage.call("fs__delete").await);
    assert!(again.ends_with(&end), "one question for one call: {again}");
    decide(&stage, Answer::Approve).await;
    let done = stage.call("fs__delete").await;
    assert_eq!(done["result"]["content"][0]["text"], "ok");
    let another = refusal(&stage.call("fs__delete").await);
    assert!(!another.contains(id.as_str()), "it is used up: {another}");
    assert_eq!(
        stage.journal.story(),
        [
            "append held Blocked",
            "append held Blocked",
            "owe event approval.approved",
            "append forwarding",
            "reached",
            "owe finished Success Done",
            "append held Blocked",
        ]
    );
    assert_eq!(*stage.people.notes.lock().unwrap(), ["resolved", "used"]);
}

#[tokio::test]
async fn a_denial_is_answered_and_recorded() {
    let stage = asking(Duration::ZERO);
    stage.call("fs__delete").await;
    decide(&stage, Answer::Deny).await;
    let told = refusal(&stage.call("fs__delete").await);
    assert_eq!(
        told,
        "[callgate] Action denied by policy.\nReason: an approver denied this call\nRule: require_approval:mcp_tool:*:*"
    );
    let story = stage.journal.story();
    assert_eq!(
        story[1..],
        ["owe event approval.denied", "owe refused Rejected"]
    );
}

#[tokio::test]
async fn a_call_whose_hold_cannot_be_recorded_is_refused() {
    let stage = asking(Duration::ZERO);
    stage.journal.refuse();
    assert!(refusal(&stage.call("fs__delete").await).ends_with("\nRule: deny:gateway:no_record"));
    assert_eq!(stage.journal.story(), ["append refused"]);
}

#[tokio::test]
async fn an_approval_is_returned_when_its_call_cannot_be_recorded() {
    let stage = asking(Duration::ZERO);
    stage.call("fs__delete").await;
    decide(&stage, Answer::Approve).await;
    stage.journal.refuse();
    assert!(refusal(&stage.call("fs__delete").await).ends_with("\nRule: deny:gateway:no_record"));
    stage.journal.take_again();
    let done = stage.call("fs__delete").await;
    assert_eq!(done["result"]["content"][0]["text"], "ok");
    let notes = stage.people.notes.lock().unwrap().clone();
    assert_eq!(notes, ["resolved", "given back", "used"]);
    assert_eq!(stage.frames().len(), 1);
}

#[tokio::test]
async fn a_waiting_call_continues_when_approved() {
    let stage = asking(Duration::from_secs(60));
    let stop = CancellationToken::new();
    let following = tokio::spawn(approval_service(&stage).clone().follow(stop.clone()));
    let mut waiting = stage.start(&tool_call("7", "fs__delete"));
    held(&stage).await;
    decide(&stage, Answer::Approve).await;
    let done = json(&waiting.answer().await.expect("it is answered"));
    assert_eq!(done["result"]["content"][0]["text"], "ok");
    let story = stage.journal.story();
    assert_eq!(story[0], "append held Pending");
    let end = ["append forwarding", "reached", "owe finished Success Done"];
    assert_eq!(story[2..], end, "one record, which ends well");
    stop.cancel();
    following.await.unwrap();
}

#[tokio::test]
async fn a_call_whose_wait_expires_is_answered_with_its_approval_id() {
    let stage = asking(Duration::from_secs(2));
    let told = refusal(&stage.call("fs__delete").await);
    let id = stage.people.newest().expect("it was asked").id;
    assert!(told.contains(id.as_str()), "{told}");
    assert_eq!(
        stage.journal.story(),
        ["append held Pending", "owe refused Rejected"]
    );
}

#[tokio::test]
async fn a_dropped_request_releases_its_waiting_call() {
    let stage = asking(Duration::from_secs(600));
    let waiting = stage.start(&tool_call("7", "fs__delete"));
    held(&stage).await;
    drop(waiting);
    let given_up = stage.path.drain(Duration::from_secs(20)).await;
    assert_eq!(given_up, 0);
    assert_eq!(
        stage.journal.story(),
        ["append held Pending", "owe refused Cancelled"]
    );
}
