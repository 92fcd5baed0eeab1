//! `callgate activity watch` and `summary`: the record as it grows, and in numbers.

use std::{
    collections::HashSet,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use callgate_record::{Activity as Record, ActivityFilter as Filter, Archive, RecordType};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{COLUMNS, broken, failed, row, since, tell};
use crate::{
    exit::Failed,
    print::{outln, table},
};

/// How often it is looked whether there is something new.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A call that began so long ago and has not ended is shown as it stands.
const PATIENCE: Duration = Duration::from_secs(2);
/// New records that are looked at in one go.
const AT_ONCE: usize = 1000;

/// Prints calls as they end, oldest first, until so many are printed or the reader has seen enough.
pub(super) fn watch(
    archive: &dyn Archive,
    filter: &Filter,
    count: Option<u64>,
    as_json: bool,
) -> Result<ExitCode, Failed> {
    // An index that is far behind catches up before the watch begins.
    archive.caveats().map_err(broken)?;
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
        let page = archive.page(&asked).map_err(broken)?;
        let fresh = page.activities.iter().rev();
        for record in fresh.filter(|record| is_settled(record)) {
            if left > 0 && shown.insert(record.id.to_string()) {
                print(record, as_json)?;
                left -= 1;
            }
        }
        // What is not settled yet is looked at again; the rest need not be.
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

/// Whether a record says how its call ended, or has been waiting for that for a while.
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

/// Prints how many records of each sort there are.
pub(super) fn summary(
    archive: &dyn Archive,
    period: &str,
    as_json: bool,
) -> Result<ExitCode, Failed> {
    let hours = match period {
        "7d" => "168h",
        "30d" => "720h",
        other => other,
    };
    let summary = archive.summary(since(hours)?, None).map_err(broken)?;
    tell(archive)?;
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
