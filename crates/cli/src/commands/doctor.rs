//! `callgate doctor`: checks the installation, and reports problems with what to do about them.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::ExitCode, time::Duration};

use callgate_call::{Providers, RateUsage, Usage};
use callgate_gate::pins;
use callgate_gate::{BoxMode, Launch};
use callgate_process::sandbox;
use callgate_record::{
    Activity, ActivityFilter, Archive, RecordType, RetentionPause, Verification,
};
use callgate_upstream::{Profile, ServerReport, ServerStatus};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use callgate_gateway::{Lifetime, Running};

use callgate_config::Settings;

use callgate_gateway::reload::LOOSENED;

use crate::{
    admin,
    args::{Gateway, Shared},
    commands::{activity, boxes, lock, serve::plain_http_warning},
    exit::Failed,
    print::{one_line, outln},
    setup,
};

/// How far back changes of policy are reported.
const LATELY: SignedDuration = SignedDuration::from_hours(7 * 24);
/// How many such changes are reported.
const MOST_LOOSENED: usize = 5;

/// The result of one check.
struct Finding {
    fine: bool,
    what: String,
    help: Option<String>,
}

pub(crate) fn run(shared: &Shared) -> Result<ExitCode, Failed> {
    let settings = setup::settings(shared, &Gateway::default(), true)?;
    let mut findings = vec![configuration(&settings), private(&settings.data_dir)];
    findings.extend(exposed(&settings)?);
    let archive = callgate_gateway::shared_stores(&settings.data_dir)?.archive;
    let verified = archive.verify(None).map_err(activity::archive_failed)?;
    findings.push(record(&verified));
    findings.extend(damaged_lock(&settings));
    findings.extend(index(verified));
    findings.push(disk(&settings, &*archive)?);
    findings.extend(paused(&*archive)?);
    findings.extend(loosened(&*archive)?);
    let runtime = setup::runtime()?;
    findings.extend(runtime.block_on(usage(&settings)));
    findings.extend(runtime.block_on(servers(&settings))?);
    findings.extend(box_findings(&settings));
    for Finding { fine, what, help } in &findings {
        outln!(
            "{} {}",
            if *fine { "ok     " } else { "problem" },
            one_line(what, 300)
        );
        if let Some(help) = help {
            outln!("        help: {help}");
        }
    }
    let problems = findings.iter().filter(|finding| !finding.fine).count();
    match problems {
        0 => Ok(ExitCode::SUCCESS),
        1 => Err(Failed::user("found 1 problem")),
        n => Err(Failed::user(format!("found {n} problems"))),
    }
}

fn configuration(settings: &Settings) -> Finding {
    match &settings.source.file {
        Some(file) => fine(format!("configuration `{}`", file.display())),
        None => Finding {
            fine: true,
            what: "no configuration file: defaults apply".to_owned(),
            help: Some(
                "create ~/.config/callgate/callgate.yaml, or pass a file with --config".to_owned(),
            ),
        },
    }
}

fn private(data_dir: &Path) -> Finding {
    let mode = fs::metadata(data_dir).map(|data| data.permissions().mode() & 0o777);
    match mode {
        Ok(0o700) => fine(format!(
            "data folder `{}` is private to you",
            data_dir.display()
        )),
        Ok(mode) => problem(
            format!("data folder `{}` has mode {mode:o}", data_dir.display()),
            "other users must not reach it: run `chmod 700` on it",
        ),
        Err(error) => problem(
            format!("data folder: {error}"),
            "choose another data folder with --data-dir",
        ),
    }
}

/// An address that other machines reach without TLS.
fn exposed(settings: &Settings) -> Result<Option<Finding>, Failed> {
    let listen = settings.listen(None)?;
    let is_exposed = !listen.ip().is_loopback();
    Ok(is_exposed.then(|| Finding {
        fine: true,
        what: plain_http_warning(listen),
        help: None,
    }))
}

/// What the tokens of each tenant have used of their limits at the gateway that runs on this data folder.
async fn usage(settings: &Settings) -> Vec<Finding> {
    // Counts live in the gateway's process.
    let Some(gateway) = admin::running(&settings.data_dir).await else {
        return Vec::new();
    };
    let asked = async {
        let token = settings.tokens()?.admin;
        let body = admin::get(&gateway, "/api/v1/usage", Some(&token)).await?;
        serde_json::from_slice::<Used>(&body).map_err(|error| Failed::execution(error.to_string()))
    };
    match asked.await {
        Ok(used) => token_lines(&used.usage),
        Err(error) => vec![problem(
            format!("the usage of tokens is unknown: {}", error.one_line()),
            "if the running gateway has another version, restart it",
        )],
    }
}

#[derive(Deserialize)]
struct Used {
    usage: Vec<Usage>,
}

fn token_lines(used: &[Usage]) -> Vec<Finding> {
    if used.is_empty() {
        return vec![fine(
            "no token has used a rate limit, a budget or call history yet".to_owned(),
        )];
    }
    used.iter().map(|usage| fine(one_token(usage))).collect()
}

/// `tenant acme, token ci: mcp_tool 3 of 60 in 60s (agent x 2), 5 calls in history, spent 1.5`
fn one_token(usage: &Usage) -> String {
    let rate = |rate: &RateUsage| {
        let RateUsage {
            scope,
            used,
            max_requests,
            window_seconds,
            agents,
        } = rate;
        let agents: Vec<String> = agents
            .iter()
            .map(|(name, used)| format!("agent {name} {used}"))
            .collect();
        let agents = match agents.is_empty() {
            true => String::new(),
            false => format!(" ({})", agents.join(", ")),
        };
        format!("{scope} {used} of {max_requests} in {window_seconds}s{agents}")
    };
    let mut parts: Vec<String> = usage.rates.iter().map(rate).collect();
    parts.push(format!("{} calls in history", usage.history));
    if usage.spent > 0.0 {
        parts.push(format!("spent {}", usage.spent));
    }
    let (tenant, token) = (&usage.tenant, &usage.token);
    format!("tenant {tenant}, token {token}: {}", parts.join(", "))
}

fn record(found: &Verification) -> Finding {
    // Of an empty log the count says it.
    let notes = found.notes.iter().filter(|_| found.entries > 0);
    let notes: String = notes.map(|note| format!("; {note}")).collect();
    let what = format!(
        "activity log: {} entries of {} writers{notes}",
        found.entries, found.writers
    );
    match found.problems.first() {
        None => fine(what),
        Some(first) => problem(
            format!("{what}; {first}"),
            "`callgate activity verify` lists all problems",
        ),
    }
}

/// What the record takes of its budget.
fn disk(settings: &Settings, archive: &dyn Archive) -> Result<Finding, Failed> {
    let used = archive.disk_use().map_err(activity::archive_failed)?;
    let budget_mb = settings.config.activity.retain.max_mb;
    let mb = |bytes: u64| bytes as f64 / (1024.0 * 1024.0);
    let what = format!(
        "disk: {:.1} of {budget_mb} MB (`activity.retain.max_mb`): {:.1} MB activity log, {:.1} MB search index, {:.1} MB trash",
        mb(used.total()),
        mb(used.log),
        mb(used.index),
        mb(used.trash),
    );
    // A gateway makes room within an hour.
    if used.total() <= budget_mb.saturating_mul(1024 * 1024) {
        return Ok(fine(what));
    }
    Ok(problem(
        what,
        "a running gateway drops the oldest entries when it can; segments of running gateways and unfinished chains stay",
    ))
}

/// Retention that drops nothing by age for now.
fn paused(archive: &dyn Archive) -> Result<Option<Finding>, Failed> {
    let trust = archive.clock().map_err(activity::archive_failed)?;
    let pause = trust.and_then(|trust| trust.pause(Timestamp::now()));
    Ok(pause.map(|pause| {
        let what = format!("retention drops nothing by age: {pause}");
        match pause {
            RetentionPause::Clock { .. } => problem(what, activity::retention::CONFIRM),
            RetentionPause::Restored { .. } => fine(what),
        }
    }))
}

/// Recent changes that loosened policy while a gateway ran, by the operator or by an intruder.
fn loosened(archive: &dyn Archive) -> Result<Vec<Finding>, Failed> {
    let filter = ActivityFilter {
        record_type: Some(RecordType::System),
        tool: Some(LOOSENED.to_owned()),
        since: Timestamp::now().checked_sub(LATELY).ok(),
        limit: Some(MOST_LOOSENED),
        ..ActivityFilter::default()
    };
    let page = archive.page(&filter).map_err(activity::archive_failed)?;
    let finding = |activity: Activity| Finding {
        fine: true,
        what: format!(
            "policy was loosened while a gateway ran, {}: {}",
            activity.timestamp.strftime("%F %T UTC"),
            activity.reason.unwrap_or_default()
        ),
        help: Some("if you did not do this, find out what changed the file".to_owned()),
    };
    Ok(page.activities.into_iter().map(finding).collect())
}

fn damaged_lock(settings: &Settings) -> Option<Finding> {
    let why = settings.pins.lock.damage()?;
    let file = settings.lock_file.display();
    Some(problem(
        format!("`{file}` is damaged, so new tools cannot be accepted: {why}"),
        "repair it, restore it from version control, or move it away to accept all tools again",
    ))
}

/// Reported only if the index differed from the log; verification has rebuilt it by then.
fn index(found: Verification) -> Option<Finding> {
    let differed = found.index_differed?;
    let help = "the index was rebuilt from the activity log; find out which program changed it";
    Some(problem(differed, help))
}

async fn servers(settings: &Settings) -> Result<Vec<Finding>, Failed> {
    if settings.servers.is_empty() && !settings.config.builtins.enabled {
        let help = "add a server to callgate.yaml under `servers:`, or try `callgate demo`";
        return Ok(vec![Finding {
            fine: true,
            what: "no servers configured".to_owned(),
            help: Some(help.to_owned()),
        }]);
    }
    let running = Running::start(settings, Profile::gateway(), Lifetime::OneCommand)?;
    running.fleet.settled().await;
    let (reports, catalog) = (running.fleet.reports(), running.fleet.catalog());
    running.stop(Duration::ZERO).await;
    let servers = reports.iter().map(|report| server(settings, report));
    let quarantined = catalog.quarantined().iter().map(|one| {
        let name = pins::shown_name(&one.tool);
        let help = match one.reason.can_be_accepted() {
            true => format!(
                "review it with `callgate lock diff`, then accept it with `callgate lock accept {name}`"
            ),
            false => "it cannot be accepted; its server must change the definition".to_owned(),
        };
        problem(format!("tool {name} is quarantined: {}", one.reason), &help)
    });
    let odd = lock::suspicious_tools(settings)
        .into_iter()
        .map(|(name, reason)| Finding {
            fine: true,
            what: format!("tool {name} looks suspicious: {reason}"),
            help: Some(format!("review it with `callgate lock show {name}`")),
        });
    Ok(servers.chain(quarantined).chain(odd).collect())
}

/// What the boxes grant, and what runs without one.
fn box_findings(settings: &Settings) -> Vec<Finding> {
    let boxed = boxes::lines(settings).into_iter().map(fine);
    let missing = boxes::missing(settings);
    let unboxed = (!missing.is_empty()).then(|| Finding {
        fine: true,
        what: format!(
            "without a box, so with all your rights: {}",
            missing.join(", ")
        ),
        help: Some(
            "limit what it may reach with `box` in callgate.yaml; `callgate servers learn NAME` writes one for a server".to_owned(),
        ),
    });
    boxed.chain(unboxed).chain(enforced(settings)).collect()
}

/// What this machine enforces, if there is a box.
fn enforced(settings: &Settings) -> Vec<Finding> {
    let modes = boxes::modes(settings);
    if modes.is_empty() {
        return Vec::new();
    }
    let probe = sandbox::probe(&settings.warden_program);
    let sentences = probe.sentences().into_iter();
    let mut findings: Vec<Finding> = sentences.map(|one| fine(format!("boxes: {one}"))).collect();
    if modes.contains(&BoxMode::Required) && !probe.holds_required() {
        findings.push(problem(
            "boxes with `mode: required` cannot be enforced here, so their programs do not start"
                .to_owned(),
            "use a newer kernel, or `mode: best_effort` to start with the restrictions that hold",
        ));
    }
    findings
}

fn server(settings: &Settings, report: &ServerReport) -> Finding {
    let ServerReport { name, status, .. } = report;
    let spec = settings.servers.iter().find(|spec| spec.name == *name);
    let launch = spec.map(|spec| &spec.launch);
    if launch == Some(&Launch::SwitchedOff) {
        return fine(format!("server {name} is switched off"));
    }
    let what = format!("server {name} is {status}: {} tools", report.tools);
    match status {
        ServerStatus::Ok if report.unannotated_tools > 0 => fine(format!(
            "{what}, {} of them without hints about their effects",
            report.unannotated_tools
        )),
        ServerStatus::Ok => fine(what),
        ServerStatus::Starting | ServerStatus::Degraded | ServerStatus::Stopped => {
            let reason = report.reason.as_deref().unwrap_or("no answer");
            // A server that could not be started has no log, and its reason already says what to do.
            let ran = !matches!(launch, Some(Launch::Off { .. }));
            Finding {
                fine: false,
                what: format!("{what}; {reason}"),
                help: ran.then(|| format!("see its log: `callgate servers logs {name}`")),
            }
        }
    }
}

fn fine(what: String) -> Finding {
    Finding {
        fine: true,
        what,
        help: None,
    }
}

fn problem(what: String, help: &str) -> Finding {
    Finding {
        fine: false,
        what,
        help: Some(help.to_owned()),
    }
}
