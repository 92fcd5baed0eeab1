//! `callgate policy replay`: what a policy would have decided on the recorded calls.

use std::{process::ExitCode, sync::Arc};

use callgate_gate::{
    Call, DeclaredIntent, FIRST_TENANT, Facts, Hints, IntentRules, Kind, Needs, Operation, Policy,
    RealPath, Target, Tool,
};
use callgate_record::{Activity, ActivityFilter as Filter, Decision, RecordType, body_digest};
use serde_json::{Value, json};

use super::{
    calls::{self, Caller, Described},
    known::Known,
};
use crate::{
    args::{Replay, Shared},
    commands::activity,
    exit::Failed,
    print::{one_line, outln, table},
    setup,
};

/// Records that are read at once.
const PAGE: usize = 1000;
/// So many facts that are not on record are tried in every combination.
const MAX_UNKNOWN: usize = 6;
/// What a call may have cost, and what may have been spent before it.
const COSTS: [f64; 2] = [0.0, 1e12];
/// The scope of what a token's limits say.
const TOKEN_SCOPE: &str = "token";

/// What became of one recorded call.
enum Now {
    Same,
    Other {
        kind: Kind,
        rule: String,
    },
    /// The record does not have what the policy would look at.
    Undecidable(String),
}

/// How the calls fared.
#[derive(Default)]
struct Sums {
    same: usize,
    other: usize,
    undecidable: usize,
    /// Prompts, resources, runs and other requests, which are not decided again.
    left_out: usize,
}

pub(super) fn run(shared: &Shared, replay: &Replay) -> Result<ExitCode, Failed> {
    let settings = setup::settings(shared, &replay.gateway, true)?;
    let archive = &*callgate_gateway::shared_stores(&settings.data_dir)?.archive;
    let known = Known::of(&settings)?;
    let policy = callgate_gateway::plan::fleet(&settings)?.policy;
    let mut filter = Filter {
        since: replay.since.as_deref().map(activity::since).transpose()?,
        limit: Some(PAGE),
        ..Filter::default()
    };
    let (mut sums, mut rows) = (Sums::default(), Vec::new());
    loop {
        let page = archive.page(&filter).map_err(activity::archive_failed)?;
        for record in &page.activities {
            let Some(was) = record.decision.filter(|_| record.source.is_some()) else {
                continue;
            };
            if record.record_type != RecordType::ToolCall {
                sums.left_out += 1;
                continue;
            }
            let now = again(&policy, &known, record);
            sums.count(&now);
            rows.extend(row(record, decided(record).unwrap_or(was), &now));
        }
        match page.next_cursor {
            Some(cursor) => filter.cursor = Some(cursor),
            None => break,
        }
    }
    activity::warn_about_damage(archive)?;
    report(&sums, &rows, shared.json);
    Ok(ExitCode::SUCCESS)
}

/// Decides a recorded call again.
///
/// Facts that are not on record are tried in all combinations. A call counts as different only if no combination gives
/// the recorded verdict, so an unchanged policy shows no difference.
fn again(policy: &Policy, known: &Known, record: &Activity) -> Now {
    let Some(was) = decided(record) else {
        let rule = record.rule.as_deref().unwrap_or_default();
        return Now::Undecidable(format!("policy did not decide it: {rule}"));
    };
    let arguments = match arguments(record) {
        Ok(arguments) => arguments,
        Err(why) => return Now::Undecidable(why.to_owned()),
    };
    let Some(mut call) = made(record, arguments, None) else {
        return Now::Undecidable("the call cannot be reconstructed".to_owned());
    };
    let mut base = None;
    let mut reason = "it depends on earlier calls, limits or where its paths led";
    for (at, hints) in declared_hints(known, record).into_iter().enumerate() {
        take_as(&mut call, hints);
        let needs = policy.needs(&call);
        if !needs.inquiries.is_empty() {
            return Now::Undecidable("another gateway decides".to_owned());
        }
        let mut verdicts = verdicts(policy, &call, &needs);
        if needs.cost.is_some() {
            let costly = COSTS
                .iter()
                .filter_map(|cost| made(record, arguments, Some(*cost)));
            for mut call in costly {
                take_as(&mut call, hints);
                verdicts.extend(self::verdicts(policy, &call, &needs));
            }
        }
        let is_was = |(kind, _): &(Kind, String)| decision(*kind) == was;
        if at == 0 && verdicts.iter().all(is_was) {
            return Now::Same;
        }
        if verdicts.iter().any(is_was) {
            return Now::Undecidable(reason.to_owned());
        }
        base = base.or_else(|| verdicts.into_iter().next());
        reason = "it depends on what the tool declared then";
    }
    match base {
        Some((kind, rule)) => Now::Other { kind, rule },
        None => Now::Undecidable("the call cannot be reconstructed".to_owned()),
    }
}

/// The verdict of policy, even if a person or a limit decided afterwards.
fn decided(record: &Activity) -> Option<Decision> {
    let checks = &record.checks;
    let strictness = |decision: Decision| match decision {
        Decision::Allow => 0,
        Decision::RequireApproval => 1,
        Decision::Deny => 2,
    };
    let by_token = checks.iter().any(|check| check.scope == TOKEN_SCOPE);
    let strictest = checks.iter().map(|check| check.decision);
    strictest
        .max_by_key(|one| strictness(*one))
        .filter(|_| !by_token)
}

/// The arguments, if the record has them unredacted and complete.
fn arguments(record: &Activity) -> Result<&str, &'static str> {
    let kept = record.arguments.as_ref();
    let arguments = kept.map_or("{}", |arguments| arguments.get());
    let digest = record.arguments_blake3.as_deref();
    if digest.is_some_and(|digest| digest != body_digest(arguments.as_bytes())) {
        return Err("the arguments are redacted or cut");
    }
    Ok(arguments)
}

/// The recorded call, with its caller and intent.
fn made(record: &Activity, arguments: &str, cost: Option<f64>) -> Option<Call> {
    let (server, tool) = (record.server.as_ref()?, record.tool.as_ref()?);
    let described = Described {
        tool: &format!("{server}:{tool}"),
        arguments,
        annotations: "{}",
        identity: Caller {
            tenant: record.tenant.as_deref().unwrap_or(FIRST_TENANT),
            principal: record.principal.as_deref().unwrap_or_default(),
            agent: record.agent.as_deref().unwrap_or("anonymous"),
        },
        cost,
    };
    let mut call = calls::made(&described).ok()?;
    call.attempt.declared = declared(record).map(Arc::new);
    Some(call)
}

/// The intent that the caller declared.
fn declared(record: &Activity) -> Option<DeclaredIntent> {
    let variant = record.metadata.tool_variant.as_deref()?;
    let mut all = Operation::ALL.into_iter();
    let variant = all.find(|operation| operation.call_tool() == variant)?;
    let intent = record.metadata.intent.clone().unwrap_or_default();
    let mut declared = DeclaredIntent::by_variant(variant, IntentRules::default());
    declared.inferred = intent.inferred;
    declared.operation_type = intent.operation_type.filter(|_| !intent.inferred);
    declared.data_sensitivity = intent.data_sensitivity;
    declared.reason = intent.reason;
    Some(declared)
}

/// The hints that the tool may have had when it was called, its current ones first. If the record has the operation
/// that was inferred from them, only hints with that operation remain.
fn declared_hints(known: &Known, record: &Activity) -> Vec<Hints> {
    let name = |text: &Option<String>| text.clone().unwrap_or_default();
    let canonical = format!("{}:{}", name(&record.server), name(&record.tool));
    let now = known.tool(&canonical).map(|tool| tool.hints);
    let words = [None, Some(false), Some(true)];
    let all = words.into_iter().flat_map(|read_only| {
        words.into_iter().map(move |destructive| Hints {
            read_only,
            destructive,
        })
    });
    let intent = record.metadata.intent.as_ref();
    let inferred =
        intent.filter(|intent| intent.inferred && record.metadata.tool_variant.is_none());
    let taken = inferred.and_then(|intent| intent.operation_type.as_deref());
    let fits = |hints: &Hints| taken.is_none_or(|taken| hints.operation().as_str() == taken);
    now.into_iter().chain(all).filter(fits).collect()
}

fn take_as(call: &mut Call, hints: Hints) {
    if let Target::Tool(tool) = &call.target {
        let tool = (**tool).clone();
        call.target = Target::Tool(Arc::new(Tool { hints, ..tool }));
    }
}

/// Every verdict that is possible with the unrecorded facts. The first is that of a call without earlier calls.
fn verdicts(policy: &Policy, call: &Call, needs: &Needs) -> Vec<(Kind, String)> {
    let Facts {
        real_paths: now,
        reached,
        ..
    } = calls::facts_now(policy, call).0;
    let as_written = needs
        .paths
        .iter()
        .map(|path| (path.clone(), RealPath::At(path.clone())));
    let places = [now, as_written.collect()];
    let places = &places[..if needs.paths.is_empty() { 1 } else { 2 }];
    let unknown = needs.prior.len() + needs.rates.len();
    let ways = 1_u32 << unknown.min(MAX_UNKNOWN);
    let spent: &[f64] = if needs.cost.is_some() { &COSTS } else { &[0.0] };
    let mut found = Vec::new();
    for real_paths in places {
        for way in 0..ways {
            // Beyond the limit, the last bit stands for all remaining facts together.
            let is_so = |at: usize| (way >> at.min(MAX_UNKNOWN - 1)) & 1 == 1;
            let met = needs.prior.iter().enumerate().filter(|(at, _)| is_so(*at));
            let rates = needs.rates.iter().enumerate();
            let used_up = rates.filter(|(at, _)| is_so(needs.prior.len() + *at));
            let mut facts = Facts {
                real_paths: real_paths.clone(),
                reached: reached.clone(),
                met: met.map(|(_, prior)| prior.clone()).collect(),
                used_up: used_up.map(|(_, rate)| rate.clone()).collect(),
                ..Facts::default()
            };
            for spent in spent {
                facts.spent = *spent;
                found.push(calls::verdict(policy, call, &facts));
            }
        }
    }
    found
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
        Now::Undecidable(why) => ("undecidable", why.as_str()),
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
        left_out,
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
            json!({"same": same, "different": other, "undecidable": undecidable, "not_replayed": left_out, "differences": differences})
        );
        return;
    }
    if !rows.is_empty() {
        table(&["ID", "TIME", "AGENT", "TOOL", "WAS", "NOW", "RULE"], rows);
    }
    eprintln!("{same} calls unchanged, {other} different, {undecidable} undecidable");
    if *left_out > 0 {
        eprintln!("note: {left_out} requests that are not tool calls were skipped");
    }
}
