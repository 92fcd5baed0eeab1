//! `callgate activity watch` and `summary`: new records as they arrive, and counts of records.

use std::{
    collections::HashSet,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use callgate_record::{Activity as Record, ActivityFilter as Filter, Archive, RecordType};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{COLUMNS, archive_failed, failed, row, since, warn_about_damage};
use crate::{
    exit::Failed,
    print::{outln, table},
};

/// How often the record is polled.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A call that has been running this long is shown as running.
const PATIENCE: Duration = Duration::from_secs(2);
/// Records per poll.
const AT_ONCE: usize = 1000;

/// Prints calls as they end, oldest first, until `count` are printed or the reader closes the pipe.
pub(super) fn watch(
    archive: &dyn Archive,
    filter: &Filter,
    count: Option<u64>,
    as_json: bool,
) -> Result<ExitCode, Failed> {
    // An index that is far behind catches up before the watch begins.
    archive.caveats().map_err(archive_failed)?;
    let mut from = filter.since.unwrap_or_else(Timestamp::now);
    let mut shown: HashSet<String> = HashSet::new();
    let mut left = count.unwrap_or(u64::MAX);
    if !as_json {
        outln!("{}", COLUMNS.join("  "));
    }
    while left > 0 {
        let looked = Instant::now();
        let asked = Filter {
            since: Some(from),
            record_type: filter.record_type.or(Some(RecordType::ToolCall)),
            limit: Some(AT_ONCE),
            ..filter.clone()
        };
        let page = archive.page(&asked).map_err(archive_failed)?;
        let fresh = page.activities.iter().rev();
        for record in fresh.filter(|record| is_settled(record)) {
            if left > 0 && shown.insert(record.id.to_string()) {
                print(record, as_json)?;
                left -= 1;
            }
        }
        // The next poll starts at the oldest unsettled call, so that its end is not missed.
        let open = page.activities.iter().filter(|record| !is_settled(record));
        let newest = page
            .activities
            .first()
            .map_or(from, |record| record.timestamp);
        from = open.map(|record| record.timestamp).min().unwrap_or(newest);
        if left > 0 {
            thread::sleep(LOOK_EVERY.saturating_sub(looked.elapsed()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether a record has its call's end, or has waited [`PATIENCE`] for it.
fn is_settled(record: &Record) -> bool {
    let age = Timestamp::now().duration_since(record.timestamp);
    record.status.is_some() || age.unsigned_abs() > PATIENCE
}

fn print(record: &Record, as_json: bool) -> Result<(), Failed> {
    if as_json {
        outln!("{}", serde_json::to_string(record).map_err(failed)?);
    } else {
        outln!("{}", row(record).join("  "));
    }
    Ok(())
}

/// Prints the number of records per status, intent, decision, server and tool.
pub(super) fn summary(
    archive: &dyn Archive,
    period: &str,
    as_json: bool,
) -> Result<ExitCode, Failed> {
    let summary = archive
        .summary(since(period)?, None)
        .map_err(archive_failed)?;
    warn_about_damage(archive)?;
    let sorts = [
        ("by_status", &summary.by_status),
        ("by_intent", &summary.by_intent),
        ("by_decision", &summary.by_decision),
        ("by_server", &summary.by_server),
        ("by_tool", &summary.by_tool),
    ];
    if as_json {
        let mut shown = json!({"period": period, "total": summary.total});
        for (name, counts) in sorts {
            let pairs = counts
                .iter()
                .map(|(sort, count)| (sort.clone(), (*count).into()));
            shown[name] = Value::Object(pairs.collect());
        }
        outln!("{shown}");
        return Ok(ExitCode::SUCCESS);
    }
    outln!("{} records in {period}\n", summary.total);
    let mut rows = Vec::new();
    for (name, counts) in sorts {
        let what = name.trim_start_matches("by_");
        let cells = |(sort, count): &(String, u64)| {
            vec![
                what.to_owned(),
                crate::print::one_line(sort, 60),
                count.to_string(),
            ]
        };
        rows.extend(counts.iter().map(cells));
    }
    table(&["WHAT", "WHICH", "RECORDS"], &rows);
    Ok(ExitCode::SUCCESS)
}
