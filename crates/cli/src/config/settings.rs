//! The configuration as meant: checked, filled in, flags applied.

mod views;

use std::{
    collections::HashMap,
    net::SocketAddr,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use callgate_builtin::{Builtins, Roots};
use callgate_call::{InHouse, Terms};
use callgate_gate::{
    Naming, Pattern, Policy, Problem, Protected, ServerName, ToolFilter, pins::Pins,
};
use callgate_process::{
    environment::{self, Inherit},
    warden,
};
use callgate_server::ViewSettings;
use callgate_upstream::{
    FleetOptions, FleetPlan, GuardOptions, LockWitness, Protocol, ServerSpec, pin_file,
};
use callgate_wire::Era;

use super::{
    Config, Found, Source, accepted, complaint,
    guard::Guard,
    launch::{demo, from_flag, launch},
    model::{self, NamedServer, PluginEntry, Prefix, Server, Span},
    policies::ChosenPolicies,
    protected,
};
use crate::{
    args::Gateway, exit::Failed, folders::CONFIG_FILE, tokens, tokens::TokenPair,
    trust::ProjectLock,
};

/// Where `serve` listens when nothing else is said.
const DEFAULT_LISTEN: &str = "127.0.0.1:7117";
/// A server that went away keeps its place in the list so long: a restart changes no list.
const LISTED_WHILE_DOWN: Duration = Duration::from_secs(60);
const MIB: usize = 1024 * 1024;

/// What the gateway runs on.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) config: Config,
    pub(crate) data_dir: PathBuf,
    pub(crate) servers: Vec<ServerSpec>,
    /// The built-in tools, where hosts get them.
    pub(crate) builtins: Option<Builtins>,
    pub(crate) policy: Policy,
    /// The policies in it, as they were chosen and read.
    pub(crate) policies: ChosenPolicies,
    pub(crate) options: FleetOptions,
    /// Who is asked in place of the policy's rules, as it was written and as it is meant.
    pub(crate) guard_written: Guard,
    pub(crate) guard: Option<GuardOptions>,
    /// What was accepted of what tools say about themselves, and the file it stands in.
    pub(crate) pins: Pins,
    pub(crate) lock_file: PathBuf,
    /// The same where it is a trusted project's.
    pub(crate) project_lock: Option<ProjectLock>,
    /// What governs the gateway, and is not for its tools.
    protected: Arc<Protected>,
    /// What the views are told.
    pub(crate) views: ViewSettings,
    /// How long a call may take where the server says nothing else.
    pub(crate) default_timeout: Duration,
    pub(crate) source: Source,
    /// The file as it was read.
    pub(crate) text: String,
}

impl Settings {
    /// Checks a configuration and applies flags to it.
    pub(crate) fn new(found: Found, flags: &Gateway, data_dir: &Path) -> Result<Self, Failed> {
        let written = found.config.upstream.timeout;
        let default_timeout = time(flags.upstream_timeout.as_deref(), written)?;
        let (servers, filters) = servers(&found, flags, default_timeout)?;
        check_plugins(&found.config, &servers)?;
        let policies = ChosenPolicies::read(&found, flags)?;
        let Found {
            config,
            source,
            text,
            governing,
            ..
        } = found;
        let beside = source.file.as_deref().and_then(Path::parent);
        let lock_file = beside.unwrap_or(data_dir).join(pin_file::LOCK_FILE);
        let pins = accepted::pins(config.pins, &lock_file, governing.as_ref());
        let project_lock = accepted::project_lock(&source, &lock_file);
        let protected = protected::places(&source, &config, &policies, (data_dir, &lock_file));
        let protected = Arc::new(protected);
        let options = FleetOptions {
            lock_file: Some(lock_file.clone()),
            lock_witness: project_lock.clone().map(|one| LockWitness(Arc::new(one))),
            ..fleet_options(&config, flags, data_dir)?
        };
        let builtins = configured_builtins(&config, &options, &protected)?;
        let root = builtins.as_ref().map(Builtins::root);
        let guard_written = config.guard.told(flags);
        let guard = guard_written.meant(data_dir)?;
        let policy = policies.compiled(filters, &servers, (root, &protected), guard.is_some());
        let packs = accepted::packs(beside, &config, governing.as_ref());
        let code = views::code(&config.code, packs, data_dir);
        let views = views::views(&config, flags, code);
        Ok(Self {
            config,
            data_dir: data_dir.to_owned(),
            servers,
            builtins,
            policy,
            policies,
            options,
            guard_written,
            guard,
            pins,
            lock_file,
            project_lock,
            protected,
            views,
            default_timeout,
            source,
            text,
        })
    }

    /// What the fleet of an agent's step in a folder is told: the built-in tools there, where they are
    /// wanted, the operations of plugins, and no server of the file.
    pub(crate) fn step_plan(
        &self,
        workdir: &Path,
        offers_builtins: bool,
        plugins: Vec<Arc<dyn InHouse>>,
    ) -> Result<FleetPlan, Failed> {
        let more = self.config.builtins.roots.clone().unwrap_or_default();
        let roots = [workdir.to_owned()].into_iter().chain(more).collect();
        let builtins = builtins(roots, &self.options, &self.protected)?;
        let policies = &self.policies;
        let policy = policies.compiled(
            HashMap::new(),
            &[],
            (Some(builtins.root()), &self.protected),
            self.guard.is_some(),
        );
        let builtins = offers_builtins.then(|| Arc::new(builtins) as Arc<dyn InHouse>);
        Ok(FleetPlan {
            servers: Vec::new(),
            in_house: builtins.into_iter().chain(plugins).collect(),
            policy,
            pins: self.pins.clone(),
            options: FleetOptions {
                naming: Naming::step(),
                ..self.options.clone()
            },
        })
    }

    /// Whether hosts would see no tool at all.
    pub(crate) fn offers_nothing(&self) -> bool {
        self.servers.is_empty() && self.builtins.is_none() && self.config.plugins.is_empty()
    }

    /// The plugins of the file.
    pub(crate) fn plugins(&self) -> impl Iterator<Item = (&str, &PluginEntry)> {
        let plugins = self.config.plugins.iter();
        plugins.map(|(name, entry)| (name.as_str(), entry))
    }

    /// What the fleet is told.
    pub(crate) fn plan(&self) -> FleetPlan {
        FleetPlan {
            servers: self.servers.clone(),
            in_house: self
                .builtins
                .iter()
                .map(|one| Arc::new(one.clone()) as Arc<dyn InHouse>)
                .collect(),
            policy: self.policy.clone(),
            pins: self.pins.clone(),
            options: self.options.clone(),
        }
    }

    /// Longest line on stdio.
    pub(crate) fn frame_bytes(&self) -> usize {
        bytes(self.config.limits.frame_mib)
    }

    /// Largest body over HTTP.
    pub(crate) fn body_bytes(&self) -> usize {
        bytes(self.config.limits.http_mib)
    }

    /// Requests and answers in the works at once.
    pub(crate) fn inflight_bytes(&self) -> usize {
        bytes(self.config.limits.inflight_mib)
    }

    /// Where to listen.
    pub(crate) fn listen(&self, flag: Option<&str>) -> Result<SocketAddr, Failed> {
        let text = flag
            .or(self.config.listen.as_deref())
            .unwrap_or(DEFAULT_LISTEN);
        text.parse().map_err(|_| {
            Failed::config(format!("`{text}` is not an address to listen on"))
                .help("write it like `127.0.0.1:7117`")
        })
    }

    /// How people are asked about held calls; `served_at` is where they reach the gateway unless it is
    /// configured.
    pub(crate) fn terms(&self, served_at: &str) -> Terms {
        let approvals = &self.config.approvals;
        let base_url = approvals.base_url.as_deref().unwrap_or(served_at);
        Terms {
            wait: approvals.wait.0,
            valid_for: approvals.valid_for.0,
            expire_after: approvals.expire_after.0,
            base_url: base_url.trim_end_matches('/').to_owned(),
        }
    }

    /// The credentials: the environment beats the file beats the data folder.
    pub(crate) fn tokens(&self) -> Result<TokenPair, Failed> {
        let mut auth = self.config.auth.clone();
        let lookup = |name: &str| std::env::var(name).ok();
        for (token, variable) in [
            (&mut auth.token, "CALLGATE_TOKEN"),
            (&mut auth.admin_token, "CALLGATE_ADMIN_TOKEN"),
        ] {
            if let Some(set) = lookup(variable).filter(|set| !set.is_empty()) {
                *token = Some(set);
            } else if let Some(written) = token.take() {
                let filled = environment::expand(&written, lookup);
                let filled = filled.map_err(|error| Failed::config(format!("auth: {error}")))?;
                *token = (!filled.is_empty()).then_some(filled);
            }
        }
        tokens::load(&auth, &self.data_dir)
    }
}

/// The options of the fleet, without a lock file.
fn fleet_options(
    config: &Config,
    flags: &Gateway,
    data_dir: &Path,
) -> Result<FleetOptions, Failed> {
    Ok(FleetOptions {
        naming: naming(config),
        warden_program: warden_program()?,
        log_dir: Some(data_dir.join("logs")),
        definitions_dir: Some(data_dir.join("definitions")),
        lock_file: None,
        lock_witness: None,
        connect_wait: config.upstream.connect_wait.0,
        reconnect_cap: time(
            flags.reconnect_cap.as_deref(),
            config.upstream.reconnect_cap,
        )?,
        listed_while_down: LISTED_WHILE_DOWN,
        frame_bytes: bytes(config.limits.frame_mib),
        http_bytes: bytes(config.limits.http_mib),
        concurrency_per_server: config.limits.concurrency_per_server.get(),
        processes_per_server: config.limits.processes_per_server.get(),
    })
}

/// The built-in tools, if they are enabled; by default over the current folder.
fn configured_builtins(
    config: &Config,
    options: &FleetOptions,
    protected: &Arc<Protected>,
) -> Result<Option<Builtins>, Failed> {
    if !config.builtins.enabled {
        return Ok(None);
    }
    let roots = config.builtins.roots.clone();
    let roots = roots.unwrap_or_else(|| vec![PathBuf::from(".")]);
    builtins(roots, options, protected).map(Some)
}

/// The built-in tools over these folders.
pub(crate) fn builtins(
    roots: Vec<PathBuf>,
    options: &FleetOptions,
    protected: &Arc<Protected>,
) -> Result<Builtins, Failed> {
    let roots =
        Roots::open(roots).map_err(|error| Failed::config(format!("`builtins.roots`: {error}")))?;
    let roots = roots.without(protected.clone());
    let env = environment::minimal(Inherit::Minimal, &[], std::env::vars());
    Ok(Builtins::new(roots, options.warden_program.clone(), env))
}

/// A limit in bytes; one that no machine has the memory for is no limit.
fn bytes(mib: NonZeroUsize) -> usize {
    mib.get().saturating_mul(MIB)
}

/// The servers of the file and of the flags, and which of their tools there are.
fn servers(
    found: &Found,
    flags: &Gateway,
    default_timeout: Duration,
) -> Result<(Vec<ServerSpec>, HashMap<ServerName, ToolFilter>), Failed> {
    let file = found.source.file.as_deref();
    let file = file.unwrap_or(Path::new(CONFIG_FILE));
    let base = file.parent().unwrap_or(Path::new(""));
    let mut servers = Vec::new();
    let mut filters = HashMap::new();
    for NamedServer {
        name,
        server,
        place,
    } in &found.config.servers.0
    {
        let wrong = |why: String| {
            let what = format!("server `{name}`: {why}");
            complaint::of_config(file, &found.text, &Problem::at(*place, what))
        };
        servers.push(ServerSpec {
            name: name.clone(),
            launch: launch(server, base).map_err(wrong)?,
            timeout: server.timeout.map_or(default_timeout, |span| span.0),
            protocol: protocol(server.protocol),
        });
        filters.insert(name.clone(), filter(server));
    }
    for upstream in &flags.upstreams {
        servers.push(from_flag(upstream, default_timeout)?);
    }
    if flags.demo {
        servers.push(demo(default_timeout)?);
    }
    check_names(&servers)?;
    Ok((servers, filters))
}

fn protocol(written: model::Protocol) -> Protocol {
    match written {
        model::Protocol::Auto => Protocol::Auto,
        model::Protocol::Handshake => Protocol::Only(Era::Handshake),
        model::Protocol::Stateless => Protocol::Only(Era::Stateless),
    }
}

fn warden_program() -> Result<PathBuf, Failed> {
    warden::program().map_err(|error| Failed::system(format!("our own program: {error}")))
}

fn filter(server: &Server) -> ToolFilter {
    let patterns = |texts: &[String]| texts.iter().map(|text| Pattern::new(text)).collect();
    ToolFilter {
        allow: server.tools.allow.as_deref().map(patterns),
        deny: patterns(&server.tools.deny),
    }
}

fn naming(config: &Config) -> Naming {
    let super::model::Naming {
        separator,
        prefix,
        max_length,
    } = config.naming.clone();
    let prefix = match prefix {
        Prefix::Always => callgate_gate::Prefix::Always,
        Prefix::Never => callgate_gate::Prefix::Never,
    };
    Naming {
        separator,
        prefix,
        max_length,
    }
}

fn check_names(servers: &[ServerSpec]) -> Result<(), Failed> {
    for (at, server) in servers.iter().enumerate() {
        if servers[..at].iter().any(|other| other.name == server.name) {
            return Err(Failed::config(format!(
                "server `{}` is given twice",
                server.name
            )));
        }
    }
    Ok(())
}

/// A plugin is a provider like a server, and has a name of the same kind.
fn check_plugins(config: &Config, servers: &[ServerSpec]) -> Result<(), Failed> {
    for name in config.plugins.keys() {
        let wrong = |why: String| Failed::config(format!("plugin `{name}`: {why}"));
        let checked = ServerName::new(name).map_err(|error| wrong(error.to_string()))?;
        if servers.iter().any(|server| server.name == checked) {
            return Err(wrong("a server has the same name".to_owned()));
        }
    }
    Ok(())
}

fn time(flag: Option<&str>, written: Span) -> Result<Duration, Failed> {
    flag.map_or(Ok(written.0), |text| {
        text.parse::<Span>()
            .map(|span| span.0)
            .map_err(Failed::user)
    })
}
