//! `callgate run`: a script from the shell, as the tool `run` would run it.

use std::{fs, io::Read, path::Path, process::ExitCode, sync::Arc};

use callgate_upstream::Profile;
use callgate_wire::{Frame, quote};

use super::call::{PATIENCE, ask_through, report};
use callgate_gateway::{Lifetime, Running};

use callgate_config::Settings;

use callgate_gateway::local_user::local_host;

use crate::{
    args::{Run, Shared},
    exit::Failed,
    setup,
};

pub(crate) fn run(shared: &Shared, asked: &Run) -> Result<ExitCode, Failed> {
    let arguments = match (&asked.resume, &asked.script) {
        (Some(id), _) => format!(r#"{{"resume":{}}}"#, quote(id)),
        (None, script) => {
            let script = source(script.as_deref().unwrap_or_default())?;
            format!(r#"{{"command":{}}}"#, quote(&script))
        }
    };
    let settings = setup::settings(shared, &asked.gateway, true)?;
    setup::runtime()?.block_on(async {
        let answer = run_once(&settings, arguments).await?;
        report(&answer, shared.json)
    })
}

/// The script: the argument itself, or the content of the file that it names.
fn source(written: &str) -> Result<String, Failed> {
    let unreadable = |error| Failed::user(format!("cannot read the script: {error}"));
    if written == "-" {
        let mut script = String::new();
        let read = std::io::stdin().read_to_string(&mut script);
        return read.map(|_| script).map_err(unreadable);
    }
    let is_name = written.ends_with(".py") && !written.contains(['\n', '(']);
    if is_name || Path::new(written).is_file() {
        return fs::read_to_string(written).map_err(unreadable);
    }
    Ok(written.to_owned())
}

/// Starts a gateway, runs the script and ends it again.
async fn run_once(settings: &Settings, arguments: String) -> Result<Frame, Failed> {
    let host = Arc::new(local_host());
    let running = Running::start(settings, Profile::of(&host), Lifetime::OneCommand)?;
    let answer = ask_through(&running, host, "run", arguments).await;
    running.stop(PATIENCE).await;
    answer.ok_or_else(|| Failed::execution("the script was cancelled"))
}
