//! `callgate policy replay`: what a policy would have decided on the recorded calls.

use std::process::ExitCode;

use callgate_gate::{Facts, Kind, Policy};
use callgate_record::{Activity, Decision, RecordType, body_digest};
use callgate_store::ActivityFilter as Filter;
use serde_json::{Value, json};

use super::calls::{self, Described};
use crate::{
    args::{Replay, Shared},
    commands::activity,
    exit::Failed,
    print::{one_line, outln, table},
    wiring,
};

/// Records that are read at once.
const PAGE: usize = 1000;

/// What became of one recorded call.
enum Now {
    Same,
    Other {
        kind: Kind,
        rule: String,
    },
    /// The record does not have what the policy would look at.
    Undecidable(&'static str),
}

/// How the calls fared.
#[derive(Default)]
struct Sums {
    same: usize,
    other: usize,
    undecidable: usize,
}

pub(super) fn run(shared: &Shared, replay: &Replay) -> Result<ExitCode, Failed> {
    let settings = wiring::settings(shared, &replay.gateway, true)?;
    let mut index = activity::index(&settings.data_dir)?;
    let mut filter = Filter {
        record_type: Some(RecordType::ToolCall),
        since: replay.since.as_deref().map(activity::since).transpose()?,
        limit: Some(PAGE),
        ..Filter::default()
    };
    let (mut sums, mut rows) = (Sums::default(), Vec::new());
    loop {
        let page = index
            .query(&filter)
            .map_err(|error| Failed::system(error.to_string()))?;
        for record in &page.activities {
            let Some(was) = record.decision else { continue };
            let now = again(&settings.policy, record, was);
            sums.count(&now);
            rows.extend(row(record, was, &now));
        }
        match page.next_cursor {
            Some(cursor) => filter.cursor = Some(cursor),
            None => break,
        }
    }
    report(&sums, &rows, shared.json);
    Ok(ExitCode::SUCCESS)
}

/// Decides a recorded call again.
fn again(policy: &Policy, record: &Activity, was: Decision) -> Now {
    let (Some(server), Some(tool)) = (&record.server, &record.tool) else {
        return Now::Undecidable("no tool on record");
    };
    let arguments = record
        .arguments
        .as_ref()
        .map_or("{}", |arguments| arguments.get());
    let kept = record.arguments_blake3.as_deref();
    if kept.is_some_and(|kept| kept != body_digest(arguments.as_bytes())) {
        return Now::Undecidable("the arguments are redacted or cut");
    }
    // What a server declared is not on record; what it was taken to do is.
    let intent = record
        .metadata
        .intent
        .as_ref()
        .and_then(|intent| intent.operation_type.as_deref());
    let annotations = match intent {
        Some("destructive") => r#"{"destructiveHint":true}"#,
        Some("read") => r#"{"readOnlyHint":true}"#,
        Some(_) | None => "{}",
    };
    let agent = record.agent.as_deref().unwrap_or("anonymous");
    let described = Described {
        tool: &format!("{server}:{tool}"),
        arguments,
        annotations,
        agent,
        vouched_for: record.principal.as_deref() == Some(agent),
        cost: None,
    };
    let Ok(call) = calls::made(&described) else {
        return Now::Undecidable("the call cannot be made again");
    };
    let (without, needs) = calls::facts_now(policy, &call);
    let with = Facts {
        met: needs.prior.into_iter().collect(),
        ..without.clone()
    };
    let (kind, rule) = calls::verdict(policy, &call, &without);
    if calls::verdict(policy, &call, &with).0 != kind {
        return Now::Undecidable("it depends on earlier calls");
    }
    if decision(kind) == was {
        Now::Same
    } else {
        Now::Other { kind, rule }
    }
}

fn decision(kind: Kind) -> Decision {
    match kind {
        Kind::Allow => Decision::Allow,
        Kind::Confirm | Kind::RequireApproval => Decision::RequireApproval,
        Kind::Deny => Decision::Deny,
    }
}

impl Sums {
    fn count(&mut self, now: &Now) {
        match now {
            Now::Same => self.same += 1,
            Now::Other { .. } => self.other += 1,
            Now::Undecidable(_) => self.undecidable += 1,
        }
    }
}

fn row(record: &Activity, was: Decision, now: &Now) -> Option<Vec<String>> {
    let (now, rule) = match now {
        Now::Same => return None,
        Now::Other { kind, rule } => (kind.as_str(), rule.as_str()),
        Now::Undecidable(why) => ("undecidable", *why),
    };
    let text = |text: &Option<String>| one_line(text.as_deref().unwrap_or_default(), 40);
    Some(vec![
        record.id.to_string(),
        record.timestamp.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        text(&record.agent),
        format!("{}:{}", text(&record.server), text(&record.tool)),
        was.as_str().to_owned(),
        now.to_owned(),
        one_line(rule, 80),
    ])
}

fn report(sums: &Sums, rows: &[Vec<String>], as_json: bool) {
    let Sums {
        same,
        other,
        undecidable,
    } = sums;
    if as_json {
        let keys = ["id", "time", "agent", "tool", "was", "now", "rule"];
        let differences: Vec<Value> = rows
            .iter()
            .map(|row| {
                keys.iter()
                    .map(|key| (*key).to_owned())
                    .zip(row.iter().cloned().map(Value::from))
            })
            .map(|members| Value::Object(members.collect()))
            .collect();
        outln!(
            "{}",
            json!({"same": same, "different": other, "undecidable": undecidable, "differences": differences})
        );
        return;
    }
    if !rows.is_empty() {
        table(&["ID", "TIME", "AGENT", "TOOL", "WAS", "NOW", "RULE"], rows);
    }
    eprintln!("{same} calls as before, {other} different, {undecidable} undecidable");
}
