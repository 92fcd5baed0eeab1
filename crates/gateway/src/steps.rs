//! The parts that agent steps share within a process: the gate, and the plugins they can use.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use callgate_agent::{
    AgentKind, Proxy, Spending, Step, StepContext, Transcripts, Verdicts,
    relay::PluginTools as Wanted,
};
use callgate_boxes::{BoxPlan, ConnectionRecord};
use callgate_builtin::{Pages, Shape};
use callgate_call::{LocalProvider, TraceContext};
use callgate_config::{Failed, FoundPlugin, PluginDirs, Settings, trust::TrustList};
use callgate_gate::Naming;
use callgate_plugin::{Plugin, PluginSpec, PluginTools, ToolMappingError};
use callgate_process::{
    environment::{self, Inherit},
    regular_file,
};
use callgate_record::Recorder;
use callgate_server::Gateway as Gate;
use futures_util::future::join_all;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::{
    local_user::local_user,
    plugins::{sandbox, spec},
    running::Running,
};

/// What is left of an agent's longest result for the note that more lines follow.
const NOTE_BYTES: usize = 1024;
const NOTE_LINES: u64 = 10;
/// The deadline of an operation in an agent step. It is long because the step has its own timeout.
const STEP_TIMEOUT: Duration = Duration::from_secs(600);

/// What a step is part of.
#[derive(Debug, Default)]
pub struct StepOwner {
    /// The trace that it belongs to.
    pub trace: Option<TraceContext>,
    /// The budget that it is within.
    pub within: Option<Arc<Spending>>,
}

/// The context of a step behind this gate. `step` is `None` for a probe.
pub fn context(
    settings: &Settings,
    gateway: &Gate,
    step: Option<&Step>,
    owner: StepOwner,
) -> Result<StepContext, Failed> {
    let program = std::env::current_exe();
    // Native tools work on the files themselves; ours do it in this process.
    let work = step.filter(|step| step.proxy == Proxy::Additive);
    let spec = settings.agent_box(work.map(|step| step.workdir.as_path()))?;
    let record = ConnectionRecord::in_log(gateway.path().recorder().clone());
    Ok(StepContext {
        transcripts: Some(Transcripts::of(&settings.data_dir)),
        trace: owner.trace,
        within: owner.within,
        gateway: gateway.clone(),
        frame_bytes: settings.frame_bytes(),
        principal: local_user(),
        program: program.map_err(|error| {
            Failed::system(format!("cannot find callgate's own program: {error}"))
        })?,
        warden_program: settings.warden_program.clone(),
        env: environment::minimal(Inherit::All, &[], std::env::vars()),
        verdicts: Verdicts::of(&settings.data_dir),
        agent_box: spec.map(|spec| BoxPlan { spec, record }),
    })
}

/// The built-in tools as the agent of a step gets them; `None` if it gets none.
pub fn offered_builtins(step: &Step) -> Option<Shape> {
    match step.proxy {
        Proxy::Full => Some(shape(step.kind)),
        Proxy::Additive | Proxy::Off => None,
    }
}

/// The built-in tools as this agent needs them.
pub fn shape(kind: AgentKind) -> Shape {
    let pages = kind.longest_result().map(|longest| Pages {
        bytes: longest.bytes.saturating_sub(NOTE_BYTES),
        lines: Some(longest.lines.saturating_sub(NOTE_LINES)),
    });
    Shape {
        both_spellings: kind.validates_arguments(),
        pages: pages.unwrap_or_default(),
    }
}

/// The box of the commands of a workflow run, if `workflows.box` is set.
pub fn command_box(
    settings: &Settings,
    running: &Running,
    workdir: &Path,
) -> Result<Option<BoxPlan>, Failed> {
    let spec = settings.workflow_box(workdir)?;
    let recorder = running.gateway.path().recorder().clone();
    let record = ConnectionRecord::in_log(recorder);
    Ok(spec.map(|spec| BoxPlan { spec, record }))
}

/// The plugins of agent steps. Each is started once, at its first use.
#[derive(Debug)]
pub struct StepPlugins {
    dirs: PluginDirs,
    configured: BTreeMap<String, FoundPlugin>,
    /// The boxes of configured plugins; `Err` says why one cannot be used.
    boxes: BTreeMap<String, Result<BoxPlan, String>>,
    record: ConnectionRecord,
    data_dir: PathBuf,
    warden_program: PathBuf,
    running: Mutex<BTreeMap<String, Arc<Plugin>>>,
}

/// Why a step cannot get the tools that it names.
#[derive(Debug, thiserror::Error)]
pub enum NoTools {
    #[error("plugin `{plugin}`: {why}")]
    UnknownPlugin { plugin: String, why: String },
    #[error("{0}")]
    UnknownOperation(String),
    #[error("{0}")]
    UnsupportedSchema(String),
    #[error("{0}")]
    UnknownServer(String),
    #[error("tools `{first}` and `{second}` are both shown as `{shown}`")]
    NameCollision {
        shown: String,
        first: String,
        second: String,
    },
}

impl NoTools {
    /// The error code, which `callgate explain` explains.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownPlugin { .. } => "USER.MCP_PROXY.UNKNOWN_PLUGIN",
            Self::UnknownOperation(_) => "USER.MCP_PROXY.UNKNOWN_OPERATION",
            Self::UnsupportedSchema(_) => "USER.MCP_PROXY.UNSUPPORTED_SCHEMA",
            Self::UnknownServer(_) => "USER.MCP_PROXY.UNKNOWN_SERVER",
            Self::NameCollision { .. } => "USER.MCP_PROXY.NAME_COLLISION",
        }
    }
}

impl From<NoTools> for Failed {
    fn from(error: NoTools) -> Self {
        Self::user(format!("{}: {error}", error.code()))
    }
}

impl From<ToolMappingError> for NoTools {
    fn from(error: ToolMappingError) -> Self {
        match &error {
            ToolMappingError::Unknown { .. } => Self::UnknownOperation(error.to_string()),
            ToolMappingError::Unsupported(_) => Self::UnsupportedSchema(error.to_string()),
            ToolMappingError::Name(plugin) => Self::UnknownPlugin {
                plugin: plugin.clone(),
                why: error.to_string(),
            },
        }
    }
}

impl StepPlugins {
    /// The plugins that can be found from a working folder, and the configured ones.
    pub fn new(settings: &Settings, workdir: &Path) -> Self {
        let configured = settings.plugins().filter_map(|(name, entry)| {
            let found = FoundPlugin::at(&entry.path, entry.config.clone()).ok()?;
            Some((name.to_owned(), found))
        });
        let record = ConnectionRecord::default();
        let boxes = settings.plugins().filter_map(|(name, _)| {
            let plan = sandbox(settings, name, &record).transpose()?;
            Some((name.to_owned(), plan))
        });
        Self {
            boxes: boxes.collect(),
            configured: configured.collect(),
            record,
            dirs: PluginDirs::new(workdir, &settings.data_dir),
            data_dir: settings.data_dir.clone(),
            warden_program: settings.warden_program.clone(),
            running: Mutex::default(),
        }
    }

    /// Puts the connections of boxed plugins on record, also those from before.
    pub fn log_is_open(&self, recorder: Recorder) {
        self.record.log_is_open(recorder);
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
        // A plugin that was found beside the configured ones has no box.
        let plan = self.boxes.get(name).cloned().transpose();
        let spec = PluginSpec {
            sandbox: plan.map_err(unknown)?,
            ..spec(name, found, &self.warden_program, STEP_TIMEOUT)
        };
        let plugin = Plugin::start(spec).await;
        let plugin = plugin.map_err(|error| unknown(error.to_string()))?;
        running.insert(name.to_owned(), plugin.clone());
        Ok(plugin)
    }

    fn found(&self, name: &str) -> Result<FoundPlugin, String> {
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
                "`{file}` is not trusted yet; review it, then run `callgate trust {file}`",
                file = file.display()
            )),
        }
    }

    /// The wanted operations as providers. Two tools that would be shown under one name are an error.
    pub async fn tools(&self, wanted: &[Wanted]) -> Result<Vec<Arc<dyn LocalProvider>>, NoTools> {
        let mut operations: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for Wanted { plugin, expose } in wanted {
            let known = operations.entry(plugin).or_default();
            known.extend(expose.iter().map(String::as_str));
        }
        check_names(&operations)?;
        let mut providers: Vec<Arc<dyn LocalProvider>> = Vec::new();
        for (name, operations) in operations {
            let plugin = self.plugin(name).await?;
            providers.push(Arc::new(PluginTools::new(plugin, operations)?));
        }
        Ok(providers)
    }

    /// Runs `work` to its end, then stops all plugins. They also stop when `stop` fires, because work that winds
    /// down slowly would otherwise keep them running.
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

    /// Stops all running plugins.
    pub async fn stop(&self) {
        let running = std::mem::take(&mut *self.running.lock().await);
        join_all(running.values().map(|plugin| plugin.stop())).await;
    }
}

/// Refuses two tools with the same shown name, which an agent could not tell apart.
fn check_names(operations: &BTreeMap<&str, Vec<&str>>) -> Result<(), NoTools> {
    let naming = Naming::step();
    let mut shown: BTreeMap<String, String> = BTreeMap::new();
    for (plugin, operations) in operations {
        // An invalid plugin name is reported when its provider is made.
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
