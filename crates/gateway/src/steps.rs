//! What agent steps share with their process: the gate, and the plugins they can use.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use callgate_agent::{StepContext, Verdicts, relay::PluginTools as Wanted};
use callgate_call::InHouse;
use callgate_config::{Failed, FoundPlugin as Found, PluginDirs, Settings, trust::TrustList};
use callgate_gate::Naming;
use callgate_plugin::{NoSuchOperation, Plugin, PluginTools};
use callgate_process::{
    environment::{self, Inherit},
    regular_file,
};
use callgate_server::Gateway as Gate;
use futures_util::future::join_all;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::{local_user::local_user, plugins::spec};

/// How long an operation may take in an agent's step, whose own time is what counts.
const STEP_TIMEOUT: Duration = Duration::from_secs(600);

/// What a step shares with its process, behind this gate.
pub fn context(settings: &Settings, gateway: &Gate) -> Result<StepContext, Failed> {
    let program = std::env::current_exe();
    Ok(StepContext {
        gateway: gateway.clone(),
        frame_bytes: settings.frame_bytes(),
        principal: local_user(),
        program: program.map_err(|error| Failed::system(format!("our own program: {error}")))?,
        warden_program: settings.warden_program.clone(),
        env: environment::minimal(Inherit::All, &[], std::env::vars()),
        verdicts: Verdicts::of(&settings.data_dir),
    })
}

/// The plugins that an agent's steps use. Each is started once, when it is first wanted.
#[derive(Debug)]
pub struct StepPlugins {
    dirs: PluginDirs,
    configured: BTreeMap<String, Found>,
    data_dir: PathBuf,
    warden_program: PathBuf,
    running: Mutex<BTreeMap<String, Arc<Plugin>>>,
}

/// Why a step has no such tools.
#[derive(Debug, thiserror::Error)]
pub enum NoTools {
    #[error("plugin `{plugin}`: {why}")]
    UnknownPlugin { plugin: String, why: String },
    #[error("{0}")]
    UnknownOperation(String),
    #[error("{0}")]
    UnsupportedSchema(String),
    #[error("tools `{first}` and `{second}` are both shown as `{shown}`")]
    NameCollision {
        shown: String,
        first: String,
        second: String,
    },
}

impl NoTools {
    /// The code that people look up.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownPlugin { .. } => "USER.MCP_PROXY.UNKNOWN_PLUGIN",
            Self::UnknownOperation(_) => "USER.MCP_PROXY.UNKNOWN_OPERATION",
            Self::UnsupportedSchema(_) => "USER.MCP_PROXY.UNSUPPORTED_SCHEMA",
            Self::NameCollision { .. } => "USER.MCP_PROXY.NAME_COLLISION",
        }
    }
}

impl From<NoTools> for Failed {
    fn from(error: NoTools) -> Self {
        Self::user(format!("{}: {error}", error.code()))
    }
}

impl From<NoSuchOperation> for NoTools {
    fn from(error: NoSuchOperation) -> Self {
        match &error {
            NoSuchOperation::Unknown { .. } => Self::UnknownOperation(error.to_string()),
            NoSuchOperation::Unsupported(_) => Self::UnsupportedSchema(error.to_string()),
            NoSuchOperation::Name(plugin) => Self::UnknownPlugin {
                plugin: plugin.clone(),
                why: error.to_string(),
            },
        }
    }
}

impl StepPlugins {
    /// Those that can be found from a working folder, and those that the configuration names.
    pub fn new(settings: &Settings, workdir: &Path) -> Self {
        let configured = settings.plugins().filter_map(|(name, entry)| {
            let found = Found::at(&entry.path, entry.config.clone()).ok()?;
            Some((name.to_owned(), found))
        });
        Self {
            configured: configured.collect(),
            dirs: PluginDirs::new(workdir, &settings.data_dir),
            data_dir: settings.data_dir.clone(),
            warden_program: settings.warden_program.clone(),
            running: Mutex::default(),
        }
    }

    /// The plugin of that name, running.
    pub async fn plugin(&self, name: &str) -> Result<Arc<Plugin>, NoTools> {
        let mut running = self.running.lock().await;
        if let Some(plugin) = running.get(name) {
            return Ok(plugin.clone());
        }
        let unknown = |why: String| NoTools::UnknownPlugin {
            plugin: name.to_owned(),
            why,
        };
        let found = match self.configured.get(name) {
            Some(found) => found.clone(),
            None => self.found(name).map_err(unknown)?,
        };
        let spec = spec(name, found, &self.warden_program, STEP_TIMEOUT);
        let plugin = Plugin::start(spec).await;
        let plugin = plugin.map_err(|error| unknown(error.to_string()))?;
        running.insert(name.to_owned(), plugin.clone());
        Ok(plugin)
    }

    fn found(&self, name: &str) -> Result<Found, String> {
        let found = self.dirs.find(name).map_err(|error| error.to_string())?;
        let trusted = TrustList::load(&self.data_dir);
        let trusted = trusted.map_err(|failed| failed.message().to_owned())?;
        let covers = |file: &PathBuf| {
            let content = regular_file::read(file);
            content.is_ok_and(|content| trusted.covers(file, &content))
        };
        match found.needs_trust.iter().find(|file| !covers(file)) {
            None => Ok(found),
            Some(file) => Err(format!(
                "`{file}` was found and not named; read it, then run `callgate trust {file}`",
                file = file.display()
            )),
        }
    }

    /// The wanted operations as providers. Two tools that would be shown under one name are an error.
    pub async fn tools(&self, wanted: &[Wanted]) -> Result<Vec<Arc<dyn InHouse>>, NoTools> {
        let mut operations: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for Wanted { plugin, expose } in wanted {
            let known = operations.entry(plugin).or_default();
            known.extend(expose.iter().map(String::as_str));
        }
        check_names(&operations)?;
        let mut providers: Vec<Arc<dyn InHouse>> = Vec::new();
        for (name, operations) in operations {
            let plugin = self.plugin(name).await?;
            providers.push(Arc::new(PluginTools::new(plugin, operations)?));
        }
        Ok(providers)
    }

    /// Does some work to its end, and ends all plugins with it. Work that is told to stop takes its time, so that
    /// plugins are told in the same moment and not after it.
    pub async fn during<T>(&self, stop: &CancellationToken, work: impl Future<Output = T>) -> T {
        let told = async {
            stop.cancelled().await;
            self.stop().await;
        };
        tokio::pin!(work);
        let done = tokio::select! {
            done = &mut work => done,
            () = told => work.await,
        };
        self.stop().await;
        done
    }

    /// Ends all of them.
    pub async fn stop(&self) {
        let running = std::mem::take(&mut *self.running.lock().await);
        join_all(running.values().map(|plugin| plugin.stop())).await;
    }
}

/// Two tools with one shown name: an agent could not say which of them it means.
fn check_names(operations: &BTreeMap<&str, Vec<&str>>) -> Result<(), NoTools> {
    let naming = Naming::step();
    let mut shown: BTreeMap<String, String> = BTreeMap::new();
    for (plugin, operations) in operations {
        // A name that no provider can have is told by whoever makes the provider.
        let Ok(server) = callgate_gate::ServerName::new(plugin) else {
            continue;
        };
        for operation in operations {
            let (name, second) = (
                naming.shown(&server, operation),
                format!("{plugin}:{operation}"),
            );
            if let Some(first) = shown.insert(name.clone(), second.clone()) {
                return Err(NoTools::NameCollision {
                    shown: name,
                    first,
                    second,
                });
            }
        }
    }
    Ok(())
}
