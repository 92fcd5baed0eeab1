//! A running plugin: started below a warden, and restarted by the next call after it has exited.

mod process;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use callgate_boxes::{BoxNotOpened, BoxPlan, Occupant, OpenBox};
use callgate_process::ProcessSpec;
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use crate::{PluginError, UnsupportedSchema, handshake, proto::v1::OperationSchema, schema};
pub(crate) use process::ExecuteFailed;
use process::PluginProcess;

/// The time limit for each step of a start: up to `Init`, and then for listing its operations.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(5);
/// The shortest time between two starts: a call waits for it, so that a plugin that crashes at once is not restarted in
/// a fast loop.
const MIN_RESTART_INTERVAL: Duration = Duration::from_secs(1);

/// A plugin to start.
#[derive(Debug, Clone)]
pub struct PluginSpec {
    /// The name in configuration and in tool names.
    pub name: String,
    pub program: PathBuf,
    /// Passed to the plugin's `Init`.
    pub config: Map<String, Value>,
    /// The plugin's environment; the handshake adds its own variables.
    pub env: Vec<(String, String)>,
    /// The warden's binary.
    pub warden_program: PathBuf,
    /// The time limit for one operation.
    pub timeout: Duration,
    /// What the plugin may reach; everything that the user may if `None`.
    pub sandbox: Option<BoxPlan>,
}

/// A plugin that was started at least once.
#[derive(Debug)]
pub struct Plugin {
    spec: PluginSpec,
    operations: Vec<OperationSchema>,
    running: Mutex<Running>,
}

#[derive(Debug)]
struct Running {
    /// `None` after [`Plugin::stop`].
    process: Option<Arc<PluginProcess>>,
    started: Instant,
    stopped: bool,
}

impl Plugin {
    /// Starts the plugin and lists its operations.
    pub async fn start(spec: PluginSpec) -> Result<Arc<Self>, PluginError> {
        let started = Instant::now();
        let process = PluginProcess::start(&spec).await?;
        let operations = match process.operations().await {
            Ok(operations) => operations,
            Err(error) => {
                process.stop().await;
                return Err(error);
            }
        };
        Ok(Arc::new(Self {
            spec,
            operations,
            running: Mutex::new(Running {
                process: Some(Arc::new(process)),
                started,
                stopped: false,
            }),
        }))
    }

    /// The name in configuration and in tool names.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// The time limit for one operation.
    pub(crate) fn timeout(&self) -> Duration {
        self.spec.timeout
    }

    /// The names of the operations, in the plugin's order.
    pub fn operations(&self) -> impl Iterator<Item = &str> {
        self.operations
            .iter()
            .map(|operation| operation.name.as_str())
    }

    /// An operation as a tool descriptor; `None` if the plugin has no such operation.
    pub fn descriptor(&self, operation: &str) -> Option<Result<Value, UnsupportedSchema>> {
        let found = self.operations.iter().find(|one| one.name == operation);
        found.map(|found| schema::descriptor(self.name(), found))
    }

    /// All mistakes in the inputs of an operation.
    pub(crate) fn mistakes(&self, operation: &str, inputs: &Map<String, Value>) -> Vec<String> {
        let found = self.operations.iter().find(|one| one.name == operation);
        found.map_or_else(Vec::new, |found| schema::mistakes(found, inputs))
    }

    /// Asks the plugin to shut down, then kills it. On return none of its processes is left.
    pub async fn stop(&self) {
        let mut running = self.running.lock().await;
        running.stopped = true;
        if let Some(process) = running.process.take() {
            process.stop().await;
        }
    }

    /// The process that takes calls; an exited one is restarted.
    pub(crate) async fn process(&self) -> Result<Arc<PluginProcess>, PluginError> {
        let mut running = self.running.lock().await;
        if running.stopped {
            return Err(PluginError::Stopped);
        }
        if let Some(process) = &running.process
            && !process.has_ended()
        {
            return Ok(process.clone());
        }
        let early = MIN_RESTART_INTERVAL.saturating_sub(running.started.elapsed());
        tokio::time::sleep(early).await;
        running.started = Instant::now();
        crate::log::started_again(self.name());
        let process = Arc::new(PluginProcess::start(&self.spec).await?);
        running.process = Some(process.clone());
        Ok(process)
    }
}

impl PluginSpec {
    /// Opens the box of one process, which has its private folder.
    fn open_box(&self, folder: &Path) -> Result<Option<OpenBox>, BoxNotOpened> {
        let occupant = || Occupant {
            server: Some(self.name.clone()),
            title: "plugin".to_owned(),
            program: self.program.clone(),
            own_folders: vec![folder.to_owned()],
            folder: Some(folder.to_owned()),
            warden_program: Some(self.warden_program.clone()),
            ..Occupant::default()
        };
        let plan = self.sandbox.as_ref();
        plan.map(|plan| plan.open(occupant())).transpose()
    }

    /// The process to start: go-plugin's environment, our certificate, and a private folder for the socket.
    fn process(
        &self,
        certificate: String,
        folder: &Path,
        open_box: Option<&OpenBox>,
    ) -> ProcessSpec {
        let mut env = self.env.clone();
        let folder = folder.display().to_string();
        let handshake_env = [
            (handshake::COOKIE_KEY, handshake::COOKIE_VALUE.to_owned()),
            (handshake::VERSIONS, handshake::APP_VERSION.to_owned()),
            (handshake::CLIENT_CERT, certificate),
            (handshake::SOCKET_DIR, folder.clone()),
            ("PLUGIN_MIN_PORT", "10000".to_owned()),
            ("PLUGIN_MAX_PORT", "25000".to_owned()),
            // Plugins built with older go-plugin versions put their sockets into the temporary folder.
            ("TMPDIR", folder),
        ];
        env.retain(|(name, _)| !handshake_env.iter().any(|(ours, _)| ours == name));
        env.extend(handshake_env.map(|(name, value)| (name.to_owned(), value)));
        ProcessSpec {
            warden_program: self.warden_program.clone(),
            command: self.program.display().to_string(),
            args: Vec::new(),
            env,
            cwd: None,
            sandbox: open_box.map(|open| open.sandbox().clone()),
        }
    }
}
