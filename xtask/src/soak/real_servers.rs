//! Five servers from npm and PyPI behind one `callgate stdio`: listed in the order of the config,
//! called, one killed with the others unharmed, and back by itself.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use callgate_testkit::frame::{Frame, items, member};
use callgate_testkit::{DataDir, StdioHost, callgate, processes_with, wait_until};
use serde_json::{Value, json};

use super::install;
use crate::command::{command, run as run_command};

/// The server that is killed.
const VICTIM: &str = "memory";

/// Interpreters start slowly on a busy machine, and all five start at once.
const FIRST_DEADLINE: Duration = Duration::from_secs(60);

/// The first reconnect comes after one second; the rest is the server's own start.
const BACK_DEADLINE: Duration = Duration::from_secs(30);

struct Server {
    name: &'static str,
    config: Value,
    /// The tool that is called, and its raw arguments.
    tool: &'static str,
    arguments: String,
}

/// One row of the table that is printed.
struct Row {
    server: &'static str,
    tools: usize,
    tool: &'static str,
    took: Duration,
    after_kill: &'static str,
}

/// Runs the check and prints a table.
pub(super) fn run() -> Result<()> {
    let data = DataDir::new();
    let marker = format!("soak-{}", std::process::id());
    let servers = servers(data.path(), &marker)?;
    let mut host = connect(&data, &servers)?;
    let counts = listed(&mut host, &servers)?;
    let mut rows = Vec::new();
    for (server, tools) in servers.iter().zip(counts) {
        let start = Instant::now();
        call(&mut host, server)?;
        rows.push(Row {
            server: server.name,
            tools,
            tool: server.tool,
            took: start.elapsed(),
            after_kill: "",
        });
    }
    kill(&marker)?;
    for (server, row) in servers
        .iter()
        .zip(&mut rows)
        .filter(|(server, _)| server.name != VICTIM)
    {
        call(&mut host, server).with_context(|| format!("after `{VICTIM}` was killed"))?;
        row.after_kill = "went on";
    }
    let start = Instant::now();
    let victim = servers
        .iter()
        .find(|server| server.name == VICTIM)
        .context("it is one of them")?;
    let back = wait_until(BACK_DEADLINE, || call(&mut host, victim).is_ok());
    ensure!(
        back,
        "`{VICTIM}` did not come back within {BACK_DEADLINE:?}"
    );
    for row in rows.iter_mut().filter(|row| row.server == VICTIM) {
        row.after_kill = "came back";
    }
    print(&rows, start.elapsed());
    Ok(())
}

fn servers(data: &Path, marker: &str) -> Result<Vec<Server>> {
    let node = install::node()?;
    let modules = install::npm_servers(&node)?;
    let programs = install::pypi_servers()?;
    let repo = data.join("repo");
    run_command(command("git").args(["init", "--quiet"]).arg(&repo))?;
    let npm = |name: &str, arguments: &[&Path]| {
        let entry = modules.join(format!("@modelcontextprotocol/server-{name}/dist/index.js"));
        let arguments: Vec<&Path> = [entry.as_path()]
            .into_iter()
            .chain(arguments.iter().copied())
            .collect();
        json!({"command": node.program, "args": arguments})
    };
    let mut memory = npm("memory", &[]);
    memory["env"] = json!({"MEMORY_FILE_PATH": data.join("memory.json"), "SOAK_MARKER": marker});
    let server = |name, config, tool, arguments: Value| Server {
        name,
        config,
        tool,
        arguments: arguments.to_string(),
    };
    Ok(vec![
        server(
            "everything",
            npm("everything", &[]),
            "echo",
            json!({"message": "hello"}),
        ),
        server(
            "filesystem",
            npm("filesystem", &[&repo]),
            "list_allowed_directories",
            json!({}),
        ),
        server(VICTIM, memory, "read_graph", json!({})),
        server(
            "time",
            json!({"command": programs.join("mcp-server-time")}),
            "get_current_time",
            json!({"timezone": "UTC"}),
        ),
        server(
            "git",
            json!({"command": programs.join("mcp-server-git")}),
            "git_status",
            json!({"repo_path": repo}),
        ),
    ])
}

fn connect(data: &DataDir, servers: &[Server]) -> Result<StdioHost> {
    let named = servers
        .iter()
        .map(|server| (server.name.to_owned(), server.config.clone()));
    let named: serde_json::Map<String, Value> = named.collect();
    let config = data.file("callgate.yaml", &json!({"servers": named}).to_string());
    let mut command = Command::new(callgate());
    command
        .arg("stdio")
        .arg("--config")
        .arg(config)
        .arg("--data-dir")
        .arg(data.path().join("data"));
    let mut host = StdioHost::spawn(&mut command)?;
    host.set_deadline(FIRST_DEADLINE);
    host.initialize("2025-11-25")?;
    Ok(host)
}

/// How many tools each server has; fails unless all are listed, in the order of the config.
fn listed(host: &mut StdioHost, servers: &[Server]) -> Result<Vec<usize>> {
    let mut names = Vec::new();
    // A server that is slow to start is left out of the first list and announced later.
    let complete = wait_until(FIRST_DEADLINE, || {
        names = tool_names(host).unwrap_or_default();
        servers
            .iter()
            .all(|server| names.iter().any(|name| belongs(name, server)))
    });
    let mut order: Vec<&str> = names
        .iter()
        .filter_map(|name| Some(name.split_once("__")?.0))
        .collect();
    order.dedup();
    let expected: Vec<&str> = servers.iter().map(|server| server.name).collect();
    ensure!(
        complete && order == expected,
        "listed {order:?}, expected {expected:?}"
    );
    let count = |server: &Server| names.iter().filter(|name| belongs(name, server)).count();
    Ok(servers.iter().map(count).collect())
}

fn belongs(name: &str, server: &Server) -> bool {
    name.split_once("__")
        .is_some_and(|(prefix, _)| prefix == server.name)
}

fn tool_names(host: &mut StdioHost) -> Result<Vec<String>> {
    let response =
        host.request(r#"{"jsonrpc":"2.0","id":"list","method":"tools/list","params":{}}"#)?;
    let result = Frame::parse(&response)
        .and_then(|frame| frame.result)
        .context("a list")?;
    let tools = member(&result, "tools")
        .and_then(items)
        .context("tools in the list")?;
    let name = |tool: &&str| serde_json::from_str(member(tool, "name")?).ok();
    Ok(tools.iter().filter_map(name).collect())
}

fn call(host: &mut StdioHost, server: &Server) -> Result<()> {
    let shown = format!("{}__{}", server.name, server.tool);
    let response = host.call(7, &shown, &server.arguments)?;
    let result = Frame::parse(&response).and_then(|frame| frame.result);
    match result {
        Some(result) if member(&result, "isError") != Some("true") => Ok(()),
        _ => bail!("`{shown}` answered {response}"),
    }
}

fn kill(marker: &str) -> Result<()> {
    // A warden may carry the same environment; the server is the youngest that does.
    let victim = processes_with(marker).pop();
    let victim = victim.with_context(|| format!("the process of `{VICTIM}` was not found"))?;
    run_command(command("kill").arg("-9").arg(victim.to_string()))
}

fn print(rows: &[Row], back: Duration) {
    println!(
        "{:12}{:>6}  {:28}{:>9}  after kill -9 of {VICTIM}",
        "server", "tools", "called", "ms"
    );
    for row in rows {
        let ms = row.took.as_secs_f64() * 1000.0;
        println!(
            "{:12}{:>6}  {:28}{ms:>9.1}  {}",
            row.server, row.tools, row.tool, row.after_kill
        );
    }
    println!("{VICTIM} was back after {:.1} s", back.as_secs_f64());
}
