//! Sealed calls: kept with their questions until the decision, and erased by it.

use std::{fs, path::Path};

use callgate_record::{Answer, Approvals as _, Asked, Which};
use callgate_store::ApprovalStore;

use super::{SEALED, ask, at, by, is_claimed, pending, question, store};
use crate::support::{new_id, open};

/// Whether any file of the database has bytes of a sealed call.
fn is_left(dir: &Path) -> bool {
    let files = fs::read_dir(dir).unwrap().flatten();
    files
        .filter(|file| file.file_name().to_string_lossy().starts_with("approvals."))
        .any(|file| {
            let bytes = fs::read(file.path()).unwrap();
            bytes
                .windows(SEALED.len())
                .any(|window| window == SEALED.as_bytes())
        })
}

#[test]
fn a_sealed_call_is_erased_by_its_decision() {
    for answer in [Answer::Approve, Answer::Deny] {
        let dir = tempfile::tempdir().unwrap();
        let log = open(dir.path());
        let store = store(dir.path(), &log);
        let id = pending(ask(&store, "call", 0)).id;
        let kept = store.kept(&id, true).unwrap();
        assert!(kept[0].sealed.is_some() && is_left(dir.path()));
        // Another process decides.
        let decider = ApprovalStore::new(dir.path(), None);
        decider.resolve(&id, answer, &by("admin"), at(1)).unwrap();
        assert!(store.kept(&id, true).unwrap()[0].sealed.is_none());
        assert!(!is_left(dir.path()), "{answer:?}");
    }
}

#[test]
fn a_sealed_call_is_erased_when_its_time_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    {
        let asker = store(dir.path(), &log);
        ask(&asker, "call", 0);
        ask(&asker, "call", 3599);
        assert!(is_left(dir.path()));
    }
    let next = ApprovalStore::new(dir.path(), None);
    next.list(&Which::default(), 10, at(3599)).unwrap();
    assert!(is_left(dir.path()), "it is still open");
    next.list(&Which::default(), 10, at(3600)).unwrap();
    assert!(!is_left(dir.path()));
}

#[test]
fn a_call_sealed_with_a_lost_key_is_sealed_again_when_it_asks_again() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let store = store(dir.path(), &log);
    let id = pending(ask(&store, "call", 0)).id;
    let mut again = question("call");
    again.sealed = b"new-key-".to_vec();
    store.ask(&again, new_id(), at(1)).unwrap();
    let sealed = |store: &ApprovalStore| store.kept(&id, true).unwrap()[0].sealed.clone();
    assert_eq!(sealed(&store).as_deref(), Some(&b"new-key-"[..]));
    again.sealed = b"new-key-other".to_vec();
    store.ask(&again, new_id(), at(2)).unwrap();
    assert_eq!(
        sealed(&store).as_deref(),
        Some(&b"new-key-"[..]),
        "same key, same call"
    );
}

#[test]
fn further_questions_share_the_decision_and_are_used_one_by_one() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let store = store(dir.path(), &log);
    let id = pending(ask(&store, "first", 0)).id;
    let under = |of: &str| {
        let mut further = question(of);
        further.joins = true;
        further.named = Some(id.clone());
        further
    };
    let further = under("second");
    assert_eq!(
        pending(store.ask(&further, new_id(), at(1)).unwrap()).id,
        id
    );
    assert_eq!(store.pending(at(1)).unwrap(), 1);
    assert_eq!(store.kept(&id, true).unwrap().len(), 2);
    // A person has seen it: nothing is added any more.
    assert_ne!(
        pending(store.ask(&under("third"), new_id(), at(2)).unwrap()).id,
        id
    );
    store
        .resolve(&id, Answer::Approve, &by("admin"), at(3))
        .unwrap();
    assert_ne!(
        pending(store.ask(&under("fourth"), new_id(), at(4)).unwrap()).id,
        id
    );
    for of in ["first", "second"] {
        let claimed = ask(&store, of, 5);
        let Asked::Claimed(claim) = &claimed else {
            panic!("{of}: {claimed:?}");
        };
        assert_eq!(claim.approval, id);
        store.used(&claim.id).unwrap();
        assert_ne!(pending(ask(&store, of, 6)).id, id, "{of} is used up");
    }
    assert!(!is_claimed(&ask(&store, "third", 7)));
}
