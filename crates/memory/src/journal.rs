//! The entries of all writers, folded into records, and a hash of each entry.

mod chain;

use std::collections::{BTreeMap, HashMap};

use callgate_gate::CallId;
use callgate_record::{
    Activity, Checkpoint, Entry, Head, KeyedHead, Opened, Retained, RetentionLimits, Status,
    Unknown, Verification, WriterId,
};
use jiff::{SignedDuration, Timestamp};
use ulid::Ulid;

use self::chain::{Chain, sign};

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
}

#[derive(Debug)]
struct StoredRecord {
    activity: Activity,
    /// Whether "about to forward", or the answer to another gateway, is in the log.
    uses_approval: bool,
    bytes: u64,
}

impl Journal {
    pub(crate) fn new(key: [u8; 32]) -> Self {
        Self {
            writers: BTreeMap::new(),
            records: BTreeMap::new(),
            places: HashMap::new(),
            key,
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
            self.drop_records(writer, |_| {
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
        let now = Timestamp::now();
        let at = Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now);
        if let Some(activity) = Activity::begin(writer, seq, at, entry) {
            let place = (at.as_microsecond(), id);
            self.places.insert(id, place);
            let kept = StoredRecord {
                activity,
                uses_approval,
                bytes,
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
        Verification {
            writers: self.writers.len() as u64,
            entries: self.writers.values().map(Chain::len).sum(),
            problems: exported.iter().filter_map(contradicts).collect(),
            index_differed: None,
        }
    }

    /// Drops what exceeds the limits.
    pub(crate) fn retain(&mut self, writer: WriterId, limits: RetentionLimits) -> Retained {
        let kept = SignedDuration::from_hours(24 * i64::from(limits.days));
        let oldest = Timestamp::now().checked_sub(kept).unwrap_or(Timestamp::MIN);
        let most = limits.max_mb.saturating_mul(1024 * 1024);
        let mut bytes: u64 = self.records.values().map(|kept| kept.bytes).sum();
        self.drop_records(writer, |kept| {
            let goes = kept.activity.timestamp < oldest || bytes > most;
            if goes {
                bytes -= kept.bytes;
            }
            goes
        })
    }

    /// Drops the oldest records while `goes` returns `true`. The newest record stays, and so does every call that has
    /// not ended.
    fn drop_records(
        &mut self,
        writer: WriterId,
        mut goes: impl FnMut(&StoredRecord) -> bool,
    ) -> Retained {
        let newest = self.records.keys().next_back().copied();
        let mut dropped = Retained::default();
        let mut gone = Vec::new();
        for (place, kept) in &self.records {
            if Some(*place) == newest || !has_ended(&kept.activity) {
                continue;
            }
            if !goes(kept) {
                break;
            }
            dropped.bytes += kept.bytes;
            gone.push(*place);
        }
        for place in &gone {
            self.records.remove(place);
            self.places.remove(&place.1);
        }
        if !gone.is_empty() {
            dropped.entries = self.cut_chains(writer);
        }
        dropped
    }

    /// Forgets the hashes before the first record that each chain still has, and names them in a
    /// checkpoint of `writer`.
    fn cut_chains(&mut self, writer: WriterId) -> u64 {
        let mut firsts: HashMap<WriterId, u64> = HashMap::new();
        for kept in self.records.values() {
            let first = firsts.entry(kept.activity.writer).or_insert(u64::MAX);
            *first = (*first).min(kept.activity.seq);
        }
        let mut checkpoints = Vec::new();
        for (of, chain) in &mut self.writers {
            let (last, _) = chain.last();
            let first = firsts.get(of).copied().unwrap_or(last);
            if let Some((seq, hash, entries)) = chain.cut_before(first) {
                let (writer, dropped) = (*of, seq);
                let dropped = Head {
                    writer,
                    seq: dropped,
                    hash,
                };
                checkpoints.push(Checkpoint { dropped, entries });
            }
        }
        let entries = checkpoints
            .iter()
            .map(|checkpoint| checkpoint.entries)
            .sum();
        for checkpoint in checkpoints {
            self.append(writer, &Entry::Checkpoint(checkpoint));
        }
        entries
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
