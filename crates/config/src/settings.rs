//! The effective configuration: checked, expanded, flags applied.

use std::{
    collections::HashMap,
    net::SocketAddr,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use callgate_gate::{
    BoxSpec, Naming, Pattern, Policy, Problem, Protected, Protocol, ServerName, ServerSpec,
    ToolFilter, View, guard::GuardOptions, pins::Pins,
};
use callgate_process::{environment, warden};
use callgate_wire::Era;

use crate::{
    CONFIG_FILE, Config, ConfigSource, Failed, Flags, LoadedConfig, accepted,
    accepted::Packs,
    boxes::{self, BoxContext, BoxEntry, BoxError, ProgramBoxes},
    complaint,
    guard::Guard,
    launch::{demo, from_flag, launch},
    model::{self, NamedServer, PluginEntry, Prefix, Server, TimeSpan},
    pin_file::{self, LockFile},
    policies::SelectedPolicies,
    protected,
    tokens::{self, TokenPair},
    trust::ProjectLock,
};

/// The default of `listen`.
const DEFAULT_LISTEN: &str = "127.0.0.1:7117";
const MIB: usize = 1024 * 1024;

/// The settings of a gateway.
#[derive(Debug)]
pub struct Settings {
    /// The file as written, a project's merged into the user's.
    pub config: Config,
    /// Where the activity log, the tokens and the logs of servers are kept.
    pub data_dir: PathBuf,
    /// The servers of the file and of the flags.
    pub servers: Vec<ServerSpec>,
    /// The tools of each server that are offered.
    filters: HashMap<ServerName, ToolFilter>,
    /// The boxes of plugins and agents.
    boxes: ProgramBoxes,
    /// The policies as they were chosen and read.
    pub policies: SelectedPolicies,
    /// The remote guard as configured, with variables unexpanded, for `config show`.
    pub guard_written: Guard,
    /// The options of the remote guard, with variables expanded.
    pub guard: Option<GuardOptions>,
    /// The accepted definitions of tools.
    pub pins: Pins,
    /// The file that they are kept in.
    pub lock_file: PathBuf,
    /// The lock with its trust, if it belongs to a trusted project.
    pub project_lock: Option<ProjectLock>,
    /// The files and folders that govern the gateway, which its tools may not touch.
    pub protected: Arc<Protected>,
    /// The local packs of scripts.
    pub packs: Packs,
    /// The default view.
    pub view: View,
    /// How long a call may take, unless its server has a `timeout`.
    pub default_timeout: Duration,
    /// The longest pause between two connection attempts to a server.
    pub reconnect_cap: Duration,
    /// The program that child processes are started under.
    pub warden_program: PathBuf,
    /// Where the file was found.
    pub source: ConfigSource,
    /// The file as it was read.
    pub text: String,
}

impl Settings {
    /// Checks a configuration and applies flags to it.
    pub fn new(found: LoadedConfig, flags: &Flags, data_dir: &Path) -> Result<Self, Failed> {
        let defaults = &found.config.server_defaults;
        let default_timeout = time(flags.server_timeout.as_deref(), defaults.timeout)?;
        let reconnect_cap = time(flags.reconnect_cap.as_deref(), defaults.reconnect_cap)?;
        let (mut servers, filters) = servers(&found, flags, default_timeout)?;
        check_plugins(&found.config, &servers)?;
        let policies = SelectedPolicies::read(&found, flags)?;
        let LoadedConfig {
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
        let context = BoxContext {
            base: beside.unwrap_or(Path::new("")),
            defaults: config.boxes,
            protected: &protected,
            own: None,
        };
        let wrong =
            |problem: Box<Problem>| complaint::of_config(written_file(&source), &text, &problem);
        let boxes = boxes::resolve(&config, &mut servers, context).map_err(wrong)?;
        let guard_written = config.guard.with_flags(flags);
        let guard = guard_written.options(data_dir)?;
        let packs = accepted::packs(beside, &config, governing.as_ref());
        Ok(Self {
            data_dir: data_dir.to_owned(),
            servers,
            filters,
            boxes,
            policies,
            guard_written,
            guard,
            pins,
            lock_file,
            project_lock,
            protected: Arc::new(protected),
            packs,
            view: flags.view.unwrap_or(config.view).to_gate(),
            default_timeout,
            reconnect_cap,
            warden_program: warden_program()?,
            config,
            source,
            text,
        })
    }

    /// The policy over the configured servers; the built-in tools are in `builtin_root`.
    pub fn policy(&self, builtin_root: Option<&Path>) -> Policy {
        let around = (builtin_root, &self.protected);
        let filters = self.filters.clone();
        let guarded = self.guard.is_some();
        self.policies
            .compiled(filters, &self.servers, around, guarded)
    }

    /// The policy over what an agent's step has: the built-in tools, and of these servers the tools that it offers.
    pub fn step_policy(
        &self,
        builtin_root: &Path,
        offered: &HashMap<ServerName, Vec<Pattern>>,
    ) -> Policy {
        let around = (Some(builtin_root), &self.protected);
        let guarded = self.guard.is_some();
        let of_server = |(server, patterns): (&ServerName, &Vec<Pattern>)| {
            let filter = ToolFilter {
                offered: Some(patterns.clone()),
                ..self.filters.get(server).cloned().unwrap_or_default()
            };
            (server.clone(), filter)
        };
        let filters = offered.iter().map(of_server).collect();
        let servers = self.servers.iter();
        let servers = servers.filter(|server| offered.contains_key(&server.name));
        let servers: Vec<ServerSpec> = servers.cloned().collect();
        self.policies.compiled(filters, &servers, around, guarded)
    }

    /// The store of accepted definitions.
    pub fn lock(&self) -> LockFile {
        LockFile {
            file: self.lock_file.clone(),
            project: self.project_lock.clone(),
        }
    }

    pub fn naming(&self) -> Naming {
        naming(&self.config)
    }

    /// Whether hosts would see no tool at all.
    pub fn offers_nothing(&self) -> bool {
        self.servers.is_empty() && !self.config.builtins.enabled && self.config.plugins.is_empty()
    }

    /// The plugins of the file.
    pub fn plugins(&self) -> impl Iterator<Item = (&str, &PluginEntry)> {
        let plugins = self.config.plugins.iter();
        plugins.map(|(name, entry)| (name.as_str(), entry))
    }

    /// The box of a configured plugin. `Err` says why it cannot be used.
    pub fn plugin_box(&self, plugin: &str) -> Result<Option<BoxSpec>, String> {
        self.boxes.plugins.get(plugin).cloned().transpose()
    }

    /// The box of an agent, without what its step grants. `work` is a folder that it may change, if there is one.
    pub fn agent_box(&self, work: Option<&Path>) -> Result<Option<BoxSpec>, Failed> {
        let resolved = self.boxes.agents.clone();
        let resolved =
            resolved.map_err(|missing| Failed::config(format!("`agents.box`: {missing}")))?;
        let Some(mut spec) = resolved else {
            return Ok(None);
        };
        if let Some(work) = work {
            if let Some(why) = boxes::refused_grant(work, &self.protected) {
                let what = format!("a boxed agent cannot work in `{}`: {why}", work.display());
                let help = "choose a narrower `--workdir`, or set `agents: {box: off}`";
                return Err(Failed::user(what).help(help));
            }
            spec.write.push(work.to_owned());
        }
        // All of them, because a step grants folders that are not known here.
        spec.hidden = self.protected.places().iter().map(PathBuf::from).collect();
        Ok(Some(spec))
    }

    /// The box of the commands of a workflow that runs in `workdir`.
    pub fn workflow_box(&self, workdir: &Path) -> Result<Option<BoxSpec>, Failed> {
        let Some(BoxEntry(keys)) = &self.config.workflows.sandbox else {
            return Ok(None);
        };
        let context = BoxContext {
            base: workdir,
            defaults: self.config.boxes,
            protected: &self.protected,
            own: None,
        };
        keys.resolved(context).map_err(|error| match error {
            BoxError::Wrong(problem) => {
                complaint::of_config(written_file(&self.source), &self.text, &problem)
            }
            BoxError::Missing(missing) => Failed::config(format!("`workflows.box`: {missing}")),
        })
    }

    /// Longest line on stdio.
    pub fn frame_bytes(&self) -> usize {
        bytes(self.config.limits.frame_mib)
    }

    /// Largest body over HTTP.
    pub fn body_bytes(&self) -> usize {
        bytes(self.config.limits.http_mib)
    }

    /// Memory for requests and answers in flight.
    pub fn inflight_bytes(&self) -> usize {
        bytes(self.config.limits.inflight_mib)
    }

    pub fn listen(&self, flag: Option<&str>) -> Result<SocketAddr, Failed> {
        let text = flag
            .or(self.config.listen.as_deref())
            .unwrap_or(DEFAULT_LISTEN);
        text.parse().map_err(|_| {
            Failed::config(format!("`{text}` is not an address to listen on"))
                .help("write it like `127.0.0.1:7117`")
        })
    }

    /// The credentials: the environment overrides the file, which overrides the data folder.
    pub fn tokens(&self) -> Result<TokenPair, Failed> {
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

/// The file that errors of the configuration name.
fn written_file(source: &ConfigSource) -> &Path {
    source.file.as_deref().unwrap_or(Path::new(CONFIG_FILE))
}

/// A limit in bytes. A value beyond the address space saturates.
pub fn bytes(mib: NonZeroUsize) -> usize {
    mib.get().saturating_mul(MIB)
}

/// The servers of the file and of the flags, and which of their tools there are.
fn servers(
    found: &LoadedConfig,
    flags: &Flags,
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
            // Set when the boxes are resolved.
            sandbox: None,
        });
        filters.insert(name.clone(), filter(server));
    }
    for server in &flags.servers {
        servers.push(from_flag(server, default_timeout)?);
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
    warden::program()
        .map_err(|error| Failed::system(format!("cannot find callgate's own program: {error}")))
}

fn filter(server: &Server) -> ToolFilter {
    let patterns = |texts: &[String]| texts.iter().map(|text| Pattern::new(text)).collect();
    ToolFilter {
        offered: None,
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
                "server `{}` is defined twice",
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
            return Err(wrong("a server already has this name".to_owned()));
        }
    }
    Ok(())
}

fn time(flag: Option<&str>, written: TimeSpan) -> Result<Duration, Failed> {
    flag.map_or(Ok(written.0), |text| {
        text.parse::<TimeSpan>()
            .map(|span| span.0)
            .map_err(Failed::user)
    })
}
