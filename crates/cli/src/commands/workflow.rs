//! `callgate workflow …`: check, run and follow workflows.

mod check;
mod dry_run;
mod history;
mod progress;
mod walk;

use std::{fs, path::PathBuf, process::ExitCode};

use callgate_workflow::Resumption;

use crate::{
    args::{Shared, Validate, Workflow, WorkflowCommand},
    exit::Failed,
    print::outln,
};

/// Where a project keeps its workflows.
const FOLDERS: [&str; 2] = [".callgate/workflows", ".awf/workflows"];

pub(crate) fn run(shared: &Shared, workflow: &Workflow) -> Result<ExitCode, Failed> {
    match &workflow.command {
        WorkflowCommand::Validate(wanted) => validate(shared, wanted),
        WorkflowCommand::Run(wanted) => walk::begin(shared, wanted),
        WorkflowCommand::Resume {
            run,
            from,
            fresh_budget,
        } => {
            let resumption = Resumption {
                from: from.as_deref(),
                fresh_budget: *fresh_budget,
            };
            walk::resume(shared, run, resumption)
        }
        WorkflowCommand::History { limit } => history::all(shared, *limit),
        WorkflowCommand::Status { run } => history::one(shared, run),
        WorkflowCommand::List => list(shared),
        WorkflowCommand::Schema => {
            outln!("{}", callgate_workflow::schema());
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// `callgate validate FILE` is the same as `callgate workflow validate FILE`.
pub(crate) fn validate(shared: &Shared, wanted: &Validate) -> Result<ExitCode, Failed> {
    check::run(shared, wanted)
}

fn list(shared: &Shared) -> Result<ExitCode, Failed> {
    let mut files: Vec<PathBuf> = FOLDERS
        .iter()
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flat_map(|entries| entries.flatten().map(|entry| entry.path()))
        .filter(|path| {
            path.extension()
                .is_some_and(|end| end == "yaml" || end == "yml")
        })
        .collect();
    files.sort();
    if shared.json {
        outln!("{}", serde_json::json!(files));
        return Ok(ExitCode::SUCCESS);
    }
    for file in &files {
        outln!("{}", file.display());
    }
    if files.is_empty() {
        eprintln!("no workflows found in {}", FOLDERS.join(" or "));
    }
    Ok(ExitCode::SUCCESS)
}
