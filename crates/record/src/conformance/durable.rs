//! Promises of backends that outlive their process.

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader, Write as _},
    process::Child,
};

use callgate_gate::{Digest, Operation, Role};

use super::{
    approvals::{approved, ask, is_claimed},
    sample::{
        assert_sound, at, event, exported, finished, forwarding, new_id, open, statuses, write_call,
    },
};
use crate::{Backend, NewToken, RecordType, Status};

/// A backend whose writes fail while it is armed.
pub trait Faulty: Backend {
    /// Makes writes fail from now on, or no longer.
    fn arm(&self, is_armed: bool);
}

/// What was written is there for a later process. `fresh` makes an empty backend, and `again` another one
/// on the same place.
pub fn all_state_survives_a_restart<B: Backend>(fresh: impl Fn() -> B, again: impl Fn(&B) -> B) {
    let first = fresh();
    let stores = open(&first);
    let call = write_call(&*stores.log);
    approved(&*stores.approvals, "call");
    let new = NewToken {
        name: "ci".to_owned(),
        role: Role::Agent,
        servers: None,
        view: None,
        ceiling: Operation::Read,
        tenant: "local".to_owned(),
        expires_at: None,
    };
    let (token, secret) = stores.tokens.create(new, at(0)).expect("it is made");
    let heads = stores.archive.heads().expect("heads");
    stores.log.close().expect("it closes");
    drop(stores);
    let second = again(&first);
    let stores = open(&second);
    let heads: Vec<_> = heads.into_iter().map(|keyed| keyed.head).collect();
    let found = stores.archive.verify(Some(&heads)).expect("it is read");
    assert!(found.is_sound(), "{found:?}");
    assert_eq!(statuses(&*stores.archive), [(call, Some(Status::Success))]);
    assert!(is_claimed(&ask(&*stores.approvals, "call", 2)));
    let holder = stores.tokens.holder(&Digest::of(secret.as_bytes()), at(1));
    assert_eq!(*holder.expect("it is read").expect("it is there"), token);
}

/// Changes that other programs make to the log are found. `tamper` makes one.
pub fn tampering_is_found<B: Backend>(backend: &B, tamper: impl FnOnce(&B)) {
    let stores = open(backend);
    (0..5).for_each(|_| _ = write_call(&*stores.log));
    stores.log.close().expect("it closes");
    drop(stores);
    let archive = backend.shared().expect("it opens").archive;
    assert_sound(&*archive);
    tamper(backend);
    let archive = backend.shared().expect("it opens").archive;
    let found = archive.verify(None).expect("it is read");
    assert!(!found.problems.is_empty(), "{found:?}");
}

/// The body of a process that [`calls_of_killed_processes_are_on_record`] kills: it writes calls until then, and
/// prints each one once it is taken.
pub fn write_until_killed(backend: &dyn Backend) {
    let log = open(backend).log;
    let mut out = std::io::stdout();
    loop {
        let id = new_id();
        log.append(&forwarding(id)).expect("it is taken");
        // Only after the append: the parent counts the calls whose survival the log has promised.
        let printed = writeln!(out, "taken {id}").and_then(|()| out.flush());
        if printed.is_err() {
            return;
        }
        log.append_or_queue(finished(id));
    }
}

/// `kill -9` loses no call that was taken, and each has one end. `spawn` starts a process that runs
/// [`write_until_killed`] on the same place, with its standard output piped.
pub fn calls_of_killed_processes_are_on_record(backend: &dyn Backend, spawn: impl Fn() -> Child) {
    let mut children: Vec<Child> = (0..3).map(|_| spawn()).collect();
    let mut printed = BTreeSet::new();
    for (index, child) in children.iter_mut().enumerate() {
        let out = child.stdout.take().expect("it is piped");
        let lines = BufReader::new(out).lines().map_while(Result::ok);
        let taken = lines.filter_map(|line| line.strip_prefix("taken ").map(str::to_owned));
        printed.extend(taken.take(100 + 37 * index));
        child.kill().expect("it is killed");
        child.wait().expect("it ends");
    }
    assert_eq!(printed.len(), 300 + 37 * 3);
    let next = open(backend);
    let all = statuses(&*next.archive);
    let known: BTreeSet<_> = all.iter().map(|(id, _)| id.to_string()).collect();
    assert!(
        printed.is_subset(&known),
        "{:?}",
        printed.difference(&known)
    );
    assert_eq!(all.len(), known.len(), "each is there once");
    let ended = |status| matches!(status, Some(Status::Success | Status::Unknown));
    assert!(
        all.iter().all(|(_, status)| ended(*status)),
        "each has an end"
    );
    next.log.close().expect("it closes");
    let found = next.archive.verify(None).expect("it is read");
    // Three killed writers, and the one that closed their calls.
    assert_eq!((found.writers, found.is_sound()), (4, true), "{found:?}");
}

/// While writes fail, refused entries leave no trace; taken entries and the backlog are written in the end.
/// Returns how many calls were taken and how many were refused.
pub fn failing_writes_lose_and_invent_nothing(backend: &dyn Faulty) -> (usize, usize) {
    let stores = backend.open().expect("it opens before writes fail");
    let log = &*stores.log;
    backend.arm(true);
    let (mut taken, mut refused) = (BTreeSet::new(), 0);
    for _ in 0..40 {
        let id = new_id();
        match log.append(&forwarding(id)) {
            Ok(_) => {
                taken.insert(id.to_string());
                log.append_or_queue(finished(id));
            }
            Err(_) => refused += 1,
        }
        log.append_or_queue(event("something.happened"));
    }
    backend.arm(false);
    // Closing writes the backlog, or fails: nothing is dropped silently.
    log.close().expect("what is owed is written");
    assert_eq!(log.backlog(), 0);
    let (calls, events): (Vec<_>, Vec<_>) = exported(&*stores.archive)
        .into_iter()
        .partition(|record| record.record_type == RecordType::ToolCall);
    assert_eq!(calls.len(), taken.len(), "nothing is written twice");
    let ended: BTreeSet<_> = calls
        .iter()
        .filter(|record| record.status == Some(Status::Success))
        .map(|record| record.id.to_string())
        .collect();
    assert_eq!(ended, taken);
    assert_eq!(events.len(), 40);
    assert_sound(&*stores.archive);
    (taken.len(), refused)
}
