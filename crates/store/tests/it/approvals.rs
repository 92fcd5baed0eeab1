//! Approvals in their database, beyond what every backend promises.

mod sealed;

use std::path::Path;

use callgate_gate::Digest;
use callgate_record::{
    Approval, Approvals as _, Approver, AskOutcome, DecisionChannel, HeldCallExcerpt, Question,
};
use callgate_store::{ApprovalStore, Log};
use jiff::{SignedDuration, Timestamp};

use crate::support::new_id;

/// What a sealed call is made of; it is written only here.
const SEALED: &str = "sealed-call-bytes";

fn question(of: &str) -> Question {
    Question {
        asking: HeldCallExcerpt {
            record_id: new_id(),
            tenant: "local".to_owned(),
            principal: "agent".to_owned(),
            agent: "tester".to_owned(),
            session_id: "s1".to_owned(),
            server: "fs".to_owned(),
            tool: "delete".to_owned(),
            arguments: r#"{"a":1}"#.to_owned(),
            arguments_bytes: 7,
            arguments_whole: true,
            others: None,
            definition: None,
            rule: "require_approval:mcp_tool:*:*".to_owned(),
            reason: "it deletes".to_owned(),
            checks: Vec::new(),
            flags: Vec::new(),
        },
        sealed: format!("key-mark{}", SEALED.repeat(2000)).into_bytes(),
        joins: false,
        binding: Digest::of(of.as_bytes()),
        named: None,
        expire_after: SignedDuration::from_secs(3600),
        valid_for: SignedDuration::from_secs(300),
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).expect("a time")
}

fn by(principal: &str) -> Approver {
    Approver {
        principal: principal.to_owned(),
        person: None,
        tenant: None,
        way: DecisionChannel::Api,
    }
}

fn store(dir: &Path, log: &Log) -> ApprovalStore {
    ApprovalStore::new(dir, Some(log.writer()))
}

fn pending(asked: AskOutcome) -> Approval {
    match asked {
        AskOutcome::Pending { approval, .. } => *approval,
        other => panic!("it is not pending: {other:?}"),
    }
}

fn ask(store: &ApprovalStore, of: &str, now: i64) -> AskOutcome {
    store
        .ask(&question(of), new_id(), at(now))
        .expect("it asks")
}

#[test]
fn a_deleted_database_is_noticed_and_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let log = crate::support::open(dir.path());
    let store = store(dir.path(), &log);
    pending(ask(&store, "one", 0));
    let lost = pending(ask(&store, "two", 0)).id;
    let (mark, _) = store.changes(None, at(1)).unwrap();
    for file in [
        "approvals.sqlite",
        "approvals.sqlite-wal",
        "approvals.sqlite-shm",
    ] {
        let _ = std::fs::remove_file(dir.path().join(file));
    }
    assert_eq!(store.get(&lost, at(1)).unwrap(), None);
    let asked = pending(ask(&store, "three", 1)).id;
    let (_, changed) = store.changes(Some(mark), at(2)).unwrap();
    let changed: Vec<_> = changed.into_iter().map(|approval| approval.id).collect();
    assert_eq!(changed, [asked]);
}
