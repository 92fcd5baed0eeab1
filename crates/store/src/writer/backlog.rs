//! The backlog: entries that could not be written, in order.

use std::collections::VecDeque;

use callgate_gate::CallId;
use callgate_record::{Entry, Event, RecordType};
use ulid::Ulid;

/// The most entries in memory. Beyond it refusals and events are only counted; the ends of calls, of
/// which there are never more than calls in flight, always stay.
const MAX_OWED: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Backlog {
    queue: VecDeque<Entry>,
    /// Entries dropped at the limit, which the log does not mention yet.
    uncounted: u64,
}

impl Backlog {
    pub(super) fn add(&mut self, entry: Entry) {
        let is_countable = matches!(
            entry,
            Entry::Refused(_) | Entry::Checked(_) | Entry::Event(_)
        );
        if is_countable && self.queue.len() >= MAX_OWED {
            self.uncounted += 1;
        } else {
            self.queue.push_back(entry);
        }
    }

    /// The next entry to write; after the last, one with the number of dropped entries.
    pub(super) fn next(&mut self) -> Option<Entry> {
        if self.queue.is_empty() && self.uncounted > 0 {
            let uncounted = std::mem::take(&mut self.uncounted);
            return Some(Entry::Event(Event {
                id: CallId(Ulid::generate()),
                record_type: RecordType::System,
                name: "record.dropped".to_owned(),
                server: None,
                reason: Some(format!(
                    "{uncounted} refusals and events were dropped: the backlog was full"
                )),
                principal: None,
                decision: None,
                approval_id: None,
                tenant: None,
            }));
        }
        self.queue.pop_front()
    }

    /// Returns an entry that could not be written, as the next one.
    pub(super) fn put_back(&mut self, entry: Entry) {
        self.queue.push_front(entry);
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len() + usize::from(self.uncounted > 0)
    }
}
