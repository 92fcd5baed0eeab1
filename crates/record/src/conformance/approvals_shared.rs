//! Approvals shared by several writers: one use, also when a writer crashes.

use std::{sync::Barrier, thread};

use callgate_gate::CallId;

use super::{
    approvals::{approved, ask, decide, is_claimed, pending, question},
    sample::{at, forwarding, new_id, open},
};
use crate::{Answer, ApprovalFilter, ApprovalStatus, AskOutcome, Backend};

pub(super) fn racing_processes_claim_an_approval_once(backend: &dyn Backend) {
    const RACERS: usize = 8;
    let asker = open(backend);
    for round in 0..5 {
        let of = format!("call {round}");
        approved(&*asker.approvals, &of);
        let ready = Barrier::new(RACERS);
        let claims: usize = thread::scope(|scope| {
            let race = || {
                let stores = open(backend);
                ready.wait();
                let claimed = is_claimed(&ask(&*stores.approvals, &of, 2));
                // All writers stay open until the last has asked: the claim of a closed one would be free again.
                ready.wait();
                usize::from(claimed)
            };
            let racers: Vec<_> = (0..RACERS).map(|_| scope.spawn(race)).collect();
            racers
                .into_iter()
                .map(|one| one.join().expect("no panic"))
                .sum()
        });
        assert_eq!(claims, 1, "{of}");
    }
}

fn claim_and_die(backend: &dyn Backend, forwards: bool) -> CallId {
    let stores = open(backend);
    approved(&*stores.approvals, "call");
    let call = new_id();
    let asked = stores.approvals.ask(&question("call"), call, at(2));
    assert!(is_claimed(&asked.expect("it asks")));
    // The entry of another call must not count as the use of this approval.
    let forwarded = if forwards { call } else { new_id() };
    stores
        .log
        .append(&forwarding(forwarded))
        .expect("it is taken");
    call
}

pub(super) fn claims_of_crashed_processes_are_settled_from_the_log(backend: &dyn Backend) {
    // The second round gets a new approval: the first was used up.
    for forwards in [true, false] {
        let call = claim_and_die(backend, forwards);
        let stores = open(backend);
        let asked = ask(&*stores.approvals, "call", 3);
        assert_eq!(is_claimed(&asked), !forwards, "{asked:?}");
        let are_used = ApprovalFilter {
            status: Some(ApprovalStatus::Used),
            tenant: None,
        };
        let used = stores.approvals.list(&are_used, 10, at(3)).expect("a list");
        let by_it = used.iter().any(|approval| approval.used_by == Some(call));
        assert_eq!(by_it, forwards);
    }
}

pub(super) fn claims_of_live_processes_are_left_unchanged(backend: &dyn Backend) {
    let living = open(backend);
    approved(&*living.approvals, "call");
    assert!(is_claimed(&ask(&*living.approvals, "call", 2)));
    let other = open(backend);
    let asked = ask(&*other.approvals, "call", 3);
    assert!(
        matches!(asked, AskOutcome::Pending { is_new: true, .. }),
        "{asked:?}"
    );
}

pub(super) fn approval_changes_of_all_processes_are_seen_once(backend: &dyn Backend) {
    let (follower, other) = (open(backend), open(backend));
    let changes = |mark, now| {
        follower
            .approvals
            .changes(mark, at(now))
            .expect("it is read")
    };
    let (mark, none) = changes(None, 0);
    assert!(none.is_empty());
    let id = pending(ask(&*other.approvals, "call", 0)).id;
    let (mark, seen) = changes(Some(mark), 0);
    assert_eq!(seen.iter().map(|one| &one.id).collect::<Vec<_>>(), [&id]);
    let (mark, seen) = changes(Some(mark), 0);
    assert!(seen.is_empty());
    decide(&*other.approvals, &id, Answer::Deny, 1);
    let own = pending(ask(&*follower.approvals, "own", 1)).id;
    decide(&*follower.approvals, &own, Answer::Approve, 1);
    let (mark, seen) = changes(Some(mark), 1);
    assert_eq!(seen.len(), 2);
    assert!(changes(Some(mark), 1).1.is_empty());
    assert!(is_claimed(&ask(&*other.approvals, "own", 2)));
    other.approvals.used(&own).expect("it is kept");
    let (_, seen) = changes(Some(mark), 2);
    assert_eq!(seen[0].status, ApprovalStatus::Used);
}

pub(super) fn exactly_one_process_announces_a_question(backend: &dyn Backend) {
    let asker = open(backend);
    let id = pending(ask(&*asker.approvals, "call", 0)).id;
    let other = open(backend);
    let announces = || other.approvals.announce(&id).expect("it is kept");
    // While the asking process runs, the announcement is its own.
    assert!(!announces(), "the asker lives");
    drop(asker);
    assert!(announces(), "the asker died");
    assert!(!announces(), "once");
    let own = pending(ask(&*other.approvals, "own", 0)).id;
    assert!(other.approvals.announce(&own).expect("it is kept"));
}
