//! The attack suite with every spelling, and the table of what was expected and seen.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::command::{self, cargo, root};

/// Fewer causes than this means that tests were lost.
const LEAST_CAUSES: usize = 120;

/// Runs every attack in every spelling. An unexpected outcome, a cause that is still open, or too few causes fail.
pub(super) fn run() -> Result<()> {
    let report = root().join("target/attacks.jsonl");
    // A report of an earlier run would count its causes again.
    match fs::remove_file(&report) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let tests = [
        "nextest",
        "run",
        "--profile",
        "soak",
        "-p",
        "callgate-tests",
        "--no-fail-fast",
        "--no-tests",
        "fail",
        "attacks::",
    ];
    let ran = command::run(cargo().args(tests).env("CALLGATE_ATTACK_REPORT", &report));
    let text = fs::read_to_string(&report).context("no attack wrote its line")?;
    let causes = text
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<Vec<Value>, _>>()?;
    let unexpected = print(&causes);
    ran?;
    if unexpected > 0 {
        bail!("{unexpected} spellings were not stopped as expected");
    }
    if causes.len() < LEAST_CAUSES {
        bail!("{} causes, fewer than {LEAST_CAUSES}", causes.len());
    }
    Ok(())
}

/// Prints one line per cause, by class, then the totals. Returns how many spellings were unexpected.
fn print(causes: &[Value]) -> u64 {
    let mut classes: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for cause in causes {
        let class = cause["class"].as_str().unwrap_or_default();
        classes.entry(class).or_default().push(cause);
    }
    let (mut spellings, mut unexpected) = (0, 0);
    for (class, mut causes) in classes {
        causes.sort_by_key(|cause| cause["cause"].as_str());
        println!("{class}");
        for cause in causes {
            spellings += cause["spellings"].as_u64().unwrap_or(0);
            unexpected += cause["unexpected"].as_u64().unwrap_or(0);
            let mark = if cause["unexpected"] == 0 { " " } else { "!" };
            println!(
                "{mark} {} ({} spellings): expected {}, seen {}",
                cause["cause"].as_str().unwrap_or_default(),
                cause["spellings"],
                words(&cause["expected"], " or "),
                words(&cause["seen"], ", "),
            );
        }
    }
    println!(
        "{} causes, {spellings} spellings, {unexpected} unexpected",
        causes.len()
    );
    unexpected
}

fn words(value: &Value, between: &str) -> String {
    let words = value.as_array().into_iter().flatten();
    let words: Vec<_> = words.filter_map(Value::as_str).collect();
    words.join(between).to_lowercase()
}
