//! Reload: a configuration that changed is read, checked and taken over while calls go on. One that
//! cannot be used changes nothing: the last good one stays, and health says so.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use callgate_call::{
    ApprovalService, InHouse,
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

/// How configurations fared since the start, as health tells it.
#[derive(Debug, Default)]
pub struct Standing {
    taken_over: AtomicU64,
    rejected: AtomicU64,
    /// What is wrong with the newest one; `None` when it is in use.
    complaint: Mutex<Option<String>>,
}

impl Standing {
    /// How often.
    pub fn reloads(&self) -> Reloads {
        Reloads {
            taken_over: self.taken_over.load(Ordering::Acquire),
            rejected: self.rejected.load(Ordering::Acquire),
        }
    }

    /// What is wrong with the newest one.
    pub fn complaint(&self) -> Option<String> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.complaint
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Follows the configuration until it is told to stop.
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
            standing: running.standing.clone(),
            approval_service: running.approval_service.clone(),
            served_at: running.served_at.clone(),
            plugins: running
                .plugins
                .iter()
                .flat_map(ServedPlugins::in_house)
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

    /// Lets a reload under way end, and follows no more.
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
    standing: Arc<Standing>,
    approval_service: ApprovalService,
    /// Where approvers reach the gateway unless a file says otherwise.
    served_at: String,
    /// The plugins that were started with the gateway.
    plugins: Vec<Arc<dyn InHouse>>,
    flags: Flags,
    /// What a restart would change is told against this.
    started_with: Config,
    /// What is in use.
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

/// The file; where it is a project's, also what says that it is trusted and what it may not loosen;
/// where there is none, the one that would be used; and the policy files.
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

    /// Keeps to what the lock says now. The gateway writes to it as well: what it knows is no news.
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
                self.fleet.keep_to(lock);
            }
            Err(failed) => self.reject(&failed),
        }
    }

    /// The lock as it is now. Of a project it counts only while it is trusted.
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

    /// Whether a project is as it is in use. Then only the list of trust has changed, by what the gateway itself has
    /// put into the lock.
    fn knows_all(&self) -> bool {
        if self.settings.source.origin != Origin::Project || self.standing.complaint().is_some() {
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

    /// Tells what has become looser, where something has.
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

    /// Asks another guard, where another one is to be asked. It counts before the policy does, so that no
    /// call finds nobody to ask.
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
        plan.in_house.extend(self.plugins.iter().cloned());
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
        *self.standing.lock() = None;
        self.standing.taken_over.fetch_add(1, Ordering::AcqRel);
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
        *self.standing.lock() = Some(reason);
        self.standing.rejected.fetch_add(1, Ordering::AcqRel);
    }

    fn file(&self, settings: &Settings) -> String {
        let file = settings.source.file.as_deref();
        file.map_or_else(String::new, |file: &Path| file.display().to_string())
    }
}

/// The keys whose values are used once, at the start.
fn needs_restart(before: &Config, now: &Config) -> Vec<&'static str> {
    // Servers that are started from now on have the new values of these.
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
        ("audit", before.audit != now.audit),
        ("limits", limits != now.limits),
        ("telemetry", before.telemetry != now.telemetry),
    ];
    let changed = keys.into_iter().filter(|(_, changed)| *changed);
    changed.map(|(key, _)| key).collect()
}
