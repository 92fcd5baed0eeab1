//! `callgate servers list|logs|learn`.

mod learn;
mod learned;

use std::{fs, process::ExitCode, time::Duration};

use callgate_gate::ServerName;
use callgate_process::stderr_tail::sanitise;
use callgate_server::ServerRow;
use callgate_upstream::Profile;
use serde::Serialize;

use callgate_gateway::{Lifetime, Running};

use callgate_config::Settings;

use crate::{
    admin,
    args::{Gateway, Servers, ServersCommand, Shared},
    commands::boxes,
    exit::Failed,
    print::{one_line, outln, table},
    setup,
};

/// A server's row with its box, which the running gateway does not report.
#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    row: ServerRow,
    #[serde(rename = "box")]
    sandbox: &'static str,
}

pub(crate) fn run(shared: &Shared, servers: &Servers) -> Result<ExitCode, Failed> {
    match &servers.command {
        ServersCommand::List(gateway) => list(shared, gateway),
        ServersCommand::Logs { name, lines } => logs(shared, name, *lines),
        ServersCommand::Learn(learn) => learn::run(shared, learn),
    }
}

fn list(shared: &Shared, gateway: &Gateway) -> Result<ExitCode, Failed> {
    let settings = setup::settings(shared, gateway, true)?;
    let rows = setup::runtime()?.block_on(rows(&settings))?;
    let rows: Vec<Row> = rows
        .into_iter()
        .map(|row| Row {
            sandbox: boxes::word(&settings, &row.name),
            row,
        })
        .collect();
    if shared.json {
        outln!(
            "{}",
            serde_json::to_string(&rows).map_err(|error| Failed::system(error.to_string()))?
        );
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() {
        eprintln!(
            "no servers configured: add one in callgate.yaml under `servers:`, or with --server"
        );
        return Ok(ExitCode::SUCCESS);
    }
    let cells = |Row { row, sandbox }: &Row| {
        let reason = row
            .reason
            .as_deref()
            .map(|reason| one_line(reason, 100))
            .unwrap_or_default();
        vec![
            row.name.clone(),
            row.r#type.clone(),
            row.status.clone(),
            (*sandbox).to_owned(),
            row.tools.to_string(),
            reason,
        ]
    };
    table(
        &["SERVER", "TYPE", "STATUS", "BOX", "TOOLS", "REASON"],
        &rows.iter().map(cells).collect::<Vec<_>>(),
    );
    Ok(ExitCode::SUCCESS)
}

/// The status from the running gateway if there is one; otherwise starts the servers to find out.
async fn rows(settings: &Settings) -> Result<Vec<ServerRow>, Failed> {
    if let Some(gateway) = admin::running(&settings.data_dir).await {
        let tokens = settings.tokens()?;
        let body = admin::get(&gateway, "/api/v1/servers", Some(&tokens.admin)).await?;
        return serde_json::from_slice(&body).map_err(|error| Failed::execution(error.to_string()));
    }
    let running = Running::start(settings, Profile::gateway(), Lifetime::OneCommand)?;
    running.fleet.settled().await;
    let rows = running
        .fleet
        .reports()
        .iter()
        .map(callgate_gateway::row)
        .collect();
    running.stop(Duration::ZERO).await;
    Ok(rows)
}

fn logs(shared: &Shared, name: &str, lines: usize) -> Result<ExitCode, Failed> {
    let name = ServerName::new(name).map_err(|error| Failed::user(error.to_string()))?;
    let file = setup::data_dir(shared)?
        .join("logs")
        .join(format!("{name}.log"));
    let text = fs::read(&file).map_err(|_| {
        Failed::user(format!(
            "there is no log of server `{name}`: it has written nothing to standard error"
        ))
        .help("`callgate servers list` lists the servers")
    })?;
    let text = String::from_utf8_lossy(&text);
    let all: Vec<&str> = text.lines().collect();
    for line in &all[all.len().saturating_sub(lines)..] {
        outln!("{}", sanitise(line));
    }
    Ok(ExitCode::SUCCESS)
}
