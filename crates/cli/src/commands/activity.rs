//! `callgate activity …`: lists, verifies and exports recorded calls.

mod heads;
mod live;
pub(super) mod retention;

use std::{
    io::{self, IsTerminal as _, Write},
    path::Path,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use callgate_gate::CallId;
use callgate_record::{
    Activity as Record, ActivityFilter as Filter, Archive, ArchiveError, FillProgress, Format,
    Status, TellProgress,
};
use jiff::Timestamp;

use crate::{
    age,
    args::{Activity, ActivityCommand, ActivityFilter, ExportFormat, Shared},
    exit::Failed,
    print::{one_line, outln, table},
    setup,
};

/// The columns of a list.
const COLUMNS: [&str; 9] = [
    "ID", "TIME", "AGENT", "SERVER", "TOOL", "INTENT", "STATUS", "MS", "RULE",
];

pub(crate) fn run(shared: &Shared, activity: &Activity) -> Result<ExitCode, Failed> {
    match &activity.command {
        ActivityCommand::Head {
            publish: Some(place),
        } => heads::publish(shared, place.as_deref()),
        command => print(&setup::data_dir(shared)?, command, shared.json),
    }
}

/// Prints what a data folder has on record.
pub(crate) fn print(
    data_dir: &Path,
    command: &ActivityCommand,
    as_json: bool,
) -> Result<ExitCode, Failed> {
    let archive = &*callgate_gateway::shared_stores(data_dir)?.archive;
    if io::stderr().is_terminal() {
        archive.tell_progress(indexing());
    }
    match command {
        ActivityCommand::List { filter, limit } => {
            let filter = Filter {
                limit: Some(usize::from(*limit)),
                ..record_filter(filter)?
            };
            list(archive, &filter, as_json)
        }
        ActivityCommand::Show { id } => show(archive, id),
        ActivityCommand::Watch { filter, count } => {
            live::watch(archive, &record_filter(filter)?, *count, as_json)
        }
        ActivityCommand::Summary { period } => live::summary(archive, period, as_json),
        ActivityCommand::Verify { head } => check(archive, head.as_deref(), as_json),
        ActivityCommand::Head { .. } => heads::print(archive, as_json),
        ActivityCommand::Restore => retention::restore(archive, as_json),
        ActivityCommand::Clock { confirm } => retention::clock(archive, *confirm, as_json),
        ActivityCommand::Export { format, filter } => write_out(archive, *format, filter),
    }
}

/// How long a person waits before being told why.
const PATIENCE: Duration = Duration::from_millis(500);

/// Shows at the terminal how far the index is, where filling it takes long.
fn indexing() -> TellProgress {
    let began = Instant::now();
    let is_shown = AtomicBool::new(false);
    TellProgress::new(move |progress: FillProgress| {
        let FillProgress { read, of } = progress;
        if read >= of {
            if is_shown.swap(false, Ordering::Relaxed) {
                // Back to the beginning of the line, which is erased.
                eprint!("\r\x1b[K");
            }
        } else if began.elapsed() >= PATIENCE {
            is_shown.store(true, Ordering::Relaxed);
            eprint!("\rindexing the activity log: {} %", read * 100 / of);
        }
    })
}

fn list(archive: &dyn Archive, filter: &Filter, as_json: bool) -> Result<ExitCode, Failed> {
    let page = archive.page(filter).map_err(archive_failed)?;
    warn_about_damage(archive)?;
    if as_json {
        let (activities, total, next_cursor) = (page.activities, page.total, page.next_cursor);
        outln!(
            "{}",
            serde_json::json!({"activities": activities, "total": total, "next_cursor": next_cursor})
        );
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<Vec<String>> = page.activities.iter().map(row).collect();
    table(&COLUMNS, &rows);
    let shown = rows.len() as u64;
    if page.total > shown {
        eprintln!(
            "note: {shown} of {} records shown; use --limit or --since to see others",
            page.total
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn row(record: &Record) -> Vec<String> {
    let text = |field: &Option<String>| {
        field
            .as_deref()
            .map(|text| one_line(text, 40))
            .unwrap_or_default()
    };
    let intent = record
        .metadata
        .intent
        .as_ref()
        .and_then(|intent| intent.operation_type.clone());
    vec![
        record.id.to_string(),
        record.timestamp.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        text(&record.agent),
        text(&record.server),
        text(&record.tool),
        intent.unwrap_or_default(),
        record.status.map_or("running", status_word).to_owned(),
        record
            .duration_ms
            .map(|ms| format!("{ms:.1}"))
            .unwrap_or_default(),
        text(&record.rule),
    ]
}

fn show(archive: &dyn Archive, id: &str) -> Result<ExitCode, Failed> {
    let unknown = || {
        Failed::user(format!("there is no record `{id}`"))
            .help("`callgate activity list` shows ids")
    };
    let id = id.parse().map(CallId).map_err(|_| unknown())?;
    let record = archive
        .get(id)
        .map_err(archive_failed)?
        .ok_or_else(unknown)?;
    warn_about_damage(archive)?;
    let text = serde_json::to_string_pretty(&record).map_err(failed)?;
    outln!("{text}");
    Ok(ExitCode::SUCCESS)
}

fn check(
    archive: &dyn Archive,
    exported: Option<&Path>,
    as_json: bool,
) -> Result<ExitCode, Failed> {
    let exported = exported.map(heads::read).transpose()?;
    let found = archive
        .verify(exported.as_deref())
        .map_err(archive_failed)?;
    let mut problems = found.problems;
    let rebuilt =
        |differed: String| format!("{differed}; the index was rebuilt from the activity log");
    problems.extend(found.index_differed.map(rebuilt));
    let is_sound = problems.is_empty();
    if as_json {
        let report = serde_json::json!({
            "writers": found.writers, "entries": found.entries, "sound": is_sound, "problems": problems, "notes": found.notes
        });
        outln!("{report}");
    } else {
        outln!("{} entries of {} writers", found.entries, found.writers);
        problems
            .iter()
            .for_each(|problem| outln!("problem: {}", one_line(problem, 300)));
        found
            .notes
            .iter()
            .for_each(|note| outln!("note: {}", one_line(note, 300)));
    }
    if is_sound {
        // Nothing can be said about a log without entries: it may have been deleted.
        if found.entries > 0 {
            eprintln!("the activity log is sound");
        }
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failed::user(format!(
        "the activity log has {} problems",
        problems.len()
    )))
}

fn write_out(
    archive: &dyn Archive,
    format: ExportFormat,
    filter: &ActivityFilter,
) -> Result<ExitCode, Failed> {
    let format = match format {
        ExportFormat::Jsonl => Format::Jsonl,
        ExportFormat::Csv => Format::Csv,
    };
    warn_about_damage(archive)?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    let exported = archive.export(format, &record_filter(filter)?, &mut out);
    let written = match exported.and_then(|written| Ok(out.flush().map(|()| written)?)) {
        Ok(written) => written,
        // A pager or `head` closes the pipe once it has enough; that must not fail the command.
        Err(ArchiveError::Unwritable(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            return Ok(ExitCode::SUCCESS);
        }
        Err(error) => return Err(archive_failed(error)),
    };
    eprintln!("exported {written} records");
    Ok(ExitCode::SUCCESS)
}

/// Warns about a rebuilt index and about damaged entries.
pub(super) fn warn_about_damage(archive: &dyn Archive) -> Result<(), Failed> {
    let caveats = archive.caveats().map_err(archive_failed)?;
    if caveats.index_rebuilt {
        eprintln!(
            "warning: another program changed index.sqlite; it was rebuilt from the activity log"
        );
    }
    match caveats.damaged_entries {
        0 => {}
        count => eprintln!(
            "warning: {count} damaged entries of the activity log were skipped\nhelp: `callgate activity verify` lists them"
        ),
    }
    Ok(())
}

/// The filter of the record for these arguments.
fn record_filter(filter: &ActivityFilter) -> Result<Filter, Failed> {
    let intents = ["read", "write", "destructive"];
    if let Some(intent) = filter
        .intent_type
        .as_deref()
        .filter(|intent| !intents.contains(intent))
    {
        return Err(Failed::user(format!("unknown intent `{intent}`"))
            .help("use read, write or destructive"));
    }
    Ok(Filter {
        server: filter.server.clone(),
        tool: filter.tool.clone(),
        status: filter.status.as_deref().map(parse_status).transpose()?,
        intent_type: filter.intent_type.clone(),
        since: filter.since.as_deref().map(since).transpose()?,
        ..Filter::default()
    })
}

fn parse_status(text: &str) -> Result<Status, Failed> {
    let parsed = serde_json::from_value(serde_json::Value::String(text.to_owned()));
    parsed.map_err(|_| {
        Failed::user(format!("unknown status `{text}`"))
            .help("use success, error, blocked, rejected, pending, unknown, cancelled or bypassed")
    })
}

/// The moment that `--since` names: a time, or an age counted from now.
pub(super) fn since(text: &str) -> Result<Timestamp, Failed> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    let age = age::parse(text);
    age.and_then(|age| Timestamp::now().checked_sub(age).ok())
        .ok_or_else(|| {
            Failed::user(format!("`{text}` is neither a time nor an age"))
                .help("write it like 2026-01-31T12:00:00Z, 2h or 7d")
        })
}

fn status_word(status: Status) -> &'static str {
    match status {
        Status::Success => "success",
        Status::Error => "error",
        Status::Blocked => "blocked",
        Status::Rejected => "rejected",
        Status::Pending => "pending",
        Status::Unknown => "unknown",
        Status::Cancelled => "cancelled",
        Status::Bypassed => "bypassed",
    }
}

/// The failure of a command that cannot read the record.
pub(super) fn archive_failed(error: ArchiveError) -> Failed {
    match error {
        ArchiveError::Unreadable { reason } => Failed::system(reason),
        ArchiveError::BadCursor { .. }
        | ArchiveError::NotDropped { .. }
        | ArchiveError::Unwritable(_) => failed(error),
    }
}

fn failed(error: impl std::fmt::Display) -> Failed {
    Failed::system(error.to_string())
}
