//! A lane: a connection to a server for one profile, with the server's process if we started it.

use std::sync::Arc;

use callgate_boxes::{BoxNotOpened, BoxPlan, Occupant, OpenBox};
use callgate_gate::ServerName;
use callgate_process::{CloseTimes, Process, ProcessSpec, SpawnError, stderr_tail::StderrTail};
use callgate_wire::Era;

use crate::{
    Endpoint, FleetOptions, Launch, Profile, ServerSpec,
    connection::{Connection, ConnectionLimits, HousekeepingError},
    handshake::{HandshakeError, Introduction, discover, initialize},
    http::HttpError,
    inbound::Wiring,
    supplies::Supplies,
};

#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) profile: Profile,
    pub(crate) connection: Connection,
    pub(crate) introduction: Introduction,
    process: Option<Process>,
    /// The box of the process, which ends after it.
    open_box: Option<OpenBox>,
}

/// Why a lane could not be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaneError {
    /// The configuration disables the server, or lacks something that it needs.
    #[error("{0}")]
    Off(String),
    /// More kinds of hosts use the server at once than it may have processes.
    #[error(
        "all {limit} processes of this server are in use; retry later or raise `limits.processes_per_server`"
    )]
    TooMany { limit: usize },
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    #[error(transparent)]
    Box(#[from] BoxNotOpened),
    /// The HTTP client could not be created.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The server was reached, but the handshake failed.
    #[error("{error}{}", stderr_suffix(.last_stderr_line))]
    Handshake {
        error: HandshakeError,
        /// The last line it wrote to stderr.
        last_stderr_line: Option<String>,
    },
}

impl LaneError {
    /// Whether the server was reached and does not speak the requested era. A server that rejects our
    /// credentials or fails itself proves nothing about its eras.
    pub(crate) fn is_about_era(&self) -> bool {
        let Self::Handshake { error, .. } = self else {
            return false;
        };
        match error {
            HandshakeError::Refused { .. }
            | HandshakeError::NotOffered
            | HandshakeError::Version(_) => true,
            HandshakeError::Housekeeping(HousekeepingError::Lost { status, .. }) => status
                .is_some_and(|status| {
                    (400..500).contains(&status) && !matches!(status, 401 | 403 | 408 | 429)
                }),
            // Some old servers exit, or do not answer, on any request before `initialize`.
            HandshakeError::Housekeeping(
                HousekeepingError::Gone | HousekeepingError::TimedOut { .. },
            ) => true,
            HandshakeError::Housekeeping(HousekeepingError::TooLarge { .. })
            | HandshakeError::List(_) => false,
        }
    }
}

impl Lane {
    /// Connects to the server and performs the handshake for `profile`.
    pub(crate) async fn open(
        spec: &ServerSpec,
        profile: Profile,
        supplies: &Supplies,
        wiring: Wiring,
    ) -> Result<Self, LaneError> {
        match &spec.launch {
            Launch::Stdio {
                command,
                args,
                env,
                cwd,
            } => {
                let open_box = open_box(spec, command, env, supplies)?;
                let process = ProcessSpec {
                    warden_program: supplies.options.warden_program.clone(),
                    command: command.clone(),
                    args: args.clone(),
                    env: env.clone(),
                    cwd: cwd.clone(),
                    sandbox: open_box.as_ref().map(|open| open.sandbox().clone()),
                };
                let lane = Self::open_stdio(&process, open_box, profile, &supplies.options, wiring);
                lane.await
            }
            Launch::Http(endpoint) => Self::open_http(endpoint, profile, supplies, wiring).await,
            Launch::SwitchedOff => Err(LaneError::Off(
                "switched off by `enabled: false`".to_owned(),
            )),
            Launch::Off { reason } => Err(LaneError::Off(reason.clone())),
        }
    }

    async fn open_stdio(
        spec: &ProcessSpec,
        open_box: Option<OpenBox>,
        profile: Profile,
        options: &FleetOptions,
        wiring: Wiring,
    ) -> Result<Self, LaneError> {
        let tail = stderr_tail(options, &wiring.server);
        let folder = open_box.as_ref().and_then(OpenBox::folder);
        let mut process = Process::spawn_with(spec, tail, folder)?;
        let streams = process.take_stdout().zip(process.take_stdin());
        let (stdout, stdin) = streams.expect("a fresh process has both of its pipes");
        let limits = ConnectionLimits {
            frame_bytes: options.frame_bytes,
            concurrency: options.concurrency_per_server,
        };
        let connection = Connection::over_stdio(stdout, stdin, limits, wiring);
        match introduce(&connection, &profile).await {
            Ok(introduction) => Ok(Self {
                profile,
                connection,
                introduction,
                process: Some(process),
                open_box,
            }),
            Err(error) => {
                // Kept, because `close` consumes the process and its last line may arrive only at its end.
                let tail = process.stderr().clone();
                connection.close();
                process.close(CloseTimes::default()).await;
                connection.join().await;
                if let Some(open_box) = open_box {
                    open_box.close().await;
                }
                Err(LaneError::Handshake {
                    error,
                    last_stderr_line: tail.last_line(),
                })
            }
        }
    }

    /// Tries Streamable HTTP first, then HTTP+SSE if the server does not know it.
    async fn open_http(
        endpoint: &Endpoint,
        profile: Profile,
        supplies: &Supplies,
        wiring: Wiring,
    ) -> Result<Self, LaneError> {
        let client = supplies.http()?;
        let limits = ConnectionLimits {
            frame_bytes: supplies.options.http_bytes,
            concurrency: supplies.options.concurrency_per_server,
        };
        let streamable =
            Connection::over_streamable(client.clone(), endpoint.clone(), limits, wiring.clone());
        let error = match introduce(&streamable, &profile).await {
            Ok(introduction) => {
                return Ok(Self {
                    profile,
                    connection: streamable,
                    introduction,
                    process: None,
                    open_box: None,
                });
            }
            Err(error) => error,
        };
        streamable.close();
        streamable.join().await;
        if profile.era == Era::Stateless || !is_older(&error) {
            return Err(LaneError::Handshake {
                error,
                last_stderr_line: None,
            });
        }
        let legacy = Connection::over_legacy_sse(client, endpoint.clone(), limits, wiring).await;
        // Neither transport works; the error of the current one helps more than that of the old one.
        let Ok(connection) = legacy else {
            return Err(LaneError::Handshake {
                error,
                last_stderr_line: None,
            });
        };
        match initialize(&connection, &profile).await {
            Ok(introduction) => Ok(Self {
                profile,
                connection,
                introduction,
                process: None,
                open_box: None,
            }),
            Err(error) => {
                connection.close();
                connection.join().await;
                Err(LaneError::Handshake {
                    error,
                    last_stderr_line: None,
                })
            }
        }
    }

    /// Listens for changes of a stateless server; a handshake server sends them unasked.
    pub(crate) fn listen_for_changes(&self) {
        match self.profile.era {
            Era::Handshake => {}
            Era::Stateless => self
                .connection
                .start_listening(self.introduction.capabilities.clone()),
        }
    }

    /// The last line that the process wrote to stderr.
    pub(crate) fn last_stderr_line(&self) -> Option<String> {
        self.process
            .as_ref()
            .and_then(|process| process.stderr().last_line())
    }

    /// The process id of the warden, for an operator.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.as_ref().and_then(Process::warden_pid)
    }

    /// Closes the lane. A process gets EOF, then SIGTERM, then SIGKILL, each with a grace period, together with
    /// its descendants.
    pub(crate) async fn close(self) {
        self.connection.close();
        if let Some(process) = self.process {
            process.close(CloseTimes::default()).await;
        }
        self.connection.join().await;
        if let Some(open_box) = self.open_box {
            open_box.close().await;
        }
    }
}

/// Opens the box of a server's process, if it has one.
fn open_box(
    spec: &ServerSpec,
    command: &str,
    env: &[(String, String)],
    supplies: &Supplies,
) -> Result<Option<OpenBox>, BoxNotOpened> {
    let Some(sandbox) = &spec.sandbox else {
        return Ok(None);
    };
    let plan = BoxPlan {
        spec: sandbox.clone(),
        record: supplies.record.clone(),
    };
    let search_path = env.iter().find(|(name, _)| name == "PATH");
    let occupant = Occupant {
        server: Some(spec.name.to_string()),
        title: "server".to_owned(),
        program: command.into(),
        search_path: search_path.map(|(_, path)| path.clone()),
        warden_program: Some(supplies.options.warden_program.clone()),
        ..Occupant::default()
    };
    plan.open(occupant).map(Some)
}

/// Performs the handshake in the era of the profile.
async fn introduce(
    connection: &Connection,
    profile: &Profile,
) -> Result<Introduction, HandshakeError> {
    match profile.era {
        Era::Handshake => initialize(connection, profile).await,
        Era::Stateless => discover(connection).await,
    }
}

/// Whether a failed handshake looks like a server without Streamable HTTP. Rejected credentials and rate
/// limits prove nothing about its age.
fn is_older(error: &HandshakeError) -> bool {
    let HandshakeError::Housekeeping(HousekeepingError::Lost {
        status: Some(status),
        ..
    }) = error
    else {
        return false;
    };
    (400..500).contains(status) && !matches!(status, 401 | 403 | 429)
}

fn stderr_tail(options: &FleetOptions, server: &ServerName) -> StderrTail {
    match &options.log_dir {
        Some(folder) => StderrTail::with_log(folder.join(format!("{server}.log"))),
        None => StderrTail::new(),
    }
}

fn stderr_suffix(last_stderr_line: &Option<String>) -> String {
    last_stderr_line
        .as_ref()
        .map(|words| format!("; last stderr line: {words}"))
        .unwrap_or_default()
}

/// Creates the wiring for a lane of a profile.
pub(crate) type SharedWiring = Arc<dyn Fn(&Profile) -> Wiring + Send + Sync>;
