//! Entries that could not be written, in the order in which they must be.

use std::collections::VecDeque;

use callgate_gate::CallId;
use callgate_record::{Entry, Event, RecordType};
use ulid::Ulid;

/// How many are kept in memory. Beyond it refusals and events are only counted; the ends of
/// calls, of which there are never more than calls under way, are always kept.
const MAX_OWED: usize = 10_000;

/// What a chain owes.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    queue: VecDeque<Entry>,
    /// How many went beyond the limit, and nothing says so in the log yet.
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

    /// The next one to write; after the last, one that tells how many there should have been.
    pub(super) fn next(&mut self) -> Option<Entry> {
        if self.queue.is_empty() && self.uncounted > 0 {
            let uncounted = std::mem::take(&mut self.uncounted);
            return Some(Entry::Event(Event {
                id: CallId(Ulid::generate()),
                record_type: RecordType::System,
                name: "record.dropped".to_owned(),
                server: None,
                reason: Some(format!("{uncounted} refusals and events could not be kept")),
                principal: None,
                decision: None,
                approval_id: None,
                tenant: None,
            }));
        }
        self.queue.pop_front()
    }

    /// Takes one back that could not be written.
    pub(super) fn put_back(&mut self, entry: Entry) {
        self.queue.push_front(entry);
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len() + usize::from(self.uncounted > 0)
    }
}
