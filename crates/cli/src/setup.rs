//! What a command begins with: settings, logging, a runtime.

use std::path::PathBuf;

use callgate_config::{self as config, Flags, LoadedConfig, Settings, Untrusted, folders};
use tokio::runtime::Runtime;

use crate::{
    args::{Gateway, Shared},
    exit::Failed,
    logging,
};

/// The log level of commands that only print a result.
const QUIET: &str = "warn";

/// Reads the configuration and starts logging; `quiet` commands log warnings only.
pub(crate) fn settings(shared: &Shared, flags: &Gateway, quiet: bool) -> Result<Settings, Failed> {
    read(shared, flags, |found| match quiet {
        true => QUIET,
        false => found.config.telemetry.log.as_str(),
    })
}

/// The same for commands that show what they do themselves: they log at the configured level if one is written down.
#[cfg(feature = "agents")]
pub(crate) fn settings_of_steps(shared: &Shared) -> Result<Settings, Failed> {
    read(shared, &Gateway::default(), |found| {
        let level = found.config.telemetry.log.as_str();
        let text: serde_json::Value = serde_saphyr::from_str(&found.text).unwrap_or_default();
        let is_written = text.pointer("/telemetry/log").is_some();
        // A trusted project cannot set it; then the level is the user's, whatever the project's text has.
        let is_own = level != config::Config::default().telemetry.log.as_str();
        if is_written || is_own { level } else { QUIET }
    })
}

fn read(
    shared: &Shared,
    flags: &Gateway,
    default_level: impl FnOnce(&LoadedConfig) -> &str,
) -> Result<Settings, Failed> {
    let told = folders::data_dir(shared.data_dir.as_deref())?;
    let found = config::load(shared.config.as_deref(), &told)?;
    let default_level = default_level(&found);
    logging::start(shared.log_level.as_deref().unwrap_or(default_level))?;
    if let Some(Untrusted { file, changed }) = &found.untrusted {
        if !changed.is_empty() {
            eprintln!(
                "note: files changed since `{}` was trusted: {}",
                file.display(),
                changed.join(", ")
            );
        }
        eprintln!(
            "note: ignoring `{}`: project configuration is not trusted yet",
            file.display()
        );
        eprintln!("help: review it, then run `callgate trust`, or pass it with --config");
    }
    for note in found.notes.iter().chain(&flags.old_spellings()) {
        eprintln!("note: {note}");
    }
    let data_dir = match (&shared.data_dir, &found.data_dir) {
        (None, Some(folder)) => folders::data_dir(Some(folder))?,
        (Some(_), _) | (None, None) => told,
    };
    Settings::new(found, &Flags::from(flags), &data_dir)
}

/// The data folder alone, for commands that only read.
pub(crate) fn data_dir(shared: &Shared) -> Result<PathBuf, Failed> {
    Ok(settings(shared, &Gateway::default(), true)?.data_dir)
}

/// The runtime that everything asynchronous runs on.
pub(crate) fn runtime() -> Result<Runtime, Failed> {
    let built = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    built.map_err(|error| Failed::system(format!("cannot start the async runtime: {error}")))
}
