//! The store of a stage, which is also the memory of everything that happened on it.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

use callgate_gate::CallId;
use callgate_record::{CallEntry, DurabilityWait, Entry, Finished, Position, Store, StoreError};
use futures_util::future::{Either, FutureExt};
use tokio::sync::Notify;

use super::give_way;

/// The store, and the memory of everything that happened.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    steps: Mutex<Vec<Step>>,
    refuses: AtomicBool,
    never_settles: AtomicBool,
    arrived: Notify,
}

/// Something that the store or a provider saw, in the order of seeing it.
#[derive(Debug, Clone)]
enum Step {
    Appended(Entry),
    Refused,
    Owed(Entry),
    Reached(CallId),
}

impl Journal {
    /// From now on nothing can be written.
    pub(crate) fn refuse(&self) {
        self.refuses.store(true, Ordering::Relaxed);
    }

    /// From now on everything can be written again.
    pub(crate) fn take_again(&self) {
        self.refuses.store(false, Ordering::Relaxed);
    }

    /// From now on nothing becomes durable.
    pub(crate) fn never_settle(&self) {
        self.never_settles.store(true, Ordering::Relaxed);
    }

    /// What happened, one short line each, after checking the promise that holds for every
    /// story: nothing reaches a provider that is not on record, and what was to be forwarded ends
    /// on record exactly once.
    pub(crate) fn story(&self) -> Vec<String> {
        let steps = self.steps.lock().unwrap().clone();
        let mut open: Vec<CallId> = Vec::new();
        for step in &steps {
            match step {
                Step::Appended(Entry::Forwarding(call)) | Step::Owed(Entry::Forwarding(call)) => {
                    open.push(call.id);
                }
                Step::Reached(id) => {
                    assert!(open.contains(id), "reached without a record: {steps:?}")
                }
                Step::Owed(Entry::Finished(end)) => {
                    let at = open
                        .iter()
                        .position(|id| *id == end.id)
                        .expect("what ends was under way");
                    open.remove(at);
                }
                Step::Appended(_) | Step::Owed(_) | Step::Refused => {}
            }
        }
        assert!(open.is_empty(), "still under way: {steps:?}");
        steps.iter().map(Step::line).collect()
    }

    /// The only entry about a call that was refused, held or to be forwarded.
    pub(crate) fn call_entry(&self) -> CallEntry {
        let mut entries: Vec<CallEntry> = self.entries().filter_map(call_entry).collect();
        assert_eq!(entries.len(), 1, "{entries:?}");
        entries.remove(0)
    }

    /// The ends that were put on record.
    pub(crate) fn finished(&self) -> Vec<Finished> {
        let finished = |entry| {
            if let Entry::Finished(end) = entry {
                Some(*end)
            } else {
                None
            }
        };
        self.entries().filter_map(finished).collect()
    }

    fn entries(&self) -> impl Iterator<Item = Entry> {
        self.steps
            .lock()
            .unwrap()
            .clone()
            .into_iter()
            .filter_map(|step| match step {
                Step::Appended(entry) | Step::Owed(entry) => Some(entry),
                Step::Refused | Step::Reached(_) => None,
            })
    }

    /// Notes that a provider was handed a call.
    pub(super) fn reach(&self, id: CallId) {
        self.push(Step::Reached(id));
        self.arrived.notify_one();
    }

    /// Waits for a provider to be handed a call.
    pub(super) async fn arrival(&self) {
        self.arrived.notified().await;
    }

    fn push(&self, step: Step) -> Position {
        let mut steps = self.steps.lock().unwrap();
        steps.push(step);
        Position(steps.len() as u64)
    }
}

impl Step {
    fn line(&self) -> String {
        let (how, entry) = match self {
            Self::Refused => return "append refused".into(),
            Self::Reached(_) => return "reached".into(),
            Self::Appended(entry) => ("append", entry),
            Self::Owed(entry) => ("owe", entry),
        };
        match entry {
            Entry::Forwarding(_) => format!("{how} forwarding"),
            Entry::Held(call) => format!("{how} held {:?}", call.status.unwrap()),
            Entry::Refused(call) => format!("{how} refused {:?}", call.status.unwrap()),
            Entry::Finished(end) => format!("{how} finished {:?} {:?}", end.status, end.effect),
            Entry::Event(event) => format!("{how} event {}", event.name),
            other => panic!("the path never writes {other:?}"),
        }
    }
}

impl Store for Journal {
    fn append(&self, entry: &Entry) -> Result<Position, StoreError> {
        if self.refuses.load(Ordering::Relaxed) {
            self.push(Step::Refused);
            return Err(StoreError {
                reason: "the disk is full".into(),
            });
        }
        Ok(self.push(Step::Appended(entry.clone())))
    }

    fn append_or_queue(&self, entry: Entry) -> Option<Position> {
        Some(self.push(Step::Owed(entry)))
    }

    fn settled(&self, _position: Position) -> DurabilityWait<'_> {
        let settling = async {
            give_way().await;
            match self.never_settles.load(Ordering::Relaxed) {
                true => Err(StoreError {
                    reason: "the disk is gone".into(),
                }),
                false => Ok(()),
            }
        };
        Either::Right(settling.boxed())
    }
}

fn call_entry(entry: Entry) -> Option<CallEntry> {
    match entry {
        Entry::Forwarding(call) | Entry::Held(call) | Entry::Refused(call) => Some(*call),
        _ => None,
    }
}
