//! Starting and closing the proxy.

use std::{
    env, fmt, fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tempfile::TempDir;
use tokio::net::{TcpListener, UnixListener};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    ConnectionLog, DestinationRules, Resolver, SystemResolver,
    accept::{Entrance, accept},
    bounded::BoundedLog,
    client::Proxy,
    connect::Connector,
};

/// The length of a password before hex encoding.
const PASSWORD_BYTES: usize = 32;

/// A running proxy. It ends when it is dropped; [`Egress::close`] also waits for the end.
#[derive(Debug)]
pub struct Egress {
    /// `None` after it was removed.
    folder: Option<TempDir>,
    socket: PathBuf,
    loopback: Option<Loopback>,
    proxy: Proxy,
}

/// How a proxy is started.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the private folder of the socket is made; the folder for temporary files if `None`. The path of a socket has at
    /// most 107 bytes.
    pub parent: Option<PathBuf>,
    /// Whether to listen on a loopback port too, for a client that cannot be given the socket.
    pub loopback: bool,
    pub limits: Limits,
    pub resolver: Arc<dyn Resolver>,
}

/// The limits of one proxy.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How many clients may be connected at the same time. Others are told so and disconnected.
    pub connections: usize,
    /// How long a request's head may take, and how long a client may pause between two requests.
    pub head: Duration,
    /// How long a connection to a destination may take, with the lookup of its name.
    pub connect: Duration,
    /// After this time without a byte in either direction a connection is closed.
    pub idle: Duration,
}

/// The loopback port of a proxy.
#[derive(Clone, PartialEq, Eq)]
pub struct Loopback {
    pub port: u16,
    /// The password for `Proxy-Authorization: Basic`, with any user name.
    pub password: String,
}

/// Why a proxy could not be started.
#[derive(Debug, thiserror::Error)]
pub enum NotStarted {
    #[error("could not create a private folder in `{parent}`: {error}")]
    Folder { parent: PathBuf, error: io::Error },
    #[error("could not listen on `{socket}`: {error}")]
    Socket { socket: PathBuf, error: io::Error },
    #[error("could not listen on 127.0.0.1: {0}")]
    Port(io::Error),
    #[error("the operating system's random number generator failed")]
    NoRandomNumbers,
}

impl Egress {
    /// Listens, and connects clients to what `rules` list. Needs a tokio runtime.
    pub fn start(
        rules: DestinationRules,
        log: Arc<dyn ConnectionLog>,
        options: Options,
    ) -> Result<Self, NotStarted> {
        let folder = private_folder(options.parent)?;
        let socket = folder.path().join("egress.sock");
        let listener = UnixListener::bind(&socket).map_err(|error| NotStarted::Socket {
            socket: socket.clone(),
            error,
        })?;
        let mut entrances = vec![Entrance::Private(listener)];
        let mut loopback = None;
        if options.loopback {
            let (opened, listener) = open_loopback()?;
            entrances.push(Entrance::Loopback(
                listener,
                opened.password.as_str().into(),
            ));
            loopback = Some(opened);
        }
        let proxy = Proxy {
            connector: Arc::new(Connector {
                rules,
                resolver: options.resolver,
                deadline: options.limits.connect,
            }),
            log: Arc::new(BoundedLog::new(log)),
            limits: options.limits,
            close: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        for entrance in entrances {
            proxy.tasks.spawn(accept(entrance, proxy.clone()));
        }
        let (log, close) = (proxy.log.clone(), proxy.close.clone());
        proxy
            .tasks
            .spawn(async move { log.report_sums(close).await });
        Ok(Self {
            folder: Some(folder),
            socket,
            loopback,
            proxy,
        })
    }

    /// The Unix socket on which the proxy listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The folder of the socket, which a watcher of this process may remove if the process is killed.
    pub fn folder(&self) -> Option<&Path> {
        self.socket.parent()
    }

    /// The loopback port, if one was asked for.
    pub fn loopback(&self) -> Option<&Loopback> {
        self.loopback.as_ref()
    }

    /// Closes all connections, waits for their ends and reports, and removes the socket.
    pub async fn close(mut self) {
        self.proxy.close.cancel();
        self.proxy.tasks.close();
        self.proxy.tasks.wait().await;
        self.proxy.log.flush();
        if let Some(Err(error)) = self.folder.take().map(TempDir::close) {
            crate::log::folder_not_removed(&error);
        }
    }
}

impl Drop for Egress {
    fn drop(&mut self) {
        self.proxy.close.cancel();
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            parent: None,
            loopback: false,
            limits: Limits::default(),
            resolver: Arc::new(SystemResolver::default()),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 128,
            head: Duration::from_secs(30),
            connect: Duration::from_secs(10),
            // A model may think for minutes before the first byte of its answer.
            idle: Duration::from_secs(30 * 60),
        }
    }
}

/// The password is not shown.
impl fmt::Debug for Loopback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loopback")
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

/// A folder that only this user can enter, so that the socket needs no password.
fn private_folder(parent: Option<PathBuf>) -> Result<TempDir, NotStarted> {
    let parent = parent.unwrap_or_else(env::temp_dir);
    tempfile::Builder::new()
        .prefix("callgate-egress-")
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir_in(&parent)
        .map_err(|error| NotStarted::Folder { parent, error })
}

fn open_loopback() -> Result<(Loopback, TcpListener), NotStarted> {
    let mut bytes = [0; PASSWORD_BYTES];
    getrandom::fill(&mut bytes).map_err(|_| NotStarted::NoRandomNumbers)?;
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).map_err(NotStarted::Port)?;
    listener.set_nonblocking(true).map_err(NotStarted::Port)?;
    let port = listener.local_addr().map_err(NotStarted::Port)?.port();
    let listener = TcpListener::from_std(listener).map_err(NotStarted::Port)?;
    let loopback = Loopback {
        port,
        password: bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    Ok((loopback, listener))
}
