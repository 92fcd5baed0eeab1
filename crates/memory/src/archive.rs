//! Questions about the journal.

use std::{collections::HashMap, io::Write};

use callgate_gate::CallId;
use callgate_record::{
    Activity, ActivityFilter, Archive, ArchiveError, ClockTrust, Format, Head, KeyedHead, Page,
    Restored, Retained, RetentionLimits, Summary, Verification, WriterId,
};
use jiff::Timestamp;
use ulid::Ulid;

use crate::{backend::Shared, journal::Place};

/// A summary lists at most so many values, the most frequent first.
const MAX_SORTS: usize = 20;

#[derive(Debug)]
pub(crate) struct MemoryArchive {
    journal: Shared,
    /// The writer whose chain names what is dropped.
    writer: Option<WriterId>,
}

impl MemoryArchive {
    pub(crate) fn new(journal: Shared, writer: Option<WriterId>) -> Self {
        Self { journal, writer }
    }
}

impl Archive for MemoryArchive {
    fn page(&self, filter: &ActivityFilter) -> Result<Page, ArchiveError> {
        let before = filter.cursor.as_deref().map(parse_cursor).transpose()?;
        let journal = self.journal.lock();
        let mut page = Page::default();
        let mut last = None;
        for (place, activity) in journal.all().rev() {
            if !filter.includes(&activity) {
                continue;
            }
            page.total += 1;
            if before.is_some_and(|before| place >= before) {
                continue;
            }
            if page.activities.len() < filter.page_size() {
                last = Some(place);
                page.activities.push(activity);
            } else if page.next_cursor.is_none() {
                page.next_cursor = last.map(|(at, id): Place| format!("{at:x}-{id}"));
            }
        }
        Ok(page)
    }

    fn get(&self, id: CallId) -> Result<Option<Activity>, ArchiveError> {
        Ok(self.journal.lock().get(id))
    }

    fn export(
        &self,
        format: Format,
        filter: &ActivityFilter,
        out: &mut dyn Write,
    ) -> Result<u64, ArchiveError> {
        // Copied first: a slow reader must not keep calls waiting for the journal.
        let records: Vec<Activity> = {
            let journal = self.journal.lock();
            let all = journal.all().map(|(_, activity)| activity);
            all.filter(|activity| filter.includes(activity)).collect()
        };
        format.begin(out)?;
        for record in &records {
            format.write(out, record)?;
        }
        out.flush()?;
        Ok(records.len() as u64)
    }

    fn summary(&self, since: Timestamp, tenant: Option<&str>) -> Result<Summary, ArchiveError> {
        let filter = ActivityFilter {
            since: Some(since),
            tenant: tenant.map(str::to_owned),
            ..ActivityFilter::default()
        };
        let journal = self.journal.lock();
        let mut sorts: [HashMap<String, u64>; 5] = Default::default();
        let mut total = 0;
        for (_, one) in journal.all().filter(|(_, one)| filter.includes(one)) {
            total += 1;
            let intent = one.metadata.intent.and_then(|intent| intent.operation_type);
            let words = [
                one.status.map(|status| word(&status)),
                intent,
                one.decision.map(|decision| word(&decision)),
                one.server,
                one.tool,
            ];
            for (counts, word) in sorts.iter_mut().zip(words) {
                if let Some(word) = word {
                    *counts.entry(word).or_default() += 1;
                }
            }
        }
        let [by_status, by_intent, by_decision, by_server, by_tool] = sorts.map(most_frequent);
        Ok(Summary {
            total,
            by_status,
            by_intent,
            by_decision,
            by_server,
            by_tool,
        })
    }

    fn verify(&self, exported: Option<&[Head]>) -> Result<Verification, ArchiveError> {
        Ok(self.journal.lock().verify(exported.unwrap_or_default()))
    }

    fn heads(&self) -> Result<Vec<KeyedHead>, ArchiveError> {
        Ok(self.journal.lock().keyed_heads())
    }

    fn retain(&self, limits: RetentionLimits) -> Result<Retained, ArchiveError> {
        let writer = self.writer.ok_or_else(|| ArchiveError::NotDropped {
            reason: "a process without a log of its own cannot drop old records".to_owned(),
        })?;
        Ok(self.journal.lock().retain(writer, limits))
    }

    fn restore(&self) -> Result<Restored, ArchiveError> {
        Ok(self.journal.lock().restore())
    }

    fn clock(&self) -> Result<Option<ClockTrust>, ArchiveError> {
        Ok(self.journal.lock().trust())
    }

    fn confirm_clock(&self) -> Result<(), ArchiveError> {
        self.journal.lock().confirm_clock();
        Ok(())
    }
}

fn most_frequent(counts: HashMap<String, u64>) -> Vec<(String, u64)> {
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by(|(a, many), (b, more)| more.cmp(many).then_with(|| a.cmp(b)));
    counts.truncate(MAX_SORTS);
    counts
}

/// The word that an enum is written as.
fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

fn parse_cursor(cursor: &str) -> Result<Place, ArchiveError> {
    let parse = || {
        let (at, id) = cursor.split_once('-')?;
        let id = Ulid::from_string(id).ok()?;
        Some((i64::from_str_radix(at, 16).ok()?, CallId(id)))
    };
    parse().ok_or_else(|| ArchiveError::BadCursor {
        cursor: cursor.to_owned(),
    })
}
