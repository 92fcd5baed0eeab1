//! `callgate activity head`: prints or publishes the newest entry of each writer; and reading what was published.

use std::{fs, path::Path, process::ExitCode};

use callgate_config::HeadPlace;
use callgate_record::{Archive, Head, KeyedHead, PublishedHeads};

use super::{archive_failed, failed};
use crate::{
    args::{Gateway, Shared},
    exit::Failed,
    print::{outln, table},
    setup,
};

pub(super) fn print(archive: &dyn Archive, as_json: bool) -> Result<ExitCode, Failed> {
    let heads = archive.heads().map_err(archive_failed)?;
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

/// Publishes the heads to one place, or to those of the configuration.
pub(super) fn publish(shared: &Shared, place: Option<&str>) -> Result<ExitCode, Failed> {
    let settings = setup::settings(shared, &Gateway::default(), true)?;
    let data_dir = &settings.data_dir;
    let places = match place {
        Some(text) => vec![HeadPlace::named(text, data_dir)?],
        None => settings.config.activity.heads.places(data_dir)?,
    };
    if places.is_empty() {
        return Err(
            Failed::user("no place to publish heads to is configured").help(
                "name one, as in `activity head --publish FILE`, or set `activity.heads.publish`",
            ),
        );
    }
    let archive = callgate_gateway::shared_stores(data_dir)?.archive;
    let count = places.len();
    setup::runtime()?.block_on(callgate_gateway::publish_heads(archive, places))?;
    eprintln!("published the heads to {count} places");
    Ok(ExitCode::SUCCESS)
}

/// The heads that a file has.
pub(super) fn read(file: &Path) -> Result<Vec<Head>, Failed> {
    let wrong = |why: String| Failed::user(format!("`{}`: {why}", file.display()));
    let text = fs::read(file).map_err(|error| wrong(error.to_string()))?;
    let published = PublishedHeads::read(&text).map_err(|error| {
        wrong(error.to_string()).help(
            "it must be a file that `activity head --publish` wrote, or the output of `activity head --json`",
        )
    })?;
    for line in &published.unfinished {
        eprintln!(
            "warning: line {line} of `{}` is not finished; its heads are not compared",
            file.display()
        );
    }
    if published.heads.is_empty() {
        return Err(wrong("it has no heads".to_owned()));
    }
    Ok(published.heads)
}
