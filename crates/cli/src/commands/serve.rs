//! `callgate serve`: MCP over HTTP on one port.

use std::{
    io::{self, IsTerminal},
    net::SocketAddr,
    process::ExitCode,
    time::Duration,
};

use callgate_server::{HttpDoor, Tokens};
use callgate_upstream::Profile;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};
use tokio_util::sync::CancellationToken;

use crate::{
    admin::RunFile,
    args::{Serve, Shared},
    config::Settings,
    exit::Failed,
    tokens::TokenPair,
    wiring::{self, Running},
};

/// How long calls under way may still take after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn run(shared: &Shared, serve: &Serve) -> Result<ExitCode, Failed> {
    let settings = wiring::settings(shared, &serve.gateway, false)?;
    let listen = settings.listen(serve.listen.as_deref())?;
    let tokens = settings.tokens()?;
    wiring::runtime()?.block_on(serve_until_told(&settings, listen, tokens))
}

async fn serve_until_told(
    settings: &Settings,
    listen: SocketAddr,
    tokens: TokenPair,
) -> Result<ExitCode, Failed> {
    let stop = stop_on_signals()?;
    let listener = TcpListener::bind(listen).await.map_err(|error| {
        Failed::system(format!("cannot listen on {listen}: {error}")).help(
            "another gateway may be there already: run `callgate`, or choose another --listen",
        )
    })?;
    let address = listener
        .local_addr()
        .map_err(|error| Failed::system(error.to_string()))?;
    let running = Running::start(settings, Profile::gateway())?;
    let note = RunFile {
        pid: std::process::id(),
        address: address.to_string(),
    };
    note.write(&settings.data_dir)?;
    greet(settings, address, &tokens);
    let mut hosts = settings.config.hosts.clone();
    if !address.ip().is_loopback() && !address.ip().is_unspecified() {
        hosts.push(address.ip().to_string());
    }
    let door = HttpDoor {
        gateway: running.gateway.clone(),
        tokens: Tokens::new(&tokens.agent, &tokens.admin),
        body_bytes: settings.body_bytes(),
        hosts,
    };
    let serving = tokio::spawn(door.serve(listener, stop.clone()));
    stop.cancelled().await;
    eprintln!("stopping: letting calls under way end");
    running.stop(PATIENCE).await;
    note.remove(&settings.data_dir);
    serving.abort();
    // It was told to stop; an abort is only for connections that do not go.
    let _ = serving.await;
    Ok(ExitCode::SUCCESS)
}

/// A token that fires on SIGTERM, SIGINT or SIGHUP.
pub(crate) fn stop_on_signals() -> Result<CancellationToken, Failed> {
    let listen = |kind| signal(kind).map_err(|error| Failed::system(format!("signals: {error}")));
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut hangup = listen(SignalKind::hangup())?;
    let stop = CancellationToken::new();
    let fired = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
        fired.cancel();
    });
    Ok(stop)
}

fn greet(settings: &Settings, address: SocketAddr, tokens: &TokenPair) {
    eprintln!("listening http://{address}/mcp");
    eprintln!("{}", wiring::policy_line(settings.builtin));
    eprintln!("record in {}", settings.data_dir.display());
    if io::stderr().is_terminal() {
        eprintln!("agent token {}", tokens.agent);
        eprintln!("connect a host: callgate connect --print claude --http");
    }
    if settings.servers.is_empty() {
        eprintln!(
            "no servers yet: add one with --upstream NAME:COMMAND, or in callgate.yaml under `servers:`"
        );
    }
}
