//! A gateway embedded in another program, without configuration files.

use std::{collections::HashMap, fmt, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use callgate_call::{
    ApprovalService, ApprovalSettings, AskFailed, Caller, Events, LocalProvider, Received, SealKey,
    Spans, Telemetry,
};
use callgate_config::Failed;
use callgate_gate::{Builtin, Door, Naming, Policy, ServerSpec, Source, Transport, pins::Pins};
use callgate_record::{Backend, OnFailure, Recorder, Redactor, Stores};
use callgate_server::{Gateway as Doors, ServerRow, StatusSource};
use callgate_upstream::{Fleet, FleetOptions, FleetPlan, Profile};
use callgate_wire::{Frame, Id, Strictness, message};
use futures_util::future::BoxFuture;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use crate::{assembly::Parts, local_user::local_host, running::row};

/// The default of `activity.body_bytes`.
const BODY_BYTES: usize = 2048;
const MIB: usize = 1024 * 1024;

/// A gateway that runs inside this program.
///
/// Calls made with [`Gateway::call`] take the same path as those of any door: resolved, decided, recorded, forwarded.
#[derive(Debug)]
pub struct Gateway {
    doors: Doors,
    fleet: Arc<Fleet>,
    stores: Stores,
    approval_service: ApprovalService,
    following: JoinHandle<()>,
    stop: CancellationToken,
}

/// Builds an embedded [`Gateway`].
#[derive(Debug)]
pub struct Builder {
    policy: Policy,
    providers: Vec<Arc<dyn LocalProvider>>,
    servers: Vec<ServerSpec>,
    warden_program: Option<PathBuf>,
    redact: Vec<String>,
    settings: ApprovalSettings,
}

impl Gateway {
    /// Begins with the default policy and nothing to call.
    pub fn builder() -> Builder {
        Builder {
            policy: Policy::new(Builtin::Default, HashMap::new()),
            providers: Vec::new(),
            servers: Vec::new(),
            warden_program: None,
            redact: Vec::new(),
            settings: ApprovalSettings::default(),
        }
    }

    /// Calls `server:tool` with JSON arguments, as the user of this process, and waits for the JSON-RPC answer. The
    /// answer to a call that needs approval says how to approve it.
    pub async fn call(&self, tool: &str, arguments: &str) -> Result<Frame, Failed> {
        let id = Id::string(&Ulid::generate().to_string());
        let request = message::tool_call(&id, tool, arguments);
        let frame = Frame::parse(request, Strictness::Full)
            .map_err(|error| Failed::user(format!("the arguments are not valid JSON: {error}")))?;
        let door = Door {
            source: Source::Cli,
            transport: Transport::Local,
        };
        let received = Received::plain(frame, Arc::new(local_host()), door);
        let mut pending = self.doors.path().start(received, Arc::new(Unattended));
        let answer = pending.answer().await;
        let answer = answer.ok_or_else(|| Failed::execution("the call was cancelled"))?;
        Frame::parse(answer.into_bytes(), Strictness::Envelope)
            .map_err(|error| Failed::execution(error.to_string()))
    }

    /// What the doors of `callgate-server` serve: MCP over HTTP and stdio.
    pub fn doors(&self) -> &Doors {
        &self.doors
    }

    /// The stores of the gateway; `archive` answers queries about past calls.
    pub fn stores(&self) -> &Stores {
        &self.stores
    }

    /// Decides about held calls.
    pub fn approvals(&self) -> &ApprovalService {
        &self.approval_service
    }

    /// Waits up to `patience` for calls in flight, then stops the servers and closes the record.
    pub async fn stop(self, patience: Duration) -> Result<(), Failed> {
        self.doors.path().drain(patience).await;
        self.fleet.shutdown().await;
        self.stop.cancel();
        if self.following.await.is_err() {
            crate::log::approvals_follower_failed();
        }
        let closed = self.stores.log.close();
        closed.map_err(|error| Failed::system(format!("could not close the activity log: {error}")))
    }
}

impl Builder {
    /// Adds tools of this program.
    #[must_use]
    pub fn provider(mut self, provider: impl LocalProvider + 'static) -> Self {
        self.providers.push(Arc::new(provider));
        self
    }

    /// Adds an MCP server. A server with a command also needs [`Builder::warden`].
    #[must_use]
    pub fn server(mut self, server: ServerSpec) -> Self {
        self.servers.push(server);
        self
    }

    /// The program `callgate-warden`, which child processes are started under.
    #[must_use]
    pub fn warden(mut self, program: PathBuf) -> Self {
        self.warden_program = Some(program);
        self
    }

    /// The policy that decides calls; [`Builtin::Default`] by default.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Patterns of secrets beside the built-in ones, which the record does not keep.
    #[must_use]
    pub fn redact(mut self, patterns: Vec<String>) -> Self {
        self.redact = patterns;
        self
    }

    /// Sets how held calls wait for a decision.
    #[must_use]
    pub fn approval_settings(mut self, settings: ApprovalSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Opens the backend and starts the servers. Must be called within a tokio runtime.
    pub fn build(self, backend: &dyn Backend) -> Result<Gateway, Failed> {
        let stores = backend.open();
        let stores = stores.map_err(|error| Failed::system(error.to_string()))?;
        let redactor = Redactor::new(&self.redact, BODY_BYTES)
            .map_err(|error| Failed::config(error.to_string()))?;
        let recorder = Recorder::new(stores.log.clone(), redactor, OnFailure::Refuse);
        let telemetry = Telemetry {
            events: Events::default(),
            spans: Spans::default(),
        };
        let key = SealKey::random();
        let events = telemetry.events.clone();
        let (approvals, settings) = (stores.approvals.clone(), self.settings.clone());
        let approval_service =
            ApprovalService::new(approvals, &key, recorder.clone(), events, settings);
        let parts = Parts {
            recorder,
            telemetry,
            key: &key,
            approval_service: approval_service.clone(),
            ledger: stores.ledger.clone(),
        };
        let (fleet, path) = parts.assemble(self.plan()?, Profile::gateway());
        let doors = Doors::new(path, Rows(fleet.clone()));
        let stop = CancellationToken::new();
        let following = tokio::spawn(approval_service.clone().follow(stop.clone()));
        Ok(Gateway {
            doors,
            fleet,
            stores,
            approval_service,
            following,
            stop,
        })
    }

    fn plan(self) -> Result<FleetPlan, Failed> {
        let needs_warden = |server: &ServerSpec| {
            server.launch.is_enabled() && server.launch.transport() == "stdio"
        };
        if self.warden_program.is_none() && self.servers.iter().any(needs_warden) {
            return Err(Failed::user(
                "a server with a command needs the program `callgate-warden`",
            )
            .help("set its path with `Builder::warden`"));
        }
        Ok(FleetPlan {
            servers: self.servers,
            local_providers: self.providers,
            policy: self.policy,
            // Definitions are accepted at first sight unless they look like an attack, and remembered until the end.
            pins: Pins::default(),
            options: FleetOptions {
                naming: Naming::default(),
                warden_program: self.warden_program.unwrap_or_default(),
                log_dir: None,
                definitions_dir: None,
                pin_store: None,
                connect_wait: Duration::from_secs(10),
                initialize_wait: Duration::from_secs(1),
                reconnect_cap: Duration::from_secs(60),
                listed_while_down: Duration::from_secs(60),
                frame_bytes: 4 * MIB,
                http_bytes: 16 * MIB,
                concurrency_per_server: 64,
                processes_per_server: 4,
            },
        })
    }
}

/// The status of the servers.
struct Rows(Arc<Fleet>);

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rows")
    }
}

impl StatusSource for Rows {
    fn rows(&self) -> Vec<ServerRow> {
        self.0.reports().iter().map(row).collect()
    }
}

/// A caller without a person: it ignores notifications and cannot answer questions.
#[derive(Debug)]
struct Unattended;

impl Caller for Unattended {
    fn notify(&self, _notification: Bytes) {}

    fn ask(&self, _request: Frame) -> BoxFuture<'_, Result<Frame, AskFailed>> {
        Box::pin(async { Err(AskFailed::NoWay) })
    }
}
