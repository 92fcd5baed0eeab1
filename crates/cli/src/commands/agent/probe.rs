//! `callgate agent probe`: which of the installed agents can be restricted to callgate's tools.

use std::{fs, process::ExitCode, sync::Arc};

use callgate_agent::{AgentKind, Effect, Folder, ProbeReport, StepFailed, probe};
use callgate_config::Settings;
use callgate_gateway::{
    Running,
    plan::StepTools,
    steps::{StepOwner, context, shape},
};
use callgate_upstream::Profile;
use serde_json::{Value, json};

use super::PATIENCE;
use crate::{
    args::{Agent, Gateway, Shared},
    exit::Failed,
    print::{one_line, outln, table},
    setup,
};

pub(super) fn run(shared: &Shared, agent: &Agent) -> Result<ExitCode, Failed> {
    let kinds = match &agent.subject {
        None => AgentKind::PROGRAMS.to_vec(),
        Some(name) => vec![
            name.parse()
                .map_err(|error| Failed::user(format!("{error}")))?,
        ],
    };
    let settings = setup::settings(shared, &Gateway::default(), true)?;
    let runtime = setup::runtime()?;
    let probed = runtime.block_on(probe_all(&settings, &kinds));
    runtime.shutdown_background();
    let rows = probed?;
    if shared.json {
        let reports: Vec<Value> = rows.iter().map(|(kind, row)| written(*kind, row)).collect();
        outln!("{}", Value::Array(reports));
    } else {
        let cells: Vec<Vec<String>> = rows.iter().map(|(kind, row)| cells(*kind, row)).collect();
        table(
            &[
                "PROVIDER",
                "VERSION",
                "OFFERED",
                "NATIVE CALL",
                "HOSTILE FILES",
                "VERDICT",
                "IN ITS BOX",
                "NOTE",
            ],
            &cells,
        );
        let probed = rows.iter().filter_map(|(_, row)| row.as_ref().ok());
        // The same for all of them.
        let boxed = probed.filter_map(|report| report.boxed.as_ref()).next();
        for sentence in boxed.iter().flat_map(|boxed| &boxed.holds) {
            outln!("boxes: {sentence}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

type Probed = Vec<(AgentKind, Result<ProbeReport, StepFailed>)>;

async fn probe_all(settings: &Settings, kinds: &[AgentKind]) -> Result<Probed, Failed> {
    let mut rows = Vec::new();
    for kind in kinds {
        eprintln!("probing {kind}");
        rows.push((*kind, probe_one(settings, *kind).await?));
    }
    Ok(rows)
}

/// Probes an agent in a folder of its own. Not in the data folder, where the gate protects every path.
async fn probe_one(
    settings: &Settings,
    kind: AgentKind,
) -> Result<Result<ProbeReport, StepFailed>, Failed> {
    let system = |error: std::io::Error| Failed::system(error.to_string());
    let place = Folder::make().map_err(system)?;
    let desk = place.path().join("desk");
    fs::create_dir(&desk).map_err(system)?;
    let plan =
        callgate_gateway::plan::step(settings, &desk, Some(shape(kind)), StepTools::default())?;
    let running = Running::start_with(settings, plan, Profile::gateway())?;
    let context = Arc::new(context(
        settings,
        &running.gateway,
        None,
        StepOwner::default(),
    )?);
    let probed = probe(&context, kind, &desk).await;
    drop(context);
    running.stop(PATIENCE).await;
    Ok(probed)
}

/// A row as JSON. An agent that could not be probed has only an error.
fn written(kind: AgentKind, row: &Result<ProbeReport, StepFailed>) -> Value {
    match row {
        Ok(report) => serde_json::to_value(report).unwrap_or_default(),
        Err(error) => json!({"provider": kind.as_str(), "error": error.to_string()}),
    }
}

fn cells(kind: AgentKind, row: &Result<ProbeReport, StepFailed>) -> Vec<String> {
    match row {
        Ok(report) => {
            let native = if report.native_effect {
                "had an effect"
            } else {
                "no effect"
            };
            let offered = format!(
                "{} ours, {} native",
                report.offered.len() - report.native.len(),
                report.native.len()
            );
            let note = report.error.as_deref().map(|error| one_line(error, 80));
            let note = note.unwrap_or_else(|| report.native.join(", "));
            let hostile = match report.obeyed.as_slice() {
                [] => format!("{} ignored", report.planted),
                obeyed => obeyed.iter().map(effect).collect::<Vec<_>>().join(", "),
            };
            vec![
                kind.to_string(),
                report.version.clone(),
                offered,
                native.to_owned(),
                hostile,
                report.verdict.as_str().to_owned(),
                in_box(report),
                note,
            ]
        }
        Err(error) => {
            let dash = || "-".to_owned();
            vec![
                kind.to_string(),
                dash(),
                dash(),
                dash(),
                dash(),
                dash(),
                dash(),
                one_line(&error.to_string(), 80),
            ]
        }
    }
}

fn in_box(report: &ProbeReport) -> String {
    match &report.boxed {
        None => "off".to_owned(),
        Some(boxed) => match &boxed.error {
            None => format!("works ({})", boxed.mode),
            Some(error) => format!("fails: {}", one_line(error, 80)),
        },
    }
}

fn effect(effect: &Effect) -> &'static str {
    match effect {
        Effect::Ran => "a command ran",
        Effect::Read => "a file was read",
        Effect::Sent => "a request was sent",
    }
}
