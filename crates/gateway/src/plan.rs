//! The parts of a gateway, planned from its settings: servers, built-in tools, limits and approvals.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use callgate_builtin::{Builtins, Roots, Shape};
use callgate_call::{ApprovalSettings, LocalProvider};
use callgate_config::{Failed, Settings, bytes};
use callgate_gate::{Naming, Pattern, ServerName, ServerSpec};
use callgate_process::environment::{self, Inherit};
use callgate_upstream::{FleetOptions, FleetPlan, PinStoreHandle};

use crate::features;

/// How long the tools of a stopped server stay listed, so that a restart does not change the list.
const LISTED_WHILE_DOWN: Duration = Duration::from_secs(60);

/// The plan for the fleet of a gateway.
pub fn fleet(settings: &Settings) -> Result<FleetPlan, Failed> {
    features::check(settings)?;
    let builtins = configured_builtins(settings)?;
    let root = builtins.as_ref().map(Builtins::root);
    let policy = settings.policy(root);
    let builtins = builtins.map(|builtins| Arc::new(builtins) as Arc<dyn LocalProvider>);
    Ok(FleetPlan {
        servers: settings.servers.clone(),
        local_providers: builtins.into_iter().collect(),
        policy,
        pins: settings.pins.clone(),
        options: options(settings),
    })
}

/// What an agent step offers beside the built-in tools.
#[derive(Debug, Default)]
pub struct StepTools {
    /// The operations of plugins.
    pub plugins: Vec<Arc<dyn LocalProvider>>,
    /// The configured servers to start.
    pub servers: Vec<ServerSpec>,
    /// The tools that are offered of each server.
    pub offered: HashMap<ServerName, Vec<Pattern>>,
}

/// The plan for the fleet of an agent step: the built-in tools over its folder in this shape, if they are offered, and what
/// else it offers.
pub fn step(
    settings: &Settings,
    workdir: &Path,
    builtins_shape: Option<Shape>,
    tools: StepTools,
) -> Result<FleetPlan, Failed> {
    let more = settings.config.builtins.roots.clone().unwrap_or_default();
    let roots = [workdir.to_owned()].into_iter().chain(more).collect();
    let builtins = builtins(roots, settings)?;
    let policy = settings.step_policy(builtins.root(), &tools.offered);
    let builtins =
        builtins_shape.map(|shape| Arc::new(builtins.shaped(shape)) as Arc<dyn LocalProvider>);
    Ok(FleetPlan {
        servers: tools.servers,
        local_providers: builtins.into_iter().chain(tools.plugins).collect(),
        policy,
        pins: settings.pins.clone(),
        options: FleetOptions {
            naming: Naming::step(),
            ..options(settings)
        },
    })
}

/// The settings of approvals. `served_at` is the base of links unless `approvals.base_url` is set.
pub fn approval_settings(settings: &Settings, served_at: &str) -> ApprovalSettings {
    let approvals = &settings.config.approvals;
    let base_url = approvals.base_url.as_deref().unwrap_or(served_at);
    ApprovalSettings {
        wait: approvals.wait.0,
        valid_for: approvals.valid_for.0,
        expire_after: approvals.expire_after.0,
        base_url: base_url.trim_end_matches('/').to_owned(),
    }
}

/// The options that all servers share.
pub fn options(settings: &Settings) -> FleetOptions {
    let config = &settings.config;
    FleetOptions {
        naming: settings.naming(),
        warden_program: settings.warden_program.clone(),
        log_dir: Some(settings.data_dir.join("logs")),
        definitions_dir: Some(settings.data_dir.join("definitions")),
        pin_store: Some(PinStoreHandle(Arc::new(settings.lock()))),
        connect_wait: config.server_defaults.connect_wait.0,
        initialize_wait: config.server_defaults.initialize_wait.0,
        reconnect_cap: settings.reconnect_cap,
        listed_while_down: LISTED_WHILE_DOWN,
        frame_bytes: bytes(config.limits.frame_mib),
        http_bytes: bytes(config.limits.http_mib),
        concurrency_per_server: config.limits.concurrency_per_server.get(),
        processes_per_server: config.limits.processes_per_server.get(),
    }
}

/// The built-in tools, if they are enabled; by default over the current folder.
fn configured_builtins(settings: &Settings) -> Result<Option<Builtins>, Failed> {
    let config = &settings.config.builtins;
    if !config.enabled {
        return Ok(None);
    }
    let roots = config.roots.clone();
    let roots = roots.unwrap_or_else(|| vec![PathBuf::from(".")]);
    builtins(roots, settings).map(Some)
}

/// The built-in tools over these folders.
fn builtins(roots: Vec<PathBuf>, settings: &Settings) -> Result<Builtins, Failed> {
    let roots =
        Roots::open(roots).map_err(|error| Failed::config(format!("`builtins.roots`: {error}")))?;
    let roots = roots.without(settings.protected.clone());
    let env = environment::minimal(Inherit::Minimal, &[], std::env::vars());
    Ok(Builtins::new(roots, settings.warden_program.clone(), env))
}
