//! Workflows through the real binary: checked, run behind the gate, killed and resumed.

mod checking;
mod killed;
mod proxied;
mod traced;
mod used;

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::agents::Stage;
use crate::shell::{Ran, run};

/// Writes a workflow into the working folder.
fn written(stage: &Stage, text: &str) {
    fs::write(stage.bed.path("desk/flow.yaml"), text).expect("it is ours");
}

/// `callgate` in the working folder.
fn in_desk(stage: &Stage, args: &[&str]) -> Command {
    let mut command = stage.callgate(args);
    command.current_dir(stage.bed.path("desk"));
    command
}

/// Runs the workflow of the working folder.
fn walked(stage: &Stage, more: &[&str]) -> Ran {
    let args = [&["workflow", "run", "flow.yaml"], more].concat();
    run(&mut in_desk(stage, &args))
}

/// The last run there was.
fn last_run(stage: &Stage) -> Value {
    let ran = run(&mut in_desk(stage, &["workflow", "history", "--json"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let runs: Value = serde_json::from_str(&ran.stdout).expect("it is JSON");
    runs[0].clone()
}

/// What each agent was given, in the order in which they ended.
fn given(stage: &Stage) -> Vec<Value> {
    let log = stage.bed.read("agent.log");
    let line = |line| serde_json::from_str(line).expect("it is JSON");
    log.lines().map(line).collect()
}
