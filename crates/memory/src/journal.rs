//! The entries of all writers, folded into records, and a hash of each entry.

mod chain;
mod retention;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use callgate_gate::CallId;
use callgate_record::{
    Activity, Clock, DropReason, Entry, Head, KeyedHead, Opened, Status, Unknown, Verification,
    WriterId,
};
use jiff::Timestamp;
use ulid::Ulid;

use self::{
    chain::{Chain, sign},
    retention::Retention,
};

/// The most records. Beyond it the oldest that have ended are dropped, as in retention.
const MAX_RECORDS: usize = 100_000;
/// How many are dropped at once then, so that not every entry searches for the oldest.
const DROPPED_AT_ONCE: usize = 1000;

/// When a record began, and its call: the order of lists.
pub(crate) type Place = (i64, CallId);

#[derive(Debug)]
pub(crate) struct Journal {
    writers: BTreeMap<WriterId, Chain>,
    records: BTreeMap<Place, StoredRecord>,
    places: HashMap<CallId, Place>,
    key: [u8; 32],
    clock: Arc<dyn Clock>,
    retention: Retention,
}

#[derive(Debug)]
struct StoredRecord {
    activity: Activity,
    /// Whether "about to forward", or the answer to another gateway, is in the log.
    uses_approval: bool,
    bytes: u64,
    /// When it began, by a clock that does not go back: a clock that is behind makes nothing look old.
    began: Timestamp,
}

impl Journal {
    pub(crate) fn new(key: [u8; 32], clock: Arc<dyn Clock>) -> Self {
        Self {
            writers: BTreeMap::new(),
            records: BTreeMap::new(),
            places: HashMap::new(),
            key,
            clock,
            retention: Retention::default(),
        }
    }

    /// Starts a writer: names the heads of the others, and closes the calls of dead ones.
    pub(crate) fn begin(&mut self) -> WriterId {
        let writer = WriterId(Ulid::generate());
        let unsealed: Vec<WriterId> = self.unsealed().collect();
        let heads = unsealed.iter().map(|other| self.head(*other)).collect();
        self.writers.insert(writer, Chain::default());
        let opened = Opened {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            heads,
            after: None,
        };
        self.append(writer, &Entry::Opened(opened));
        for of in unsealed {
            if self.is_alive(of) {
                continue;
            }
            for id in self.running_of(of) {
                self.append(writer, &Entry::Unknown(Unknown { id, of }));
            }
            if let Some(dead) = self.writers.get_mut(&of) {
                dead.is_sealed = true;
            }
        }
        writer
    }

    /// Appends an entry; none once the writer has closed its chain.
    pub(crate) fn append(&mut self, writer: WriterId, entry: &Entry) -> Option<u64> {
        let mut body = String::new();
        // An entry is plain data, which can always be written.
        entry.write_json(&mut body).ok()?;
        let chain = self.writers.get_mut(&writer)?;
        let seq = chain.push(&body)?;
        self.fold(writer, seq, entry, body.len() as u64);
        if self.records.len() > MAX_RECORDS {
            let mut over = self.records.len() - MAX_RECORDS + DROPPED_AT_ONCE;
            self.drop_records(writer, DropReason::Size, |_| {
                over = over.saturating_sub(1);
                over > 0
            });
        }
        Some(seq)
    }

    fn fold(&mut self, writer: WriterId, seq: u64, entry: &Entry, bytes: u64) {
        let uses_approval = matches!(entry, Entry::Forwarding(_) | Entry::Checked(_));
        let Some(id) = call_of(entry) else { return };
        if let Some(kept) = self
            .places
            .get(&id)
            .and_then(|place| self.records.get_mut(place))
        {
            kept.activity.apply(entry);
            kept.uses_approval |= uses_approval;
            kept.bytes += bytes;
            return;
        }
        let now = self.clock.now();
        let at = Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now);
        let began = self.retention.not_before(at);
        if let Some(activity) = Activity::begin(writer, seq, at, entry) {
            let place = (at.as_microsecond(), id);
            self.places.insert(id, place);
            let kept = StoredRecord {
                activity,
                uses_approval,
                bytes,
                began,
            };
            self.records.insert(place, kept);
        }
    }

    /// Ends a chain with a closing entry.
    pub(crate) fn close(&mut self, writer: WriterId) {
        self.append(writer, &Entry::Closed {});
        if let Some(chain) = self.writers.get_mut(&writer) {
            chain.is_closed = true;
        }
    }

    pub(crate) fn died(&mut self, writer: WriterId) {
        if let Some(chain) = self.writers.get_mut(&writer) {
            chain.is_dead = true;
        }
    }

    /// Whether a writer is known and running.
    pub(crate) fn is_alive(&self, writer: WriterId) -> bool {
        let chain = self.writers.get(&writer);
        chain.is_some_and(|chain| !chain.is_dead)
    }

    /// Whether the log has a call's use of its approval.
    pub(crate) fn was_forwarded(&self, call: CallId) -> bool {
        let place = self.places.get(&call);
        let kept = place.and_then(|place| self.records.get(place));
        kept.is_some_and(|kept| kept.uses_approval)
    }

    pub(crate) fn head(&self, writer: WriterId) -> Head {
        let (seq, hash) = self
            .writers
            .get(&writer)
            .map(Chain::last)
            .unwrap_or_default();
        Head { writer, seq, hash }
    }

    pub(crate) fn keyed_heads(&self) -> Vec<KeyedHead> {
        let heads = self.writers.keys().map(|writer| self.head(*writer));
        heads.map(|head| sign(&self.key, head)).collect()
    }

    /// One record, in its current state.
    pub(crate) fn get(&self, id: CallId) -> Option<Activity> {
        let kept = self.records.get(self.places.get(&id)?)?;
        Some(self.shown(&kept.activity))
    }

    /// All records, oldest first, in their current state.
    pub(crate) fn all(&self) -> impl DoubleEndedIterator<Item = (Place, Activity)> {
        let shown = |(place, kept): (&Place, &StoredRecord)| (*place, self.shown(&kept.activity));
        self.records.iter().map(shown)
    }

    /// The running calls of a dead writer read `unknown`, also before another writer closes them.
    fn shown(&self, activity: &Activity) -> Activity {
        let mut shown = activity.clone();
        if shown.status.is_none() && !self.is_alive(shown.writer) {
            shown.orphan();
        }
        shown
    }

    /// Compares the chains with heads that were exported before.
    pub(crate) fn verify(&self, exported: &[Head]) -> Verification {
        let contradicts = |head: &Head| match self.writers.get(&head.writer) {
            None => Some(format!(
                "writer `{}` is missing: an exported head names it",
                head.writer
            )),
            Some(chain) => chain.contradicts(head).map(|what| {
                format!(
                    "writer `{}`: {what}, but an exported head names entry {}",
                    head.writer, head.seq
                )
            }),
        };
        let mut found = Verification {
            writers: self.writers.len() as u64,
            entries: self.writers.values().map(Chain::len).sum(),
            problems: exported.iter().filter_map(contradicts).collect(),
            ..Verification::default()
        };
        found.note_extent(self.retention.dropped());
        found
    }

    fn unsealed(&self) -> impl Iterator<Item = WriterId> {
        let unsealed = self.writers.iter().filter(|(_, chain)| !chain.is_sealed);
        unsealed.map(|(writer, _)| *writer)
    }

    fn running_of(&self, writer: WriterId) -> Vec<CallId> {
        let records = self.records.values().map(|kept| &kept.activity);
        let running = records.filter(|one| one.writer == writer && one.status.is_none());
        running.map(|one| one.id).collect()
    }
}

fn has_ended(activity: &Activity) -> bool {
    !matches!(activity.status, None | Some(Status::Pending))
}

/// The call, or the event, that an entry is about.
fn call_of(entry: &Entry) -> Option<CallId> {
    match entry {
        Entry::Refused(call)
        | Entry::Held(call)
        | Entry::Checked(call)
        | Entry::Forwarding(call) => Some(call.id),
        Entry::Finished(finished) => Some(finished.id),
        Entry::Unknown(unknown) => Some(unknown.id),
        Entry::Event(event) => Some(event.id),
        Entry::Opened(_) | Entry::Closed {} | Entry::Head(_) | Entry::Checkpoint(_) => None,
    }
}
