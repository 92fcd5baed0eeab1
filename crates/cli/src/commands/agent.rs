//! `callgate agent`: one agent step from the shell, and a probe of the installed agents.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use callgate_agent::{
    AgentKind, Effect, Folder, Options, ProbeReport, Proxy, Step, StepEvent, StepFailed, probe,
    relay::PluginTools,
};
use callgate_upstream::Profile;
use serde_json::{Value, json};

use callgate_gateway::Running;

use callgate_config::{Settings, TimeSpan};

use callgate_gateway::steps::StepPlugins;

use callgate_gateway::steps::{context, offered_builtins, shape};

use crate::{
    args::{Agent, AgentMode, Gateway, Shared},
    exit::Failed,
    print::{one_line, outln, table},
    setup,
    signals::{Hangup, Signals},
};

/// A step's calls end before the step does, so shutdown has little to wait for.
const PATIENCE: Duration = Duration::from_millis(500);
/// How much of a line of progress is shown.
const PROGRESS_CHARS: usize = 200;

pub(crate) fn run(shared: &Shared, agent: &Agent) -> Result<ExitCode, Failed> {
    if agent.provider == "probe" {
        return run_probe(shared, agent);
    }
    if let Some(more) = &agent.probed {
        return Err(Failed::user(format!("unexpected argument `{more}`")));
    }
    let step = step(agent)?;
    let settings = setup::settings(shared, &Gateway::default(), true)?;
    let wanted = wanted(agent)?;
    if step.proxy == Proxy::Additive && wanted.is_empty() {
        return Err(empty_proxy());
    }
    let runtime = setup::runtime()?;
    let ended = runtime.block_on(run_step(&settings, &step, &wanted, shared.json));
    // Tasks that a second signal abandoned must not delay the exit.
    runtime.shutdown_background();
    ended
}

async fn run_step(
    settings: &Settings,
    step: &Step,
    wanted: &[PluginTools],
    as_json: bool,
) -> Result<ExitCode, Failed> {
    let signals = Signals::listen(Hangup::Stops)?;
    let plugins = StepPlugins::new(settings, &std::env::current_dir().unwrap_or_default());
    let tools = match plugins.tools(wanted).await {
        Ok(tools) => tools,
        Err(error) => {
            plugins.stop().await;
            return Err(error.into());
        }
    };
    let plan =
        callgate_gateway::plan::step(settings, &step.workdir, offered_builtins(step), tools)?;
    let running = Running::start_with(settings, plan, Profile::gateway())?;
    plugins.log_is_open(running.gateway.path().recorder().clone());
    let context = Arc::new(context(settings, &running.gateway, Some(step))?);
    let mut ended = None;
    let stepping = async {
        let tell = |event: StepEvent| print_event(&event, as_json);
        let stepping = step.run(&context, signals.stop.clone(), &tell);
        ended = Some(plugins.during(&signals.stop, stepping).await);
        running.stop(PATIENCE).await;
    };
    signals.wind_down(stepping).await;
    match ended {
        Some(Ok(outcome)) => {
            if !as_json {
                outln!("{}", outcome.text);
            }
            Ok(ExitCode::SUCCESS)
        }
        Some(Err(failed)) => Err(failure(&failed)),
        None => Err(failure(&StepFailed::Stopped)),
    }
}

fn step(agent: &Agent) -> Result<Step, Failed> {
    let kind: AgentKind = agent
        .provider
        .parse()
        .map_err(|error| Failed::user(format!("{error}")))?;
    let wanted = agent.prompt.as_deref();
    let wanted = wanted.ok_or_else(|| {
        Failed::user("`--prompt` is missing")
            .help("pass the task: `--prompt TEXT` or `--prompt @FILE`")
    })?;
    let prompt = match wanted.strip_prefix('@') {
        Some(file) => fs::read_to_string(file)
            .map_err(|error| Failed::user(format!("cannot read the prompt `{file}`: {error}")))?,
        None => wanted.to_owned(),
    };
    let proxy = match agent.mode {
        AgentMode::Full => Proxy::Full,
        AgentMode::Additive => Proxy::Additive,
    };
    let timeout = agent.timeout.as_deref().map(time).transpose()?;
    Ok(Step {
        kind,
        prompt,
        workdir: folder(&agent.workdir)?,
        proxy,
        options: Options {
            model: agent.model.clone(),
            max_rounds: agent.max_rounds,
            stream: agent.no_stream.then_some(false),
            ..Options::default()
        },
        timeout,
    })
}

/// Additive mode without plugin tools would offer nothing of the gate's.
pub(crate) fn empty_proxy() -> Failed {
    Failed::user("USER.MCP_PROXY.EMPTY_PROXY: additive mode without a plugin offers no tool")
        .help("add `--plugin PLUGIN:OPERATION`, or use `--mode full`")
}

/// The operations of plugins that are offered, as `PLUGIN:OP,OP`.
fn wanted(agent: &Agent) -> Result<Vec<PluginTools>, Failed> {
    let one = |text: &String| {
        let (plugin, operations) = text.split_once(':').unwrap_or((text, ""));
        let operations = operations.split(',').map(str::trim);
        let expose: Vec<String> = operations
            .filter(|operation| !operation.is_empty())
            .map(str::to_owned)
            .collect();
        if expose.is_empty() {
            let what = format!("USER.MCP_PROXY.EMPTY_PROXY: `--plugin {text}` names no operation");
            return Err(Failed::user(what).help("write it like `--plugin kubernetes:get,apply`"));
        }
        Ok(PluginTools {
            plugin: plugin.to_owned(),
            expose,
        })
    };
    agent.plugins.iter().map(one).collect()
}

fn folder(workdir: &Path) -> Result<PathBuf, Failed> {
    let found = fs::canonicalize(workdir);
    let found = found.ok().filter(|folder| folder.is_dir());
    found.ok_or_else(|| Failed::user(format!("`{}` is not a folder", workdir.display())))
}

/// Bare numbers are seconds.
fn time(text: &str) -> Result<Duration, Failed> {
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    let span: TimeSpan = text.parse().map_err(Failed::user)?;
    Ok(span.0)
}

/// Prints a step event: as JSON on stdout, or as text on stderr.
fn print_event(event: &StepEvent, as_json: bool) {
    if as_json {
        outln!("{}", serde_json::to_string(event).unwrap_or_default());
    }
    match event {
        StepEvent::Started { step, provider } if !as_json => {
            eprintln!("agent {provider}, step {step}")
        }
        StepEvent::Warning { text } => eprintln!("{text}"),
        StepEvent::Call { tool } if !as_json => {
            eprintln!("tool {}", one_line(tool, PROGRESS_CHARS))
        }
        StepEvent::Bypassed { tool } if !as_json => {
            eprintln!("native tool {} (not gated)", one_line(tool, PROGRESS_CHARS));
        }
        StepEvent::Started { .. }
        | StepEvent::Call { .. }
        | StepEvent::Bypassed { .. }
        | StepEvent::Text { .. }
        | StepEvent::Finished { .. } => {}
    }
}

fn failure(failed: &StepFailed) -> Failed {
    match failed {
        StepFailed::Missing(_)
        | StepFailed::ProjectFile { .. }
        | StepFailed::LoginExpired { .. }
        | StepFailed::Boxed(_) => Failed::user(failed.to_string()),
        StepFailed::Setup(_) => Failed::system(failed.to_string()),
        StepFailed::NotStarted { .. }
        | StepFailed::NoTools
        | StepFailed::NoFinalEvent { .. }
        | StepFailed::Agent(_)
        | StepFailed::TimedOut(_)
        | StepFailed::Stopped
        | StepFailed::LoopGuard(_)
        | StepFailed::Model(_) => Failed::execution(failed.to_string()),
    }
}

fn run_probe(shared: &Shared, agent: &Agent) -> Result<ExitCode, Failed> {
    let kinds = match &agent.probed {
        None => AgentKind::PROGRAMS.to_vec(),
        Some(name) => vec![
            name.parse()
                .map_err(|error| Failed::user(format!("{error}")))?,
        ],
    };
    let settings = setup::settings(shared, &Gateway::default(), true)?;
    let runtime = setup::runtime()?;
    let probed = runtime.block_on(probe_all(&settings, &kinds));
    runtime.shutdown_background();
    let rows = probed?;
    if shared.json {
        let reports: Vec<Value> = rows.iter().map(|(kind, row)| written(*kind, row)).collect();
        outln!("{}", Value::Array(reports));
    } else {
        let cells: Vec<Vec<String>> = rows.iter().map(|(kind, row)| cells(*kind, row)).collect();
        table(
            &[
                "PROVIDER",
                "VERSION",
                "OFFERED",
                "NATIVE CALL",
                "HOSTILE FILES",
                "VERDICT",
                "IN ITS BOX",
                "NOTE",
            ],
            &cells,
        );
        let probed = rows.iter().filter_map(|(_, row)| row.as_ref().ok());
        // The same for all of them.
        let boxed = probed.filter_map(|report| report.boxed.as_ref()).next();
        for sentence in boxed.iter().flat_map(|boxed| &boxed.holds) {
            outln!("boxes: {sentence}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

type Probed = Vec<(AgentKind, Result<ProbeReport, StepFailed>)>;

async fn probe_all(settings: &Settings, kinds: &[AgentKind]) -> Result<Probed, Failed> {
    let mut rows = Vec::new();
    for kind in kinds {
        eprintln!("probing {kind}");
        rows.push((*kind, probe_one(settings, *kind).await?));
    }
    Ok(rows)
}

/// Probes an agent in a folder of its own. Not in the data folder, where the gate protects every path.
async fn probe_one(
    settings: &Settings,
    kind: AgentKind,
) -> Result<Result<ProbeReport, StepFailed>, Failed> {
    let system = |error: std::io::Error| Failed::system(error.to_string());
    let place = Folder::make().map_err(system)?;
    let desk = place.path().join("desk");
    fs::create_dir(&desk).map_err(system)?;
    let plan = callgate_gateway::plan::step(settings, &desk, Some(shape(kind)), Vec::new())?;
    let running = Running::start_with(settings, plan, Profile::gateway())?;
    let context = Arc::new(context(settings, &running.gateway, None)?);
    let probed = probe(&context, kind, &desk).await;
    drop(context);
    running.stop(PATIENCE).await;
    Ok(probed)
}

/// A row as JSON. An agent that could not be probed has only an error.
fn written(kind: AgentKind, row: &Result<ProbeReport, StepFailed>) -> Value {
    match row {
        Ok(report) => serde_json::to_value(report).unwrap_or_default(),
        Err(error) => json!({"provider": kind.as_str(), "error": error.to_string()}),
    }
}

fn cells(kind: AgentKind, row: &Result<ProbeReport, StepFailed>) -> Vec<String> {
    match row {
        Ok(report) => {
            let native = if report.native_effect {
                "had an effect"
            } else {
                "no effect"
            };
            let offered = format!(
                "{} ours, {} native",
                report.offered.len() - report.native.len(),
                report.native.len()
            );
            let note = report.error.as_deref().map(|error| one_line(error, 80));
            let note = note.unwrap_or_else(|| report.native.join(", "));
            let hostile = match report.obeyed.as_slice() {
                [] => format!("{} ignored", report.planted),
                obeyed => obeyed.iter().map(effect).collect::<Vec<_>>().join(", "),
            };
            vec![
                kind.to_string(),
                report.version.clone(),
                offered,
                native.to_owned(),
                hostile,
                report.verdict.as_str().to_owned(),
                in_box(report),
                note,
            ]
        }
        Err(error) => {
            let dash = || "-".to_owned();
            vec![
                kind.to_string(),
                dash(),
                dash(),
                dash(),
                dash(),
                dash(),
                dash(),
                one_line(&error.to_string(), 80),
            ]
        }
    }
}

fn in_box(report: &ProbeReport) -> String {
    match &report.boxed {
        None => "off".to_owned(),
        Some(boxed) => match &boxed.error {
            None => format!("works ({})", boxed.mode),
            Some(error) => format!("fails: {}", one_line(error, 80)),
        },
    }
}

fn effect(effect: &Effect) -> &'static str {
    match effect {
        Effect::Ran => "a command ran",
        Effect::Read => "a file was read",
        Effect::Sent => "a request was sent",
    }
}
