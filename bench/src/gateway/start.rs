//! Starting the programs that are measured: echo servers, gateways, and whatever says where it listens.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use serde_json::{Map, Value, json};

use super::{host::Target, place};

/// The token of a measured gateway.
const TOKEN: &str = "bench-agent";
/// How long a program may take to end after a stop signal.
const PATIENCE: Duration = Duration::from_secs(60);

/// Words that stand before a gateway's command, such as a tool that counts what it does.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wrapper(pub(crate) Vec<String>);

/// A child that ends with us.
#[derive(Debug)]
pub(crate) struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // SIGTERM would let the gateway drain; a measurement does not wait for that.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Waits for the program to end by itself.
    pub(crate) fn ended(mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.0.try_wait()?.is_none() {
            if Instant::now() > deadline {
                bail!("a program did not end within {} s", PATIENCE.as_secs());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

/// A gateway's files: its configuration, and the data folder beside it.
#[derive(Debug)]
pub(crate) struct Setup {
    config: PathBuf,
    data: PathBuf,
}

impl Setup {
    /// One server named `up`; the record is on.
    pub(crate) fn one(folder: &Path, server: Value) -> anyhow::Result<Self> {
        let servers = Map::from_iter([("up".to_owned(), server)]);
        Self::write(folder, servers)
    }

    /// These servers.
    pub(crate) fn servers(folder: &Path, servers: Map<String, Value>) -> anyhow::Result<Self> {
        Self::write(folder, servers)
    }

    /// No server: a gateway that others ask.
    pub(crate) fn none(folder: &Path) -> anyhow::Result<Self> {
        Self::write(folder, Map::new())
    }

    /// One server named `up`, behind a gateway that asks another.
    pub(crate) fn guarded(folder: &Path, server: Value, guard: &Target) -> anyhow::Result<Self> {
        let servers = Map::from_iter([("up".to_owned(), server)]);
        let url = format!("http://{}", guard.address);
        let guard = json!({"url": url, "api_key": guard.token});
        Self::write_with(folder, servers, json!({"guard": guard}))
    }

    /// As many echo servers over stdio, with `tools` tools each.
    pub(crate) fn many(folder: &Path, upstreams: usize, tools: usize) -> anyhow::Result<Self> {
        let server = echo_server(tools)?;
        let servers = (0..upstreams).map(|at| (format!("up{at}"), server.clone()));
        Self::write(folder, servers.collect())
    }

    /// One server with so many everyday tools, in the `search` view.
    pub(crate) fn searched(folder: &Path, tools: usize) -> anyhow::Result<Self> {
        let mut command = echo_command(tools)?;
        command.push("--everyday".to_owned());
        let server = json!({"command": command[0], "args": command[1..]});
        let setup = Self::one(folder, server)?;
        let text = std::fs::read_to_string(&setup.config)?;
        let mut config: Value = serde_json::from_str(&text)?;
        config["view"] = "search".into();
        std::fs::write(&setup.config, config.to_string())?;
        Ok(setup)
    }

    /// A server that answers at once and one that does not, for scripts with these limits.
    pub(crate) fn scripts(folder: &Path, limits: Value) -> anyhow::Result<Self> {
        let mut slow = echo_command(1)?;
        slow.extend(["--delay-ms", "600000"].map(str::to_owned));
        let slow = json!({"command": slow[0], "args": slow[1..], "timeout": "20m"});
        let servers = [
            ("wix".to_owned(), echo_server(1)?),
            ("slow".to_owned(), slow),
        ];
        Self::write_with(folder, Map::from_iter(servers), json!({"code": limits}))
    }

    fn write(folder: &Path, servers: Map<String, Value>) -> anyhow::Result<Self> {
        Self::write_with(folder, servers, json!({}))
    }

    /// The same with further keys.
    fn write_with(folder: &Path, servers: Map<String, Value>, more: Value) -> anyhow::Result<Self> {
        let config = folder.join("callgate.yaml");
        let policy = folder.join("policy.yaml");
        std::fs::write(&policy, hundred_rules())?;
        let limits = json!({"frame_mib": 16});
        let mut written = json!({"servers": servers, "policy": policy, "limits": limits});
        for (key, value) in more.as_object().into_iter().flatten() {
            written[key] = value.clone();
        }
        std::fs::write(&config, written.to_string())?;
        Ok(Self {
            config,
            data: folder.join("data"),
        })
    }

    /// Starts the gateway over HTTP.
    pub(crate) fn serve(&self, wrapper: &Wrapper) -> anyhow::Result<(Running, Target)> {
        let words = self.command(wrapper, "serve")?;
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(["--listen", "127.0.0.1:0"]);
        command.env("CALLGATE_TOKEN", TOKEN);
        command.env("CALLGATE_ADMIN_TOKEN", "bench-admin");
        let (running, address) = listening(&mut command)?;
        let token = Some(TOKEN.to_owned());
        Ok((running, Target { address, token }))
    }

    /// The command of a gateway on stdio.
    pub(crate) fn stdio(&self, wrapper: &Wrapper) -> anyhow::Result<Vec<String>> {
        self.command(wrapper, "stdio")
    }

    fn command(&self, wrapper: &Wrapper, subcommand: &str) -> anyhow::Result<Vec<String>> {
        let mut words = wrapper.0.clone();
        words.push(shown(&place::callgate()?));
        words.push(subcommand.to_owned());
        words.extend(["--config".to_owned(), shown(&self.config)]);
        words.extend(["--data-dir".to_owned(), shown(&self.data)]);
        Ok(words)
    }
}

/// The runtime of the load and of our own servers: the same kind as the gateway's.
pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?)
}

/// Starts an echo server over HTTP.
pub(crate) fn echo_http(tools: usize) -> anyhow::Result<(Running, Target)> {
    let mut command = Command::new(place::own_program()?);
    command.args(["echo", "--http", "127.0.0.1:0", "--tools"]);
    let (running, address) = listening(command.arg(tools.to_string()))?;
    let token = None;
    Ok((running, Target { address, token }))
}

/// The command of an echo server over stdio.
pub(crate) fn echo_command(tools: usize) -> anyhow::Result<Vec<String>> {
    let own = shown(&place::own_program()?);
    Ok([&own, "echo", "--tools", &tools.to_string()]
        .map(str::to_owned)
        .to_vec())
}

/// An echo server over stdio, as a configuration has it.
pub(crate) fn echo_server(tools: usize) -> anyhow::Result<Value> {
    let command = echo_command(tools)?;
    Ok(json!({"command": command[0], "args": command[1..]}))
}

/// Starts a program that says where it listens.
pub(crate) fn listening(command: &mut Command) -> anyhow::Result<(Running, SocketAddr)> {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut running = Running(child.with_context(|| format!("{:?}", command.get_program()))?);
    let stderr = running.0.stderr.take().context("stderr is a pipe")?;
    let mut lines = BufReader::new(stderr).lines();
    for line in lines.by_ref() {
        if let Some(rest) = line?.strip_prefix("listening http://") {
            let address = rest.trim_end_matches("/mcp").parse()?;
            // The pipe must be drained, or the program blocks when it is full.
            std::thread::spawn(move || lines.for_each(drop));
            return Ok((running, address));
        }
    }
    bail!("{:?} ended before it listened", command.get_program())
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A policy of a hundred rules that allows what is measured: some name tools, some servers, some any tool
/// of a name.
fn hundred_rules() -> String {
    let denied = (0..99).map(|at| match at % 3 {
        0 => json!({"pattern": format!("crm:drop_{at}")}),
        1 => json!({"pattern": format!("server{at}:*")}),
        _ => json!({"pattern": format!("*:wipe_{at}"), "message": "never from an agent"}),
    });
    let denied: Vec<Value> = denied.collect();
    let rules = json!([{"scope": "mcp_tool", "deny": denied, "allow": [{"pattern": "*:*"}]}]);
    json!({"version": "1", "name": "bench", "rules": rules}).to_string()
}
