//! Approvals as several processes see them: one decision, one use, whoever dies.

mod sealed;

use std::{path::Path, sync::Barrier, thread};

use callgate_gate::{ApprovalId, CallId, Digest};
use callgate_record::{
    Answer, Approval, ApprovalStatus, Approvals as _, Approver, Asked, Asking, Question,
    ResolveApprovalError, Store as _, Way, Which,
};
use callgate_store::{ApprovalStore, Log};
use jiff::{SignedDuration, Timestamp};

use crate::support::{forwarding, new_id, open};

/// What a sealed call is made of; it is written only here.
const SEALED: &str = "sealed-call-bytes";

fn question(of: &str) -> Question {
    Question {
        asking: Asking {
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
        way: Way::Api,
    }
}

fn store(dir: &Path, log: &Log) -> ApprovalStore {
    ApprovalStore::new(dir, Some(log.writer()))
}

fn pending(asked: Asked) -> Approval {
    match asked {
        Asked::Pending { approval, .. } => *approval,
        other => panic!("it is not pending: {other:?}"),
    }
}

fn ask(store: &ApprovalStore, of: &str, now: i64) -> Asked {
    store
        .ask(&question(of), new_id(), at(now))
        .expect("it asks")
}

fn approved(store: &ApprovalStore, of: &str) -> ApprovalId {
    let id = pending(ask(store, of, 0)).id;
    let resolved = store.resolve(&id, Answer::Approve, &by("admin"), at(1));
    assert!(resolved.expect("it is decided").is_new);
    id
}

fn is_claimed(asked: &Asked) -> bool {
    matches!(asked, Asked::Claimed(_))
}

#[test]
fn a_yes_is_for_one_call_and_survives_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let first = store(dir.path(), &log);
    let id = pending(ask(&first, "call", 0)).id;
    assert_eq!(
        pending(ask(&first, "call", 1)).id,
        id,
        "one question per call"
    );
    assert_ne!(pending(ask(&first, "other", 1)).id, id);
    drop(first);
    let decider = ApprovalStore::new(dir.path(), None);
    let resolved = decider.resolve(&id, Answer::Approve, &by("admin"), at(2));
    assert_eq!(resolved.unwrap().approval.status, ApprovalStatus::Approved);
    let second = store(dir.path(), &log);
    let claimed = ask(&second, "call", 3);
    let Asked::Claimed(claim) = &claimed else {
        panic!("{claimed:?}");
    };
    assert_eq!((&claim.id, &claim.approval), (&id, &id));
    assert_ne!(pending(ask(&second, "call", 4)).id, id, "it is taken");
    second.used(&id).unwrap();
    let now = second.get(&id, at(5)).unwrap().expect("it is kept");
    assert_eq!(now.status, ApprovalStatus::Used);
    assert!(now.used_by.is_some());
}

#[test]
fn what_is_given_back_can_be_used() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let store = store(dir.path(), &log);
    let id = approved(&store, "call");
    assert!(is_claimed(&ask(&store, "call", 2)));
    store.give_back(&id).unwrap();
    assert!(is_claimed(&ask(&store, "call", 3)));
}

#[test]
fn time_ends_questions_and_answers() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let store = store(dir.path(), &log);
    let id = pending(ask(&store, "call", 0)).id;
    let late = store.resolve(&id, Answer::Approve, &by("admin"), at(3600));
    assert!(
        matches!(
            late,
            Err(ResolveApprovalError::Settled(ApprovalStatus::Expired))
        ),
        "{late:?}"
    );
    assert_ne!(pending(ask(&store, "call", 3600)).id, id);
    let id = approved(&store, "second");
    assert_ne!(
        pending(ask(&store, "second", 301)).id,
        id,
        "valid until 301"
    );
    assert_eq!(
        store.get(&id, at(301)).unwrap().unwrap().status,
        ApprovalStatus::Expired
    );
    assert!(is_claimed(&ask(&store, "second", 300)));
}

#[test]
fn one_decision_counts_whoever_says_what() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let store = store(dir.path(), &log);
    let id = pending(ask(&store, "call", 0)).id;
    let own = store.resolve(&id, Answer::Approve, &by("agent"), at(1));
    assert!(matches!(own, Err(ResolveApprovalError::OwnCall)), "{own:?}");
    assert!(
        store
            .resolve(&id, Answer::Deny, &by("eve"), at(1))
            .unwrap()
            .is_new
    );
    assert!(
        !store
            .resolve(&id, Answer::Deny, &by("adam"), at(2))
            .unwrap()
            .is_new
    );
    let opposite = store.resolve(&id, Answer::Approve, &by("adam"), at(2));
    assert!(
        matches!(
            opposite,
            Err(ResolveApprovalError::Settled(ApprovalStatus::Denied))
        ),
        "{opposite:?}"
    );
    assert!(
        matches!(ask(&store, "call", 3), Asked::Denied(_)),
        "a no is remembered"
    );
    let nobody = ApprovalId::from_random([0; 16]);
    let unknown = store.resolve(&nobody, Answer::Deny, &by("eve"), at(1));
    assert!(matches!(unknown, Err(ResolveApprovalError::Unknown)));
}

#[test]
fn many_who_want_the_same_approval_share_one() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let id = approved(&store(dir.path(), &log), "call");
    let ready = Barrier::new(8);
    let claims: usize = thread::scope(|scope| {
        let one = || {
            let (ready, log, dir) = (&ready, &log, dir.path());
            scope.spawn(move || {
                let store = store(dir, log);
                ready.wait();
                usize::from(is_claimed(&ask(&store, "call", 2)))
            })
        };
        let all: Vec<_> = (0..8).map(|_| one()).collect();
        all.into_iter().map(|one| one.join().unwrap()).sum()
    });
    assert_eq!(claims, 1, "{id}");
}

fn claim_and_die(dir: &Path, forwards: bool) -> CallId {
    let log = open(dir);
    let store = store(dir, &log);
    approved(&store, "call");
    let call = new_id();
    let asked = store.ask(&question("call"), call, at(2)).unwrap();
    assert!(is_claimed(&asked));
    if forwards {
        log.append(&forwarding(call)).unwrap();
    } else {
        log.append(&forwarding(new_id())).unwrap();
    }
    call
}

#[test]
fn a_claim_of_the_dead_is_used_when_the_log_says_so_and_free_when_it_does_not() {
    for forwards in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let call = claim_and_die(dir.path(), forwards);
        let log = open(dir.path());
        let store = store(dir.path(), &log);
        let asked = ask(&store, "call", 3);
        assert_eq!(is_claimed(&asked), !forwards, "{asked:?}");
        let are_used = Which {
            status: Some(ApprovalStatus::Used),
            tenant: None,
        };
        let used: Vec<_> = store
            .list(&are_used, 10, at(3))
            .unwrap()
            .into_iter()
            .filter_map(|approval| approval.used_by)
            .collect();
        assert_eq!(used.contains(&call), forwards);
    }
}

#[test]
fn a_claim_of_the_living_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let living = open(dir.path());
    approved(&store(dir.path(), &living), "call");
    let asked = ask(&store(dir.path(), &living), "call", 2);
    assert!(is_claimed(&asked));
    let other = open(dir.path());
    let asked = ask(&store(dir.path(), &other), "call", 3);
    assert!(
        matches!(asked, Asked::Pending { is_new: true, .. }),
        "{asked:?}"
    );
}

#[test]
fn changes_of_any_process_are_seen_once() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let follower = store(dir.path(), &log);
    let (mark, none) = follower.changes(None, at(0)).unwrap();
    assert_eq!((mark, none.len()), (0, 0));
    let other = store(dir.path(), &log);
    let id = pending(ask(&other, "call", 0)).id;
    let (mark, seen) = follower.changes(Some(mark), at(0)).unwrap();
    assert_eq!(seen.len(), 1);
    let (mark, seen) = follower.changes(Some(mark), at(0)).unwrap();
    assert_eq!(seen.len(), 0);
    other.resolve(&id, Answer::Deny, &by("eve"), at(1)).unwrap();
    follower
        .resolve(
            &pending(ask(&follower, "own", 1)).id,
            Answer::Deny,
            &by("eve"),
            at(1),
        )
        .unwrap();
    let (mark, seen) = follower.changes(Some(mark), at(1)).unwrap();
    assert_eq!(seen.len(), 2);
    assert_eq!(follower.changes(Some(mark), at(1)).unwrap().1.len(), 0);
}

#[test]
fn decisions_stay_owed_until_they_are_on_record() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let store = store(dir.path(), &log);
    let id = approved(&store, "call");
    assert_eq!(
        store.unrecorded(at(1)).unwrap().len(),
        0,
        "not before its time"
    );
    assert_eq!(store.unrecorded(at(2)).unwrap().len(), 1);
    store.recorded(&id).unwrap();
    assert_eq!(store.unrecorded(at(2)).unwrap().len(), 0);
}

#[test]
fn one_process_announces_a_question() {
    let dir = tempfile::tempdir().unwrap();
    let id = {
        let log = open(dir.path());
        let asker = store(dir.path(), &log);
        let id = pending(ask(&asker, "call", 0)).id;
        let other = open(dir.path());
        assert!(
            !store(dir.path(), &other).announce(&id).unwrap(),
            "the asker lives"
        );
        id
    };
    let log = open(dir.path());
    let heir = store(dir.path(), &log);
    assert!(heir.announce(&id).unwrap(), "the asker died");
    assert!(!heir.announce(&id).unwrap(), "once");
}

#[test]
fn a_caller_may_have_so_many_open_questions() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let store = store(dir.path(), &log);
    for n in 0..100 {
        pending(ask(&store, &format!("call {n}"), 0));
    }
    assert!(matches!(
        ask(&store, "one more", 0),
        Asked::TooMany { limit: 100 }
    ));
    pending(ask(&store, "call 7", 0));
    assert_eq!(store.pending(at(0)).unwrap(), 100);
    assert_eq!(store.pending(at(3600)).unwrap(), 0);
}
