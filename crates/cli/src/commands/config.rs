//! `callgate config`: check a file, show what is in effect, print the schema.

use std::process::ExitCode;

use callgate_config as config;
use callgate_gate::Launch;
use callgate_gateway::plan;
use serde_json::json;

use crate::{
    args::{Config, ConfigCommand, Gateway, Shared},
    exit::Failed,
    print::outln,
    setup,
};

pub(crate) fn run(shared: &Shared, config: &Config) -> Result<ExitCode, Failed> {
    match &config.command {
        ConfigCommand::Check { file } => {
            let shared = Shared {
                config: file.clone().or_else(|| shared.config.clone()),
                ..shared.clone()
            };
            check(&shared)?;
        }
        ConfigCommand::Show(flags) => {
            let settings = setup::settings(shared, &flags.gateway, true)?;
            let shown = config::effective(&settings, flags.listen.as_deref())?;
            if shared.json {
                outln!("{}", pretty(&json!(shown)));
            } else {
                outln!("{}", config::text(&shown)?.trim_end());
            }
        }
        ConfigCommand::Schema => outln!("{}", pretty(&config::schema())),
        ConfigCommand::Reference => outln!("{}", config::page().trim_end()),
    }
    Ok(ExitCode::SUCCESS)
}

fn check(shared: &Shared) -> Result<(), Failed> {
    let settings = setup::settings(shared, &Gateway::default(), true)?;
    settings.listen(None)?;
    // The plan is made to find errors that a gateway would only report at its start.
    plan::fleet(&settings)?;
    for spec in &settings.servers {
        match &spec.launch {
            Launch::Off { reason } => eprintln!("note: server {} is off: {reason}", spec.name),
            Launch::Stdio { .. } | Launch::Http(_) | Launch::SwitchedOff => {}
        }
    }
    let file = settings.source.file.as_deref();
    if shared.json {
        let servers: Vec<&str> = settings.servers.iter().map(|s| s.name.as_str()).collect();
        outln!("{}", json!({"file": file, "servers": servers}));
        return Ok(());
    }
    let count = settings.servers.len();
    match file {
        Some(file) => outln!("`{}` is valid; servers: {count}", file.display()),
        None => outln!("no configuration file; defaults apply"),
    }
    Ok(())
}

fn pretty(value: &serde_json::Value) -> String {
    format!("{value:#}")
}
