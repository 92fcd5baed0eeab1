//! The ways from a host to the echo upstream: direct, through the raw pass-through, through
//! Callgate; over HTTP and stdio.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use anyhow::{Context, bail};
use tempfile::TempDir;

use super::{
    host::{Client, HttpHost, StdioHost, Target},
    place,
    processes::Family,
};

/// The token of a measured gateway.
const TOKEN: &str = "bench-agent";

/// What stands between host and upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Between {
    Nothing,
    Raw,
    Callgate,
}

impl Between {
    pub(crate) const ALL: [Self; 3] = [Self::Nothing, Self::Raw, Self::Callgate];

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
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::HttpToHttp => "HTTP to HTTP",
            Self::HttpToStdio => "HTTP to stdio",
            Self::StdioToStdio => "stdio to stdio",
        }
    }
}

/// A way that is up and can be used.
pub(crate) struct Way {
    /// The tool's name as it is shown here.
    pub(crate) tool: &'static str,
    /// What the way costs besides the upstream; nothing for a direct one.
    pub(crate) family: Option<Family>,
    entry: Entry,
    _children: Vec<Running>,
    _folder: TempDir,
}

enum Entry {
    Http(Target),
    Stdio(Arc<StdioHost>),
}

/// A child that ends with us.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // SIGTERM would let the gateway drain; a measurement does not wait for that.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Way {
    /// Puts up a way. Over HTTP to stdio there is no raw pass-through without parsing: the raw
    /// and direct ones are those of HTTP to HTTP.
    pub(crate) async fn open(between: Between, pair: Pair, tools: usize) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        match (pair, between) {
            (Pair::StdioToStdio, _) => Self::stdio(between, tools, folder).await,
            (Pair::HttpToStdio, Between::Callgate) => {
                Self::callgate_http(folder, &echo_server(tools)?, Vec::new())
            }
            (Pair::HttpToHttp | Pair::HttpToStdio, _) => Self::http(between, tools, folder),
        }
    }

    /// A client for one worker.
    pub(crate) async fn client(&self) -> anyhow::Result<Client> {
        Ok(match &self.entry {
            Entry::Http(target) => Client::Http(Box::new(HttpHost::connect(target).await?)),
            Entry::Stdio(host) => Client::Stdio(host.clone()),
        })
    }

    async fn stdio(between: Between, tools: usize, folder: TempDir) -> anyhow::Result<Self> {
        let echo = echo_command(tools)?;
        let (command, tool) = match between {
            Between::Nothing => (words(&echo), "echo"),
            Between::Raw => {
                let own = place::own_program()?.to_string_lossy().into_owned();
                let mut all = vec![own, "raw".to_owned(), "--".to_owned()];
                all.extend(echo);
                (words(&all), "echo")
            }
            Between::Callgate => {
                let config = write_config(folder.path(), &echo_server(tools)?)?;
                let mut command = tokio::process::Command::new(place::callgate()?);
                command.arg("stdio").arg("--config").arg(config);
                command.arg("--data-dir").arg(folder.path().join("data"));
                (command, "up__echo")
            }
        };
        let host = StdioHost::start(command).await?;
        let family = match between {
            Between::Nothing => None,
            Between::Raw | Between::Callgate => host.pid().map(Family::of),
        };
        Ok(Self {
            tool,
            family,
            entry: Entry::Stdio(host),
            _children: Vec::new(),
            _folder: folder,
        })
    }

    fn http(between: Between, tools: usize, folder: TempDir) -> anyhow::Result<Self> {
        let tools = tools.to_string();
        let own = place::own_program()?;
        let mut echo = Command::new(&own);
        let (echo, upstream) =
            listening(echo.args(["echo", "--http", "127.0.0.1:0", "--tools", &tools]))?;
        let direct = Target {
            address: upstream,
            token: None,
        };
        match between {
            Between::Nothing => Ok(Self {
                tool: "echo",
                family: None,
                entry: Entry::Http(direct),
                _children: vec![echo],
                _folder: folder,
            }),
            Between::Raw => {
                let mut raw = Command::new(&own);
                let to = upstream.to_string();
                let (raw, address) =
                    listening(raw.args(["raw", "--to", &to, "--listen", "127.0.0.1:0"]))?;
                Ok(Self {
                    tool: "echo",
                    family: Some(Family::of(raw.0.id())),
                    entry: Entry::Http(Target {
                        address,
                        token: None,
                    }),
                    _children: vec![raw, echo],
                    _folder: folder,
                })
            }
            Between::Callgate => {
                let server = format!(r#"{{"url":"http://{upstream}/mcp"}}"#);
                Self::callgate_http(folder, &server, vec![echo])
            }
        }
    }

    fn callgate_http(
        folder: TempDir,
        server: &str,
        mut others: Vec<Running>,
    ) -> anyhow::Result<Self> {
        let config = write_config(folder.path(), server)?;
        let (gateway, address) = serve(folder.path(), &config)?;
        let gateway = Running(gateway);
        let family = Some(Family::of(gateway.0.id()));
        others.insert(0, gateway);
        let target = Target {
            address,
            token: token(),
        };
        Ok(Self {
            tool: "up__echo",
            family,
            entry: Entry::Http(target),
            _children: others,
            _folder: folder,
        })
    }
}

/// The runtime of the load and of our own servers.
pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?)
}

/// One server named `up`, policy off the way, record on.
pub(crate) fn write_config(folder: &Path, server: &str) -> anyhow::Result<std::path::PathBuf> {
    let file = folder.join("callgate.yaml");
    let text = format!(r#"{{"servers":{{"up":{server}}},"limits":{{"frame_mib":16}}}}"#);
    std::fs::write(&file, text)?;
    Ok(file)
}

/// The agent token of a measured gateway.
pub(crate) fn token() -> Option<String> {
    Some(TOKEN.to_owned())
}

/// Starts a gateway over HTTP with the configuration in `folder`; its data goes there, too.
pub(crate) fn serve(folder: &Path, config: &Path) -> anyhow::Result<(Child, SocketAddr)> {
    let mut command = Command::new(place::callgate()?);
    command
        .arg("serve")
        .arg("--config")
        .arg(config)
        .args(["--listen", "127.0.0.1:0"]);
    command.arg("--data-dir").arg(folder.join("data"));
    command
        .env("CALLGATE_TOKEN", TOKEN)
        .env("CALLGATE_ADMIN_TOKEN", "bench-admin");
    listening_at(&mut command)
}

/// Starts a gateway over `upstreams` echo servers with `tools` tools each.
pub(crate) fn serve_many(
    folder: &Path,
    upstreams: usize,
    tools: usize,
) -> anyhow::Result<(Child, SocketAddr)> {
    let own = place::own_program()?;
    let server = |at: usize| {
        let args = ["echo", "--tools", &tools.to_string()].map(str::to_owned);
        (
            format!("up{at}"),
            serde_json::json!({"command": own, "args": args}),
        )
    };
    let servers: serde_json::Map<String, serde_json::Value> = (0..upstreams).map(server).collect();
    let config = folder.join("callgate.yaml");
    std::fs::write(&config, serde_json::json!({"servers": servers}).to_string())?;
    serve(folder, &config)
}

/// Starts a program that says where it listens.
pub(crate) fn listening_at(command: &mut Command) -> anyhow::Result<(Child, SocketAddr)> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(child.stderr.take().context("stderr")?).lines();
    for line in lines.by_ref() {
        let line = line?;
        if let Some(rest) = line.strip_prefix("listening http://") {
            let address = rest.trim_end_matches("/mcp").parse()?;
            // Somebody has to read on, or the program stands still when the pipe is full.
            std::thread::spawn(move || lines.for_each(drop));
            return Ok((child, address));
        }
    }
    bail!("the program ended before it listened")
}

fn listening(command: &mut Command) -> anyhow::Result<(Running, SocketAddr)> {
    listening_at(command).map(|(child, address)| (Running(child), address))
}

fn echo_command(tools: usize) -> anyhow::Result<Vec<String>> {
    let own = place::own_program()?.to_string_lossy().into_owned();
    Ok(vec![
        own,
        "echo".to_owned(),
        "--tools".to_owned(),
        tools.to_string(),
    ])
}

fn echo_server(tools: usize) -> anyhow::Result<String> {
    let command = echo_command(tools)?;
    Ok(serde_json::json!({"command": command[0], "args": command[1..]}).to_string())
}

fn words(words: &[String]) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(&words[0]);
    command.args(&words[1..]);
    command
}
