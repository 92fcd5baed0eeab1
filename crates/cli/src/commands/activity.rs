//! `callgate activity …`: what is on record.

mod live;

use std::{
    fs,
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

use callgate_gate::CallId;
use callgate_record::{Activity as Record, Head, KeyedHead, Status};
use callgate_store::{
    ActivityFilter as Filter, ExportError, Format, Index, compare_index, export, heads, verify,
};
use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;

use crate::{
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
    print(&setup::data_dir(shared)?, &activity.command, shared.json)
}

/// Prints what a data folder has on record.
pub(crate) fn print(
    data_dir: &Path,
    command: &ActivityCommand,
    as_json: bool,
) -> Result<ExitCode, Failed> {
    match command {
        ActivityCommand::List { filter, limit } => {
            let filter = Filter {
                limit: Some(usize::from(*limit)),
                ..meant(filter)?
            };
            list(data_dir, &filter, as_json)
        }
        ActivityCommand::Show { id } => show(data_dir, id),
        ActivityCommand::Watch { filter, count } => {
            live::watch(data_dir, &meant(filter)?, *count, as_json)
        }
        ActivityCommand::Summary { period } => live::summary(data_dir, period, as_json),
        ActivityCommand::Verify { head } => check(data_dir, head.as_deref(), as_json),
        ActivityCommand::Head => print_heads(data_dir, as_json),
        ActivityCommand::Export { format, filter } => write_out(data_dir, *format, filter),
    }
}

fn list(data_dir: &Path, filter: &Filter, as_json: bool) -> Result<ExitCode, Failed> {
    let mut index = index(data_dir)?;
    let page = index.query(filter).map_err(failed)?;
    tell(&mut index)?;
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
            "note: {shown} of {} shown; use --limit or --since for others",
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

fn show(data_dir: &Path, id: &str) -> Result<ExitCode, Failed> {
    let unknown = || {
        Failed::user(format!("there is no record `{id}`"))
            .help("`callgate activity list` shows ids")
    };
    let id = id.parse().map(CallId).map_err(|_| unknown())?;
    let mut index = index(data_dir)?;
    let record = index.get(id).map_err(failed)?.ok_or_else(unknown)?;
    tell(&mut index)?;
    let text = serde_json::to_string_pretty(&record).map_err(failed)?;
    outln!("{text}");
    Ok(ExitCode::SUCCESS)
}

fn check(data_dir: &Path, exported: Option<&Path>, as_json: bool) -> Result<ExitCode, Failed> {
    let exported = exported.map(read_heads).transpose()?;
    let found = verify(data_dir, exported.as_deref()).map_err(failed)?;
    let mut problems: Vec<String> = found.problems.iter().map(ToString::to_string).collect();
    let differed = compare_index(data_dir).map_err(failed)?;
    problems.extend(differed.map(|what| {
        format!("index.sqlite differed from the log: {what}; it was rebuilt from the log")
    }));
    let is_sound = problems.is_empty();
    if as_json {
        let report = serde_json::json!({
            "writers": found.writers, "entries": found.entries, "sound": is_sound, "problems": problems
        });
        outln!("{report}");
    } else {
        outln!("{} entries of {} writers", found.entries, found.writers);
        problems
            .iter()
            .for_each(|problem| outln!("problem: {}", one_line(problem, 300)));
    }
    if is_sound {
        eprintln!("the record is sound");
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failed::user(format!(
        "the record has {} problems",
        problems.len()
    )))
}

fn print_heads(data_dir: &Path, as_json: bool) -> Result<ExitCode, Failed> {
    let heads = heads(data_dir).map_err(failed)?;
    if as_json {
        outln!("{}", serde_json::to_string(&heads).map_err(failed)?);
        return Ok(ExitCode::SUCCESS);
    }
    let row = |keyed: &KeyedHead| {
        vec![
            keyed.head.writer.to_string(),
            keyed.head.seq.to_string(),
            keyed.head.hash.clone(),
        ]
    };
    table(
        &["WRITER", "SEQ", "HASH"],
        &heads.iter().map(row).collect::<Vec<_>>(),
    );
    Ok(ExitCode::SUCCESS)
}

fn read_heads(file: &Path) -> Result<Vec<Head>, Failed> {
    let wrong = |why: String| Failed::user(format!("`{}`: {why}", file.display()));
    let text = fs::read(file).map_err(|error| wrong(error.to_string()))?;
    let keyed: Vec<KeyedHead> = serde_json::from_slice(&text).map_err(|error| {
        wrong(error.to_string()).help("it must be the output of `callgate activity head --json`")
    })?;
    Ok(keyed.into_iter().map(|keyed| keyed.head).collect())
}

fn write_out(
    data_dir: &Path,
    format: ExportFormat,
    filter: &ActivityFilter,
) -> Result<ExitCode, Failed> {
    let format = match format {
        ExportFormat::Jsonl => Format::Jsonl,
        ExportFormat::Csv => Format::Csv,
    };
    tell(&mut index(data_dir)?)?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    let exported = export(data_dir, format, &meant(filter)?, &mut out);
    let written = match exported.and_then(|written| Ok(out.flush().map(|()| written)?)) {
        Ok(written) => written,
        // A reader that has seen enough is no failure.
        Err(ExportError::Unwritable(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            return Ok(ExitCode::SUCCESS);
        }
        Err(error) => return Err(failed(error)),
    };
    eprintln!("{written} records");
    Ok(ExitCode::SUCCESS)
}

pub(super) fn index(data_dir: &Path) -> Result<Index, Failed> {
    let mut index = Index::open(data_dir).map_err(failed)?;
    index.catch_up().map_err(failed)?;
    Ok(index)
}

/// Says what a reader of the record should know about where it comes from.
pub(super) fn tell(index: &mut Index) -> Result<(), Failed> {
    if index.was_rebuilt() {
        eprintln!(
            "warning: index.sqlite was not as callgate left it, and was rebuilt from the log"
        );
    }
    match index.damaged().map_err(failed)? {
        0 => {}
        count => eprintln!(
            "warning: {count} damaged entries of the log are left out\nhelp: `callgate activity verify` names them"
        ),
    }
    Ok(())
}

/// The filter as meant; a word that means nothing is an error.
fn meant(filter: &ActivityFilter) -> Result<Filter, Failed> {
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
        status: filter.status.as_deref().map(word::<Status>).transpose()?,
        intent_type: filter.intent_type.clone(),
        since: filter.since.as_deref().map(since).transpose()?,
        ..Filter::default()
    })
}

fn word<T: DeserializeOwned>(text: &str) -> Result<T, Failed> {
    let parsed = serde_json::from_value(serde_json::Value::String(text.to_owned()));
    parsed.map_err(|_| {
        Failed::user(format!("unknown status `{text}`"))
            .help("use success, error, blocked, rejected, pending, unknown, cancelled or bypassed")
    })
}

pub(super) fn since(text: &str) -> Result<Timestamp, Failed> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    let age = text.parse::<SignedDuration>().ok();
    age.and_then(|age| Timestamp::now().checked_sub(age).ok())
        .ok_or_else(|| {
            Failed::user(format!("`{text}` is neither a time nor an age"))
                .help("write it like 2026-01-31T12:00:00Z or 2h")
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

fn failed(error: impl std::fmt::Display) -> Failed {
    Failed::system(error.to_string())
}
