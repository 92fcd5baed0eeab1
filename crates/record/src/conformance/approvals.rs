//! Approvals: one decision, one use, and nothing kept longer than it is needed.

use callgate_gate::{ApprovalId, Digest};
use jiff::SignedDuration;

use super::sample::{at, new_id, open};
use crate::{
    Answer, Approval, ApprovalFilter, ApprovalStatus, Approvals, Approver, AskOutcome, Backend,
    CallVisibility, DecisionChannel, HeldCallExcerpt, Question, ResolveApprovalError,
};

/// A question about one call; the same text is the same call.
pub(super) fn question(of: &str) -> Question {
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
        // The first eight bytes stand for the key; backends compare only those.
        sealed: b"key-mark and the sealed call".to_vec(),
        joins: false,
        binding: Digest::of(of.as_bytes()),
        named: None,
        expire_after: SignedDuration::from_secs(3600),
        valid_for: SignedDuration::from_secs(300),
    }
}

pub(super) fn by(principal: &str) -> Approver {
    Approver {
        principal: principal.to_owned(),
        person: None,
        tenant: None,
        way: DecisionChannel::Api,
    }
}

#[track_caller]
pub(super) fn pending(asked: AskOutcome) -> Approval {
    match asked {
        AskOutcome::Pending { approval, .. } => *approval,
        other => panic!("it is not pending: {other:?}"),
    }
}

pub(super) fn ask(store: &dyn Approvals, of: &str, now: i64) -> AskOutcome {
    let asked = store.ask(&question(of), new_id(), at(now));
    asked.expect("it asks")
}

pub(super) fn decide(store: &dyn Approvals, id: &ApprovalId, answer: Answer, now: i64) {
    let resolved = store.resolve(id, answer, &by("admin"), at(now));
    assert!(resolved.expect("it is decided").is_new);
}

pub(super) fn approved(store: &dyn Approvals, of: &str) -> ApprovalId {
    let id = pending(ask(store, of, 0)).id;
    decide(store, &id, Answer::Approve, 1);
    id
}

pub(super) fn is_claimed(asked: &AskOutcome) -> bool {
    matches!(asked, AskOutcome::Claimed(_))
}

pub(super) fn an_approval_is_used_by_one_call(backend: &dyn Backend) {
    let stores = open(backend);
    let store = &*stores.approvals;
    let first = pending(ask(store, "call", 0));
    let id = first.id;
    assert_eq!(
        (first.status, first.sight),
        (ApprovalStatus::Pending, CallVisibility::Unreadable)
    );
    assert_eq!(
        pending(ask(store, "call", 1)).id,
        id,
        "one question per call"
    );
    assert_ne!(pending(ask(store, "other", 1)).id, id);
    let decider = backend.shared().expect("it opens").approvals;
    decide(&*decider, &id, Answer::Approve, 2);
    let claimed = ask(store, "call", 3);
    let AskOutcome::Claimed(claim) = &claimed else {
        panic!("{claimed:?}");
    };
    assert_eq!((&claim.id, &claim.approval), (&id, &id));
    assert_ne!(pending(ask(store, "call", 4)).id, id, "it is taken");
    store.used(&id).expect("it is kept");
    let now = store
        .get(&id, at(5))
        .expect("it is read")
        .expect("it is kept");
    assert_eq!(
        (now.status, now.sight),
        (ApprovalStatus::Used, CallVisibility::Redacted)
    );
    assert!(now.used_by.is_some());
    // A late give-back must not free an approval whose call ran.
    store.give_back(&id).expect("nothing happens");
    assert!(!is_claimed(&ask(store, "call", 6)), "used is used");
}

pub(super) fn a_returned_approval_can_be_used_again(backend: &dyn Backend) {
    let stores = open(backend);
    let store = &*stores.approvals;
    let id = approved(store, "call");
    assert!(is_claimed(&ask(store, "call", 2)));
    store.give_back(&id).expect("it is given back");
    let free = store
        .get(&id, at(2))
        .expect("it is read")
        .expect("it is kept");
    assert_eq!(
        (free.status, free.used_by),
        (ApprovalStatus::Approved, None)
    );
    assert!(is_claimed(&ask(store, "call", 3)));
}

pub(super) fn questions_and_approvals_expire(backend: &dyn Backend) {
    let stores = open(backend);
    let store = &*stores.approvals;
    let id = pending(ask(store, "call", 0)).id;
    let late = store.resolve(&id, Answer::Approve, &by("admin"), at(3600));
    assert!(
        matches!(
            late,
            Err(ResolveApprovalError::Settled(ApprovalStatus::Expired))
        ),
        "{late:?}"
    );
    assert_ne!(pending(ask(store, "call", 3600)).id, id);
    let id = approved(store, "second");
    assert_ne!(pending(ask(store, "second", 301)).id, id, "valid until 301");
    let over = store.get(&id, at(301)).expect("it is read");
    assert_eq!(over.expect("it is kept").status, ApprovalStatus::Expired);
    // A clock that is set back revives neither the approval nor the question.
    assert_ne!(pending(ask(store, "second", 300)).id, id);
    let over = store.get(&id, at(2)).expect("it is read");
    assert_eq!(over.expect("it is kept").status, ApprovalStatus::Expired);
}

pub(super) fn the_first_decision_stands(backend: &dyn Backend) {
    let stores = open(backend);
    let store = &*stores.approvals;
    let id = pending(ask(store, "call", 0)).id;
    let own = store.resolve(&id, Answer::Approve, &by("agent"), at(1));
    assert!(matches!(own, Err(ResolveApprovalError::OwnCall)), "{own:?}");
    let resolve = |answer, identity: &str| store.resolve(&id, answer, &by(identity), at(2));
    assert!(resolve(Answer::Deny, "eve").expect("it counts").is_new);
    assert!(
        !resolve(Answer::Deny, "adam")
            .expect("the same again")
            .is_new
    );
    let opposite = resolve(Answer::Approve, "adam");
    assert!(
        matches!(
            opposite,
            Err(ResolveApprovalError::Settled(ApprovalStatus::Denied))
        ),
        "{opposite:?}"
    );
    let refused = ask(store, "call", 3);
    assert!(
        matches!(refused, AskOutcome::Denied(_)),
        "a no is remembered"
    );
    let unknown = ApprovalId::from_random([0; 16]);
    let unknown = store.resolve(&unknown, Answer::Deny, &by("eve"), at(1));
    assert!(matches!(unknown, Err(ResolveApprovalError::Unknown)));
}

pub(super) fn an_approver_of_another_tenant_sees_nothing(backend: &dyn Backend) {
    let stores = open(backend);
    let store = &*stores.approvals;
    let id = pending(ask(store, "call", 0)).id;
    let mut other = by("admin");
    other.tenant = Some("acme".to_owned());
    let refused = store.resolve(&id, Answer::Approve, &other, at(1));
    assert!(matches!(refused, Err(ResolveApprovalError::Unknown)));
    let of = |tenant: &str| {
        let which = ApprovalFilter {
            tenant: Some(tenant.to_owned()),
            ..ApprovalFilter::pending()
        };
        store.list(&which, 10, at(1)).expect("a list").len()
    };
    assert_eq!((of("acme"), of("local")), (0, 1));
}

pub(super) fn decisions_stay_queued_until_they_are_recorded(backend: &dyn Backend) {
    let stores = open(backend);
    let store = &*stores.approvals;
    let id = approved(store, "call");
    let owed = |now| store.unrecorded(at(now)).expect("it is read").len();
    assert_eq!(owed(1), 0, "not before its time");
    assert_eq!(owed(2), 1);
    store.recorded(&id).expect("it is kept");
    assert_eq!(owed(2), 0);
}

pub(super) fn open_questions_per_caller_are_limited(backend: &dyn Backend) {
    let stores = open(backend);
    let store = &*stores.approvals;
    for n in 0..100 {
        pending(ask(store, &format!("call {n}"), 0));
    }
    let refused = ask(store, "one more", 0);
    assert!(matches!(refused, AskOutcome::TooMany { limit: 100 }));
    let mut other = question("one more");
    other.asking.principal = "another".to_owned();
    pending(store.ask(&other, new_id(), at(0)).expect("it asks"));
    // A repeated question is not a new one: a caller at its limit can still ask for the decision.
    pending(ask(store, "call 7", 0));
    assert_eq!(store.pending(at(0)).expect("a count"), 101);
    assert_eq!(store.pending(at(3600)).expect("a count"), 0);
    assert_eq!(
        store
            .list(&ApprovalFilter::pending(), 7, at(0))
            .expect("a list")
            .len(),
        7
    );
}

pub(super) fn sealed_calls_are_erased_by_decision_and_expiry(backend: &dyn Backend) {
    let stores = open(backend);
    let store = &*stores.approvals;
    let is_sealed = |id: &ApprovalId| {
        let kept = store.questions(id, true).expect("it is read");
        kept[0].sealed.is_some()
    };
    for answer in [Answer::Approve, Answer::Deny] {
        let id = pending(ask(store, &format!("{answer:?}"), 0)).id;
        assert!(is_sealed(&id));
        // By another process, as the command line decides.
        decide(
            &*backend.shared().expect("it opens").approvals,
            &id,
            answer,
            1,
        );
        assert!(!is_sealed(&id), "{answer:?}");
    }
    let id = pending(ask(store, "call", 0)).id;
    store.erase(at(3599)).expect("it looks");
    assert!(is_sealed(&id), "it is still open");
    store.erase(at(3600)).expect("it is erased");
    assert!(!is_sealed(&id));
}

pub(super) fn a_call_sealed_with_a_lost_key_is_resealed_when_asked_again(backend: &dyn Backend) {
    let stores = open(backend);
    let store = &*stores.approvals;
    let id = pending(ask(store, "call", 0)).id;
    let mut again = question("call");
    again.sealed = b"new-key-".to_vec();
    store.ask(&again, new_id(), at(1)).expect("it asks");
    let sealed = || {
        store.questions(&id, true).expect("it is read")[0]
            .sealed
            .clone()
    };
    assert_eq!(sealed().as_deref(), Some(&b"new-key-"[..]));
    // Sealing the same call again gives other bytes. With the same key the stored ones are as good.
    again.sealed = b"new-key-other".to_vec();
    store.ask(&again, new_id(), at(2)).expect("it asks");
    assert_eq!(
        sealed().as_deref(),
        Some(&b"new-key-"[..]),
        "same key, same call"
    );
}

pub(super) fn further_questions_share_a_decision_and_are_each_used_once(backend: &dyn Backend) {
    let stores = open(backend);
    let store = &*stores.approvals;
    let id = pending(ask(store, "first", 0)).id;
    let join = |of: &str, now: i64| {
        let mut further = question(of);
        further.joins = true;
        further.named = Some(id.clone());
        pending(store.ask(&further, new_id(), at(now)).expect("it asks")).id
    };
    assert_eq!(join("second", 1), id);
    assert_eq!(store.pending(at(1)).expect("a count"), 1);
    assert_eq!(store.questions(&id, true).expect("it is read").len(), 2);
    assert_ne!(
        join("third", 2),
        id,
        "a person has seen it: nothing is added"
    );
    decide(store, &id, Answer::Approve, 3);
    assert_ne!(join("fourth", 4), id);
    for of in ["first", "second"] {
        let claimed = ask(store, of, 5);
        let AskOutcome::Claimed(claim) = &claimed else {
            panic!("{of}: {claimed:?}");
        };
        assert_eq!(claim.approval, id);
        store.used(&claim.id).expect("it is kept");
        assert_ne!(pending(ask(store, of, 6)).id, id, "{of} is used up");
    }
    assert!(!is_claimed(&ask(store, "third", 7)));
}
