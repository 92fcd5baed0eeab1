//! Plugins in a build without the feature `plugins`.

use std::sync::Arc;

use callgate_boxes::ConnectionRecord;
use callgate_call::LocalProvider;
use callgate_config::{Failed, Settings};

use crate::features;

/// The running plugins of a gateway, which this build cannot have.
#[derive(Debug, Clone)]
pub enum ServedPlugins {}

impl ServedPlugins {
    /// Fails, so that a configured plugin is never missing unnoticed.
    pub async fn start(_settings: &Settings, _record: &ConnectionRecord) -> Result<Self, Failed> {
        Err(features::missing("plugins", "plugins"))
    }

    /// Their operations as providers.
    pub fn local_providers(&self) -> &[Arc<dyn LocalProvider>] {
        match *self {}
    }

    pub async fn stop(&self) {
        match *self {}
    }
}
