//! Retention: dropping old records, and putting them back.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use callgate_record::{
    Checkpoint, ClockTrust, DropReason, DroppedEntries, Entry, Head, Restored, Retained,
    RetentionLimits, TRASH_TIME, WriterId,
};
use jiff::{SignedDuration, Timestamp};

use super::{Journal, Place, StoredRecord, has_ended};

/// What retention keeps between its runs.
#[derive(Debug, Default)]
pub(super) struct Retention {
    trust: Option<ClockTrust>,
    /// The uptime at the last look at the clock.
    looked: Option<Duration>,
    /// The newest time so far.
    newest: Option<Timestamp>,
    /// What age has dropped, and when.
    trash: Vec<(Timestamp, Place, StoredRecord)>,
    dropped: BTreeMap<Option<DropReason>, u64>,
}

/// What was dropped of one writer.
#[derive(Debug, Clone, Copy, Default)]
struct Gone {
    records: u64,
    bytes: u64,
}

impl Retention {
    /// `at`, or the newest time before it.
    pub(super) fn not_before(&mut self, at: Timestamp) -> Timestamp {
        let newest = self.newest.map_or(at, |newest| newest.max(at));
        self.newest = Some(newest);
        newest
    }

    /// How many entries were dropped for each reason.
    pub(super) fn dropped(&self) -> &BTreeMap<Option<DropReason>, u64> {
        &self.dropped
    }

    fn trash_bytes(&self) -> u64 {
        self.trash.iter().map(|(_, _, kept)| kept.bytes).sum()
    }
}

impl Journal {
    /// Drops what exceeds the limits.
    pub(crate) fn retain(&mut self, writer: WriterId, limits: RetentionLimits) -> Retained {
        let now = self.clock.now();
        let trust = self.look(now);
        let paused = trust.pause(now);
        let mut drops = Vec::new();
        if paused.is_none() {
            let keeps = |when: &Timestamp| now.duration_since(*when) < TRASH_TIME;
            self.retention.trash.retain(|(when, ..)| keeps(when));
            let kept = SignedDuration::from_hours(24 * i64::from(limits.days));
            let oldest = now.checked_sub(kept).unwrap_or(Timestamp::MIN);
            drops.extend(self.drop_records(writer, DropReason::Age, |kept| kept.began < oldest));
        }
        let most = limits.max_mb.saturating_mul(1024 * 1024);
        let mut bytes: u64 = self.records.values().map(|kept| kept.bytes).sum();
        if bytes + self.retention.trash_bytes() > most {
            self.retention.trash.clear();
        }
        drops.extend(self.drop_records(writer, DropReason::Size, |kept| {
            let goes = bytes > most;
            if goes {
                bytes -= kept.bytes;
            }
            goes
        }));
        Retained { drops, paused }
    }

    /// Puts back what age has dropped.
    pub(crate) fn restore(&mut self) -> Restored {
        let now = self.clock.now();
        let mut restored = Restored::default();
        for (_, place, kept) in std::mem::take(&mut self.retention.trash) {
            restored.entries += 1;
            restored.bytes += kept.bytes;
            self.places.insert(place.1, place);
            self.records.insert(place, kept);
        }
        if restored.entries > 0 {
            self.retention.dropped.remove(&Some(DropReason::Age));
            let trust = self
                .retention
                .trust
                .get_or_insert_with(|| ClockTrust::new(now));
            trust.restored = Some(now);
        }
        restored
    }

    pub(crate) fn trust(&self) -> Option<ClockTrust> {
        self.retention.trust.clone()
    }

    /// Believes the clock as it is.
    pub(crate) fn confirm_clock(&mut self) {
        let now = self.clock.now();
        let trust = self
            .retention
            .trust
            .get_or_insert_with(|| ClockTrust::new(now));
        trust.confirm(now);
    }

    fn look(&mut self, now: Timestamp) -> ClockTrust {
        let uptime = self.clock.uptime();
        let since = self
            .retention
            .looked
            .replace(uptime)
            .map(|before| uptime - before);
        let times = || self.records.values().map(|kept| kept.activity.timestamp);
        let trust = self.retention.trust.take();
        let mut trust = trust
            .or_else(|| ClockTrust::from_times(times().collect()))
            .unwrap_or_else(|| ClockTrust::new(now));
        trust.look(now, since);
        self.retention.trust = Some(trust.clone());
        trust
    }

    /// Drops the oldest records while `goes` returns `true`. The newest record stays, and so does every call that has
    /// not ended.
    pub(super) fn drop_records(
        &mut self,
        writer: WriterId,
        why: DropReason,
        mut goes: impl FnMut(&StoredRecord) -> bool,
    ) -> Vec<DroppedEntries> {
        let newest = self.records.keys().next_back().copied();
        let ended = self
            .records
            .iter()
            .filter(|(place, kept)| Some(**place) != newest && has_ended(&kept.activity));
        let mut oldest: Vec<(Timestamp, Place)> =
            ended.map(|(place, kept)| (kept.began, *place)).collect();
        oldest.sort_unstable();
        let gone: Vec<Place> = oldest
            .into_iter()
            .map(|(_, place)| place)
            .take_while(|place| self.records.get(place).is_some_and(&mut goes))
            .collect();
        let mut gone_of: HashMap<WriterId, Gone> = HashMap::new();
        let now = self.clock.now();
        for place in gone {
            self.places.remove(&place.1);
            let Some(kept) = self.records.remove(&place) else {
                continue;
            };
            let of = gone_of.entry(kept.activity.writer).or_default();
            of.records += 1;
            of.bytes += kept.bytes;
            match why {
                DropReason::Age => self.retention.trash.push((now, place, kept)),
                DropReason::Size => {}
            }
        }
        if gone_of.is_empty() {
            return Vec::new();
        }
        let dropped = self.cut_chains(writer, why, &gone_of);
        let entries: u64 = dropped.iter().map(|dropped| dropped.entries).sum();
        *self.retention.dropped.entry(Some(why)).or_default() += entries;
        dropped
    }

    /// Forgets the hashes before the first record that each chain still has, and names them in a
    /// checkpoint of `writer`.
    fn cut_chains(
        &mut self,
        writer: WriterId,
        why: DropReason,
        gone_of: &HashMap<WriterId, Gone>,
    ) -> Vec<DroppedEntries> {
        let mut firsts: HashMap<WriterId, u64> = HashMap::new();
        for kept in self.records.values() {
            let first = firsts.entry(kept.activity.writer).or_insert(u64::MAX);
            *first = (*first).min(kept.activity.seq);
        }
        let mut dropped = Vec::new();
        for (of, chain) in &mut self.writers {
            let (last, _) = chain.last();
            let first = firsts.get(of).copied().unwrap_or(last);
            let gone = gone_of.get(of).copied().unwrap_or_default();
            // Records that were put back before have no hashes any more: they count as an entry each.
            let cut = chain.cut_before(first);
            let again = || {
                let (seq, hash) = chain.last_dropped().filter(|_| gone.records > 0)?;
                Some((seq, hash, gone.records))
            };
            if let Some((seq, hash, entries)) = cut.or_else(again) {
                let last = Head {
                    writer: *of,
                    seq,
                    hash,
                };
                dropped.push(DroppedEntries {
                    last,
                    entries,
                    bytes: gone.bytes,
                    why,
                });
            }
        }
        for one in &dropped {
            let checkpoint = Checkpoint {
                dropped: one.last.clone(),
                entries: one.entries,
                why: Some(why),
            };
            self.append(writer, &Entry::Checkpoint(checkpoint));
        }
        dropped
    }
}
