//! The plugins whose operations hosts can call.

use std::{path::Path, sync::Arc, time::Duration};

use callgate_boxes::{BoxPlan, ConnectionRecord};
use callgate_call::LocalProvider;
use callgate_config::{Failed, FoundPlugin, PluginEntry, PluginNotFound, Settings};
use callgate_plugin::{Plugin, PluginError, PluginSpec, PluginTools};
use callgate_process::environment::{self, Inherit};
use futures_util::future::join_all;

/// The running plugins of a gateway.
#[derive(Debug, Clone, Default)]
pub struct ServedPlugins {
    plugins: Vec<Arc<Plugin>>,
    local_providers: Vec<Arc<dyn LocalProvider>>,
}

impl ServedPlugins {
    /// Starts all configured plugins concurrently. A plugin that fails to start does not affect the others.
    pub async fn start(settings: &Settings, record: &ConnectionRecord) -> Result<Self, Failed> {
        let starting = settings.plugins().map(|(name, entry)| async move {
            let started = start(settings, name, entry, record).await;
            (name, started)
        });
        let mut served = Self::default();
        for (name, started) in join_all(starting).await {
            match started {
                Ok((plugin, tools)) => {
                    served.plugins.push(plugin);
                    served.local_providers.push(Arc::new(tools));
                }
                Err(error) => {
                    crate::log::plugin_not_started(name, &error);
                }
            }
        }
        Ok(served)
    }

    /// Their operations as providers.
    pub fn local_providers(&self) -> &[Arc<dyn LocalProvider>] {
        &self.local_providers
    }

    pub async fn stop(&self) {
        join_all(self.plugins.iter().map(|plugin| plugin.stop())).await;
    }
}

async fn start(
    settings: &Settings,
    name: &str,
    entry: &PluginEntry,
    record: &ConnectionRecord,
) -> Result<(Arc<Plugin>, PluginTools), String> {
    let found = FoundPlugin::at(&entry.path, entry.config.clone());
    let found = found.map_err(|error: PluginNotFound| error.to_string())?;
    let timeout = entry
        .timeout
        .map_or(settings.default_timeout, |span| span.0);
    let spec = PluginSpec {
        sandbox: sandbox(settings, name, record)?,
        ..spec(name, found, &settings.warden_program, timeout)
    };
    let plugin = Plugin::start(spec).await;
    let plugin = plugin.map_err(|error: PluginError| error.to_string())?;
    match PluginTools::all(plugin.clone()) {
        Ok((tools, left_out)) => {
            for error in left_out {
                crate::log::operation_left_out(&error);
            }
            Ok((plugin, tools))
        }
        Err(error) => {
            plugin.stop().await;
            Err(error.to_string())
        }
    }
}

/// The box of a configured plugin.
pub(crate) fn sandbox(
    settings: &Settings,
    name: &str,
    record: &ConnectionRecord,
) -> Result<Option<BoxPlan>, String> {
    let spec = settings.plugin_box(name)?;
    let record = record.clone();
    Ok(spec.map(|spec| BoxPlan { spec, record }))
}

pub(crate) fn spec(
    name: &str,
    found: FoundPlugin,
    warden_program: &Path,
    timeout: Duration,
) -> PluginSpec {
    PluginSpec {
        name: name.to_owned(),
        program: found.program,
        config: found.config,
        env: environment::minimal(Inherit::All, &[], std::env::vars()),
        warden_program: warden_program.to_owned(),
        timeout,
        sandbox: None,
    }
}
