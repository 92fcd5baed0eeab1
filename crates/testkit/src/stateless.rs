//! A host of 2026-07-28 over HTTP: it has no session, and the headers of each request say what its body says.

use anyhow::{Context, Result};

use crate::frame::Frame;
use crate::{Host, HttpHost};

/// A host that makes requests of 2026-07-28 to one URL.
#[derive(Debug, Clone)]
pub struct StatelessHost {
    host: HttpHost,
}

impl StatelessHost {
    /// The same host without a handshake.
    pub fn new(host: HttpHost) -> Self {
        Self { host }
    }

    /// The host with the headers that belong to this line. The line may have numbers that no number type holds.
    pub fn headed(&self, line: &str) -> Result<HttpHost> {
        let frame = Frame::parse(line).context("the line is not a frame")?;
        let method = frame.method.as_deref().context("the line has no method")?;
        let host = self.host.clone();
        let host = host.header("MCP-Protocol-Version", "2026-07-28");
        let host = host.header("Mcp-Method", method);
        let name = match method {
            "tools/call" | "prompts/get" => frame.param("name"),
            "resources/read" => frame.param("uri"),
            "tasks/get" | "tasks/update" | "tasks/cancel" => frame.param("taskId"),
            _ => None,
        };
        let name = name.and_then(|raw| serde_json::from_str::<String>(raw).ok());
        Ok(match name {
            Some(name) => host.header("Mcp-Name", &name),
            None => host,
        })
    }
}

impl Host for StatelessHost {
    fn exchange(
        &mut self,
        line: &str,
        answer: &mut dyn FnMut(&Frame) -> Option<String>,
    ) -> Result<Vec<String>> {
        self.headed(line)?.exchange(line, answer)
    }

    fn notify(&mut self, line: &str) -> Result<()> {
        self.headed(line)?.notify(line)
    }
}
