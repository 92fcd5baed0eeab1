//! `callgate agent list` and `show`: past runs of agents, from their transcripts.

use std::process::ExitCode;

use callgate_agent::{KeptEvent, StepEvent, Transcripts};
use serde_json::json;

use crate::{
    args::Shared,
    exit::Failed,
    print::{one_line, outln, table},
    setup,
    steps::{StepLines, cost, span},
};

/// How many runs are listed.
const MAX_LISTED: usize = 50;
/// How much of a task is shown.
const TASK_CHARS: usize = 60;

/// What a list shows of a run.
#[derive(Debug, Default, serde::Serialize)]
struct Row {
    run: String,
    provider: String,
    started: String,
    /// `success`, a code, or `open` if the run has no end.
    status: String,
    duration_ms: u64,
    calls: u64,
    tokens_input: u64,
    tokens_output: u64,
    cost_usd: Option<f64>,
    task: String,
}

pub(super) fn list(shared: &Shared) -> Result<ExitCode, Failed> {
    let transcripts = Transcripts::of(&setup::data_dir(shared)?);
    let steps = transcripts.steps().into_iter().take(MAX_LISTED);
    let rows: Vec<Row> = steps
        .filter_map(|step| Some(row(&step, &transcripts.read(&step).ok()?)))
        .collect();
    if shared.json {
        outln!("{}", json!(rows));
        return Ok(ExitCode::SUCCESS);
    }
    let cells = |row: &Row| {
        vec![
            row.run.clone(),
            row.provider.clone(),
            row.status.clone(),
            row.started.clone(),
            span(row.duration_ms),
            row.calls.to_string(),
            format!("{}+{}", row.tokens_input, row.tokens_output),
            row.cost_usd.map_or_else(|| "-".to_owned(), cost),
            one_line(&row.task, TASK_CHARS),
        ]
    };
    let cells: Vec<Vec<String>> = rows.iter().map(cells).collect();
    let heads = [
        "RUN", "AGENT", "STATUS", "STARTED", "TIME", "CALLS", "TOKENS", "COST", "TASK",
    ];
    table(&heads, &cells);
    Ok(ExitCode::SUCCESS)
}

fn row(step: &str, kept: &[KeptEvent]) -> Row {
    let mut row = Row {
        run: step.to_owned(),
        status: "open".to_owned(),
        ..Row::default()
    };
    for KeptEvent { at, event } in kept {
        match event {
            StepEvent::Started { provider, task, .. } => {
                row.started = format!("{at:.0}");
                row.provider.clone_from(provider);
                row.task.clone_from(task);
            }
            StepEvent::Finished {
                status,
                tokens,
                calls,
                duration_ms,
                ..
            } => {
                row.status.clone_from(status);
                row.duration_ms = *duration_ms;
                row.calls = calls.made;
                (row.tokens_input, row.tokens_output) = (tokens.input, tokens.output);
                row.cost_usd = tokens.cost_usd;
            }
            StepEvent::Warning { .. }
            | StepEvent::Text { .. }
            | StepEvent::Call(_)
            | StepEvent::CallEnded(_)
            | StepEvent::Bypassed { .. }
            | StepEvent::NativeRefused { .. } => {}
        }
    }
    row
}

pub(super) fn one(shared: &Shared, run: Option<&str>) -> Result<ExitCode, Failed> {
    let help = "`callgate agent list` lists the runs";
    let run = run.ok_or_else(|| Failed::user("`show` needs the id of a run").help(help))?;
    let transcripts = Transcripts::of(&setup::data_dir(shared)?);
    let kept = transcripts.read(run);
    let kept = kept.map_err(|error| Failed::user(error.to_string()).help(help))?;
    let mut lines = StepLines::default();
    for kept in &kept {
        if shared.json {
            outln!("{}", serde_json::to_string(kept).unwrap_or_default());
            continue;
        }
        lines
            .of(&kept.event)
            .iter()
            .for_each(|line| outln!("{line}"));
        if let StepEvent::Finished { text, error, .. } = &kept.event {
            match error {
                Some(error) => outln!("failed: {}", one_line(error, 400)),
                None => outln!(
                    "{}",
                    callgate_gate::visible::visible(text, callgate_gate::visible::Layout::Lines)
                ),
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
