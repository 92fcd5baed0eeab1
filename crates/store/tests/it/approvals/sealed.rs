//! Sealed calls: kept with their questions until the decision, and erased by it.

use std::{fs, path::Path};

use callgate_record::{Answer, ApprovalFilter, Approvals as _};
use callgate_store::ApprovalStore;

use super::{SEALED, ask, at, by, pending, store};
use crate::support::open;

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
        let kept = store.questions(&id, true).unwrap();
        assert!(kept[0].sealed.is_some() && is_left(dir.path()));
        // Another process decides.
        let decider = ApprovalStore::new(dir.path(), None);
        decider.resolve(&id, answer, &by("admin"), at(1)).unwrap();
        assert!(store.questions(&id, true).unwrap()[0].sealed.is_none());
        assert!(!is_left(dir.path()), "{answer:?}");
    }
}

#[test]
fn a_sealed_call_is_erased_when_it_expires() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    {
        let asker = store(dir.path(), &log);
        ask(&asker, "call", 0);
        ask(&asker, "call", 3599);
        assert!(is_left(dir.path()));
    }
    let next = ApprovalStore::new(dir.path(), None);
    next.list(&ApprovalFilter::default(), 10, at(3599)).unwrap();
    assert!(is_left(dir.path()), "it is still open");
    next.list(&ApprovalFilter::default(), 10, at(3600)).unwrap();
    assert!(!is_left(dir.path()));
}
