//! Why a plugin is not there.

use std::{io, time::Duration};

use crate::HandshakeError;

/// Why a plugin could not be started.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// Its private folder, certificate or process could not be made.
    #[error("it could not be set up: {0}")]
    Setup(#[from] io::Error),
    /// It ended before its handshake.
    #[error("it ended before its handshake ({how}){}", said(.stderr))]
    EndedEarly {
        /// How it ended.
        how: String,
        /// The end of what it wrote to stderr.
        stderr: String,
    },
    /// It took too long.
    #[error("it was not ready within {} s", .0.as_secs())]
    Slow(Duration),
    /// Its first line is no handshake that can be used.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// It does not answer where it said it would.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// It says of itself that it does not serve.
    #[error("its health check says that it does not serve")]
    NotServing,
    /// It refused to tell what it can do, or to begin.
    #[error("`{what}` failed: {reason}")]
    Refused {
        /// What was asked.
        what: &'static str,
        /// What it said.
        reason: String,
    },
    /// It ended a moment ago, and was not started again so soon.
    #[error("it ended a moment ago")]
    JustEnded,
    /// It was stopped.
    #[error("it was stopped")]
    Stopped,
}

fn said(stderr: &str) -> String {
    match stderr.trim() {
        "" => String::new(),
        text => format!("; it said: {text}"),
    }
}
