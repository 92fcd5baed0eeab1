//! Wiring: a store, a recorder, a fleet and a call path become one gateway.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use callgate_call::CallPath;
use callgate_gate::Builtin;
use callgate_record::{RecordType, Recorder, Redactor};
use callgate_server::{Gateway, ServerRow};
use callgate_store::{Index, Limits, Log, LogOptions, retain};
use callgate_upstream::{Fleet, Profile, ServerReport};
use tokio::{runtime::Runtime, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{
    args::{Gateway as Flags, Shared},
    config::{self, Origin, Settings},
    exit::Failed,
    folders, logging,
};

/// How often old segments are looked for.
const RETAIN_EVERY: Duration = Duration::from_secs(3600);
/// How often the index catches up with the log.
const INDEX_EVERY: Duration = Duration::from_secs(2);

/// A gateway that runs in this process.
pub(crate) struct Running {
    pub(crate) gateway: Gateway,
    pub(crate) fleet: Arc<Fleet>,
    log: Arc<Log>,
    housekeeping: JoinHandle<()>,
    stop_housekeeping: CancellationToken,
}

/// Reads the configuration and starts logging; `quiet` commands log warnings only.
pub(crate) fn settings(shared: &Shared, flags: &Flags, quiet: bool) -> Result<Settings, Failed> {
    let told = folders::data_dir(shared.data_dir.as_deref())?;
    let found = config::load(shared.config.as_deref(), &told)?;
    let default_level = if quiet {
        "warn"
    } else {
        &found.config.telemetry.log
    };
    logging::start(shared.log_level.as_deref().unwrap_or(default_level))?;
    if let Some(file) = &found.untrusted {
        eprintln!(
            "note: `{}` is not used, because it was found and not named",
            file.display()
        );
        eprintln!("help: read it, then run `callgate trust`, or name it with --config");
    }
    let data_dir = match (&shared.data_dir, &found.config.data_dir, found.origin) {
        (None, Some(folder), Origin::User) => {
            folders::data_dir(Some(&beside(&found.file, folder)))?
        }
        (Some(_), _, _)
        | (None, _, Origin::Project | Origin::Defaults)
        | (None, None, Origin::User) => told,
    };
    Settings::new(found, flags, &data_dir)
}

/// The data folder alone, for commands that only read.
pub(crate) fn data_dir(shared: &Shared) -> Result<PathBuf, Failed> {
    Ok(settings(shared, &Flags::default(), true)?.data_dir)
}

fn beside(file: &Option<PathBuf>, folder: &std::path::Path) -> PathBuf {
    let base = file.as_deref().and_then(std::path::Path::parent);
    base.map_or_else(|| folder.to_owned(), |base| base.join(folder))
}

/// The runtime that everything asynchronous runs on.
pub(crate) fn runtime() -> Result<Runtime, Failed> {
    let built = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    built.map_err(|error| Failed::system(format!("cannot start: {error}")))
}

impl Running {
    /// Opens the record and starts the servers, in the name of `profile`.
    pub(crate) fn start(settings: &Settings, profile: Profile) -> Result<Self, Failed> {
        outlive_file_limit()?;
        let audit = &settings.config.audit;
        let mut options = LogOptions::new(&settings.data_dir, env!("CARGO_PKG_VERSION"));
        options.durability = match audit.durability {
            config::Durability::Process => callgate_store::Durability::Process,
            config::Durability::Power => callgate_store::Durability::Power,
        };
        let log = Log::open(options).map_err(|error| Failed::system(error.to_string()))?;
        let log = Arc::new(log);
        let redactor = Redactor::new(&audit.redact, audit.body_bytes)
            .map_err(|error| Failed::config(format!("`audit.redact`: {error}")))?;
        let recorder = Recorder::new(log.clone(), redactor, audit.on_failure);
        recorder.event(RecordType::System, "gateway.started", None, None);
        let fleet = Fleet::start(settings.plan(), recorder.clone(), profile);
        let path = CallPath::new(fleet.clone(), recorder);
        let reports = fleet.clone();
        let gateway = Gateway::new(path, move || reports.reports().iter().map(row).collect());
        let stop_housekeeping = CancellationToken::new();
        let limits = Limits {
            days: audit.retain.days,
            max_mb: audit.retain.max_mb,
        };
        let housekeeping = tokio::spawn(keep_house(log.clone(), limits, stop_housekeeping.clone()));
        Ok(Self {
            gateway,
            fleet,
            log,
            housekeeping,
            stop_housekeeping,
        })
    }

    /// Lets calls end, ends the servers, closes the record.
    pub(crate) async fn stop(self, patience: Duration) {
        self.gateway.path().drain(patience).await;
        self.fleet.shutdown().await;
        self.stop_housekeeping.cancel();
        if self.housekeeping.await.is_err() {
            tracing::error!("housekeeping failed");
        }
        if let Err(error) = self.log.close() {
            tracing::error!(name: "record.failed", error = %error, "the record could not be closed");
        }
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
pub(crate) fn row(report: &ServerReport) -> ServerRow {
    ServerRow {
        name: report.name.to_string(),
        r#type: report.transport.to_owned(),
        status: report.status.to_string(),
        reason: report.reason.clone(),
        tools: report.tools,
        pid: report.pid,
    }
}

/// What is printed about the policy at start.
pub(crate) fn policy_line(builtin: Builtin) -> &'static str {
    match builtin {
        Builtin::Default => {
            "policy default: what looks destructive needs approval, all else is allowed and recorded"
        }
        Builtin::AllowAll => "policy allow-all: every call is allowed and recorded",
    }
}

/// Keeps the index close behind the log, and drops what retention says.
async fn keep_house(log: Arc<Log>, limits: Limits, stop: CancellationToken) {
    let mut retained: Option<tokio::time::Instant> = None;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(INDEX_EVERY) => {}
        }
        let due = retained.is_none_or(|last| last.elapsed() >= RETAIN_EVERY);
        if due {
            retained = Some(tokio::time::Instant::now());
        }
        let log = log.clone();
        let kept = tokio::task::spawn_blocking(move || {
            if due && let Err(error) = retain(&log, limits) {
                tracing::warn!(error = %error, "old records could not be dropped");
            }
            let indexed = Index::open(log.dir()).and_then(|mut index| index.catch_up());
            if let Err(error) = indexed {
                tracing::warn!(error = %error, "the index could not catch up; it is filled later");
            }
        });
        if kept.await.is_err() {
            tracing::error!("housekeeping of the record failed");
        }
    }
}
