//! `callgate workflow run --dry-run`: what would run, without starting anything.

use std::{path::Path, process::ExitCode};

use callgate_process::environment::{self, Inherit};
use callgate_workflow::{PlannedHook, PlannedState, Workflow, plan};
use serde_json::{Map, Value, json};

use crate::{
    args::Shared,
    exit::Failed,
    print::{one_line, outln},
};

/// How much of a command or prompt is shown.
const CHARS: usize = 400;

pub(super) fn show(
    shared: &Shared,
    workflow: &Workflow,
    inputs: Map<String, Value>,
    file: &Path,
) -> Result<ExitCode, Failed> {
    let workdir = std::env::current_dir()
        .map_err(|error| Failed::system(format!("cannot find the working folder: {error}")))?;
    let env = environment::minimal(Inherit::All, &[], std::env::vars());
    let (hooks, states) = plan(workflow, inputs, file, &workdir, &env);
    if shared.json {
        let plan = json!({
            "workflow": workflow.name,
            "initial": workflow.initial,
            "hooks": hooks,
            "states": states,
        });
        outln!("{plan}");
        return Ok(ExitCode::SUCCESS);
    }
    outln!(
        "workflow {}, starts with {}",
        workflow.name,
        workflow.initial
    );
    print_hooks("", &hooks);
    for state in &states {
        print(state);
    }
    eprintln!("nothing was run");
    Ok(ExitCode::SUCCESS)
}

fn print(state: &PlannedState) {
    outln!("{} ({})", state.name, state.kind);
    if let Some(when) = &state.when {
        outln!("  when {}", one_line(when, CHARS));
    }
    if !state.what.is_empty() {
        outln!("  {}", one_line(&state.what, CHARS));
    }
    if let Some(dir) = &state.dir {
        outln!("  in {}", one_line(dir, CHARS));
    }
    if let Some(seconds) = state.timeout_s {
        outln!("  at most {seconds} s");
    }
    if state.attempts > 1 {
        outln!("  at most {} attempts", state.attempts);
    }
    print_hooks("  ", &state.hooks);
    for (when, next) in &state.next {
        outln!("  {} -> {}", one_line(when, CHARS), one_line(next, CHARS));
    }
}

fn print_hooks(indent: &str, hooks: &[PlannedHook]) {
    for PlannedHook { hook, what } in hooks {
        outln!("{indent}hook {hook}: {}", one_line(what, CHARS));
    }
}
