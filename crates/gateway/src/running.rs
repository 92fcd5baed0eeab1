//! Wiring: a store, a recorder, a fleet and a call path become one gateway.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

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
    assembly::Parts, housekeeping, notify::Notifying, otlp::Exporter, plan, plugins::ServedPlugins,
    reload::Standing, views::views,
};

/// How long servers may take to go. Each is killed after 7 s, so this is never reached unless a
/// call that does not heed its cancellation holds its server.
const SERVERS_PATIENCE: Duration = Duration::from_secs(10);

/// A gateway that runs in this process.
#[derive(Debug)]
pub struct Running {
    pub gateway: Gateway,
    pub fleet: Arc<Fleet>,
    pub standing: Arc<Standing>,
    /// The plugins that hosts have.
    pub plugins: Option<ServedPlugins>,
    pub stores: Stores,
    pub approval_service: ApprovalService,
    /// Where approvers reach this gateway unless the configuration says otherwise.
    pub served_at: String,
    background: Background,
    exporter: Option<Exporter>,
}

/// Where everything is kept. Another backend is another line here.
fn backend(data_dir: &Path, durability: Durability) -> impl Backend {
    let mut options = LogOptions::new(data_dir, env!("CARGO_PKG_VERSION"));
    options.durability = durability;
    Embedded::new(options)
}

/// What commands need that make no calls.
pub fn shared_stores(data_dir: &Path) -> Result<SharedStores, Failed> {
    let shared = backend(data_dir, Durability::Process).shared();
    shared.map_err(|error| Failed::system(error.to_string()))
}

/// A record for what a command does beside any gateway. It is a chain of its own.
pub fn own_record(settings: &Settings) -> Result<(Stores, Recorder), Failed> {
    record(settings, Durability::Process, OnFailure::Refuse)
}

/// Ends such a record.
pub fn close_record(log: &dyn Log) {
    if let Err(error) = log.close() {
        crate::log::record_not_closed(&error);
    }
}

/// The gateway's record, as durable and as strict as configured.
fn gateway_record(settings: &Settings) -> Result<(Stores, Recorder), Failed> {
    let audit = &settings.config.audit;
    let durability = match audit.durability {
        config::Durability::Process => Durability::Process,
        config::Durability::Power => Durability::Power,
    };
    let on_failure = match audit.on_failure {
        config::OnFailure::Refuse => OnFailure::Refuse,
        config::OnFailure::Allow => OnFailure::Allow,
    };
    record(settings, durability, on_failure)
}

fn record(
    settings: &Settings,
    durability: Durability,
    on_failure: OnFailure,
) -> Result<(Stores, Recorder), Failed> {
    let stores = backend(&settings.data_dir, durability)
        .open()
        .map_err(|error| Failed::system(error.to_string()))?;
    let recorder = Recorder::new(stores.log.clone(), redactor(settings)?, on_failure);
    Ok((stores, recorder))
}

fn redactor(settings: &Settings) -> Result<Redactor, Failed> {
    let audit = &settings.config.audit;
    Redactor::new(&audit.redact, audit.body_bytes)
        .map_err(|error| Failed::config(format!("`audit.redact`: {error}")))
}

impl Running {
    /// Starts what the configuration names: plugins first, then all else.
    pub async fn open(settings: &Settings, profile: Profile) -> Result<Self, Failed> {
        let mut plan = plan::fleet(settings)?;
        if settings.config.plugins.is_empty() {
            return Self::start_with(settings, plan, profile);
        }
        let plugins = ServedPlugins::start(settings).await?;
        plan.in_house.extend_from_slice(plugins.in_house());
        match Self::start_with(settings, plan, profile) {
            Ok(running) => Ok(Self {
                plugins: Some(plugins),
                ..running
            }),
            Err(failed) => {
                plugins.stop().await;
                Err(failed)
            }
        }
    }

    /// Opens the record and starts the servers, in the name of `profile`.
    pub fn start(settings: &Settings, profile: Profile) -> Result<Self, Failed> {
        Self::start_with(settings, plan::fleet(settings)?, profile)
    }

    /// The same with other plans for the servers than the settings have.
    pub fn start_with(
        settings: &Settings,
        plan: FleetPlan,
        profile: Profile,
    ) -> Result<Self, Failed> {
        outlive_file_limit()?;
        let (stores, recorder) = gateway_record(settings)?;
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
        let standing = Arc::new(Standing::default());
        let status = Status {
            fleet: fleet.clone(),
            standing: standing.clone(),
            log: stores.log.clone(),
            indexed: Arc::default(),
        };
        let indexed = status.indexed.clone();
        let gateway = gateway(settings, path, status)?;
        let background = Background::start(
            settings,
            &gateway,
            &approval_service,
            stores.clone(),
            indexed,
        )?;
        Ok(Self {
            gateway,
            fleet,
            standing,
            plugins: None,
            stores,
            approval_service,
            served_at,
            background,
            exporter,
        })
    }

    /// A gate of its own for one step, with the tools of `plan` behind it. What happens there is told and
    /// recorded where it always is.
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
            // Each step counts for itself.
            ledger: Arc::new(MemoryLedger::default()),
        };
        let (fleet, path) = parts.assemble(plan, Profile::gateway());
        let status = Status {
            fleet: fleet.clone(),
            standing: self.standing.clone(),
            log: self.stores.log.clone(),
            indexed: Arc::default(),
        };
        let gateway = gateway(settings, path, status)?;
        Ok(StepGate { gateway, fleet })
    }

    /// Lets calls end, ends the servers, closes the record, hands out the last spans.
    pub async fn stop(self, patience: Duration) {
        self.drain(patience).await;
        self.end().await;
    }

    /// Takes no more calls, and lets those under way end.
    pub async fn drain(&self, patience: Duration) {
        self.gateway.path().drain(patience).await;
    }

    /// Ends the servers, closes the record, hands out the last spans.
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
        self.background.stop().await;
        if let Err(error) = self.stores.log.close() {
            let error = error.to_string();
            let events = self.gateway.path().events();
            events.emit(RecordFailed { error: &error });
        }
        if let Some(exporter) = self.exporter {
            exporter.stop().await;
        }
    }
}

/// The gateway's own tasks, which run beside its calls.
#[derive(Debug)]
struct Background {
    /// Follows what is asked and decided about held calls.
    following: JoinHandle<()>,
    notifying: Option<Notifying>,
    housekeeping: JoinHandle<()>,
    stop: CancellationToken,
}

impl Background {
    fn start(
        settings: &Settings,
        gateway: &Gateway,
        approval_service: &ApprovalService,
        stores: Stores,
        indexed: Arc<AtomicU64>,
    ) -> Result<Self, Failed> {
        let retain = &settings.config.audit.retain;
        let limits = RetentionLimits {
            days: retain.days,
            max_mb: retain.max_mb,
        };
        let stop = CancellationToken::new();
        let notifying =
            Notifying::start(&settings.config.approvals.notify, approval_service.clone())?;
        let following = tokio::spawn(approval_service.clone().follow(stop.clone()));
        let told = (gateway.path().events().clone(), stop.clone());
        let housekeeping = tokio::spawn(housekeeping::keep(stores, indexed, limits, told));
        Ok(Self {
            following,
            notifying,
            housekeeping,
            stop,
        })
    }

    async fn stop(self) {
        if let Some(notifying) = self.notifying {
            notifying.stop().await;
        }
        self.stop.cancel();
        if self.housekeeping.await.is_err() || self.following.await.is_err() {
            crate::log::background_task_failed();
        }
    }
}

/// The gate of one step.
#[derive(Debug)]
pub struct StepGate {
    pub gateway: Gateway,
    fleet: Arc<Fleet>,
}

impl StepGate {
    /// Lets calls end, and takes no more.
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

/// Who is asked in place of rules, where somebody is.
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

/// Where what happens is told, and the exporter of spans where a collector is configured.
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

/// How this gateway stands, as health tells it.
#[derive(Debug)]
struct Status {
    fleet: Arc<Fleet>,
    standing: Arc<Standing>,
    log: Arc<dyn Log>,
    /// Up to where the index has this process's entries.
    indexed: Arc<AtomicU64>,
}

impl StatusSource for Status {
    fn rows(&self) -> Vec<ServerRow> {
        self.fleet.reports().iter().map(row).collect()
    }

    fn reloads(&self) -> Reloads {
        self.standing.reloads()
    }

    fn record_owed(&self) -> usize {
        self.log.owed()
    }

    fn index_lag(&self) -> u64 {
        let indexed = self.indexed.load(Ordering::Acquire);
        self.log.head().seq.saturating_sub(indexed)
    }

    fn complaints(&self) -> Vec<String> {
        self.standing.complaint().into_iter().collect()
    }
}

/// A file at the limit of its size must show as a failed write, which refuses calls; by default
/// the signal that comes with it would end the gateway and everything under way.
fn outlive_file_limit() -> Result<(), Failed> {
    let noticed = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, noticed)
        .map(|_| ())
        .map_err(|error| Failed::system(format!("signals: {error}")))
}

/// How a server stands, as the doors tell it.
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
