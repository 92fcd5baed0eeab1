//! Reload: a changed configuration is read, checked and applied while calls go on. An invalid one changes
//! nothing: the last valid one stays in use, and health reports the error.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use callgate_call::{
    ApprovalService, LocalProvider,
    events::gateway::{
        ConfigReloaded, LockReloaded, NeedsRestart, PolicyLoosened, PolicyRejected, PolicyReloaded,
    },
};
use callgate_gate::pins::{Lock, PinMode};
use callgate_record::RecordType;
use callgate_server::{Gateway, Reloads};
use callgate_upstream::{Fleet, FleetPlan};
use tokio::{signal::unix::Signal, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use callgate_config::{
    self as config, Config, Failed, Flags, Limits, Origin, Settings, folders, pin_file,
    trust::TRUST_FILE,
};

use crate::{
    plan,
    plugins::ServedPlugins,
    running::{self, Running},
    views::views,
    watch::Watched,
};

/// The event of a change that loosens policy.
pub const LOOSENED: &str = "policy.loosened";

/// The reloads since the start, as health reports them.
#[derive(Debug, Default)]
pub struct ReloadStatus {
    taken_over: AtomicU64,
    rejected: AtomicU64,
    /// The error of the newest configuration; `None` if it is in use.
    error: Mutex<Option<String>>,
}

impl ReloadStatus {
    /// The number of applied and of rejected configurations.
    pub fn reloads(&self) -> Reloads {
        Reloads {
            taken_over: self.taken_over.load(Ordering::Acquire),
            rejected: self.rejected.load(Ordering::Acquire),
        }
    }

    /// The error of the newest configuration.
    pub fn error(&self) -> Option<String> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task that follows the configuration.
#[derive(Debug)]
pub struct Reloading {
    following: JoinHandle<()>,
    stop: CancellationToken,
}

impl Reloading {
    /// Watches the configuration of a gateway that runs on `settings`, and reads it again on `hangup`.
    pub fn start(
        running: &Running,
        settings: Settings,
        flags: &Flags,
        hangup: Option<Signal>,
    ) -> Self {
        let watched = watched(&settings);
        let reloader = Reloader {
            gateway: running.gateway.clone(),
            fleet: running.fleet.clone(),
            reload_status: running.reload_status.clone(),
            approval_service: running.approval_service.clone(),
            served_at: running.served_at.clone(),
            plugins: running
                .plugins
                .iter()
                .flat_map(ServedPlugins::local_providers)
                .cloned()
                .collect(),
            flags: flags.clone(),
            started_with: settings.config.clone(),
            settings,
        };
        let stop = CancellationToken::new();
        let lock = Watched::start(vec![reloader.settings.lock_file.clone()], &[]);
        let following = tokio::spawn(follow(reloader, (watched, lock), hangup, stop.clone()));
        Self { following, stop }
    }

    /// Waits for a reload in progress, then stops following.
    pub async fn stop(self) {
        self.stop.cancel();
        if self.following.await.is_err() {
            crate::log::reloading_failed();
        }
    }
}

struct Reloader {
    gateway: Gateway,
    fleet: Arc<Fleet>,
    reload_status: Arc<ReloadStatus>,
    approval_service: ApprovalService,
    /// The base of links for approvers unless `approvals.base_url` is set.
    served_at: String,
    /// The plugins that were started with the gateway.
    plugins: Vec<Arc<dyn LocalProvider>>,
    flags: Flags,
    /// Compared with a new configuration to report keys that need a restart.
    started_with: Config,
    /// The settings in use.
    settings: Settings,
}

async fn follow(
    mut reloader: Reloader,
    (mut watched, mut lock): (Watched, Watched),
    mut hangup: Option<Signal>,
    stop: CancellationToken,
) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = watched.changed() => {
                if reloader.knows_all() {
                    continue;
                }
            }
            () = lock.changed() => {
                reloader.read_lock();
                continue;
            }
            () = hung_up(&mut hangup) => {
                watched.look();
            }
        }
        let files = watched_files(&reloader.settings);
        reloader.reload();
        if files != watched_files(&reloader.settings) {
            watched = self::watched(&reloader.settings);
        }
    }
}

async fn hung_up(hangup: &mut Option<Signal>) {
    match hangup {
        Some(hangup) => drop(hangup.recv().await),
        None => std::future::pending().await,
    }
}

/// The configuration file and the policy files. For a project also the trust list and the user's own file, which
/// limit it; without a file the user's own one, which may appear later.
fn watched_files(settings: &Settings) -> Vec<PathBuf> {
    let own = folders::user_config();
    let mut files: Vec<PathBuf> = match (settings.source.origin, &settings.source.file) {
        (Origin::User, Some(file)) => vec![file.clone()],
        (Origin::Project, Some(file)) => {
            let trust = settings.source.trust_dir.join(TRUST_FILE);
            [Some(file.clone()), Some(trust), own]
                .into_iter()
                .flatten()
                .collect()
        }
        (Origin::Defaults, _) | (_, None) => own.into_iter().collect(),
    };
    files.extend(settings.policies.files().map(|(file, _)| file.to_owned()));
    files
}

fn watched(settings: &Settings) -> Watched {
    let own = settings.source.file.as_deref();
    let own = own.map(|file| (file, settings.text.as_bytes()));
    let policies = settings.policies.files();
    let policies = policies.map(|(file, text)| (file, text.as_bytes()));
    let known: Vec<(&Path, &[u8])> = own.into_iter().chain(policies).collect();
    Watched::start(watched_files(settings), &known)
}

impl Reloader {
    fn reload(&mut self) {
        let read = self.read();
        match read.and_then(|settings| Ok((plan::fleet(&settings)?, settings))) {
            Ok((plan, settings)) => match self.guard(&settings) {
                Ok(()) => self.take_over(settings, plan),
                Err(failed) => self.reject(&failed),
            },
            Err(failed) => self.reject(&failed),
        }
    }

    /// Applies a changed lock. The gateway writes the lock itself, so its own changes are skipped.
    fn read_lock(&mut self) {
        if self.settings.pins.mode == PinMode::Off {
            return;
        }
        let before = self.fleet.pins();
        match self.lock() {
            Ok(lock) if lock == before.lock => {}
            Ok(lock) => {
                let recorder = self.gateway.path().recorder();
                recorder.event(RecordType::System, "lock.reloaded", None, None);
                self.gateway.path().events().emit(LockReloaded);
                self.tell_loosened(&config::lowered(&before.lock, &lock));
                self.fleet.set_lock(lock);
            }
            Err(failed) => self.reject(&failed),
        }
    }

    /// The current lock; for a project an error unless its content is trusted.
    fn lock(&self) -> Result<Lock, Failed> {
        let file = &self.settings.lock_file;
        let lock = match &self.settings.project_lock {
            Some(project) => pin_file::parse(project.trusted_content()?.as_deref()),
            None => pin_file::read(file),
        };
        match lock.damage() {
            Some(why) => {
                let what = format!("`{}` is damaged: {why}", file.display());
                Err(Failed::config(what))
            }
            None => Ok(lock),
        }
    }

    /// Whether a project's configuration is unchanged. Then only the trust list has changed, because the gateway itself
    /// wrote to the lock.
    fn knows_all(&self) -> bool {
        if self.settings.source.origin != Origin::Project || self.reload_status.error().is_some() {
            return false;
        }
        self.read().is_ok_and(|now| {
            now.text == self.settings.text
                && now.config == self.settings.config
                && now.policies == self.settings.policies
                && now.packs == self.settings.packs
                && now.view == self.settings.view
        })
    }

    /// Records and reports changes that loosened policy.
    fn tell_loosened(&self, what: &[String]) {
        if what.is_empty() {
            return;
        }
        let what = what.join("; ");
        let recorder = self.gateway.path().recorder();
        recorder.event(RecordType::System, LOOSENED, None, Some(what.clone()));
        let events = self.gateway.path().events();
        events.emit(PolicyLoosened { what: &what });
    }

    fn read(&self) -> Result<Settings, Failed> {
        let found = config::again(&self.settings.source)?;
        for note in &found.notes {
            crate::log::configuration_note(note);
        }
        Settings::new(found, &self.flags, &self.settings.data_dir)
    }

    /// Switches to a changed guard. This happens before the new policy applies, so that no call needs a guard that
    /// is not set yet.
    fn guard(&self, settings: &Settings) -> Result<(), Failed> {
        if settings.guard.is_some() && settings.guard != self.settings.guard {
            let path = self.gateway.path();
            path.set_guard(running::guard(settings, path.events())?);
        }
        Ok(())
    }

    fn take_over(&mut self, settings: Settings, mut plan: FleetPlan) {
        let events = self.gateway.path().events();
        let file = self.file(&settings);
        self.tell_loosened(&config::loosened(&self.settings, &settings));
        plan.local_providers.extend(self.plugins.iter().cloned());
        self.fleet.apply(plan);
        if settings.guard.is_none() {
            self.gateway.path().set_guard(None);
        }
        self.approval_service
            .set_settings(plan::approval_settings(&settings, &self.served_at));
        self.gateway.set_views(views(&settings));
        let recorder = self.gateway.path().recorder();
        let is_another_policy = settings.policies != self.settings.policies;
        if is_another_policy {
            let policy = settings.policies.line();
            recorder.event(
                RecordType::System,
                "policy.reloaded",
                None,
                Some(policy.clone()),
            );
            events.emit(PolicyReloaded { policy: &policy });
        }
        if !is_another_policy || settings.text != self.settings.text {
            recorder.event(RecordType::System, "config.reloaded", None, None);
            events.emit(ConfigReloaded {
                file: &file,
                servers: settings.servers.len(),
            });
        }
        let restart = needs_restart(&self.started_with, &settings.config);
        if !restart.is_empty() {
            let keys = restart.join(", ");
            events.emit(NeedsRestart { keys: &keys });
        }
        self.settings = settings;
        *self.reload_status.lock() = None;
        self.reload_status.taken_over.fetch_add(1, Ordering::AcqRel);
    }

    fn reject(&self, failed: &Failed) {
        let reason = failed.one_line();
        let recorder = self.gateway.path().recorder();
        recorder.event(
            RecordType::System,
            "policy.rejected",
            None,
            Some(reason.clone()),
        );
        self.gateway.path().events().emit(PolicyRejected {
            file: &self.file(&self.settings),
            reason: &reason,
        });
        *self.reload_status.lock() = Some(reason);
        self.reload_status.rejected.fetch_add(1, Ordering::AcqRel);
    }

    fn file(&self, settings: &Settings) -> String {
        let file = settings.source.file.as_deref();
        file.map_or_else(String::new, |file: &Path| file.display().to_string())
    }
}

/// The changed keys whose values are only read at the start.
fn needs_restart(before: &Config, now: &Config) -> Vec<&'static str> {
    // These two are excluded: servers that start from now on use the new values without a restart.
    let limits = Limits {
        concurrency_per_server: now.limits.concurrency_per_server,
        processes_per_server: now.limits.processes_per_server,
        ..before.limits.clone()
    };
    let keys = [
        ("listen", before.listen != now.listen),
        ("hosts", before.hosts != now.hosts),
        ("auth", before.auth != now.auth),
        ("plugins", before.plugins != now.plugins),
        ("data_dir", before.data_dir != now.data_dir),
        (
            "approvals.notify",
            before.approvals.notify != now.approvals.notify,
        ),
        ("activity", before.activity != now.activity),
        ("limits", limits != now.limits),
        ("telemetry", before.telemetry != now.telemetry),
    ];
    let changed = keys.into_iter().filter(|(_, changed)| *changed);
    changed.map(|(key, _)| key).collect()
}
