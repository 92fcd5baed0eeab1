//! The configuration as meant: checked, filled in, flags applied.

use std::{
    collections::HashMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use callgate_gate::{Builtin, Naming, Pattern, Policy, ServerName, ToolFilter};
use callgate_upstream::{FleetOptions, FleetPlan, ServerSpec, environment, warden};

use super::{
    Config, Found,
    launch::{demo, from_flag, launch},
    model::{Server, Span},
};
use crate::{args::Gateway, exit::Failed, folders::CONFIG_FILE, tokens, tokens::TokenPair};

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
    pub(crate) builtin: Builtin,
    pub(crate) policy: Policy,
    pub(crate) options: FleetOptions,
    pub(crate) file: Option<PathBuf>,
}

impl Settings {
    /// Checks a configuration and applies flags to it.
    pub(crate) fn new(found: Found, flags: &Gateway, data_dir: &Path) -> Result<Self, Failed> {
        let Found { config, file, .. } = found;
        let base = file
            .as_deref()
            .and_then(Path::parent)
            .map(Path::to_owned)
            .unwrap_or_default();
        let default_timeout = time(flags.upstream_timeout.as_deref(), config.upstream.timeout)?;
        let wrong = |name: &ServerName, why: &str| {
            let file = file.as_deref().unwrap_or(Path::new(CONFIG_FILE));
            Failed::config(format!(
                "configuration `{}`: server `{name}`: {why}",
                file.display()
            ))
        };
        let mut servers = Vec::new();
        let mut filters = HashMap::new();
        for (name, server) in &config.servers.0 {
            let timeout = server.timeout.map_or(default_timeout, |span| span.0);
            servers.push(ServerSpec {
                launch: launch(server, &base).map_err(|why| wrong(name, &why))?,
                timeout,
                name: name.clone(),
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
        let builtin = policy(flags.policy.as_deref(), config.policy)?;
        let options = FleetOptions {
            naming: naming(&config)?,
            warden_program: warden_program()?,
            log_dir: Some(data_dir.join("logs")),
            definitions_dir: Some(data_dir.join("definitions")),
            connect_wait: config.upstream.connect_wait.0,
            reconnect_cap: time(
                flags.reconnect_cap.as_deref(),
                config.upstream.reconnect_cap,
            )?,
            listed_while_down: LISTED_WHILE_DOWN,
            frame_bytes: config.limits.frame_mib * MIB,
            http_bytes: config.limits.http_mib * MIB,
            concurrency_per_server: config.limits.concurrency_per_server,
            processes_per_server: config.limits.processes_per_server,
        };
        let policy = Policy::new(builtin, filters);
        Ok(Self {
            config,
            data_dir: data_dir.to_owned(),
            servers,
            builtin,
            policy,
            options,
            file,
        })
    }

    /// What the fleet is told.
    pub(crate) fn plan(&self) -> FleetPlan {
        FleetPlan {
            servers: self.servers.clone(),
            policy: self.policy.clone(),
            options: self.options.clone(),
        }
    }

    /// Longest line on stdio.
    pub(crate) fn frame_bytes(&self) -> usize {
        self.config.limits.frame_mib * MIB
    }

    /// Largest body over HTTP.
    pub(crate) fn body_bytes(&self) -> usize {
        self.config.limits.http_mib * MIB
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

fn warden_program() -> Result<PathBuf, Failed> {
    warden::own_program().map_err(|error| Failed::system(format!("our own program: {error}")))
}

fn filter(server: &Server) -> ToolFilter {
    let patterns = |texts: &[String]| texts.iter().map(|text| Pattern::new(text)).collect();
    ToolFilter {
        allow: server.tools.allow.as_deref().map(patterns),
        deny: patterns(&server.tools.deny),
    }
}

fn naming(config: &Config) -> Result<Naming, Failed> {
    let naming = &config.naming;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if naming.separator.is_empty() || !naming.separator.chars().all(plain) {
        return Err(Failed::config(
            "`naming.separator` must be one or more of A-Z, a-z, 0-9, `_`, `-`, `.`",
        ));
    }
    if !(16..=128).contains(&naming.max_length) {
        return Err(Failed::config("`naming.max_length` must be 16 to 128"));
    }
    Ok(Naming {
        separator: naming.separator.clone(),
        prefix: naming.prefix,
        max_length: naming.max_length,
    })
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

fn policy(flag: Option<&str>, written: Option<Builtin>) -> Result<Builtin, Failed> {
    match flag {
        None => Ok(written.unwrap_or_default()),
        Some("default") => Ok(Builtin::Default),
        Some("allow-all") => Ok(Builtin::AllowAll),
        Some(other) => {
            Err(Failed::user(format!("unknown policy `{other}`")).help("use default or allow-all"))
        }
    }
}

fn time(flag: Option<&str>, written: Span) -> Result<Duration, Failed> {
    flag.map_or(Ok(written.0), |text| {
        text.parse::<Span>()
            .map(|span| span.0)
            .map_err(Failed::user)
    })
}
