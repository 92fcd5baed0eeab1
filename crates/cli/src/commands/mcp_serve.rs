//! `callgate mcp-serve --config FILE`: the tool server that an agent starts. With a socket in the file it
//! relays into the running step; without one it serves the tools itself, through the gate.

use std::{
    io,
    path::PathBuf,
    process::{self, ExitCode},
    thread,
    time::Duration,
};

use callgate_agent::relay::{Connection, RelayFile};
use callgate_call::TraceContext;
use callgate_server::{StdioDoor, StepDoor};
use callgate_upstream::Profile;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals as ProcessSignals,
};
use ulid::Ulid;

use callgate_gateway::Running;
use callgate_gateway::plan::StepTools;

use callgate_gateway::steps::StepPlugins;

use callgate_gateway::local_user::local_user;

use crate::{
    args::{Gateway, Shared},
    commands::agent::empty_proxy,
    exit::Failed,
    setup,
    signals::{Hangup, Signals},
};

/// How long calls in flight may take after the host has disconnected.
const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) fn run(shared: &Shared) -> Result<ExitCode, Failed> {
    let missing = || Failed::user("`mcp-serve` needs `--config FILE`");
    let file = shared.config.as_deref().ok_or_else(missing)?;
    let relay_file = RelayFile::read(file).map_err(|error| Failed::user(error.to_string()))?;
    match Connection::open(&relay_file) {
        Some(Ok(connection)) => relay_to(connection),
        Some(Err(error)) => Err(Failed::user(error.to_string())),
        None => serve_tools(shared, &relay_file),
    }
}

/// Copies bytes until the step or the agent disconnects.
fn relay_to(connection: Connection) -> Result<ExitCode, Failed> {
    let failed = |error: io::Error| Failed::system(format!("cannot relay: {error}"));
    let mut signals = ProcessSignals::new([SIGTERM, SIGINT, SIGHUP]).map_err(failed)?;
    thread::spawn(move || {
        if signals.forever().next().is_some() {
            // The step sees the end of the connection and cancels the calls in flight.
            process::exit(0);
        }
    });
    // An agent that closes its pipes without warning is a normal end of the step.
    let _ = connection.copy(io::stdin(), io::stdout());
    Ok(ExitCode::SUCCESS)
}

/// Serves the tools in this process, with its own chain in the record.
fn serve_tools(shared: &Shared, relay_file: &RelayFile) -> Result<ExitCode, Failed> {
    let is_empty = relay_file
        .plugin_tools
        .iter()
        .all(|tools| tools.expose.is_empty());
    if !relay_file.intercept_builtins && is_empty {
        return Err(empty_proxy());
    }
    // The file is the relay's; the configuration is the user's own.
    let shared = Shared {
        config: None,
        ..shared.clone()
    };
    let settings = setup::settings(&shared, &Gateway::default(), true)?;
    let root = relay_file
        .root_dir
        .clone()
        .unwrap_or_else(|| PathBuf::from("."));
    let trace = relay_file.traceparent.as_deref();
    let trace = trace.and_then(|parent| TraceContext::new(parent, None));
    let runtime = setup::runtime()?;
    let code = runtime.block_on(async {
        let signals = Signals::listen(Hangup::Stops)?;
        let plugins = StepPlugins::new(&settings, &root);
        let tools = match plugins.tools(&relay_file.plugin_tools).await {
            Ok(tools) => tools,
            Err(error) => {
                plugins.stop().await;
                return Err(error.into());
            }
        };
        let tools = StepTools {
            plugins: tools,
            ..StepTools::default()
        };
        let builtins = relay_file.intercept_builtins.then(Default::default);
        let plan = callgate_gateway::plan::step(&settings, &root, builtins, tools)?;
        let running = Running::start_with(&settings, plan, Profile::gateway())?;
        plugins.log_is_open(running.gateway.path().recorder().clone());
        let session = Ulid::generate().to_string();
        let (gateway, frame_bytes) = (running.gateway.clone(), settings.frame_bytes());
        let door = StdioDoor::new(gateway, frame_bytes, &local_user(), session.clone());
        let door = door.for_step(StepDoor::new(session, trace));
        let serving = async {
            let stop = signals.stop.clone();
            let serving = door.serve(tokio::io::stdin(), tokio::io::stdout(), stop);
            plugins.during(&signals.stop, serving).await;
            running.stop(PATIENCE).await;
        };
        signals.wind_down(serving).await;
        Ok(ExitCode::SUCCESS)
    });
    // tokio reads stdin on a blocking thread that cannot be cancelled; waiting for it would hang the exit.
    runtime.shutdown_background();
    code
}
