//! `callgate servers learn`: runs a server, watches what it uses and writes a box for it.

use std::{
    io::{self, BufRead, IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use callgate_boxes::learn::{Learned, Lesson, LessonFailed, Surroundings};
use callgate_config::{
    self as config, Origin, Settings, TimeSpan,
    box_edit::{self, NotEdited, WrittenBox},
    trust::TrustList,
};
use callgate_gate::{Launch, ServerSpec};
use callgate_gateway::{Lifetime, Running, local_user::local_host};
use callgate_process::warden;
use callgate_upstream::Profile;

use super::{learned, learned::Outcome};
use crate::{
    args::{Gateway, Learn, Shared},
    commands::{call, serve::Serving},
    exit::Failed,
    setup,
    signals::{Hangup, Signals},
};

/// A call that the user asked for, and how it went.
#[derive(Debug, serde::Serialize)]
pub(super) struct Made {
    pub(super) tool: String,
    /// Why it failed.
    pub(super) error: Option<String>,
}

pub(crate) fn run(shared: &Shared, learn: &Learn) -> Result<ExitCode, Failed> {
    let mut settings = setup::settings(shared, &Gateway::default(), true)?;
    let server = known(&settings, &learn.name)?;
    let calls = learn.calls.iter().map(|written| call(written));
    let calls = calls.collect::<Result<Vec<_>, Failed>>()?;
    let hosts_for = match &learn.time {
        Some(text) => Some(text.parse::<TimeSpan>().map_err(Failed::user)?.0),
        None => None,
    };
    let runtime = setup::runtime()?;
    let (learned, made) = runtime.block_on(watch(&mut settings, &server, hosts_for, &calls))?;
    runtime.shutdown_background();
    let proposal = proposal(&settings, &server, &learned);
    let mut outcome = Outcome {
        server: server.name.to_string(),
        learned,
        proposal,
        made,
        file: settings.source.file.clone(),
        written: false,
    };
    if !shared.json {
        learned::print(&outcome);
    }
    let written = write(shared, learn, &settings, &outcome);
    outcome.written = matches!(written, Ok(true));
    if shared.json {
        learned::print_json(&outcome)?;
    }
    written.map(|_| ExitCode::SUCCESS)
}

/// The server, if callgate starts a process for it.
fn known(settings: &Settings, name: &str) -> Result<ServerSpec, Failed> {
    let mut servers = settings.servers.iter();
    let Some(spec) = servers.find(|spec| spec.name.as_str() == name) else {
        return Err(Failed::user(format!("there is no server `{name}`"))
            .help("`callgate servers list` lists the servers"));
    };
    match &spec.launch {
        Launch::Stdio { .. } => Ok(spec.clone()),
        Launch::Http(_) => Err(Failed::user(format!(
            "server `{name}` is reached over HTTP; callgate starts no process for it"
        ))),
        Launch::SwitchedOff => Err(Failed::user(format!("server `{name}` is switched off"))),
        Launch::Off { reason } => Err(Failed::config(format!("server `{name}`: {reason}"))),
    }
}

/// Splits `TOOL ARGS`.
fn call(written: &str) -> Result<(String, String), Failed> {
    let (tool, arguments) = written
        .trim()
        .split_once(char::is_whitespace)
        .unwrap_or((written, "{}"));
    Ok((tool.to_owned(), call::checked(arguments)?))
}

/// Runs the server watched, makes the calls, and serves hosts for a while if that is asked for.
async fn watch(
    settings: &mut Settings,
    server: &ServerSpec,
    hosts_for: Option<Duration>,
    calls: &[(String, String)],
) -> Result<(Learned, Vec<Made>), Failed> {
    let signals = Signals::listen(Hangup::Stops)?;
    let lesson = Lesson::begin().map_err(failed)?;
    put_under_watch(settings, server, &lesson)?;
    let serving = match hosts_for {
        Some(_) => {
            Serving::open(
                settings,
                settings.listen(None)?,
                &settings.tokens()?,
                &signals,
            )
            .await?
        }
        // Without hosts only this server is needed, and no door.
        None => {
            settings.servers.retain(|spec| spec.name == server.name);
            Serving::without_doors(Running::start(
                settings,
                Profile::gateway(),
                Lifetime::OneCommand,
            )?)
        }
    };
    let running = serving.running();
    running.fleet.settled().await;
    let exercised = exercise(running, server, calls).await;
    if let (Ok(_), Some(time)) = (&exercised, hosts_for) {
        eprintln!(
            "watching `{}` for {} s: use it now through `callgate stdio` or {}/mcp; Ctrl-C ends this earlier",
            server.name,
            time.as_secs(),
            running.served_at
        );
        let _ = tokio::time::timeout(time, signals.stop.cancelled()).await;
    }
    serving.stop(None).await;
    let made = exercised?;
    let refused = |path: &Path| config::refused_grant(path, &settings.protected);
    let surroundings = Surroundings::of(&server.launch, &refused);
    Ok((lesson.end(&surroundings).await.map_err(failed)?, made))
}

/// Puts the watcher in front of the server, and its box aside.
fn put_under_watch(
    settings: &mut Settings,
    server: &ServerSpec,
    lesson: &Lesson,
) -> Result<(), Failed> {
    let program = warden::own_program()
        .and_then(std::fs::read_link)
        .map_err(|error| Failed::system(format!("cannot find the own program: {error}")))?;
    let watched = lesson.watched(&server.launch, &program).map_err(failed)?;
    let spec = settings
        .servers
        .iter_mut()
        .find(|spec| spec.name == server.name);
    if let (Some(spec), Some(launch)) = (spec, watched) {
        spec.launch = launch;
        spec.sandbox = None;
    }
    Ok(())
}

async fn exercise(
    running: &Running,
    server: &ServerSpec,
    calls: &[(String, String)],
) -> Result<Vec<Made>, Failed> {
    let reports = running.fleet.reports();
    let report = reports.iter().find(|report| report.name == server.name);
    if let Some(report) = report.filter(|report| report.tools == 0)
        && let Some(reason) = &report.reason
    {
        return Err(Failed::execution(format!(
            "server `{}`: {reason}",
            server.name
        )));
    }
    let host = Arc::new(local_host());
    let mut made = Vec::new();
    for (tool, arguments) in calls {
        let name = format!("{}:{tool}", server.name);
        let answer = call::call_through(running, &host, &name, arguments).await?;
        let error = call::failure(&answer);
        match &error {
            None => eprintln!("called `{tool}`"),
            Some(error) => eprintln!("called `{tool}`: {error}"),
        }
        made.push(Made {
            tool: tool.clone(),
            error,
        });
    }
    Ok(made)
}

fn failed(error: LessonFailed) -> Failed {
    Failed::execution(error.to_string())
}

/// The box as it would be written: what it has, and what was learnt besides.
fn proposal(settings: &Settings, server: &ServerSpec, learned: &Learned) -> WrittenBox {
    let mut servers = settings.config.servers.0.iter();
    let named = servers.find(|named| named.name == server.name);
    let mut proposal = named
        .and_then(|named| named.server.sandbox.as_ref())
        .map(|entry| WrittenBox::of(&entry.0))
        .unwrap_or_default();
    let has = server.sandbox.as_ref();
    let covers = |granted: &[PathBuf], path: &Path| granted.iter().any(|own| path.starts_with(own));
    let base = settings.source.file.as_deref().and_then(Path::parent);
    let base = base.and_then(|base| std::path::absolute(base).ok());
    let base = base.map(|base| base.canonicalize().unwrap_or(base));
    for path in &learned.write {
        if !has.is_some_and(|has| covers(&has.write, path)) {
            proposal
                .write
                .extend(learned::written(path, base.as_deref()));
        }
    }
    for path in &learned.read {
        let covered = has.is_some_and(|has| covers(&has.write, path) || covers(&has.read, path));
        if !covered {
            proposal
                .read
                .extend(learned::written(path, base.as_deref()));
        }
    }
    let listed = proposal.net.clone();
    let new = learned.net.iter().filter(|host| !listed.contains(host));
    proposal.net.extend(new.cloned());
    proposal
}

/// Writes the box if the user wants that. Returns whether it was written.
fn write(
    shared: &Shared,
    learn: &Learn,
    settings: &Settings,
    outcome: &Outcome,
) -> Result<bool, Failed> {
    let lines = outcome.proposal.lines(4);
    let paste = |why: String| {
        Failed::user(why).help(format!(
            "put these lines under `servers.{}` yourself:\n{}",
            outcome.server,
            lines.trim_end()
        ))
    };
    let Some(file) = &settings.source.file else {
        return Err(paste(
            "there is no configuration file to write the box into".to_owned(),
        ));
    };
    let not_changed =
        |error: NotEdited| paste(format!("`{}` was not changed: {error}", file.display()));
    let edited = box_edit::with_box(&settings.text, &outcome.server, &outcome.proposal)
        .map_err(not_changed)?;
    if edited == settings.text {
        eprintln!("`{}` has this box already", file.display());
        return Ok(false);
    }
    if learn.dry_run || !(learn.yes || agreed(shared, file)?) {
        eprintln!("`{}` was not changed", file.display());
        return Ok(false);
    }
    box_edit::save(file, &settings.text, &edited).map_err(not_changed)?;
    keep_trust(settings, file, &edited)?;
    eprintln!("written to `{}`", file.display());
    Ok(true)
}

/// Asks at the terminal. Without one the answer is no.
fn agreed(shared: &Shared, file: &Path) -> Result<bool, Failed> {
    if shared.json || !io::stdin().is_terminal() {
        eprintln!("note: without a terminal the box is written with --yes only");
        return Ok(false);
    }
    eprint!("write this box into `{}`? [y/N] ", file.display());
    let mut answer = String::new();
    let asked = io::stderr()
        .flush()
        .and_then(|()| io::stdin().lock().read_line(&mut answer));
    asked.map_err(|error| Failed::system(format!("cannot read the answer: {error}")))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// A project's file stays trusted with the box that the user has seen, unless something else changed meanwhile.
fn keep_trust(settings: &Settings, file: &Path, edited: &str) -> Result<(), Failed> {
    if settings.source.origin != Origin::Project {
        return Ok(());
    }
    TrustList::change(&settings.source.trust_dir, |list| {
        let now = config::manifest_of(file)?;
        let changes = list.changes(file, &now).unwrap_or_default();
        let own = config::trust::name(file).unwrap_or_default();
        let is_ours = std::fs::read_to_string(file).is_ok_and(|text| text == edited);
        if changes.iter().all(|name| *name == own) && is_ours {
            list.trust(file, now)
        } else {
            eprintln!(
                "note: other files of the project changed, too; review them and run `callgate trust`"
            );
            Ok(())
        }
    })
}
