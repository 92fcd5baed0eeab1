//! Shared by the promises: entries to write, and ways to read records back.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

use callgate_gate::CallId;
use jiff::Timestamp;
use serde_json::{Value, json};
use ulid::Ulid;

use crate::{Activity, ActivityFilter, Archive, Backend, Entry, Log, Status, Stores};

pub(super) fn open(backend: &dyn Backend) -> Stores {
    backend.open().expect("the backend opens")
}

pub(super) fn new_id() -> CallId {
    CallId(Ulid::generate())
}

pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).expect("a time")
}

pub(super) fn entry(value: &Value) -> Entry {
    Entry::from_json(&value.to_string()).expect("an entry")
}

/// A call of tenant `local` to the tool `read` of the server `files`.
pub(super) fn call(kind: &str, id: CallId) -> Value {
    json!({
        "kind": kind, "id": id, "type": "tool_call", "source": "mcp", "transport": "stdio", "tenant": "local",
        "principal": "user", "agent": "tester", "session_id": "s1", "request_id": "1", "server": "files",
        "tool": "read", "arguments": {"bytes": 12, "blake3": "00", "value": {"path": "/tmp"}},
        "decision": "ALLOW", "rule": "allow:default", "reason": "nothing forbids it",
        "checks": [{"scope": "mcp_tool", "decision": "ALLOW", "rule": "allow:default"}],
        "intent": {"operation_type": "read", "inferred": true},
    })
}

pub(super) fn forwarding(id: CallId) -> Entry {
    entry(&call("forwarding", id))
}

pub(super) fn finished(id: CallId) -> Entry {
    entry(&json!({
        "kind": "finished", "id": id, "status": "success", "effect": "done", "duration_us": 1200,
        "response": {"bytes": 2, "blake3": "11", "value": {"content": []}},
    }))
}

pub(super) fn event(name: &str) -> Entry {
    entry(&json!({"kind": "event", "id": new_id(), "type": "system", "name": name}))
}

/// A call that was forwarded and has ended.
pub(super) fn write_call(log: &dyn Log) -> CallId {
    let id = new_id();
    log.append(&forwarding(id)).expect("a call is taken");
    log.append_or_queue(finished(id));
    id
}

/// Every record, oldest first, as an export has it.
pub(super) fn exported(archive: &dyn Archive) -> Vec<Activity> {
    let mut out = Vec::new();
    let count = archive.export(crate::Format::Jsonl, &ActivityFilter::default(), &mut out);
    let text = String::from_utf8(out).expect("an export is text");
    let records: Vec<Activity> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("a record"))
        .collect();
    assert_eq!(count.expect("it is exported"), records.len() as u64);
    records
}

/// Calls and their statuses, oldest first.
pub(super) fn statuses(archive: &dyn Archive) -> Vec<(CallId, Option<Status>)> {
    let records = exported(archive).into_iter();
    records.map(|record| (record.id, record.status)).collect()
}

#[track_caller]
pub(super) fn assert_sound(archive: &dyn Archive) -> u64 {
    let found = archive.verify(None).expect("the log can be read");
    assert!(found.is_sound(), "{found:?}");
    found.entries
}

/// Waits for a future on this thread: backends bring their own runtime where they need one.
pub(super) fn wait<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => thread::park(),
        }
    }
}
