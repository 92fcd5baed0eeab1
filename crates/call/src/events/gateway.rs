//! Events of the gateway itself: its start, configuration, record, and malformed frames of hosts.

use callgate_gate::Transport;

use super::{Event, EventFields};
use crate::{Metrics, metrics::Side};

#[derive(Debug)]
pub struct GatewayStarted<'a> {
    pub version: &'a str,
}

impl Event for GatewayStarted<'_> {
    const NAME: &'static str = "gateway.started";

    fn log(&self) {
        tracing::info!(version = self.version, "{}", Self::NAME);
    }

    fn fields(&self) -> EventFields<'_> {
        EventFields::new(Self::NAME).meta("version", self.version)
    }
}

/// A changed configuration was loaded.
#[derive(Debug)]
pub struct ConfigReloaded<'a> {
    pub file: &'a str,
    /// How many servers there are now.
    pub servers: usize,
}

impl Event for ConfigReloaded<'_> {
    const NAME: &'static str = "config.reloaded";

    fn log(&self) {
        tracing::info!(file = self.file, servers = self.servers, "{}", Self::NAME);
    }

    fn fields(&self) -> EventFields<'_> {
        let fields = EventFields::new(Self::NAME).meta("file", self.file);
        fields.meta("servers", self.servers)
    }
}

/// Settings changed that take effect only after a restart.
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

    fn fields(&self) -> EventFields<'_> {
        EventFields::new(Self::NAME).meta("keys", self.keys)
    }
}

/// A changed `callgate.lock` was loaded.
#[derive(Debug)]
pub struct LockReloaded;

impl Event for LockReloaded {
    const NAME: &'static str = "lock.reloaded";

    fn log(&self) {
        tracing::info!("{}", Self::NAME);
    }
}

/// A changed policy was loaded.
#[derive(Debug)]
pub struct PolicyReloaded<'a> {
    /// The policy's name or file.
    pub policy: &'a str,
}

impl Event for PolicyReloaded<'_> {
    const NAME: &'static str = "policy.reloaded";

    fn log(&self) {
        tracing::info!(policy = self.policy, "{}", Self::NAME);
    }

    fn fields(&self) -> EventFields<'_> {
        EventFields::new(Self::NAME).meta("policy", self.policy)
    }
}

/// A changed policy is looser than before, or may be.
#[derive(Debug)]
pub struct PolicyLoosened<'a> {
    pub what: &'a str,
}

impl Event for PolicyLoosened<'_> {
    const NAME: &'static str = "policy.loosened";

    fn log(&self) {
        tracing::warn!(what = self.what, "{}", Self::NAME);
    }

    fn fields(&self) -> EventFields<'_> {
        EventFields {
            reason: Some(self.what.to_owned()),
            ..EventFields::new(Self::NAME)
        }
    }
}

/// The index of the record was not as a gateway left it and was rebuilt from the log.
#[derive(Debug)]
pub struct IndexRebuilt;

impl Event for IndexRebuilt {
    const NAME: &'static str = "index.rebuilt";

    fn log(&self) {
        tracing::warn!("{}", Self::NAME);
    }

    fn fields(&self) -> EventFields<'_> {
        let reason =
            "index.sqlite was not as callgate had left it; it was rebuilt from the activity log";
        EventFields {
            reason: Some(reason.to_owned()),
            ..EventFields::new(Self::NAME)
        }
    }
}

/// Retention dropped old entries of the activity log.
#[derive(Debug)]
pub struct EntriesDropped<'a> {
    pub entries: u64,
    pub bytes: u64,
    /// Why they were dropped.
    pub reason: &'a str,
}

impl Event for EntriesDropped<'_> {
    const NAME: &'static str = "retention.dropped";

    fn log(&self) {
        let (entries, bytes) = (self.entries, self.bytes);
        tracing::info!(entries, bytes, reason = self.reason, "{}", Self::NAME);
    }

    fn fields(&self) -> EventFields<'_> {
        EventFields {
            reason: Some(self.reason.to_owned()),
            ..EventFields::new(Self::NAME)
        }
        .meta("entries", self.entries)
        .meta("bytes", self.bytes)
    }
}

/// Retention drops nothing by age for now.
#[derive(Debug)]
pub struct RetentionPaused<'a> {
    pub reason: &'a str,
}

impl Event for RetentionPaused<'_> {
    const NAME: &'static str = "retention.paused";

    fn log(&self) {
        tracing::warn!(reason = self.reason, "{}", Self::NAME);
    }

    fn fields(&self) -> EventFields<'_> {
        EventFields {
            reason: Some(self.reason.to_owned()),
            ..EventFields::new(Self::NAME)
        }
    }
}

/// Retention drops entries by age again.
#[derive(Debug)]
pub struct RetentionResumed;

impl Event for RetentionResumed {
    const NAME: &'static str = "retention.resumed";

    fn log(&self) {
        tracing::info!("{}", Self::NAME);
    }
}

/// A configuration or policy is invalid; the last good one stays in use.
#[derive(Debug)]
pub struct PolicyRejected<'a> {
    pub file: &'a str,
    pub reason: &'a str,
}

impl Event for PolicyRejected<'_> {
    const NAME: &'static str = "policy.rejected";

    fn log(&self) {
        tracing::warn!(file = self.file, reason = self.reason, "{}", Self::NAME);
    }

    fn fields(&self) -> EventFields<'_> {
        EventFields {
            reason: Some(self.reason.to_owned()),
            ..EventFields::new(Self::NAME)
        }
        .meta("file", self.file)
    }
}

/// A host sent a malformed frame. It got an error, and the connection goes on.
#[derive(Debug)]
pub struct FrameError<'a> {
    pub transport: Transport,
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

    fn fields(&self) -> EventFields<'_> {
        EventFields {
            transport: self.transport.as_str(),
            reason: Some(self.error.to_owned()),
            ..EventFields::new(Self::NAME)
        }
    }
}

/// An entry could not be written to the record. Its call is refused.
#[derive(Debug)]
pub struct RecordFailed<'a> {
    /// The error, with the file and the system's message.
    pub error: &'a str,
}

impl Event for RecordFailed<'_> {
    const NAME: &'static str = "record.failed";
    const IS_DELIVERED: bool = false;

    fn log(&self) {
        tracing::error!(error = self.error, "{}", Self::NAME);
    }
}

/// Spans could not be exported to the collector. Calls are not affected.
#[derive(Debug)]
pub struct SpansNotExported<'a> {
    pub error: &'a str,
}

impl Event for SpansNotExported<'_> {
    const NAME: &'static str = "otlp.failed";
    const IS_DELIVERED: bool = false;

    fn log(&self) {
        tracing::warn!(error = self.error, "{}", Self::NAME);
    }
}
