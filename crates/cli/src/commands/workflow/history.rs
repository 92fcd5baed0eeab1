//! `callgate workflow history` and `status`: past and present runs, and their steps.

use std::process::ExitCode;

use callgate_workflow::{JournalError, RunReport, RunStatus, runs};

use super::progress::used;
use crate::{
    args::Shared,
    exit::Failed,
    print::{one_line, outln, table},
    setup,
    steps::{cost, span},
};

/// The longest message in a table, in characters.
const MESSAGE_CHARS: usize = 80;

pub(super) fn all(shared: &Shared, limit: usize) -> Result<ExitCode, Failed> {
    let mut runs = runs(&setup::data_dir(shared)?);
    runs.truncate(limit);
    if shared.json {
        outln!("{}", serde_json::json!(runs));
        return Ok(ExitCode::SUCCESS);
    }
    let row = |run: &RunReport| {
        vec![
            run.run.clone(),
            run.workflow.clone(),
            word(run.status).to_owned(),
            run.started.to_string(),
            run.steps.len().to_string(),
            span(run.duration_ms),
            format!("{}+{}", run.usage.tokens_input, run.usage.tokens_output),
            run.usage.cost_usd.map_or_else(|| "-".to_owned(), cost),
            one_line(&run.message, MESSAGE_CHARS),
        ]
    };
    let rows: Vec<Vec<String>> = runs.iter().map(row).collect();
    table(
        &[
            "RUN", "WORKFLOW", "STATUS", "STARTED", "STEPS", "TIME", "TOKENS", "COST", "MESSAGE",
        ],
        &rows,
    );
    Ok(ExitCode::SUCCESS)
}

pub(super) fn one(shared: &Shared, run: &str) -> Result<ExitCode, Failed> {
    let report = RunReport::of(&setup::data_dir(shared)?, run);
    let report = report.map_err(|error| failed(&error))?;
    if shared.json {
        outln!("{}", serde_json::json!(report));
        return Ok(ExitCode::SUCCESS);
    }
    outln!("run {}", report.run);
    outln!("workflow {} ({})", report.workflow, report.file.display());
    outln!("status {}", word(report.status));
    outln!("started {}", report.started);
    if let Some(ended) = report.ended {
        outln!("ended {ended}");
    }
    let (took, usage) = (span(report.duration_ms), used(&report.usage));
    outln!("took {took}{usage}");
    if !report.message.is_empty() {
        outln!("message {}", one_line(&report.message, MESSAGE_CHARS * 4));
    }
    for step in &report.steps {
        let why = one_line(&step.error, MESSAGE_CHARS);
        let (status, took) = (step.status.as_str(), span(step.duration_ms));
        let line = format!(
            "  {} {status} in {took}{} {why}",
            step.key,
            used(&step.usage)
        );
        outln!("{}", line.trim_end());
        for agent in &step.usage.agents {
            outln!("    `callgate agent show {agent}`");
        }
    }
    for key in &report.open {
        outln!("  {key} started");
    }
    if report.status == RunStatus::Interrupted {
        eprintln!("help: resume it with `callgate workflow resume {run}`");
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn failed(error: &JournalError) -> Failed {
    match error {
        JournalError::Unknown(_) | JournalError::Busy(_) => {
            Failed::user(error.to_string()).help("`callgate workflow history` lists the runs")
        }
        JournalError::Io { .. } | JournalError::Damaged(_) => Failed::system(error.to_string()),
    }
}

fn word(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Running => "running",
        RunStatus::Interrupted => "interrupted",
        RunStatus::Success => "success",
        RunStatus::Failure => "failure",
    }
}
