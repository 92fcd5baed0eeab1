//! Wiring: a store, a recorder, a fleet and a call path become one gateway.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use callgate_boxes::ConnectionRecord;
use callgate_call::{
    ApprovalService, CallPath, Events, Guard, SealKey, Spans, Telemetry,
    events::gateway::{GatewayStarted, RecordFailed},
};
use callgate_memory::MemoryLedger;
use callgate_record::{
    Backend, Log, OnFailure, RecordType, Recorder, Redactor, RetentionLimits, SharedStores, Stores,
};
use callgate_server::{Gateway, Reloads, ServerRow, StatusSource};
use callgate_store::{Durability, Embedded, LogOptions};
use callgate_upstream::{Fleet, FleetPlan, Profile, RemoteGuard, ServerReport};
use tokio::{task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

use callgate_config::{self as config, Failed, Settings};

use crate::{
    assembly::Parts,
    heads::{Publisher, Publishing},
    housekeeping, log_options,
    log_options::Lifetime,
    notify::Notifying,
    otlp::Exporter,
    plan,
    plugins::ServedPlugins,
    reload::ReloadStatus,
    troubles::Troubles,
    views::views,
};

/// How long servers may take to stop. Each is killed after 7 s, so this is reached only if a call that
/// ignores its cancellation keeps its server.
const SERVERS_PATIENCE: Duration = Duration::from_secs(10);

/// A gateway that runs in this process.
#[derive(Debug)]
pub struct Running {
    pub gateway: Gateway,
    pub fleet: Arc<Fleet>,
    pub reload_status: Arc<ReloadStatus>,
    /// The plugins that hosts have.
    pub plugins: Option<ServedPlugins>,
    pub stores: Stores,
    pub approval_service: ApprovalService,
    /// The base of links for approvers unless `approvals.base_url` is set.
    pub served_at: String,
    background: Background,
    exporter: Option<Exporter>,
}

/// The storage backend. This is the only place that chooses one.
fn backend(options: LogOptions) -> impl Backend {
    Embedded::new(options)
}

/// The stores for commands that make no calls.
// What such a command changes is confirmed to a person, so it survives a power cut.
pub fn shared_stores(data_dir: &Path) -> Result<SharedStores, Failed> {
    let shared = backend(log_options::plain(data_dir, Durability::Power)).shared();
    shared.map_err(|error| Failed::system(error.to_string()))
}

/// A recorder for events of a command, in another chain than that of any gateway and as durable.
pub fn command_record(settings: &Settings) -> Result<(Stores, Recorder), Failed> {
    record(settings, OnFailure::Refuse, Lifetime::OneCommand)
}

/// Closes the record of [`command_record`].
pub fn close_record(log: &dyn Log) {
    if let Err(error) = log.close() {
        crate::log::record_not_closed(&error);
    }
}

/// The gateway's record, as durable and as strict as configured.
fn gateway_record(settings: &Settings, lifetime: Lifetime) -> Result<(Stores, Recorder), Failed> {
    let on_failure = match settings.config.activity.on_failure {
        config::OnFailure::Refuse => OnFailure::Refuse,
        config::OnFailure::Allow => OnFailure::Allow,
    };
    record(settings, on_failure, lifetime)
}

fn record(
    settings: &Settings,
    on_failure: OnFailure,
    lifetime: Lifetime,
) -> Result<(Stores, Recorder), Failed> {
    let stores = backend(log_options::of_gateway(settings, lifetime))
        .open()
        .map_err(|error| Failed::system(error.to_string()))?;
    let recorder = Recorder::new(stores.log.clone(), redactor(settings)?, on_failure);
    Ok((stores, recorder))
}

fn redactor(settings: &Settings) -> Result<Redactor, Failed> {
    let activity = &settings.config.activity;
    Redactor::new(&activity.redact, activity.body_bytes)
        .map_err(|error| Failed::config(format!("`activity.redact`: {error}")))
}

impl Running {
    /// Starts what the configuration names: plugins first, then all else.
    pub async fn open(
        settings: &Settings,
        profile: Profile,
        lifetime: Lifetime,
    ) -> Result<Self, Failed> {
        let mut plan = plan::fleet(settings)?;
        if settings.config.plugins.is_empty() {
            return Self::start_for(settings, plan, profile, lifetime);
        }
        let record = ConnectionRecord::default();
        let plugins = ServedPlugins::start(settings, &record).await?;
        plan.local_providers
            .extend_from_slice(plugins.local_providers());
        match Self::start_for(settings, plan, profile, lifetime) {
            Ok(running) => {
                record.log_is_open(running.gateway.path().recorder().clone());
                Ok(Self {
                    plugins: Some(plugins),
                    ..running
                })
            }
            Err(failed) => {
                plugins.stop().await;
                Err(failed)
            }
        }
    }

    /// Opens the record and starts the servers, in the name of `profile`.
    pub fn start(
        settings: &Settings,
        profile: Profile,
        lifetime: Lifetime,
    ) -> Result<Self, Failed> {
        Self::start_for(settings, plan::fleet(settings)?, profile, lifetime)
    }

    /// Like [`Running::start`], with a plan for the servers that differs from the settings.
    pub fn start_with(
        settings: &Settings,
        plan: FleetPlan,
        profile: Profile,
    ) -> Result<Self, Failed> {
        Self::start_for(settings, plan, profile, Lifetime::Serving)
    }

    fn start_for(
        settings: &Settings,
        plan: FleetPlan,
        profile: Profile,
        lifetime: Lifetime,
    ) -> Result<Self, Failed> {
        outlive_file_limit()?;
        let (stores, recorder) = gateway_record(settings, lifetime)?;
        let (telemetry, exporter) = telemetry(settings)?;
        let events = telemetry.events.clone();
        recorder.event(RecordType::System, "gateway.started", None, None);
        events.emit(GatewayStarted {
            version: env!("CARGO_PKG_VERSION"),
        });
        let served_at = format!("http://{}", settings.listen(None)?);
        let key = SealKey::new(config::seal_key(&settings.data_dir)?);
        let asking = plan::approval_settings(settings, &served_at);
        let approvals = stores.approvals.clone();
        let approval_service =
            ApprovalService::new(approvals, &key, recorder.clone(), events, asking);
        let parts = Parts {
            recorder,
            telemetry,
            key: &key,
            approval_service: approval_service.clone(),
            ledger: stores.ledger.clone(),
        };
        let (fleet, path) = parts.assemble(plan, profile);
        let reload_status = Arc::new(ReloadStatus::default());
        let status = Status {
            fleet: fleet.clone(),
            reload_status: reload_status.clone(),
            log: stores.log.clone(),
            indexed: Arc::default(),
            troubles: Troubles::default(),
        };
        let noted = (status.indexed.clone(), status.troubles.clone());
        let gateway = gateway(settings, path, status)?;
        let publishing = Publishing::of(settings, lifetime, &stores, &noted.1)?;
        let mut background =
            Background::start(settings, &gateway, &approval_service, stores.clone(), noted)?;
        background.publishing = publishing;
        Ok(Self {
            gateway,
            fleet,
            reload_status,
            plugins: None,
            stores,
            approval_service,
            served_at,
            background,
            exporter,
        })
    }

    /// A separate gate for one step, with the tools of `plan` behind it. Its calls go to the same record, events
    /// and spans as those of the gateway.
    pub fn step_gate(&self, settings: &Settings, plan: FleetPlan) -> Result<StepGate, Failed> {
        let own = self.gateway.path();
        let recorder = own.recorder().clone();
        let telemetry = Telemetry {
            events: own.events().clone(),
            spans: own.spans().clone(),
        };
        let parts = Parts {
            recorder,
            telemetry,
            key: &SealKey::new(config::seal_key(&settings.data_dir)?),
            approval_service: self.approval_service.clone(),
            // A ledger of its own: rates and budgets of a step count from the step's start.
            ledger: Arc::new(MemoryLedger::default()),
        };
        let (fleet, path) = parts.assemble(plan, Profile::gateway());
        let status = Status {
            fleet: fleet.clone(),
            reload_status: self.reload_status.clone(),
            log: self.stores.log.clone(),
            indexed: Arc::default(),
            troubles: Troubles::default(),
        };
        let gateway = gateway(settings, path, status)?;
        Ok(StepGate { gateway, fleet })
    }

    /// Waits for calls in flight, stops the servers, closes the record and exports the last spans.
    pub async fn stop(self, patience: Duration) {
        self.drain(patience).await;
        self.end().await;
    }

    /// Refuses new calls and waits for those in flight.
    pub async fn drain(&self, patience: Duration) {
        self.gateway.path().drain(patience).await;
    }

    /// Stops the servers, closes the record and exports the last spans.
    pub async fn end(self) {
        if timeout(SERVERS_PATIENCE, self.fleet.shutdown())
            .await
            .is_err()
        {
            crate::log::servers_not_stopped();
        }
        if let Some(plugins) = &self.plugins {
            plugins.stop().await;
        }
        let publisher = self.background.stop().await;
        if let Err(error) = self.stores.log.close() {
            let error = error.to_string();
            let events = self.gateway.path().events();
            events.emit(RecordFailed { error: &error });
        }
        // After the closing entry, which is the last one that can be cut off.
        if let Some(publisher) = publisher {
            publisher.finish().await;
        }
        if let Some(exporter) = self.exporter {
            exporter.stop().await;
        }
    }
}

/// The gateway's background tasks.
#[derive(Debug)]
struct Background {
    /// Follows approvals that other processes ask for and decide.
    following: JoinHandle<()>,
    notifying: Option<Notifying>,
    publishing: Option<Publishing>,
    housekeeping: JoinHandle<()>,
    stop: CancellationToken,
}

impl Background {
    fn start(
        settings: &Settings,
        gateway: &Gateway,
        approval_service: &ApprovalService,
        stores: Stores,
        (indexed, troubles): (Arc<AtomicU64>, Troubles),
    ) -> Result<Self, Failed> {
        let retain = &settings.config.activity.retain;
        let limits = RetentionLimits {
            days: retain.days,
            max_mb: retain.max_mb,
        };
        let stop = CancellationToken::new();
        let notifying =
            Notifying::start(&settings.config.approvals.notify, approval_service.clone())?;
        let following = tokio::spawn(approval_service.clone().follow(stop.clone()));
        let told = (gateway.path().events().clone(), stop.clone());
        let noted = (indexed, troubles);
        let housekeeping = tokio::spawn(housekeeping::keep(stores, limits, noted, told));
        Ok(Self {
            following,
            notifying,
            publishing: None,
            housekeeping,
            stop,
        })
    }

    /// Stops the tasks. Returns what publishes the heads of the closed log.
    async fn stop(self) -> Option<Publisher> {
        let publisher = match self.publishing {
            Some(publishing) => publishing.stop().await,
            None => None,
        };
        if let Some(notifying) = self.notifying {
            notifying.stop().await;
        }
        self.stop.cancel();
        if self.housekeeping.await.is_err() || self.following.await.is_err() {
            crate::log::background_task_failed();
        }
        publisher
    }
}

/// The gate of one step.
#[derive(Debug)]
pub struct StepGate {
    pub gateway: Gateway,
    fleet: Arc<Fleet>,
}

impl StepGate {
    /// The servers and providers behind it.
    pub fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// Refuses new calls, waits for those in flight and stops the step's servers.
    pub async fn close(self, patience: Duration) {
        self.gateway.path().drain(patience).await;
        self.fleet.shutdown().await;
    }
}

/// A gateway over a call path, with the guard, the limits and the views of the settings.
fn gateway(settings: &Settings, path: CallPath, status: Status) -> Result<Gateway, Failed> {
    path.set_guard(guard(settings, path.events())?);
    let gateway = Gateway::new(path, status).inflight(settings.inflight_bytes());
    gateway.set_views(views(settings));
    Ok(gateway)
}

/// The remote guard that decides in place of rules, if one is configured.
pub(crate) fn guard(
    settings: &Settings,
    events: &Events,
) -> Result<Option<Box<dyn Guard>>, Failed> {
    let Some(options) = settings.guard.clone() else {
        return Ok(None);
    };
    let guard = RemoteGuard::new(options, events.clone())
        .map_err(|error| Failed::config(format!("`guard`: {error}")))?;
    Ok(Some(Box::new(guard)))
}

/// Events and spans, and the span exporter if a collector is configured.
fn telemetry(settings: &Settings) -> Result<(Telemetry, Option<Exporter>), Failed> {
    let events = Events::default();
    let address = settings.config.telemetry.otlp.as_deref();
    let exporter = address
        .map(|address| Exporter::start(address, events.clone()))
        .transpose()?;
    let spans = exporter
        .as_ref()
        .map_or_else(Spans::default, Exporter::spans);
    Ok((Telemetry { events, spans }, exporter))
}

/// The status of this gateway, as health reports it.
#[derive(Debug)]
struct Status {
    fleet: Arc<Fleet>,
    reload_status: Arc<ReloadStatus>,
    log: Arc<dyn Log>,
    /// The sequence number up to which the index has this process's entries.
    indexed: Arc<AtomicU64>,
    troubles: Troubles,
}

impl StatusSource for Status {
    fn rows(&self) -> Vec<ServerRow> {
        self.fleet.reports().iter().map(row).collect()
    }

    fn reloads(&self) -> Reloads {
        self.reload_status.reloads()
    }

    fn record_backlog(&self) -> usize {
        self.log.backlog()
    }

    fn index_lag(&self) -> u64 {
        let indexed = self.indexed.load(Ordering::Acquire);
        self.log.head().seq.saturating_sub(indexed)
    }

    fn complaints(&self) -> Vec<String> {
        let reload = self.reload_status.error();
        reload.into_iter().chain(self.troubles.all()).collect()
    }
}

/// A file that reaches its size limit must cause a failed write, which refuses calls. By default the signal
/// SIGXFSZ would end the gateway and all calls in flight.
fn outlive_file_limit() -> Result<(), Failed> {
    let noticed = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, noticed)
        .map(|_| ())
        .map_err(|error| Failed::system(format!("cannot handle signals: {error}")))
}

/// The status of a server, as the doors report it.
pub fn row(report: &ServerReport) -> ServerRow {
    ServerRow {
        name: report.name.to_string(),
        r#type: report.transport.to_owned(),
        enabled: report.enabled,
        status: report.status.to_string(),
        reason: report.reason.clone(),
        tools: report.tools,
        pid: report.pid,
    }
}
