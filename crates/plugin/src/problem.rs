//! Why a plugin is unavailable.

use std::{io, time::Duration};

use crate::HandshakeError;

/// Why a plugin could not be started.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// Its private folder, certificate or process could not be created.
    #[error("the plugin's process could not be set up: {0}")]
    Setup(#[from] io::Error),
    #[error("the plugin exited before its handshake ({how}){}", stderr_suffix(.stderr))]
    EndedEarly {
        how: String,
        /// The tail of its stderr.
        stderr: String,
    },
    /// The time limit of the start passed.
    #[error("the plugin was not ready within {} s", .0.as_secs())]
    Slow(Duration),
    /// The handshake was refused.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// Nothing answers at the address from the handshake.
    #[error("cannot connect to the plugin: {0}")]
    Unreachable(String),
    #[error("the plugin's health check does not report SERVING")]
    NotServing,
    /// A call during the start failed, such as `Init`.
    #[error("`{what}` failed: {reason}")]
    Refused { what: &'static str, reason: String },
    #[error("the plugin was stopped")]
    Stopped,
}

fn stderr_suffix(stderr: &str) -> String {
    match stderr.trim() {
        "" => String::new(),
        text => format!("; stderr: {text}"),
    }
}
