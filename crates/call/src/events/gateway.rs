//! What happens to the gateway itself: its start, its configuration, its record, its hosts' frames.

use callgate_gate::Transport;

use super::{Event, Shown};
use crate::{Metrics, metrics::Side};

/// The gateway runs.
#[derive(Debug)]
pub struct GatewayStarted<'a> {
    /// Its version.
    pub version: &'a str,
}

impl Event for GatewayStarted<'_> {
    const NAME: &'static str = "gateway.started";

    fn log(&self) {
        tracing::info!(version = self.version, "{}", Self::NAME);
    }

    fn shown(&self) -> Shown<'_> {
        Shown::new(Self::NAME).meta("version", self.version)
    }
}

/// Another configuration was taken over.
#[derive(Debug)]
pub struct ConfigReloaded<'a> {
    /// The file.
    pub file: &'a str,
    /// How many servers there are now.
    pub servers: usize,
}

impl Event for ConfigReloaded<'_> {
    const NAME: &'static str = "config.reloaded";

    fn log(&self) {
        tracing::info!(file = self.file, servers = self.servers, "{}", Self::NAME);
    }

    fn shown(&self) -> Shown<'_> {
        let shown = Shown::new(Self::NAME).meta("file", self.file);
        shown.meta("servers", self.servers)
    }
}

/// Settings changed that count after a restart.
#[derive(Debug)]
pub struct NeedsRestart<'a> {
    /// Their keys in the file.
    pub keys: &'a str,
}

impl Event for NeedsRestart<'_> {
    const NAME: &'static str = "config.needs_restart";

    fn log(&self) {
        tracing::warn!(keys = self.keys, "{}", Self::NAME);
    }

    fn shown(&self) -> Shown<'_> {
        Shown::new(Self::NAME).meta("keys", self.keys)
    }
}

/// Another `callgate.lock` counts from now on.
#[derive(Debug)]
pub struct LockReloaded;

impl Event for LockReloaded {
    const NAME: &'static str = "lock.reloaded";

    fn log(&self) {
        tracing::info!("{}", Self::NAME);
    }
}

/// Another policy counts from now on.
#[derive(Debug)]
pub struct PolicyReloaded<'a> {
    /// Its name or file.
    pub policy: &'a str,
}

impl Event for PolicyReloaded<'_> {
    const NAME: &'static str = "policy.reloaded";

    fn log(&self) {
        tracing::info!(policy = self.policy, "{}", Self::NAME);
    }

    fn shown(&self) -> Shown<'_> {
        Shown::new(Self::NAME).meta("policy", self.policy)
    }
}

/// Policy is looser than it was, or may be.
#[derive(Debug)]
pub struct PolicyLoosened<'a> {
    /// In what.
    pub what: &'a str,
}

impl Event for PolicyLoosened<'_> {
    const NAME: &'static str = "policy.loosened";

    fn log(&self) {
        tracing::warn!(what = self.what, "{}", Self::NAME);
    }

    fn shown(&self) -> Shown<'_> {
        Shown {
            reason: Some(self.what.to_owned()),
            ..Shown::new(Self::NAME)
        }
    }
}

/// The index of the record was not as a gateway left it, and was made again from the log.
#[derive(Debug)]
pub struct IndexRebuilt;

impl Event for IndexRebuilt {
    const NAME: &'static str = "index.rebuilt";

    fn log(&self) {
        tracing::warn!("{}", Self::NAME);
    }

    fn shown(&self) -> Shown<'_> {
        let reason = "index.sqlite was not as callgate left it, and was rebuilt from the log";
        Shown {
            reason: Some(reason.to_owned()),
            ..Shown::new(Self::NAME)
        }
    }
}

/// A configuration or policy cannot be used; the last good one stays.
#[derive(Debug)]
pub struct PolicyRejected<'a> {
    /// The file.
    pub file: &'a str,
    /// What is wrong with it.
    pub reason: &'a str,
}

impl Event for PolicyRejected<'_> {
    const NAME: &'static str = "policy.rejected";

    fn log(&self) {
        tracing::warn!(file = self.file, reason = self.reason, "{}", Self::NAME);
    }

    fn shown(&self) -> Shown<'_> {
        Shown {
            reason: Some(self.reason.to_owned()),
            ..Shown::new(Self::NAME)
        }
        .meta("file", self.file)
    }
}

/// A host sent something that is no frame. It was answered, and the next one works.
#[derive(Debug)]
pub struct FrameError<'a> {
    /// How it came in.
    pub transport: Transport,
    /// What is wrong with it.
    pub error: &'a str,
}

impl Event for FrameError<'_> {
    const NAME: &'static str = "frame_error";

    fn log(&self) {
        let door = self.transport.as_str();
        tracing::warn!(door, error = self.error, "{}", Self::NAME);
    }

    fn count(&self, metrics: &Metrics) {
        metrics.frame_error(Side::Host);
    }

    fn shown(&self) -> Shown<'_> {
        Shown {
            transport: self.transport.as_str(),
            reason: Some(self.error.to_owned()),
            ..Shown::new(Self::NAME)
        }
    }
}

/// The record cannot be written. Calls are refused meanwhile.
#[derive(Debug)]
pub struct RecordFailed<'a> {
    /// What went wrong, with the file and the system's own words.
    pub error: &'a str,
}

impl Event for RecordFailed<'_> {
    const NAME: &'static str = "record.failed";
    const TOLD: bool = false;

    fn log(&self) {
        tracing::error!(error = self.error, "{}", Self::NAME);
    }
}

/// Spans cannot be handed to the collector; calls go on without them.
#[derive(Debug)]
pub struct SpansNotExported<'a> {
    /// What went wrong.
    pub error: &'a str,
}

impl Event for SpansNotExported<'_> {
    const NAME: &'static str = "otlp.failed";
    const TOLD: bool = false;

    fn log(&self) {
        tracing::warn!(error = self.error, "{}", Self::NAME);
    }
}
