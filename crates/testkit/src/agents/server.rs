//! The agent's side of MCP, blocking and plain.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// A tool server that the agent has started.
pub(super) struct ToolServer {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    next: u64,
}

impl ToolServer {
    pub(super) fn start(command: &[String]) -> Result<Self> {
        let (program, args) = command.split_first().context("the server has a command")?;
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start `{program}`"))?;
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().context("stdout is piped")?);
        Ok(Self {
            child,
            stdin,
            stdout,
            next: 1,
        })
    }

    pub(super) fn initialize(&mut self, name: &str) -> Result<()> {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": name, "version": "1"},
        });
        self.request("initialize", &params)?;
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
    }

    pub(super) fn tools(&mut self) -> Result<Vec<String>> {
        let listed = self.request("tools/list", &json!({}))?;
        let tools = listed["result"]["tools"].as_array().context("a list")?;
        let name = |tool: &Value| tool["name"].as_str().map(str::to_owned);
        Ok(tools.iter().filter_map(name).collect())
    }

    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value> {
        let id = self.send_call(tool, arguments)?;
        self.wait_for(id)
    }

    pub(super) fn send_call(&mut self, tool: &str, arguments: &Value) -> Result<u64> {
        self.send_request("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// As a crash would have it.
    pub(super) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(super) fn close(mut self) {
        self.stdin = None;
        let _ = self.child.wait();
    }

    fn request(&mut self, method: &str, params: &Value) -> Result<Value> {
        let id = self.send_request(method, params)?;
        self.wait_for(id)
    }

    fn send_request(&mut self, method: &str, params: &Value) -> Result<u64> {
        let id = self.next;
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        Ok(id)
    }

    fn send(&mut self, frame: &Value) -> Result<()> {
        let stdin = self.stdin.as_mut().context("it is open")?;
        writeln!(stdin, "{frame}")?;
        Ok(stdin.flush()?)
    }

    fn wait_for(&mut self, id: u64) -> Result<Value> {
        loop {
            let mut line = String::new();
            if self.stdout.read_line(&mut line)? == 0 {
                bail!("the tool server ended");
            }
            let frame: Value = serde_json::from_str(&line)?;
            if frame["id"] == json!(id) {
                return Ok(frame);
            }
        }
    }
}
