//! `kill -9` at any moment, and what `resume` does afterwards.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use callgate_testkit::{processes_with, wait_until};
use serde_json::Value;

use super::{in_desk, last_run, written};
use crate::agents::Stage;

/// How often a run is killed unless `CALLGATE_WORKFLOW_KILLS` says otherwise.
const KILLS: usize = 20;
/// How many states a run has besides those in its loop and its branches.
const STATES: usize = 8;

fn workflow() -> String {
    let mut text = "states:\n  initial: s0\n".to_owned();
    for at in 0..STATES {
        let next = if at + 1 == STATES {
            "both".to_owned()
        } else {
            format!("s{}", at + 1)
        };
        text.push_str(&format!(
            "  s{at}: {{type: command, command: 'echo s{at} >> out; sleep 0.02', on_success: {next}}}\n"
        ));
    }
    text.push_str("  both: {type: parallel, branches: [left, right], on_success: rounds}\n");
    for name in ["left", "right"] {
        text.push_str(&format!(
            "  {name}: {{type: command, command: 'echo {name} >> out; sleep 0.02'}}\n"
        ));
    }
    text.push_str("  rounds: {type: for_each, items: [0, 1, 2, 3], body: [round]}\n");
    text.push_str(
        "  round: {type: command, command: 'echo round{{.loop.item}} >> out; sleep 0.02'}\n",
    );
    text
}

/// How often each state had its effect.
fn effects(stage: &Stage) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in stage.bed.read("desk/out").lines() {
        *counts.entry(line.to_owned()).or_default() += 1;
    }
    counts
}

/// The effects of the states that a run has written down as over.
fn over(report: &Value) -> Vec<String> {
    let steps = report["steps"].as_array().expect("steps");
    let effect = |step: &Value| {
        let (key, state) = (step["key"].as_str()?, step["state"].as_str()?);
        match state {
            "both" | "rounds" => None,
            "round" => Some(format!("round{}", key.split('/').nth(1)?)),
            state => Some(state.to_owned()),
        }
    };
    steps.iter().filter_map(effect).collect()
}

#[test]
fn kill_9_and_resume_repeat_no_finished_state() {
    let told = std::env::var("CALLGATE_WORKFLOW_KILLS").ok();
    let kills = told.and_then(|told| told.parse().ok()).unwrap_or(KILLS);
    let mut killed = 0;
    while killed < kills {
        let stage = Stage::new();
        written(&stage, &workflow());
        let mut id: Option<String> = None;
        loop {
            let args = match &id {
                None => vec!["workflow", "run", "flow.yaml"],
                Some(id) => vec!["workflow", "resume", id],
            };
            let before: usize = effects(&stage).values().sum();
            let mut command = in_desk(&stage, &args);
            let mut child = command
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("it starts");
            // Another moment each time: after some more effects, or before the first.
            let more = killed % 5;
            let mut ended = None;
            wait_until(Duration::from_secs(60), || {
                ended = child.try_wait().expect("it is ours");
                let now: usize = effects(&stage).values().sum();
                ended.is_some() || (now >= before + more && killed < kills)
            });
            if let Some(status) = ended {
                assert!(status.success(), "{status}");
                break;
            }
            child.kill().expect("it is ours");
            child.wait().expect("it is ours");
            killed += 1;
            let marker = stage.bed.path("").display().to_string();
            let gone = || processes_with(marker.trim_end_matches('/')).is_empty();
            assert!(wait_until(Duration::from_secs(8), gone), "nothing survives");
            let report = last_run(&stage);
            id = report["run"].as_str().map(str::to_owned);
            check_no_repeats(&stage, &report);
        }
        let report = last_run(&stage);
        assert_eq!(report["status"], "success");
        check_no_repeats(&stage, &report);
        let all = effects(&stage);
        assert_eq!(all.len(), STATES + 2 + 4, "{all:?}");
    }
}

/// What was over at the last kill has had no effect since; what is over now is remembered.
fn check_no_repeats(stage: &Stage, report: &Value) {
    if report.is_null() {
        return;
    }
    let now = effects(stage);
    let file = stage.bed.path("over.json");
    let before: BTreeMap<String, usize> = std::fs::read_to_string(&file)
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default();
    for (effect, count) in &before {
        assert_eq!(
            now.get(effect),
            Some(count),
            "{effect} was over and was done again"
        );
    }
    let over: BTreeMap<String, usize> = over(report)
        .into_iter()
        .map(|effect| {
            let count = now.get(&effect).copied().unwrap_or_default();
            (effect, count)
        })
        .collect();
    let text = serde_json::to_string(&over).expect("it is JSON");
    std::fs::write(file, text).expect("it is ours");
}
