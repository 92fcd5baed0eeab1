//! `callgate policy …`: check, test, explain and replay policy files.

use std::{path::PathBuf, process::ExitCode};

use serde_json::json;

use callgate_config::PolicyFile;

use crate::{
    args::{Gateway, Policy, PolicyCommand, Shared},
    exit::Failed,
    print::outln,
    setup,
};

mod calls;
mod explain;
mod known;
mod replay;
mod test;

pub(crate) fn run(shared: &Shared, policy: &Policy) -> Result<ExitCode, Failed> {
    match &policy.command {
        PolicyCommand::Check { file } => check(shared, file.clone()),
        PolicyCommand::Test { file } => test::run(shared, file.clone()),
        PolicyCommand::Explain(explain) => explain::run(shared, explain),
        PolicyCommand::Replay(replay) => replay::run(shared, replay),
    }
}

fn check(shared: &Shared, file: Option<PathBuf>) -> Result<ExitCode, Failed> {
    let file = PolicyFile::read(&named_or_configured(shared, file)?)?;
    let notes = file.rules.notes();
    for note in &notes {
        eprintln!("note: {note}");
    }
    let rules = file.rules.count();
    if shared.json {
        let sha256 = file.rules.digest().to_string();
        let name = file.rules.name();
        outln!(
            "{}",
            json!({"file": file.file, "name": name, "rules": rules, "notes": notes, "sha256": sha256})
        );
    } else {
        outln!("`{}` is valid; rules: {rules}", file.file.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// The file that was named, or the one that the configuration names.
fn named_or_configured(shared: &Shared, file: Option<PathBuf>) -> Result<PathBuf, Failed> {
    if let Some(file) = file {
        return Ok(file);
    }
    let settings = setup::settings(shared, &Gateway::default(), true)?;
    let configured = settings.policies.files().last();
    let configured = configured.map(|(file, _)| file.to_owned());
    configured.ok_or_else(|| {
        Failed::user("the configuration names no policy file")
            .help("pass a file: `callgate policy check FILE`")
    })
}
