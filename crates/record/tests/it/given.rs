//! Calls, and a store in memory that fails on request.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use callgate_gate::{
    Attempt, Builtin, Call, CallId, CallerIdentity, Denied, Door, Facts, Grant, Hold, Host,
    Pattern, Permit, Policy, ServerName, Source, Target, Tool, ToolFilter, Transport, Verdict,
    decide,
};
use callgate_record::{
    CallEntry, DurabilityWait, Entry, OnFailure, Position, Recorder, Redactor, Store, StoreError,
};
use callgate_wire::{Era, Frame, Id, Strictness, message};
use futures_util::future::{Either, ready};
use serde_json::{Value, json};
use ulid::Ulid;

/// How much of a body is kept in these tests.
pub(crate) const BODY_BYTES: usize = 2048;

/// A store in memory.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    entries: Mutex<Vec<(How, Entry)>>,
    is_full: AtomicBool,
    is_gone: AtomicBool,
}

/// How an entry came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// Before what it is about happened.
    Appended,
    /// Afterwards.
    Owed,
}

impl Memory {
    /// From now on nothing more can be appended.
    pub(crate) fn fill(&self) {
        self.is_full.store(true, Ordering::Relaxed);
    }

    /// From now on nothing becomes durable.
    pub(crate) fn lose_disk(&self) {
        self.is_gone.store(true, Ordering::Relaxed);
    }

    /// What was taken, in order.
    pub(crate) fn entries(&self) -> Vec<(How, Entry)> {
        self.entries.lock().unwrap().clone()
    }

    /// The kinds of the entries that were taken.
    pub(crate) fn kinds(&self) -> Vec<(How, String)> {
        let kind = |(how, entry): (How, Entry)| {
            let kind = written(&entry)["kind"].as_str().unwrap().to_owned();
            (how, kind)
        };
        self.entries().into_iter().map(kind).collect()
    }

    /// The only entry, which is about a call.
    pub(crate) fn call(&self) -> CallEntry {
        let mut entries = self.entries();
        assert_eq!(entries.len(), 1, "{entries:?}");
        match entries.remove(0).1 {
            Entry::Refused(call)
            | Entry::Held(call)
            | Entry::Checked(call)
            | Entry::Forwarding(call) => *call,
            other => panic!("not about a call: {other:?}"),
        }
    }

    fn push(&self, how: How, entry: Entry) -> Position {
        let mut entries = self.entries.lock().unwrap();
        entries.push((how, entry));
        Position(entries.len() as u64)
    }
}

impl Store for Memory {
    fn append(&self, entry: &Entry) -> Result<Position, StoreError> {
        if self.is_full.load(Ordering::Relaxed) {
            let reason = "disk full, token=hunter2-secret".to_owned();
            return Err(StoreError { reason });
        }
        Ok(self.push(How::Appended, entry.clone()))
    }

    fn append_or_queue(&self, entry: Entry) -> Option<Position> {
        Some(self.push(How::Owed, entry))
    }

    fn settled(&self, _: Position) -> DurabilityWait<'_> {
        let settled = match self.is_gone.load(Ordering::Relaxed) {
            true => Err(StoreError {
                reason: "disk gone".to_owned(),
            }),
            false => Ok(()),
        };
        Either::Left(ready(settled))
    }
}

/// A recorder over a new store.
pub(crate) fn recorder(on_failure: OnFailure) -> (Recorder, Arc<Memory>) {
    let memory = Arc::new(Memory::default());
    let redactor = Redactor::new(&[], BODY_BYTES).unwrap();
    let recorder = Recorder::new(memory.clone(), redactor, on_failure);
    (recorder, memory)
}

/// An entry as its JSON says.
pub(crate) fn written(entry: &Entry) -> Value {
    let mut text = String::new();
    entry.write_json(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// A request that came in.
pub(crate) fn attempt(method: &str, params: &Value) -> Attempt {
    let request = message::request(&Id::number(7), method, Some(&params.to_string()));
    Attempt {
        id: CallId(Ulid::generate()),
        parent: None,
        via: None,
        host: Arc::new(Host {
            identity: CallerIdentity {
                tenant: "local".to_owned(),
                principal: "user".to_owned(),
                agent: "claude".to_owned(),
                session: "s1".to_owned(),
                grant: Grant::default(),
            },
            client_info: Some(r#"{"name":"claude"}"#.to_owned()),
            capabilities: "{}".to_owned(),
            era: Era::Handshake,
        }),
        door: Door {
            source: Source::Mcp,
            transport: Transport::Http,
        },
        frame: Frame::parse(request, Strictness::Full).unwrap(),
        declared: None,
    }
}

/// A call of a tool of the server `fs`.
pub(crate) fn call(tool: &str, arguments: &Value) -> Call {
    let server = ServerName::new("fs").unwrap();
    let descriptor = Bytes::from(json!({"name": tool}).to_string());
    let target = Tool::from_descriptor(&server, descriptor).unwrap();
    Call {
        attempt: attempt("tools/call", &json!({"name": tool, "arguments": arguments})),
        target: Target::Tool(Arc::new(target)),
    }
}

/// The call, permitted.
pub(crate) fn permitted(call: Call) -> Permit {
    let policy = Policy::new(Builtin::AllowAll, Default::default());
    match decide(call, &policy, &Facts::default()) {
        Verdict::Permit(permit) => permit,
        other => panic!("everything is allowed: {other:?}"),
    }
}

/// The call, waiting for a person.
pub(crate) fn held(call: Call) -> Hold {
    let policy = Policy::new(Builtin::Cautious, Default::default());
    match decide(call, &policy, &Facts::default()) {
        Verdict::Hold(hold) => hold,
        other => panic!("everything needs a person: {other:?}"),
    }
}

/// The call, refused by policy.
pub(crate) fn denied(call: Call) -> Denied {
    let filter = ToolFilter {
        offered: None,
        allow: None,
        deny: vec![Pattern::new("*")],
    };
    let filters = [(ServerName::new("fs").unwrap(), filter)].into();
    match decide(
        call,
        &Policy::new(Builtin::AllowAll, filters),
        &Facts::default(),
    ) {
        Verdict::Deny(denied) => denied,
        other => panic!("nothing is allowed: {other:?}"),
    }
}
