//! A running plugin: started below a warden, asked what it can do, started again when it has died.

mod live;

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use callgate_process::ProcessSpec;
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use crate::{PluginError, UnsupportedSchema, handshake, proto::v1::OperationSchema, schema};
pub(crate) use live::ExecuteFailed;
use live::Live;

/// How long a plugin may take until it has told what it can do.
pub(crate) const START: Duration = Duration::from_secs(5);
/// How soon after its start a plugin that died is started again.
const PAUSE: Duration = Duration::from_secs(1);

/// A plugin to start.
#[derive(Debug, Clone)]
pub struct PluginSpec {
    /// The name that it is known by here.
    pub name: String,
    /// Its program.
    pub program: PathBuf,
    /// What it is told at its start.
    pub config: Map<String, Value>,
    /// Its environment, besides what the handshake adds.
    pub env: Vec<(String, String)>,
    /// Our own program, as it is started as a warden.
    pub warden_program: PathBuf,
    /// How long an operation may take.
    pub timeout: Duration,
}

/// A plugin that was started.
#[derive(Debug)]
pub struct Plugin {
    spec: PluginSpec,
    operations: Vec<OperationSchema>,
    running: Mutex<Running>,
}

#[derive(Debug)]
struct Running {
    /// None once it was stopped.
    live: Option<Arc<Live>>,
    started: Instant,
    stopped: bool,
}

impl Plugin {
    /// Starts it and asks what it can do, within five seconds.
    pub async fn start(spec: PluginSpec) -> Result<Arc<Self>, PluginError> {
        let started = Instant::now();
        let live = Live::start(&spec).await?;
        let operations = match live.operations().await {
            Ok(operations) => operations,
            Err(error) => {
                live.stop().await;
                return Err(error);
            }
        };
        Ok(Arc::new(Self {
            spec,
            operations,
            running: Mutex::new(Running {
                live: Some(Arc::new(live)),
                started,
                stopped: false,
            }),
        }))
    }

    /// The name that it is known by here.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// How long an operation may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.spec.timeout
    }

    /// The names of its operations, in its own order.
    pub fn operations(&self) -> impl Iterator<Item = &str> {
        self.operations
            .iter()
            .map(|operation| operation.name.as_str())
    }

    /// An operation as a tool's descriptor; `None` where there is no such operation.
    pub fn descriptor(&self, operation: &str) -> Option<Result<Value, UnsupportedSchema>> {
        let found = self.operations.iter().find(|one| one.name == operation);
        found.map(|found| schema::descriptor(self.name(), found))
    }

    /// Ends it: it is asked to, then it is made to. When this returns nothing of it is left.
    pub async fn stop(&self) {
        let mut running = self.running.lock().await;
        running.stopped = true;
        if let Some(live) = running.live.take() {
            live.stop().await;
        }
    }

    /// The process that takes calls; one that died is started again.
    pub(crate) async fn live(&self) -> Result<Arc<Live>, PluginError> {
        let mut running = self.running.lock().await;
        if running.stopped {
            return Err(PluginError::Stopped);
        }
        if let Some(live) = &running.live
            && !live.has_ended()
        {
            return Ok(live.clone());
        }
        if running.started.elapsed() < PAUSE {
            return Err(PluginError::JustEnded);
        }
        running.started = Instant::now();
        crate::log::started_again(self.name());
        let live = Arc::new(Live::start(&self.spec).await?);
        running.live = Some(live.clone());
        Ok(live)
    }
}

impl PluginSpec {
    /// How its process is started: as any host of go-plugin does it, with a certificate of ours and a
    /// private folder for its socket.
    fn process(&self, certificate: String, folder: &std::path::Path) -> ProcessSpec {
        let mut env = self.env.clone();
        let folder = folder.display().to_string();
        let told = [
            (handshake::COOKIE_KEY, handshake::COOKIE_VALUE.to_owned()),
            (handshake::VERSIONS, handshake::APP_VERSION.to_owned()),
            (handshake::CLIENT_CERT, certificate),
            (handshake::SOCKET_DIR, folder.clone()),
            ("PLUGIN_MIN_PORT", "10000".to_owned()),
            ("PLUGIN_MAX_PORT", "25000".to_owned()),
            // Older ones put their sockets where temporary files go.
            ("TMPDIR", folder),
        ];
        env.retain(|(name, _)| !told.iter().any(|(ours, _)| ours == name));
        env.extend(told.map(|(name, value)| (name.to_owned(), value)));
        ProcessSpec {
            warden_program: self.warden_program.clone(),
            command: self.program.display().to_string(),
            args: Vec::new(),
            env,
            cwd: None,
        }
    }
}
