//! What happens to servers.

use callgate_gate::{
    ServerName,
    visible::{Layout, visible},
};

use super::{Event, Shown};
use crate::{Metrics, metrics::Side};

/// A server is there.
#[derive(Debug)]
pub struct UpstreamUp<'a> {
    /// The server.
    pub server: &'a ServerName,
    /// `stdio` or `http`.
    pub transport: &'a str,
    /// How many tools it lists.
    pub tools: usize,
}

impl Event for UpstreamUp<'_> {
    const NAME: &'static str = "upstream.up";

    fn log(&self) {
        tracing::info!(server = %self.server, tools = self.tools, "{}", Self::NAME);
    }

    fn shown(&self) -> Shown<'_> {
        Shown {
            server: Some(self.server.as_str()),
            transport: self.transport,
            ..Shown::new(Self::NAME)
        }
        .meta("tools", self.tools)
    }
}

/// A server that was there is gone.
#[derive(Debug)]
pub struct UpstreamDown<'a> {
    /// The server.
    pub server: &'a ServerName,
    /// `stdio` or `http`.
    pub transport: &'a str,
    /// What is known about why.
    pub reason: &'a str,
}

impl Event for UpstreamDown<'_> {
    const NAME: &'static str = "upstream.down";

    fn log(&self) {
        tracing::warn!(server = %self.server, reason = self.reason, "{}", Self::NAME);
    }

    fn shown(&self) -> Shown<'_> {
        Shown {
            server: Some(self.server.as_str()),
            transport: self.transport,
            reason: Some(self.reason.to_owned()),
            ..Shown::new(Self::NAME)
        }
    }
}

/// A server is not started.
#[derive(Debug)]
pub struct UpstreamOff<'a> {
    /// The server.
    pub server: &'a ServerName,
    /// Whether the configuration says so; else something is wrong.
    pub is_switched_off: bool,
    /// Why.
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

    fn shown(&self) -> Shown<'_> {
        Shown {
            server: Some(self.server.as_str()),
            reason: Some(self.reason.to_owned()),
            ..Shown::new(Self::NAME)
        }
    }
}

/// A tool is kept from hosts until somebody has looked at it.
#[derive(Debug)]
pub struct ToolQuarantined<'a> {
    /// The server.
    pub server: &'a ServerName,
    /// The tool as its server calls it.
    pub tool: &'a str,
    /// Why.
    pub reason: &'a str,
}

impl Event for ToolQuarantined<'_> {
    const NAME: &'static str = "tool.quarantined";

    fn log(&self) {
        let (tool, reason) = (visible(self.tool, Layout::OneLine), self.reason);
        tracing::warn!(server = %self.server, tool, reason, "{}", Self::NAME);
    }

    fn shown(&self) -> Shown<'_> {
        Shown {
            server: Some(self.server.as_str()),
            tool: Some(self.tool.into()),
            reason: Some(self.reason.to_owned()),
            ..Shown::new(Self::NAME)
        }
    }
}

/// Something about a new tool's definition deserves a second look. It is offered all the same.
#[derive(Debug)]
pub struct ToolFlagged<'a> {
    /// The server.
    pub server: &'a ServerName,
    /// The tool as its server calls it.
    pub tool: &'a str,
    /// What is odd about it.
    pub flags: &'a [String],
}

impl Event for ToolFlagged<'_> {
    const NAME: &'static str = "tool.flagged";

    fn log(&self) {
        let (tool, reason) = (visible(self.tool, Layout::OneLine), self.flags.join("; "));
        tracing::warn!(server = %self.server, tool, reason, "{}", Self::NAME);
    }

    fn shown(&self) -> Shown<'_> {
        Shown {
            server: Some(self.server.as_str()),
            tool: Some(self.tool.into()),
            reason: Some(self.flags.join("; ")),
            ..Shown::new(Self::NAME)
        }
    }
}

/// A server said something that is no frame. The next one works.
#[derive(Debug)]
pub struct UpstreamFrameError<'a> {
    /// The server.
    pub server: &'a ServerName,
    /// What is wrong with it.
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

    fn shown(&self) -> Shown<'_> {
        Shown {
            server: Some(self.server.as_str()),
            reason: Some(self.error.to_owned()),
            ..Shown::new(Self::NAME)
        }
    }
}

/// An attempt to reach a server, as one line.
#[derive(Debug)]
pub struct ProxyConnect<'a> {
    /// The server.
    pub server: &'a ServerName,
    /// `stdio` or `http`.
    pub transport: &'a str,
    /// How many tools it lists, or why it cannot be reached.
    pub outcome: Result<usize, &'a str>,
}

impl Event for ProxyConnect<'_> {
    const NAME: &'static str = "proxy.connect";
    const TOLD: bool = false;

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

/// The first round of connects has settled.
#[derive(Debug)]
pub struct ProxyInit {
    /// Servers that are switched on.
    pub servers: usize,
    /// Those that were reached.
    pub connected: usize,
    /// Those that were not.
    pub failed: usize,
    /// Tools of the connected ones.
    pub tools: usize,
    /// Tools that say nothing about their effects.
    pub unannotated: usize,
}

impl Event for ProxyInit {
    const NAME: &'static str = "proxy.init";
    const TOLD: bool = false;

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
