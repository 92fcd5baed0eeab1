//! The archive: queries, verification and retention.

use callgate_gate::CallId;
use serde_json::json;

use super::sample::{
    assert_sound, call, entry, event, exported, finished, forwarding, new_id, open, statuses,
    write_call,
};
use crate::{
    ActivityFilter, ArchiveError, Backend, Decision, Format, RecordType, RetentionLimits, Status,
    Stores,
};

// With 0 MiB all entries that may be dropped exceed the limits.
const NOTHING: RetentionLimits = RetentionLimits {
    days: 90,
    max_mb: 0,
};

/// Three calls of different kinds and an event, by a writer that has closed its log.
fn sample(backend: &dyn Backend) -> [CallId; 3] {
    let log = open(backend).log;
    let ids = [new_id(), new_id(), new_id()];
    log.append(&forwarding(ids[0])).expect("it is taken");
    log.append_or_queue(finished(ids[0]));
    let mut refused = call("refused", ids[1]);
    for (member, value) in [
        ("decision", json!("DENY")),
        ("rule", json!("deny:gateway:fail_closed")),
        ("status", json!("blocked")),
        (
            "intent",
            json!({"operation_type": "destructive", "inferred": true}),
        ),
        ("server", json!("github")),
        ("tool", json!("delete")),
        ("agent", json!("other")),
        ("session_id", json!("s2")),
        ("request_id", json!("\"abc\"")),
        ("parent_id", json!(ids[0])),
        ("tenant", json!("acme")),
        (
            "checks",
            json!([{"scope": "filesystem", "decision": "DENY", "rule": "deny:x"}]),
        ),
    ] {
        refused[member] = value;
    }
    log.append_or_queue(entry(&refused));
    let mut method = call("forwarding", ids[2]);
    method["type"] = "other".into();
    log.append(&entry(&method)).expect("it is taken");
    log.append_or_queue(event("upstream.down"));
    log.close().expect("it closes");
    ids
}

pub(super) fn archive_filters_find_exactly_their_matches(backend: &dyn Backend) {
    type Set = fn(&mut ActivityFilter, CallId);
    let ids = sample(backend);
    let archive = backend.shared().expect("it opens").archive;
    let now = jiff::Timestamp::now();
    let cases: [(&str, usize, Set); 20] = [
        ("everything", 4, |_, _| {}),
        ("type", 2, |f, _| f.record_type = Some(RecordType::ToolCall)),
        ("events", 1, |f, _| f.record_type = Some(RecordType::System)),
        ("server", 1, |f, _| f.server = Some("github".to_owned())),
        // Values are compared, not matched: `%` would be a wildcard in SQL.
        ("no pattern", 0, |f, _| f.server = Some("git%".to_owned())),
        ("tool", 2, |f, _| f.tool = Some("read".to_owned())),
        ("event name", 1, |f, _| {
            f.tool = Some("upstream.down".to_owned())
        }),
        ("session", 1, |f, _| f.session_id = Some("s2".to_owned())),
        ("status", 2, |f, _| f.status = Some(Status::Success)),
        ("the writer has closed", 1, |f, _| {
            f.status = Some(Status::Unknown)
        }),
        ("intent", 1, |f, _| {
            f.intent_type = Some("destructive".to_owned())
        }),
        ("decision", 1, |f, _| f.decision = Some(Decision::Deny)),
        ("rule prefix", 1, |f, _| {
            f.rule_prefix = Some("deny:gateway:".to_owned())
        }),
        ("scope", 1, |f, _| f.scope = Some("filesystem".to_owned())),
        ("half a scope", 0, |f, _| f.scope = Some("file".to_owned())),
        ("tenant", 1, |f, _| f.tenant = Some("acme".to_owned())),
        ("request", 1, |f, _| {
            f.request_id = Some("\"abc\"".to_owned())
        }),
        ("parent", 1, |f, id| f.parent_id = Some(id)),
        ("agent", 2, |f, _| f.agent = Some("tester".to_owned())),
        ("two at once", 0, |f, _| {
            f.agent = Some("tester".to_owned());
            f.status = Some(Status::Blocked);
        }),
    ];
    for (name, expected, set) in cases {
        let mut filter = ActivityFilter::default();
        set(&mut filter, ids[0]);
        let page = archive.page(&filter).expect("a page");
        let found = (page.activities.len(), page.total);
        assert_eq!(found, (expected, expected as u64), "{name}");
        let out = &mut std::io::sink();
        let count = archive
            .export(Format::Csv, &filter, out)
            .expect("an export");
        assert_eq!(count, expected as u64, "{name}");
        assert!(
            page.activities.iter().all(|one| filter.includes(one)),
            "{name}"
        );
    }
    let (mut since, mut until) = (ActivityFilter::default(), ActivityFilter::default());
    (since.since, until.until) = (Some(now), Some(now));
    assert_eq!(archive.page(&since).expect("a page").total, 0);
    assert_eq!(archive.page(&until).expect("a page").total, 4);
}

pub(super) fn pages_do_not_overlap_while_the_log_grows(backend: &dyn Backend) {
    let Stores { log, archive, .. } = open(backend);
    let written: Vec<CallId> = (0..25).map(|_| write_call(&*log)).collect();
    let mut filter = ActivityFilter {
        limit: Some(10),
        ..ActivityFilter::default()
    };
    let mut seen = Vec::new();
    loop {
        let page = archive.page(&filter).expect("a page");
        seen.extend(page.activities.iter().map(|one| one.id));
        // A record that is added between two pages must neither shift nor repeat others.
        write_call(&*log);
        match page.next_cursor {
            Some(cursor) => filter.cursor = Some(cursor),
            None => break,
        }
    }
    seen.reverse();
    assert_eq!(seen, written);
    filter.cursor = Some("nonsense".to_owned());
    let refused = archive.page(&filter);
    assert!(matches!(refused, Err(ArchiveError::BadCursor { .. })));
}

pub(super) fn exports_are_oldest_first_in_both_formats(backend: &dyn Backend) {
    let ids = sample(backend);
    let archive = backend.shared().expect("it opens").archive;
    let records = exported(&*archive);
    assert_eq!(records[0].id, ids[0]);
    assert_eq!(records[0].duration_ms, Some(1.2));
    assert_eq!(records[3].tool.as_deref(), Some("upstream.down"));
    let filter = ActivityFilter {
        status: Some(Status::Blocked),
        ..ActivityFilter::default()
    };
    let mut csv = Vec::new();
    let count = archive.export(Format::Csv, &filter, &mut csv);
    assert_eq!(count.expect("an export"), 1);
    let csv = String::from_utf8(csv).expect("text");
    let (heading, row) = csv.split_once('\n').expect("a heading");
    // A new member of a record must not be missing in CSV exports.
    let record = serde_json::to_value(&records[0]).expect("JSON");
    let members = record.as_object().expect("an object").keys();
    assert_eq!(heading, members.cloned().collect::<Vec<_>>().join(","));
    assert!(row.starts_with(&ids[1].to_string()), "{row}");
    assert!(row.contains(r#","""abc""","#), "{row}");
}

pub(super) fn a_summary_counts_one_tenant_or_all(backend: &dyn Backend) {
    sample(backend);
    let archive = backend.shared().expect("it opens").archive;
    let since = jiff::Timestamp::UNIX_EPOCH;
    let all = archive.summary(since, None).expect("a summary");
    assert_eq!(all.total, 4);
    assert_eq!(
        all.by_decision,
        [("ALLOW".to_owned(), 2), ("DENY".to_owned(), 1)]
    );
    let acme = archive.summary(since, Some("acme")).expect("a summary");
    assert_eq!(
        (acme.total, acme.by_tool),
        (1, vec![("delete".to_owned(), 1)])
    );
    let later = archive.summary(jiff::Timestamp::now(), None);
    assert_eq!(later.expect("a summary").total, 0);
}

pub(super) fn readers_do_not_change_the_log(backend: &dyn Backend) {
    let reader = backend.shared().expect("it opens");
    assert_eq!(assert_sound(&*reader.archive), 0);
    assert!(reader.archive.heads().expect("heads").is_empty());
    sample(backend);
    let entries = assert_sound(&*reader.archive);
    let again = backend.shared().expect("it opens");
    assert_eq!(statuses(&*again.archive).len(), 4);
    assert_eq!(assert_sound(&*again.archive), entries);
}

pub(super) fn exported_heads_reveal_missing_entries(backend: &dyn Backend) {
    let Stores { log, archive, .. } = open(backend);
    write_call(&*log);
    let keyed = archive.heads().expect("heads");
    let heads: Vec<_> = keyed.iter().map(|keyed| keyed.head.clone()).collect();
    assert_eq!(heads, [log.head()]);
    assert!(keyed.iter().all(|keyed| keyed.mac.len() == 64));
    write_call(&*log);
    let sound = archive.verify(Some(&heads)).expect("it is read");
    assert!(sound.is_sound(), "{sound:?}");
    let mut later = log.head();
    later.seq += 10;
    let mut other = log.head();
    other.hash = "0".repeat(64);
    for head in [later, other] {
        let found = archive.verify(Some(&[head])).expect("it is read");
        assert_eq!(found.problems.len(), 1, "{found:?}");
    }
}

pub(super) fn retention_drops_the_oldest_and_keeps_the_newest(backend: &dyn Backend) {
    let Stores { log, archive, .. } = open(backend);
    let written: Vec<CallId> = (0..40).map(|_| write_call(&*log)).collect();
    assert_eq!(statuses(&*archive).len(), 40);
    let exported = archive.heads().expect("heads");
    let dropped = archive.retain(NOTHING).expect("they are dropped");
    assert!(dropped.entries() > 0 && dropped.bytes() > 0, "{dropped:?}");
    let left: Vec<CallId> = statuses(&*archive).iter().map(|(id, _)| *id).collect();
    assert!(
        !left.is_empty() && left.len() < 40,
        "{} are left",
        left.len()
    );
    assert!(written.ends_with(&left), "the oldest went");
    assert_sound(&*archive);
    // Heads that were exported before name entries that are gone now; a checkpoint must account for them.
    let heads: Vec<_> = exported.into_iter().map(|keyed| keyed.head).collect();
    let found = archive.verify(Some(&heads)).expect("it is read");
    assert!(found.is_sound(), "a checkpoint explains it: {found:?}");
    write_call(&*log);
    assert_sound(&*archive);
}

pub(super) fn retention_keeps_calls_that_have_not_ended(backend: &dyn Backend) {
    let living = open(backend);
    let dead = open(backend);
    let left_open = new_id();
    dead.log
        .append(&forwarding(left_open))
        .expect("it is taken");
    drop(dead);
    living.archive.retain(NOTHING).expect("they are dropped");
    let running = new_id();
    (0..20).for_each(|_| _ = write_call(&*living.log));
    living
        .log
        .append(&forwarding(running))
        .expect("it is taken");
    living.archive.retain(NOTHING).expect("they are dropped");
    let on_record = statuses(&*living.archive);
    assert!(
        on_record.contains(&(left_open, Some(Status::Unknown))),
        "no writer has closed it"
    );
    assert!(on_record.contains(&(running, None)), "it is the newest");
    living.log.append_or_queue(finished(running));
    let on_record = statuses(&*living.archive);
    assert!(on_record.contains(&(running, Some(Status::Success))));
    assert_sound(&*living.archive);
}

pub(super) fn retention_keeps_entries_within_its_limits(backend: &dyn Backend) {
    let Stores { log, archive, .. } = open(backend);
    (0..10).for_each(|_| _ = write_call(&*log));
    let limits = RetentionLimits { days: 1, max_mb: 1 };
    let dropped = archive.retain(limits).expect("it looks");
    assert_eq!(dropped, Default::default());
    assert_eq!(statuses(&*archive).len(), 10);
}

pub(super) fn only_writers_can_drop_old_entries(backend: &dyn Backend) {
    sample(backend);
    let archive = backend.shared().expect("it opens").archive;
    let refused = archive.retain(NOTHING);
    assert!(matches!(refused, Err(ArchiveError::NotDropped { .. })));
    assert_eq!(statuses(&*archive).len(), 4);
}
