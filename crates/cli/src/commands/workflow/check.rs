//! `callgate validate FILE`: reports all errors of a workflow in one pass.

use std::{fs, path::Path, process::ExitCode};

use callgate_agent::{AgentKind, Verdict, Verdicts};
use callgate_process::environment::{self, Inherit};
use callgate_workflow::{
    Code, Finding, Kind, Reading, Severity, Sources, Unreadable, Workflow, check_files,
    check_plugins, read,
};
use serde_json::json;

use callgate_config::Settings;

use callgate_gateway::steps::StepPlugins;

use crate::{
    args::{Gateway, Shared, Validate},
    exit::Failed,
    print::outln,
    setup,
};

/// A workflow that can be run, and its text.
pub(super) struct Checked {
    pub(super) workflow: Workflow,
    pub(super) text: String,
    /// The templates that were read for the workflow.
    pub(super) sources: Sources,
}

pub(super) fn run(shared: &Shared, wanted: &Validate) -> Result<ExitCode, Failed> {
    let reading = match parsed(&wanted.file)? {
        (Ok(reading), _) => reading,
        (Err(error), _) => return unreadable(shared, &wanted.file, &error),
    };
    let mut findings = reading.findings.clone();
    if let Some(draft) = reading.draft() {
        findings.extend(check_files(draft, &wanted.file));
        let settings = setup::settings(shared, &Gateway::default(), true)?;
        let runtime = setup::runtime()?;
        findings.extend(runtime.block_on(external_findings(&settings, draft, wanted.no_plugins)));
        runtime.shutdown_background();
    }
    let is_wrong = findings.iter().any(Finding::is_error);
    if shared.json {
        let report = json!({
            "file": wanted.file,
            "valid": !is_wrong,
            "findings": findings,
        });
        outln!("{report}");
    } else {
        print_findings(&wanted.file, &findings);
        if !is_wrong {
            let what = if reading.is_template() {
                "a valid template"
            } else {
                "valid"
            };
            outln!("`{}` is {what}", wanted.file.display());
        }
    }
    Ok(if is_wrong {
        ExitCode::from(1)
    } else {
        ExitCode::SUCCESS
    })
}

/// Reads a workflow that is to be run, and reports its findings first.
pub(super) fn runnable(file: &Path) -> Result<Checked, Failed> {
    let (reading, text) = readable(file)?;
    print_findings(file, &reading.findings);
    let findings = reading.findings.iter();
    let wrong = findings.filter(|finding| finding.is_error()).count();
    if reading.is_template() {
        let what = format!(
            "`{}` is a template: a state of a workflow uses it",
            file.display()
        );
        return Err(Failed::user(what).help("write `use_template` in that state"));
    }
    let sources = reading.sources().clone();
    let workflow = reading.workflow().ok_or_else(|| {
        Failed::user(format!("`{}` cannot run: {wrong} errors", file.display()))
            .help("`callgate explain CODE` explains a code")
    })?;
    Ok(Checked {
        workflow,
        text,
        sources,
    })
}

fn readable(file: &Path) -> Result<(Reading, String), Failed> {
    let (reading, text) = parsed(file)?;
    let reading = reading.map_err(|error| wrong(file, &error.to_string()))?;
    Ok((reading, text))
}

fn parsed(file: &Path) -> Result<(Result<Reading, Unreadable>, String), Failed> {
    let text = fs::read_to_string(file).map_err(|error| wrong(file, &error.to_string()))?;
    Ok((read(&text, file), text))
}

fn wrong(file: &Path, why: &str) -> Failed {
    Failed::config(format!("workflow `{}`: {why}", file.display()))
}

/// A file that is not YAML has one finding. Its exit code is that of a broken file.
fn unreadable(shared: &Shared, file: &Path, error: &Unreadable) -> Result<ExitCode, Failed> {
    if !shared.json {
        return Err(wrong(file, &error.to_string()));
    }
    outln!(
        "{}",
        json!({"file": file, "valid": false, "findings": [error.finding()]})
    );
    Ok(ExitCode::from(2))
}

/// The findings that need the plugins and agents themselves.
async fn external_findings(
    settings: &Settings,
    workflow: &Workflow,
    no_plugins: bool,
) -> Vec<Finding> {
    let mut findings = unknown_servers(settings, workflow);
    if !no_plugins {
        let workdir = std::env::current_dir().unwrap_or_default();
        let plugins = StepPlugins::new(settings, &workdir);
        findings.extend(check_plugins(workflow, &plugins).await);
        plugins.stop().await;
    }
    let verdicts = Verdicts::of(&settings.data_dir);
    let env = environment::minimal(Inherit::All, &[], std::env::vars());
    let warden = &settings.warden_program;
    let mut known: Vec<(AgentKind, Option<Verdict>)> = Vec::new();
    for state in &workflow.states {
        let (Kind::Agent(agent), Some(proxy)) = (&state.kind, &state.proxy) else {
            continue;
        };
        if !proxy.enable || !proxy.intercept_builtins {
            continue;
        }
        let Some(kind) = agent.kind() else {
            continue;
        };
        let verdict = match known.iter().find(|(known, _)| *known == kind) {
            Some((_, verdict)) => *verdict,
            None => verdicts.of_installed(warden, kind, &env).await,
        };
        known.push((kind, verdict));
        if verdict != Some(Verdict::Isolated) {
            findings.push(Finding {
                code: Code::UnsupportedProvider,
                severity: Severity::Warning,
                step: Some(state.name.clone()),
                path: format!("states.{}.mcp_proxy.intercept_builtins", state.name),
                message: format!(
                    "the installed `{kind}` is not known to be restricted to callgate's tools; check it with `callgate agent probe {kind}`"
                ),
                line: state.proxy_place().line,
                column: state.proxy_place().column,
            });
        }
    }
    findings
}

/// The servers that steps offer tools of, and that cannot be started.
fn unknown_servers(settings: &Settings, workflow: &Workflow) -> Vec<Finding> {
    let mut findings = Vec::new();
    for proxy in workflow
        .states
        .iter()
        .filter_map(|state| state.proxy.as_ref())
    {
        for (server, path, place) in proxy.servers() {
            let mut known = settings.servers.iter();
            let known = known.find(|known| known.name.as_str() == server);
            let why = match known.map(|known| known.launch.is_enabled()) {
                Some(true) => continue,
                Some(false) => "is disabled",
                None => "is not configured",
            };
            findings.push(Finding {
                code: Code::UnknownServer,
                severity: Severity::Error,
                step: path.split('.').nth(1).map(str::to_owned),
                path: path.to_owned(),
                message: format!("server `{server}` {why}"),
                line: place.line,
                column: place.column,
            });
        }
    }
    findings
}

/// Prints findings on stderr.
fn print_findings(file: &Path, findings: &[Finding]) {
    for finding in findings {
        let how = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let Finding {
            code,
            path,
            message,
            line,
            column,
            ..
        } = finding;
        eprintln!("{how}: {}: {message}", code.as_str());
        let at = match (line, column) {
            (0, _) => String::new(),
            (line, 0) => format!(":{line}"),
            (line, column) => format!(":{line}:{column}"),
        };
        eprintln!("  --> {}{at} {path}", file.display());
    }
}
