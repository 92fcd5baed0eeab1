//! A store that fails: what may go on, and what is on record of it afterwards.

use callgate_gate::{ApprovalId, Consent, Permit, Verdict};
use callgate_record::{Decision, Effect, Entry, OnFailure, Status};
use serde_json::json;

use crate::given::{How, attempt, call, held, permitted, recorder, written};

fn read() -> Permit {
    permitted(call("read", &json!({"path": "a"})))
}

/// A permit that rests on a person's approval.
fn approved() -> Permit {
    let hold = held(call("read", &json!({})));
    let approval = ApprovalId::from_random([7; 16]);
    let consent = Consent::approved(approval, hold.binding());
    match hold.release(consent) {
        Verdict::Permit(permit) => permit,
        other => panic!("it was approved: {other:?}"),
    }
}

#[tokio::test]
async fn a_forward_without_a_written_entry_is_an_error() {
    let (recorder, memory) = recorder(OnFailure::Refuse);
    memory.fill();
    let error = recorder.forwarding(read()).await.unwrap_err();
    let told = error.to_string();
    assert!(
        told.starts_with("could not write the activity log: disk full"),
        "{told}"
    );
    let entries = memory.entries();
    let [(How::Owed, Entry::Refused(refused))] = &entries[..] else {
        panic!("only its refusal remains: {entries:?}");
    };
    assert_eq!(refused.status, Some(Status::Rejected));
    let error = refused.error.as_ref().map(|error| error.message.as_str());
    assert!(error.is_some_and(|error| error.contains("disk full")));
    assert_eq!(refused.approval_id, None, "its approval is not used");
}

#[tokio::test]
async fn on_failure_allow_queues_the_missing_entry() {
    let (recorder, memory) = recorder(OnFailure::Allow);
    memory.fill();
    let (recorded, _open) = recorder.forwarding(read()).await.unwrap();
    let entries = memory.entries();
    let [
        (How::Owed, Entry::Forwarding(call)),
        (How::Owed, Entry::Event(event)),
    ] = &entries[..]
    else {
        panic!("{entries:?}");
    };
    assert_eq!(call.id, recorded.call().attempt.id);
    assert_eq!(event.name, "record.allowed_without");
    assert_eq!(event.reason.as_deref(), Some("disk full, token=[redacted]"));
}

#[tokio::test]
async fn an_entry_that_is_not_durable_is_withdrawn_with_its_call() {
    let (recorder, memory) = recorder(OnFailure::Refuse);
    memory.lose_disk();
    recorder.forwarding(read()).await.unwrap_err();
    let entries = memory.entries();
    let [
        (How::Appended, Entry::Forwarding(call)),
        (How::Owed, Entry::Finished(end)),
    ] = &entries[..]
    else {
        panic!("{entries:?}");
    };
    assert_eq!(end.id, call.id);
    assert_eq!(
        (end.status, end.effect),
        (Status::Rejected, Effect::None),
        "nothing was sent"
    );
    let error = written(&entries[1].1)["error"].clone();
    assert_eq!(
        error,
        json!({"code": 0, "message": "could not write the activity log: disk gone"})
    );
}

#[tokio::test]
async fn on_failure_allow_notes_an_entry_that_is_not_durable() {
    let (recorder, memory) = recorder(OnFailure::Allow);
    memory.lose_disk();
    let _open = recorder.forwarding(read()).await.unwrap();
    let kinds = [(How::Appended, "forwarding"), (How::Owed, "event")];
    assert_eq!(
        memory.kinds(),
        kinds.map(|(how, kind)| (how, kind.to_owned()))
    );
}

/// The entry is what uses the approval up: without it the same yes could be used again.
#[tokio::test]
async fn an_approved_call_is_never_forwarded_without_a_record() {
    for lose in [true, false] {
        let (recorder, memory) = recorder(OnFailure::Allow);
        if lose {
            memory.lose_disk()
        } else {
            memory.fill()
        }
        recorder.forwarding(approved()).await.unwrap_err();
    }
    let (recorder, memory) = recorder(OnFailure::Allow);
    let _open = recorder.forwarding(approved()).await.unwrap();
    assert_eq!(
        memory.call().approval_id,
        Some(ApprovalId::from_random([7; 16]))
    );
}

#[tokio::test]
async fn scripts_holds_and_checks_always_need_a_record() {
    let (recorder, memory) = recorder(OnFailure::Allow);
    memory.fill();
    let script = attempt(
        "tools/call",
        &json!({"name": "run", "arguments": {"code": "1"}}),
    );
    assert!(recorder.running(&script).await.is_err());
    let hold = held(call("read", &json!({})));
    assert!(recorder.held(&hold, None, Status::Pending).await.is_err());
    let checked = recorder.checked(hold.call(), hold.ruling(), Decision::Allow, None);
    assert!(checked.await.is_err());
    assert_eq!(memory.entries().len(), 0);
}

/// It has happened, so a store that fails cannot undo it.
#[tokio::test]
async fn the_end_of_a_call_is_queued_when_the_store_fails() {
    let (recorder, memory) = recorder(OnFailure::Refuse);
    let (_, open) = recorder.forwarding(read()).await.unwrap();
    memory.fill();
    memory.lose_disk();
    let outcome = callgate_record::Outcome {
        status: Status::Unknown,
        effect: Effect::Unknown,
        duration_us: 1,
        response: None,
        error: None,
    };
    recorder.finished(open, outcome).await;
    let kinds = [(How::Appended, "forwarding"), (How::Owed, "finished")];
    assert_eq!(
        memory.kinds(),
        kinds.map(|(how, kind)| (how, kind.to_owned()))
    );
}
