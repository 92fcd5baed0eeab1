//! A fake upstream over HTTP, as a process of its own that can be stopped and started again.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::{StdioHost, bin};

/// How long a fixture may take until it listens.
const START: Duration = Duration::from_secs(10);

/// A fixture that serves over HTTP. It is killed when this is dropped.
#[derive(Debug)]
pub struct HttpUpstream {
    name: String,
    args: Vec<String>,
    url: String,
    process: Option<StdioHost>,
}

impl HttpUpstream {
    /// Starts the fixture of that name on a free port, with these further arguments.
    pub fn start(name: &str, args: &[&str]) -> Result<Self> {
        let mut upstream = Self {
            name: name.to_owned(),
            args: owned(args),
            url: "http://127.0.0.1:0/".to_owned(),
            process: None,
        };
        upstream.start_again()?;
        Ok(upstream)
    }

    /// Where it listens.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Stops the server; later connections are refused.
    pub fn stop(&mut self) {
        self.process = None;
    }

    /// Starts it again on the port that it had.
    pub fn start_again(&mut self) -> Result<()> {
        self.process = None;
        let authority = self.url.trim_start_matches("http://");
        let authority = authority.split('/').next().unwrap_or_default();
        let mut command = Command::new(bin(&self.name));
        command.args(["--http", authority]).args(&self.args);
        let process = StdioHost::spawn(&mut command)?;
        let line = process.wait_stderr(START, |line| line.starts_with("listening "))?;
        let url = line.strip_prefix("listening ").context("it says where")?;
        self.url = url.to_owned();
        self.process = Some(process);
        Ok(())
    }

    /// Starts it again on the port that it had, with other arguments.
    pub fn start_again_with(&mut self, args: &[&str]) -> Result<()> {
        self.args = owned(args);
        self.start_again()
    }
}

fn owned(args: &[&str]) -> Vec<String> {
    args.iter().map(|arg| (*arg).to_owned()).collect()
}

/// What happened to a fixture's connections, by its log: `connected`, `GET …`, `DELETE …`, `dropped`.
pub fn http_events(log: &Path) -> Vec<String> {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let events = text.lines().filter_map(|line| line.strip_prefix("# "));
    events.map(str::to_owned).collect()
}
