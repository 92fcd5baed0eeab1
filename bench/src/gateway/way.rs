//! The ways from a host to the echo upstream: direct, through a raw pass-through, through
//! Callgate; over HTTP and stdio.

use std::{process::Command, sync::Arc};

use anyhow::Context;
use rustix::process::Signal;
use tempfile::TempDir;

use super::{
    host::{HttpHost, StdioHost, Target},
    load::Client,
    place,
    processes::Family,
    start::{Running, Setup, Wrapper, echo_command, echo_http, echo_server, listening},
};

/// What is between host and upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Between {
    Nothing,
    Raw,
    Callgate,
}

impl Between {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "direct",
            Self::Raw => "raw",
            Self::Callgate => "callgate",
        }
    }
}

/// Over what the host and the upstream speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Pair {
    HttpToHttp,
    HttpToStdio,
    StdioToStdio,
}

impl Pair {
    pub(crate) const ALL: [Self; 3] = [Self::HttpToHttp, Self::HttpToStdio, Self::StdioToStdio];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::HttpToHttp => "HTTP to HTTP",
            Self::HttpToStdio => "HTTP to stdio",
            Self::StdioToStdio => "stdio to stdio",
        }
    }

    fn host(self) -> Transport {
        match self {
            Self::HttpToHttp | Self::HttpToStdio => Transport::Http,
            Self::StdioToStdio => Transport::Stdio,
        }
    }

    fn upstream(self) -> Transport {
        match self {
            Self::HttpToHttp => Transport::Http,
            Self::HttpToStdio | Self::StdioToStdio => Transport::Stdio,
        }
    }
}

/// What one side speaks over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Http,
    Stdio,
}

/// A way that is up and can be used.
pub(crate) struct Way {
    /// The tool's name as it is shown here.
    pub(crate) tool: &'static str,
    /// What the way costs besides the upstream; nothing for a direct one.
    pub(crate) family: Option<Family>,
    entry: Entry,
    /// The gateway or pass-through first, then the upstream.
    programs: Vec<Running>,
    _folder: Option<TempDir>,
}

enum Entry {
    Http(Target),
    Stdio(Arc<StdioHost>),
}

impl Way {
    /// Sets up a way. HTTP cannot reach a stdio server without a proxy between them, so the direct
    /// way of that pair is that of a host that starts the server itself.
    pub(crate) async fn open(between: Between, pair: Pair) -> anyhow::Result<Self> {
        match (between, pair) {
            (Between::Nothing, Pair::HttpToHttp) => {
                let (echo, target) = echo_http(1)?;
                Ok(Self::direct(Entry::Http(target), vec![echo]))
            }
            (Between::Nothing, Pair::HttpToStdio | Pair::StdioToStdio) => {
                let host = StdioHost::start(&echo_command(1)?).await?;
                Ok(Self::direct(Entry::Stdio(host), Vec::new()))
            }
            (Between::Raw, Pair::HttpToHttp) => {
                let (echo, target) = echo_http(1)?;
                Self::raw_http(&["--to", &target.address.to_string()], vec![echo])
            }
            (Between::Raw, Pair::HttpToStdio) => {
                let echo = echo_command(1)?;
                let words = ["--"].into_iter().chain(echo.iter().map(String::as_str));
                Self::raw_http(&words.collect::<Vec<_>>(), Vec::new())
            }
            (Between::Raw, Pair::StdioToStdio) => {
                let own = place::own_program()?.to_string_lossy().into_owned();
                let mut words = vec![own, "raw".to_owned(), "--".to_owned()];
                words.extend(echo_command(1)?);
                let host = StdioHost::start(&words).await?;
                let family = host.pid().map(Family::of);
                let way = Self::direct(Entry::Stdio(host), Vec::new());
                Ok(Self { family, ..way })
            }
            (Between::Callgate, pair) => {
                Self::callgate(pair.host(), pair.upstream(), &Wrapper::default()).await
            }
        }
    }

    /// A way through Callgate, which may itself be run by another program.
    pub(crate) async fn callgate(
        host: Transport,
        upstream: Transport,
        wrapper: &Wrapper,
    ) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut programs = Vec::new();
        let server = match upstream {
            Transport::Http => {
                let (echo, target) = echo_http(1)?;
                programs.push(echo);
                serde_json::json!({"url": format!("http://{}/mcp", target.address)})
            }
            Transport::Stdio => echo_server(1)?,
        };
        let setup = Setup::one(folder.path(), server)?;
        let (entry, family) = match host {
            Transport::Http => {
                let (gateway, target) = setup.serve(wrapper)?;
                let family = Some(Family::of(gateway.pid()));
                programs.insert(0, gateway);
                (Entry::Http(target), family)
            }
            Transport::Stdio => {
                let host = StdioHost::start(&setup.stdio(wrapper)?).await?;
                let family = host.pid().map(Family::of);
                (Entry::Stdio(host), family)
            }
        };
        Ok(Self {
            tool: "up__echo",
            family,
            entry,
            programs,
            _folder: Some(folder),
        })
    }

    /// As many clients: over HTTP each has its connection and session, over stdio they share the pipe.
    pub(crate) async fn clients(&self, count: usize) -> anyhow::Result<Vec<Client>> {
        let mut clients = Vec::new();
        for _ in 0..count {
            clients.push(match &self.entry {
                Entry::Http(target) => Client::Http(Box::new(HttpHost::connect(target).await?)),
                Entry::Stdio(host) => Client::Stdio(host.clone()),
            });
        }
        Ok(clients)
    }

    /// Halts the gateway, so that nothing it has put off runs while another way is measured.
    pub(crate) fn pause(&self) -> anyhow::Result<()> {
        self.family
            .map_or(Ok(()), |family| family.signal(Signal::STOP))
    }

    pub(crate) fn resume(&self) -> anyhow::Result<()> {
        self.family
            .map_or(Ok(()), |family| family.signal(Signal::CONT))
    }

    /// Lets the gateway end in its own time. No client may be left.
    pub(crate) async fn end(mut self) -> anyhow::Result<()> {
        let family = self.family.context("a direct way has nothing to end")?;
        family.signal(Signal::TERM)?;
        match self.entry {
            Entry::Http(_) => self.programs.remove(0).ended(),
            Entry::Stdio(host) => {
                let host = Arc::into_inner(host).context("a client is left")?;
                host.ended().await
            }
        }
    }

    fn direct(entry: Entry, programs: Vec<Running>) -> Self {
        Self {
            tool: "echo",
            family: None,
            entry,
            programs,
            _folder: None,
        }
    }

    fn raw_http(to: &[&str], mut programs: Vec<Running>) -> anyhow::Result<Self> {
        let mut command = Command::new(place::own_program()?);
        command.args(["raw", "--listen", "127.0.0.1:0"]).args(to);
        let (raw, address) = listening(&mut command)?;
        let family = Some(Family::of(raw.pid()));
        programs.insert(0, raw);
        let token = None;
        let way = Self::direct(Entry::Http(Target { address, token }), programs);
        Ok(Self { family, ..way })
    }
}
