//! `callgate workflow run` and `resume`: a run behind the gate, to its end.

use std::{path::Path, process::ExitCode, time::Duration};

use callgate_process::environment::{self, Inherit};
use callgate_upstream::Profile;
use callgate_workflow::{
    Event, Journal, NewRun, Resumption, Run, RunContext, RunEnd, RunError, RunReport, RunStatus,
    Status, Workflow, given, read_with,
};

use super::{check, dry_run, history, progress::Progress};
use callgate_call::TraceContext;
use callgate_gateway::{Running, plan::StepTools};

use callgate_config::Settings;

use callgate_gateway::steps::{StepPlugins, command_box};

use callgate_gateway::step_runner::GatedStepRunner;

use crate::{
    args::{RunWorkflow, Shared},
    commands::call::Shell,
    exit::{Failed, report, stopped},
    print::outln,
    setup,
    signals::{Hangup, Signals},
    steps::Attended,
};

/// A run's calls end before the run does, so shutdown has little to wait for.
const PATIENCE: Duration = Duration::from_millis(500);

pub(super) fn begin(shared: &Shared, wanted: &RunWorkflow) -> Result<ExitCode, Failed> {
    let checked = check::runnable(&wanted.file)?;
    let pairs: Result<Vec<(String, String)>, Failed> = wanted.inputs.iter().map(pair).collect();
    let inputs = given(&checked.workflow, &pairs?);
    let inputs = inputs.map_err(|error| Failed::user(error.to_string()))?;
    if let Some(step) = &wanted.step
        && checked.workflow.state(step).is_none()
    {
        return Err(Failed::user(format!("the workflow has no state `{step}`")));
    }
    let file = std::path::absolute(&wanted.file).unwrap_or_else(|_| wanted.file.clone());
    if wanted.dry_run {
        return dry_run::show(shared, &checked.workflow, inputs, &file);
    }
    let mocks: Result<Vec<(String, String)>, Failed> = wanted.mocks.iter().map(mock).collect();
    let mocks = mocks?;
    let settings = setup::settings_of_steps(shared)?;
    let workdir = std::env::current_dir()
        .map_err(|error| Failed::system(format!("cannot find the working folder: {error}")))?;
    let beginning = NewRun {
        workflow: &checked.workflow.name,
        text: &checked.text,
        file: &file,
        workdir: &workdir,
        inputs,
        only: wanted.step.clone(),
        mocks,
        sources: checked.sources,
    };
    let journal = Journal::begin(&settings.data_dir, beginning);
    let journal = journal.map_err(|error| history::failed(&error))?;
    walk(&settings, &checked.workflow, &journal, shared.json)
}

pub(super) fn resume(
    shared: &Shared,
    run: &str,
    resumption: Resumption<'_>,
) -> Result<ExitCode, Failed> {
    let from = resumption.from;
    let settings = setup::settings_of_steps(shared)?;
    let report = RunReport::of(&settings.data_dir, run).map_err(|error| history::failed(&error))?;
    if report.status == RunStatus::Success && from.is_none() {
        return Err(Failed::user(format!("run `{run}` already succeeded"))
            .help("pass a state with `--from` to start again from there"));
    }
    if let Some(from) = from
        && !report.steps.iter().any(|step| step.state == from)
    {
        return Err(Failed::user(format!(
            "run `{run}` has not finished a state `{from}`"
        )));
    }
    let journal = Journal::resume(&settings.data_dir, run, resumption);
    let journal = journal.map_err(|error| history::failed(&error))?;
    // The journal's copy, not the file: finished steps must mean the same as when they ran.
    let wrong = |why: String| Failed::config(format!("the workflow of run `{run}`: {why}"));
    let reading = read_with(&journal.text, &journal.file, &journal.sources());
    let reading = reading.map_err(|error| wrong(error.to_string()))?;
    let workflow = reading
        .workflow()
        .ok_or_else(|| wrong("it has errors; `callgate validate` lists them".to_owned()))?;
    walk(&settings, &workflow, &journal, shared.json)
}

fn pair(text: &String) -> Result<(String, String), Failed> {
    let pair = text.split_once('=');
    let (name, value) = pair
        .ok_or_else(|| Failed::user(format!("`--input {text}` is not of the form `NAME=VALUE`")))?;
    Ok((name.to_owned(), value.to_owned()))
}

fn mock(text: &String) -> Result<(String, String), Failed> {
    let pair = text.split_once('=');
    let is_path = |path: &str| path.starts_with("states.") && path.splitn(3, '.').count() == 3;
    match pair {
        Some((path, value)) if is_path(path) => Ok((path.to_owned(), value.to_owned())),
        Some(_) | None => Err(Failed::user(format!(
            "`--mock {text}` is not of the form `states.STATE.MEMBER=VALUE`"
        ))),
    }
}

fn walk(
    settings: &Settings,
    workflow: &Workflow,
    journal: &Journal,
    as_json: bool,
) -> Result<ExitCode, Failed> {
    let runtime = setup::runtime()?;
    let ended = runtime.block_on(walked(settings, workflow, journal, as_json));
    // Tasks that a second signal abandoned must not delay the exit.
    runtime.shutdown_background();
    let Some(ended) = ended? else {
        return Ok(stopped("the run was stopped"));
    };
    if !as_json && !ended.outputs.is_empty() {
        outln!("{}", serde_json::Value::Object(ended.outputs));
    } else if !as_json && !ended.output.is_empty() {
        outln!("{}", ended.output);
    }
    match ended.status {
        Status::Success => Ok(ExitCode::SUCCESS),
        Status::Failure => {
            let exit_code = ended.exit_code.map(ExitCode::from);
            let why = match ended.message.as_str() {
                "" => "the workflow failed".to_owned(),
                message => message.to_owned(),
            };
            let run = &journal.run;
            let failed = Failed::execution(why)
                .help(format!("`callgate workflow status {run}` shows its steps"));
            match exit_code {
                // The file gives the exit code of this end.
                Some(code) => {
                    report(&failed);
                    Ok(code)
                }
                None => Err(failed),
            }
        }
    }
}

/// `None` if the run was stopped.
async fn walked(
    settings: &Settings,
    workflow: &Workflow,
    journal: &Journal,
    as_json: bool,
) -> Result<Option<RunEnd>, Failed> {
    let signals = Signals::listen(Hangup::Stops)?;
    let plan =
        callgate_gateway::plan::step(settings, &journal.workdir, None, StepTools::default())?;
    let running = Running::start_with(settings, plan, Profile::gateway())?;
    let command_box = command_box(settings, &running, &journal.workdir)?;
    let step_runner = GatedStepRunner {
        caller: std::sync::Arc::new(Shell),
        plugins: StepPlugins::new(settings, &journal.workdir),
        workdir: journal.workdir.clone(),
        settings,
        running: &running,
    };
    let recorder = running.gateway.path().recorder();
    step_runner.plugins.log_is_open(recorder.clone());
    let progress = Progress::new(as_json);
    let attended = match as_json {
        true => None,
        false => Attended::start(settings, &running, progress.display()),
    };
    let tell = |event: Event| {
        progress.tell(&event);
        if let (Some(attended), Event::Agent { event, .. }) = (&attended, &event) {
            attended.note(event);
        }
    };
    let env = environment::minimal(Inherit::All, &[], std::env::vars());
    let mut ended = None;
    let walking = async {
        let walk = RunContext {
            journal,
            step_runner: &step_runner,
            tell: &tell,
            stop: signals.stop.clone(),
            warden_program: warden(settings).to_owned(),
            command_box,
            trace: TraceContext::in_env(&env),
            spans: running.gateway.path().spans().clone(),
            env,
        };
        let run = Run::new(workflow, &walk);
        ended = Some(step_runner.plugins.during(&signals.stop, run.walk()).await);
    };
    signals.wind_down(walking).await;
    if let Some(attended) = attended {
        let _ = tokio::task::spawn_blocking(move || attended.end()).await;
    }
    progress.end();
    let ended = outcome(ended, journal);
    drop(step_runner);
    signals.wind_down(running.stop(PATIENCE)).await;
    ended
}

/// How a run ended; `None` if it was stopped.
fn outcome(
    ended: Option<Result<RunEnd, RunError>>,
    journal: &Journal,
) -> Result<Option<RunEnd>, Failed> {
    match ended {
        Some(Ok(ended)) => Ok(Some(ended)),
        Some(Err(error @ RunError::Journal(_))) => Err(Failed::system(error.to_string())),
        Some(Err(error @ RunError::UnknownState(_))) => Err(Failed::user(error.to_string())),
        Some(Err(RunError::Stopped)) | None => {
            let run = &journal.run;
            eprintln!("help: resume it with `callgate workflow resume {run}`");
            Ok(None)
        }
    }
}

fn warden(settings: &Settings) -> &Path {
    &settings.warden_program
}
