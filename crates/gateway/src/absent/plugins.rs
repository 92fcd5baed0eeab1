//! Plugins in a build without them.

use std::sync::Arc;

use callgate_call::InHouse;
use callgate_config::{Failed, Settings};

use crate::features;

/// The plugins that a gateway has for its hosts: this build cannot have any.
#[derive(Debug, Clone)]
pub enum ServedPlugins {}

impl ServedPlugins {
    /// Fails: a plugin that is configured and missing must not go unnoticed.
    pub async fn start(_settings: &Settings) -> Result<Self, Failed> {
        Err(features::missing("plugins", "plugins"))
    }

    /// Their operations as providers.
    pub fn in_house(&self) -> &[Arc<dyn InHouse>] {
        match *self {}
    }

    /// Ends all of them.
    pub async fn stop(&self) {
        match *self {}
    }
}
