//! The log: each entry that was taken is on record, in order, and once.

use std::{collections::BTreeSet, thread};

use super::sample::{
    assert_sound, call, entry, event, exported, finished, forwarding, new_id, open, statuses, wait,
    write_call,
};
use crate::{Backend, Status};

pub(super) fn entries_are_listed_in_the_order_they_were_appended(backend: &dyn Backend) {
    let stores = open(backend);
    let mut written = Vec::new();
    for n in 0..30 {
        let id = new_id();
        let mut about = call("forwarding", id);
        about["tool"] = format!("tool-{n}").into();
        about["arguments"]["value"] = serde_json::json!({ "n": n });
        stores.log.append(&entry(&about)).expect("it is taken");
        stores.log.append_or_queue(finished(id));
        written.push((id, format!("tool-{n}"), format!("{{\"n\":{n}}}")));
    }
    let on_record: Vec<_> = exported(&*stores.archive)
        .into_iter()
        .map(|record| {
            assert_eq!(record.status, Some(Status::Success));
            assert_eq!(record.writer, stores.log.writer());
            let arguments = serde_json::to_string(&record.arguments).expect("JSON");
            (record.id, record.tool.unwrap_or_default(), arguments)
        })
        .collect();
    assert_eq!(on_record, written);
    let page = stores.archive.page(&Default::default()).expect("a page");
    let listed: Vec<_> = page.activities.iter().rev().map(|one| one.id).collect();
    assert_eq!(
        listed,
        written.iter().map(|(id, ..)| *id).collect::<Vec<_>>()
    );
    let shown = stores.archive.get(written[7].0).expect("it is read");
    assert_eq!(shown.expect("it is there").tool.as_deref(), Some("tool-7"));
    assert!(stores.archive.get(new_id()).expect("it is read").is_none());
    assert!(assert_sound(&*stores.archive) >= 60);
    let before = stores.log.head();
    stores.log.append(&event("one.more")).expect("it is taken");
    assert!(stores.log.head().seq > before.seq && stores.log.head().hash != before.hash);
}

pub(super) fn many_threads_write_one_sound_chain(backend: &dyn Backend) {
    // Two writers with three threads each: threads share a chain, writers must not.
    let writers: Vec<_> = (0..2).map(|_| open(backend)).collect();
    thread::scope(|scope| {
        for stores in writers.iter().cycle().take(6) {
            scope.spawn(move || (0..25).for_each(|_| _ = write_call(&*stores.log)));
        }
    });
    let all = statuses(&*writers[0].archive);
    let ids: BTreeSet<_> = all.iter().map(|(id, _)| id.to_string()).collect();
    assert_eq!((all.len(), ids.len()), (150, 150));
    assert!(
        all.iter()
            .all(|(_, status)| *status == Some(Status::Success))
    );
    assert_sound(&*writers[1].archive);
}

pub(super) fn placed_entries_are_written_even_when_the_future_is_dropped(backend: &dyn Backend) {
    let stores = open(backend);
    let (waited, dropped) = (new_id(), new_id());
    let position = wait(stores.log.place(&forwarding(waited))).expect("it is taken");
    wait(stores.log.settled(position)).expect("it is durable");
    drop(stores.log.place(&forwarding(dropped)));
    wait(stores.log.place_or_queue(finished(waited))).expect("it is written");
    drop(stores.log.place_or_queue(finished(dropped)));
    let end = wait(stores.log.place(&event("after"))).expect("it is taken");
    wait(stores.log.settled(end)).expect("it is durable");
    let on_record = statuses(&*stores.archive);
    let success = Some(Status::Success);
    assert_eq!(on_record[..2], [(waited, success), (dropped, success)]);
}

pub(super) fn queued_ends_are_written(backend: &dyn Backend) {
    let stores = open(backend);
    let id = new_id();
    stores.log.append(&forwarding(id)).expect("it is taken");
    assert_eq!(statuses(&*stores.archive), [(id, None)], "it is running");
    stores.log.append_or_queue(finished(id));
    stores.log.close().expect("nothing is owed any more");
    assert_eq!(stores.log.backlog(), 0);
    assert_eq!(statuses(&*stores.archive), [(id, Some(Status::Success))]);
}

pub(super) fn calls_of_a_dead_writer_become_unknown_once(backend: &dyn Backend) {
    let (done, running, held) = (new_id(), new_id(), new_id());
    let dead = open(backend);
    let opening = dead.log.head().seq;
    dead.log.append(&forwarding(done)).expect("it is taken");
    dead.log.append(&forwarding(running)).expect("it is taken");
    dead.log.append_or_queue(finished(done));
    // A held call was never sent, so no later writer closes it as unknown: the numbers of the heads below show it.
    let mut pending = call("held", held);
    pending["status"] = "pending".into();
    dead.log.append(&entry(&pending)).expect("it is taken");
    drop(dead);
    let shared = backend.shared().expect("it opens");
    let unknown = Some(Status::Unknown);
    let on_record = statuses(&*shared.archive);
    assert_eq!(
        on_record[1],
        (running, unknown),
        "also before the next writer"
    );
    let next = open(backend);
    let on_record = statuses(&*next.archive);
    assert_eq!(
        on_record[..2],
        [(done, Some(Status::Success)), (running, unknown)]
    );
    assert_eq!(
        next.log.head().seq,
        opening + 1,
        "the next writer says so in its own chain"
    );
    next.log.close().expect("it closes");
    drop(next);
    let last = open(backend);
    assert_eq!(
        last.log.head().seq,
        opening,
        "and the one after it does not"
    );
    assert_eq!(statuses(&*last.archive)[1], (running, unknown));
    assert_sound(&*last.archive);
}

pub(super) fn calls_of_a_live_writer_are_left_unchanged(backend: &dyn Backend) {
    let first = open(backend);
    let id = new_id();
    first.log.append(&forwarding(id)).expect("it is taken");
    let second = open(backend);
    assert_ne!(first.log.writer(), second.log.writer());
    assert_eq!(statuses(&*second.archive), [(id, None)]);
    first.log.append_or_queue(finished(id));
    assert_eq!(statuses(&*second.archive), [(id, Some(Status::Success))]);
}

pub(super) fn a_closed_log_refuses_calls(backend: &dyn Backend) {
    let stores = open(backend);
    let given_up = new_id();
    stores
        .log
        .append(&forwarding(given_up))
        .expect("it is taken");
    stores.log.close().expect("it closes");
    stores.log.close().expect("closing twice does nothing");
    assert!(stores.log.append(&forwarding(new_id())).is_err());
    drop(stores);
    let next = open(backend);
    let unknown = Some(Status::Unknown);
    assert_eq!(statuses(&*next.archive), [(given_up, unknown)]);
    assert_sound(&*next.archive);
}
