//! `callgate serve`: MCP over HTTP on one port.

use std::{
    io::{self, IsTerminal},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use callgate_server::{AttachDoor, Closing, HttpDoor, Logins, Principal, Tokens};
use callgate_upstream::Profile;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    net::{TcpListener, UnixListener},
    signal::unix::{SignalKind, signal},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use callgate_gateway::{Lifetime, Running};

use callgate_config::{Flags, OpenRoute, Settings};

use callgate_gateway::stored_tokens::StoredTokens;

use callgate_gateway::reload::Reloading;

use callgate_config::TokenPair;

use callgate_gateway::local_user::local_user;

use crate::{
    admin::RunFile,
    args::{Gateway, Serve, Shared},
    attach::{self, Socket},
    exit::Failed,
    setup,
    signals::{Hangup, Signals},
};

/// How long calls in flight may still take after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(10);
/// Files besides sockets: the record, and three pipes for each server.
const OTHER_FILES: u64 = 512;

pub(crate) fn run(shared: &Shared, serve: &Serve) -> Result<ExitCode, Failed> {
    let settings = setup::settings(shared, &serve.gateway, false)?;
    let listen = settings.listen(serve.listen.as_deref())?;
    let tokens = settings.tokens()?;
    let flags = serve.gateway.clone();
    let runtime = setup::runtime()?;
    let code = runtime.block_on(serve_until_told(settings, flags, listen, tokens));
    // Tasks that were given up, or abandoned by a second signal, must not delay the exit.
    runtime.shutdown_background();
    code
}

async fn serve_until_told(
    settings: Settings,
    flags: Gateway,
    listen: SocketAddr,
    tokens: TokenPair,
) -> Result<ExitCode, Failed> {
    let signals = Signals::listen(Hangup::Ignored)?;
    let hangup = signal(SignalKind::hangup())
        .map_err(|error| Failed::system(format!("cannot handle signals: {error}")))?;
    let serving = Serving::open(&settings, listen, &tokens, &signals).await?;
    if let Some(doors) = &serving.doors {
        greet(&settings, doors.address, &tokens, &doors.page);
    }
    let running = serving.running();
    let reloading = Reloading::start(running, settings, &Flags::from(&flags), Some(hangup));
    signals.stop.cancelled().await;
    eprintln!("stopping: waiting for calls in flight; send a second signal to stop at once");
    signals.wind_down(serving.stop(Some(reloading))).await;
    Ok(ExitCode::SUCCESS)
}

/// A gateway with its doors.
pub(crate) struct Serving {
    running: Running,
    doors: Option<Doors>,
}

impl Serving {
    /// Starts the gateway and opens the doors, until `signals` or [`Serving::stop`].
    pub(crate) async fn open(
        settings: &Settings,
        listen: SocketAddr,
        tokens: &TokenPair,
        signals: &Signals,
    ) -> Result<Self, Failed> {
        make_room_for_sockets(settings.config.limits.connections.get());
        let (listener, address) = bind(listen).await?;
        let data_dir = settings.data_dir.clone();
        let attaching = listen_for_hosts(&data_dir);
        let mut running = Running::open(settings, Profile::gateway(), Lifetime::Serving).await?;
        running.served_at = served_at(address);
        let asking = callgate_gateway::plan::approval_settings(settings, &running.served_at);
        running.approval_service.set_settings(asking);
        let note = RunFile {
            pid: std::process::id(),
            address: address.to_string(),
            config: attach::config_path(&settings.source),
        };
        note.write(&data_dir)?;
        let door = http_door(&running, settings, address, tokens);
        let page = page_link(&running, &door.logins);
        let closing = Closing {
            drain: signals.stop.clone(),
            close: CancellationToken::new(),
        };
        let serving = tokio::spawn(door.serve(listener, closing.clone()));
        let attended = attaching.map(|(socket, listener)| {
            let attended = attach_door(&running, settings).serve(listener, closing.close.clone());
            (socket, tokio::spawn(attended))
        });
        let doors = Doors {
            address,
            page,
            _note: Note { note, data_dir },
            closing,
            serving,
            attended,
        };
        Ok(Self {
            running,
            doors: Some(doors),
        })
    }

    /// A gateway that no host can reach.
    pub(crate) fn without_doors(running: Running) -> Self {
        Self {
            running,
            doors: None,
        }
    }

    pub(crate) fn running(&self) -> &Running {
        &self.running
    }

    /// Waits for calls in flight, closes the doors, then ends the gateway.
    pub(crate) async fn stop(self, reloading: Option<Reloading>) {
        if let Some(reloading) = reloading {
            reloading.stop().await;
        }
        self.running.drain(PATIENCE).await;
        if let Some(doors) = self.doors {
            doors.close().await;
        }
        self.running.end().await;
    }
}

/// The run file, which is removed however serving ends.
struct Note {
    note: RunFile,
    data_dir: PathBuf,
}

impl Drop for Note {
    fn drop(&mut self) {
        self.note.remove(&self.data_dir);
    }
}

async fn bind(listen: SocketAddr) -> Result<(TcpListener, SocketAddr), Failed> {
    let listener = TcpListener::bind(listen).await.map_err(|error| {
        Failed::system(format!("cannot listen on {listen}: {error}")).help(
            "if another gateway uses the address, choose another one with --listen; `callgate` shows a running gateway",
        )
    })?;
    let address = listener
        .local_addr()
        .map_err(|error| Failed::system(error.to_string()))?;
    Ok((listener, address))
}

/// The open doors, and the tasks that serve them.
struct Doors {
    address: SocketAddr,
    /// A link that logs the operator in to the page.
    page: String,
    _note: Note,
    closing: Closing,
    serving: JoinHandle<()>,
    attended: Option<(Socket, JoinHandle<()>)>,
}

impl Doors {
    async fn close(self) {
        // A door that waits for this would accept hosts until then.
        self.closing.drain.cancel();
        self.closing.close.cancel();
        if let Some((socket, attended)) = self.attended {
            drop(socket);
            if attended.await.is_err() {
                crate::log::attached_door_failed();
            }
        }
        if self.serving.await.is_err() {
            crate::log::http_door_failed();
        }
    }
}

fn http_door(
    running: &Running,
    settings: &Settings,
    address: SocketAddr,
    tokens: &TokenPair,
) -> HttpDoor {
    let mut hosts = settings.config.hosts.clone();
    if !address.ip().is_loopback() && !address.ip().is_unspecified() {
        hosts.push(address.ip().to_string());
    }
    HttpDoor {
        gateway: running.gateway.clone(),
        tokens: Tokens::new(&tokens.agent, &tokens.admin)
            .and(Arc::new(StoredTokens::new(running.stores.tokens.clone()))),
        body_bytes: settings.body_bytes(),
        hosts,
        connections: settings.config.limits.connections.get(),
        session_idle: settings.config.limits.session_idle.0,
        logins: Arc::default(),
        open_metrics: settings.config.auth.opens(OpenRoute::Metrics),
        open_check: settings.config.auth.opens(OpenRoute::Check),
        archive: Some(running.stores.archive.clone()),
    }
}

/// The URL at which people on this machine reach the gateway.
fn served_at(address: SocketAddr) -> String {
    let port = address.port();
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => format!("http://127.0.0.1:{port}"),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => format!("http://[::1]:{port}"),
        address => format!("http://{address}"),
    }
}

fn attach_door(running: &Running, settings: &Settings) -> AttachDoor {
    AttachDoor {
        gateway: running.gateway.clone(),
        frame_bytes: settings.frame_bytes(),
        principal: local_user(),
        uid: rustix::process::getuid().as_raw(),
    }
}

/// Raises the limit of open files: each connection takes one, and the usual limit is below
/// `limits.connections`. If it cannot be raised enough, connections are closed for new ones earlier.
fn make_room_for_sockets(connections: usize) {
    let limit = getrlimit(Resource::Nofile);
    let wanted = u64::try_from(connections)
        .unwrap_or(u64::MAX)
        .saturating_add(OTHER_FILES);
    if limit.current.is_some_and(|current| current < wanted) {
        let allowed = limit.maximum.map_or(wanted, |maximum| wanted.min(maximum));
        let raised = Rlimit {
            current: Some(allowed),
            maximum: limit.maximum,
        };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            crate::log::file_limit_not_raised(&error);
        }
    }
}

/// The socket for hosts that attach. A gateway that cannot open it still serves HTTP.
fn listen_for_hosts(data_dir: &Path) -> Option<(Socket, UnixListener)> {
    match Socket::listen(data_dir) {
        Ok(Some(listening)) => Some(listening),
        Ok(None) => {
            crate::log::attaching_taken();
            None
        }
        Err(error) => {
            crate::log::attaching_failed(&error);
            None
        }
    }
}

/// A link that logs the operator at this terminal in to the page, once.
fn page_link(running: &Running, logins: &Logins) -> String {
    let base_url = &running.approval_service.settings().base_url;
    let admin = Arc::new(Principal::operator());
    match logins.link(admin) {
        Ok(code) => format!("{base_url}/login/{code}"),
        Err(_) => format!("{base_url}/approvals"),
    }
}

/// The warning for an address that other machines can reach.
pub(crate) fn plain_http_warning(address: SocketAddr) -> String {
    format!(
        "warning: {address} is reachable from other machines without encryption, so tokens and calls can be read on the network: listen on 127.0.0.1 behind a TLS proxy"
    )
}

fn greet(settings: &Settings, address: SocketAddr, tokens: &TokenPair, page: &str) {
    eprintln!("listening http://{address}/mcp");
    eprintln!("{}", settings.policies.line());
    eprintln!("record in {}", settings.data_dir.display());
    if io::stderr().is_terminal() {
        eprintln!("agent token {}", tokens.agent);
        eprintln!("approvals {page}");
        eprintln!("connect a host: callgate connect --print claude --http");
    }
    if !address.ip().is_loopback() {
        eprintln!("{}", plain_http_warning(address));
    }
    if settings.offers_nothing() {
        eprintln!(
            "no servers configured: add one with --server NAME:COMMAND, or in callgate.yaml under `servers:`"
        );
    }
}
