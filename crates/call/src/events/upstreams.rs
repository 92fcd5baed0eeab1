//! Events of upstream servers.

use callgate_gate::{
    ServerName,
    visible::{Layout, visible},
};

use super::{Event, EventFields};
use crate::{Metrics, metrics::Side};

/// A server is connected.
#[derive(Debug)]
pub struct UpstreamUp<'a> {
    pub server: &'a ServerName,
    pub transport: &'a str,
    /// How many tools it lists.
    pub tools: usize,
}

impl Event for UpstreamUp<'_> {
    const NAME: &'static str = "upstream.up";

    fn log(&self) {
        tracing::info!(server = %self.server, tools = self.tools, "{}", Self::NAME);
    }

    fn fields(&self) -> EventFields<'_> {
        EventFields {
            server: Some(self.server.as_str()),
            transport: self.transport,
            ..EventFields::new(Self::NAME)
        }
        .meta("tools", self.tools)
    }
}

/// A connected server is gone.
#[derive(Debug)]
pub struct UpstreamDown<'a> {
    pub server: &'a ServerName,
    pub transport: &'a str,
    pub reason: &'a str,
}

impl Event for UpstreamDown<'_> {
    const NAME: &'static str = "upstream.down";

    fn log(&self) {
        tracing::warn!(server = %self.server, reason = self.reason, "{}", Self::NAME);
    }

    fn fields(&self) -> EventFields<'_> {
        EventFields {
            server: Some(self.server.as_str()),
            transport: self.transport,
            reason: Some(self.reason.to_owned()),
            ..EventFields::new(Self::NAME)
        }
    }
}

/// A server is not started.
#[derive(Debug)]
pub struct UpstreamOff<'a> {
    pub server: &'a ServerName,
    /// Whether the configuration disables it; otherwise it cannot be started.
    pub is_switched_off: bool,
    pub reason: &'a str,
}

impl Event for UpstreamOff<'_> {
    const NAME: &'static str = "upstream.off";

    fn log(&self) {
        if self.is_switched_off {
            tracing::info!(server = %self.server, reason = self.reason, "{}", Self::NAME);
        } else {
            tracing::warn!(server = %self.server, reason = self.reason, "{}", Self::NAME);
        }
    }

    fn fields(&self) -> EventFields<'_> {
        EventFields {
            server: Some(self.server.as_str()),
            reason: Some(self.reason.to_owned()),
            ..EventFields::new(Self::NAME)
        }
    }
}

/// A tool is hidden from hosts until a person accepts its definition.
#[derive(Debug)]
pub struct ToolQuarantined<'a> {
    pub server: &'a ServerName,
    /// The tool's name at its server.
    pub tool: &'a str,
    pub reason: &'a str,
}

impl Event for ToolQuarantined<'_> {
    const NAME: &'static str = "tool.quarantined";

    fn log(&self) {
        let (tool, reason) = (visible(self.tool, Layout::OneLine), self.reason);
        tracing::warn!(server = %self.server, tool, reason, "{}", Self::NAME);
    }

    fn fields(&self) -> EventFields<'_> {
        EventFields {
            server: Some(self.server.as_str()),
            tool: Some(self.tool.into()),
            reason: Some(self.reason.to_owned()),
            ..EventFields::new(Self::NAME)
        }
    }
}

/// A new tool's definition has suspicious traits. Hosts see the tool all the same.
#[derive(Debug)]
pub struct ToolFlagged<'a> {
    pub server: &'a ServerName,
    /// The tool's name at its server.
    pub tool: &'a str,
    pub flags: &'a [String],
}

impl Event for ToolFlagged<'_> {
    const NAME: &'static str = "tool.flagged";

    fn log(&self) {
        let (tool, reason) = (visible(self.tool, Layout::OneLine), self.flags.join("; "));
        tracing::warn!(server = %self.server, tool, reason, "{}", Self::NAME);
    }

    fn fields(&self) -> EventFields<'_> {
        EventFields {
            server: Some(self.server.as_str()),
            tool: Some(self.tool.into()),
            reason: Some(self.flags.join("; ")),
            ..EventFields::new(Self::NAME)
        }
    }
}

/// A server sent a malformed frame. The connection goes on.
#[derive(Debug)]
pub struct UpstreamFrameError<'a> {
    pub server: &'a ServerName,
    pub error: &'a str,
}

impl Event for UpstreamFrameError<'_> {
    const NAME: &'static str = "frame_error";

    fn log(&self) {
        tracing::warn!(server = %self.server, error = self.error, "{}", Self::NAME);
    }

    fn count(&self, metrics: &Metrics) {
        metrics.frame_error(Side::Upstream);
    }

    fn fields(&self) -> EventFields<'_> {
        EventFields {
            server: Some(self.server.as_str()),
            reason: Some(self.error.to_owned()),
            ..EventFields::new(Self::NAME)
        }
    }
}

/// The log line of an attempt to connect to a server.
#[derive(Debug)]
pub struct ProxyConnect<'a> {
    pub server: &'a ServerName,
    pub transport: &'a str,
    /// How many tools it lists, or why it cannot be reached.
    pub outcome: Result<usize, &'a str>,
}

impl Event for ProxyConnect<'_> {
    const NAME: &'static str = "proxy.connect";
    const IS_DELIVERED: bool = false;

    fn log(&self) {
        match self.outcome {
            Ok(tools) => tracing::info!(
                server = %self.server,
                r#type = self.transport,
                toolCount = tools,
                status = "SUCCESS",
                "{}", Self::NAME
            ),
            Err(reason) => tracing::warn!(
                server = %self.server,
                r#type = self.transport,
                toolCount = 0,
                status = "FAILED",
                errorType = "UPSTREAM_UNAVAILABLE",
                errorMessage = reason,
                "{}", Self::NAME
            ),
        }
    }
}

/// The first connect of every server has succeeded or failed.
#[derive(Debug)]
pub struct ProxyInit {
    /// Servers that the configuration enables.
    pub servers: usize,
    pub connected: usize,
    pub failed: usize,
    /// Tools of the connected ones.
    pub tools: usize,
    /// Tools without annotations about their effects.
    pub unannotated: usize,
}

impl Event for ProxyInit {
    const NAME: &'static str = "proxy.init";
    const IS_DELIVERED: bool = false;

    fn log(&self) {
        tracing::info!(
            serverCount = self.servers,
            connected = self.connected,
            failed = self.failed,
            toolCount = self.tools,
            unannotated = self.unannotated,
            "{}",
            Self::NAME
        );
    }
}
