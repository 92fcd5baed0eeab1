//! `callgate policy explain`: the rules behind a call's verdict.

use std::{process::ExitCode, sync::Arc};

use callgate_gate::{
    Call, Cost, Explained, ExplainedRule, ExplainedSubject, Facts, Needs, RealPath, Target,
};
use serde_json::{Value, json};

use super::{
    calls::{self, Caller, Described},
    known::Known,
};
use callgate_config::Settings;

use callgate_gateway::plan;

use crate::{
    args::{Explain, Shared},
    exit::Failed,
    print::{one_line, outln},
    setup,
};

pub(super) fn run(shared: &Shared, explain: &Explain) -> Result<ExitCode, Failed> {
    let settings = setup::settings(shared, &explain.gateway, true)?;
    let annotations = match (explain.destructive, explain.read_only) {
        (true, _) => Some(r#"{"destructiveHint":true}"#),
        (false, true) => Some(r#"{"readOnlyHint":true}"#),
        (false, false) => None,
    };
    let mut call = calls::made(&Described {
        tool: &explain.tool,
        arguments: &explain.arguments,
        annotations: annotations.unwrap_or("{}"),
        identity: Caller::named(&explain.agent, explain.vouched_for),
        cost: None,
    })?;
    if annotations.is_none() {
        define(&settings, &explain.tool, &mut call)?;
    }
    let policy = &plan::fleet(&settings)?.policy;
    let (facts, needs) = calls::facts_now(policy, &call);
    let (kind, rule) = calls::verdict(policy, &call, &facts);
    let explained = policy.explain(&call, &facts);
    if shared.json {
        let told = as_json(&explained, &facts, &needs);
        outln!(
            "{}",
            json!({"verdict": kind.as_str(), "rule": rule, "explained": told})
        );
        return Ok(ExitCode::SUCCESS);
    }
    outln!("{} by {rule}", kind.as_str());
    for check in &explained.checks {
        outln!(
            "  {}: {} by {} — {}",
            check.scope,
            check.kind.as_str(),
            check.rule,
            check.reason
        );
    }
    for scope in &explained.scopes {
        outln!(
            "\nscope {}: {} by {}",
            scope.scope,
            scope.check.kind.as_str(),
            scope.check.rule
        );
        scope.subjects.iter().for_each(print_subject);
    }
    print_facts(&facts, &needs);
    Ok(ExitCode::SUCCESS)
}

/// Gives the call the definition that the gateway has of its tool.
fn define(settings: &Settings, name: &str, call: &mut Call) -> Result<(), Failed> {
    let known = Known::of(settings)?;
    if let Some(tool) = known.tool(name) {
        call.target = Target::Tool(Arc::new(tool.clone()));
    } else if let Some((tool, reason)) = known.quarantined(name) {
        call.target = Target::Tool(Arc::new(tool.clone()));
        eprintln!(
            "note: {name} is quarantined, so its calls are refused before policy applies: {reason}"
        );
    } else {
        eprintln!(
            "note: no server has listed {name} yet; it is explained as a tool without hints\nhelp: use --destructive or --read-only to set a hint"
        );
    }
    Ok(())
}

fn print_subject(subject: &ExplainedSubject) {
    match subject.subject.as_str() {
        "" => outln!("  no subject: the call has none"),
        text => outln!("  subject `{}`", one_line(text, 200)),
    }
    let mut spoken = false;
    for rule in &subject.rules {
        let word = match (&rule.missed, spoken) {
            (None, false) => "matches".to_owned(),
            (None, true) => "would match, but an earlier rule decided".to_owned(),
            (Some(missed), _) => format!("no match: {}", one_line(missed, 200)),
        };
        spoken |= rule.missed.is_none();
        outln!("    line {}: {} — {word}", rule.place.line, rule.rule);
    }
    if !spoken {
        outln!("    no rule matches: deny:default");
    }
}

fn print_facts(facts: &Facts, needs: &Needs) {
    if needs.is_empty() {
        return;
    }
    outln!("\nfacts");
    let mut paths: Vec<_> = facts.real_paths.iter().collect();
    paths.sort_by_key(|(path, _)| *path);
    for (path, real) in paths {
        outln!("  `{path}` is {}", shown(real));
    }
    for prior in &needs.prior {
        outln!(
            "  assumed: no `{}` within {:?} before",
            prior.pattern,
            prior.window
        );
    }
    for rate in &needs.rates {
        let (max, window) = (rate.max_requests, rate.window);
        outln!(
            "  assumed: fewer than {max} requests in {window:?} of scope {}",
            rate.scope
        );
    }
    match needs.cost {
        None => {}
        Some(Cost::Unsaid | Cost::Of(_) | Cost::Unreadable) => {
            outln!("  assumed: {} spent so far", facts.spent);
        }
    }
}

fn shown(real: &RealPath) -> String {
    match real {
        RealPath::At(path) => format!("`{path}`"),
        RealPath::Unknown => "not found".to_owned(),
    }
}

fn as_json(explained: &Explained, facts: &Facts, needs: &Needs) -> Value {
    let rule = |rule: &ExplainedRule| json!({"rule": rule.rule, "line": rule.place.line, "matches": rule.missed.is_none(), "why_not": rule.missed});
    let subject = |subject: &ExplainedSubject| {
        let rules: Vec<Value> = subject.rules.iter().map(rule).collect();
        json!({"about": subject.subject, "rules": rules})
    };
    let checks: Vec<Value> = explained
        .checks
        .iter()
        .map(|check| {
            json!({"scope": check.scope, "verdict": check.kind.as_str(), "rule": check.rule, "reason": check.reason})
        })
        .collect();
    let scopes: Vec<Value> = explained
        .scopes
        .iter()
        .map(|scope| {
            let subjects: Vec<Value> = scope.subjects.iter().map(subject).collect();
            json!({"scope": scope.scope, "verdict": scope.check.kind.as_str(), "rule": scope.check.rule, "subjects": subjects})
        })
        .collect();
    let paths: serde_json::Map<String, Value> = facts
        .real_paths
        .iter()
        .map(|(path, real)| {
            let real = match real {
                RealPath::At(path) => Value::from(path.as_str()),
                RealPath::Unknown => Value::Null,
            };
            (path.clone(), real)
        })
        .collect();
    let prior: Vec<&str> = needs
        .prior
        .iter()
        .map(|prior| prior.pattern.as_str())
        .collect();
    let rates: Vec<&str> = needs.rates.iter().map(|rate| rate.scope.as_str()).collect();
    json!({
        "checks": checks,
        "scopes": scopes,
        "facts": {"real_paths": paths, "prior_not_met": prior, "rates_not_used_up": rates},
    })
}
