//! Servers from npm and PyPI over Streamable HTTP and over the older HTTP+SSE, behind both doors:
//! listed, called, heard while they work, answered when they ask, and found again after a restart.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use callgate_testkit::frame::{Frame, Kind, items, member, quoted};
use callgate_testkit::{DataDir, Host, HttpHost, StdioHost, callgate, wait_until};
use serde_json::json;

use super::install;

const VERSION: &str = "2025-11-25";

/// Interpreters start slowly on a busy machine.
const START: Duration = Duration::from_secs(60);

/// How long a server that was started anew may take to be found.
const BACK: Duration = Duration::from_secs(30);

/// A server of the Python framework, with a tool for each thing that is looked at.
const FASTMCP_SERVER: &str = r#"
import sys
from fastmcp import Context, FastMCP

mcp = FastMCP("soak")

@mcp.tool
def add(a: int, b: int) -> int:
    return a + b

@mcp.tool
async def count(n: int, ctx: Context) -> str:
    for step in range(n):
        await ctx.report_progress(step + 1, n)
    return "counted"

@mcp.tool
async def confirm(ctx: Context) -> str:
    answer = await ctx.elicit("go on?", response_type=bool)
    return answer.action

mcp.run(transport=sys.argv[1], host="127.0.0.1", port=int(sys.argv[2]), show_banner=False)
"#;

/// One server over one transport.
struct Server {
    name: &'static str,
    transport: &'static str,
    url: String,
    /// A plain tool, one that reports progress, and one that asks, with their raw arguments.
    plain: (&'static str, &'static str),
    reports: (&'static str, &'static str),
    asks: (&'static str, &'static str),
    command: Command,
    port: u16,
    process: StdioHost,
}

/// One row of the table that is printed.
struct Row {
    server: &'static str,
    transport: &'static str,
    door: &'static str,
    tools: usize,
    took: Duration,
    progress: usize,
    asked: &'static str,
    back: Duration,
}

/// Runs the check and prints a table.
pub(super) fn run() -> Result<()> {
    let data = DataDir::new();
    let mut rows = Vec::new();
    for mut server in servers(&data)? {
        let what = format!("`{}` over {}", server.name, server.transport);
        rows.push(over_stdio(&mut server).with_context(|| what.clone())?);
        rows.push(over_http(&mut server).with_context(|| what)?);
    }
    print(&rows);
    Ok(())
}

fn servers(data: &DataDir) -> Result<Vec<Server>> {
    let node = install::node()?;
    let modules = install::npm_servers(&node)?;
    let python = install::fastmcp()?;
    let script = data.file("server.py", FASTMCP_SERVER);
    let everything = modules.join("@modelcontextprotocol/server-everything/dist/index.js");
    let mut servers = Vec::new();
    for (transport, path) in [("streamableHttp", "mcp"), ("sse", "sse")] {
        let port = free_port()?;
        let mut command = Command::new(&node.program);
        command.arg(&everything).arg(transport);
        command.env("PORT", port.to_string());
        servers.push(Server {
            name: "everything",
            transport,
            url: format!("http://127.0.0.1:{port}/{path}"),
            plain: ("echo", r#"{"message":"hello"}"#),
            reports: (
                "trigger-long-running-operation",
                r#"{"duration":0.4,"steps":4}"#,
            ),
            asks: ("trigger-elicitation-request", "{}"),
            process: started(&mut command, port)?,
            command,
            port,
        });
    }
    for (transport, path) in [("http", "mcp"), ("sse", "sse")] {
        let port = free_port()?;
        let mut command = Command::new(&python);
        command.arg(&script).arg(transport).arg(port.to_string());
        servers.push(Server {
            name: "fastmcp",
            transport,
            url: format!("http://127.0.0.1:{port}/{path}"),
            plain: ("add", r#"{"a":1,"b":2}"#),
            reports: ("count", r#"{"n":4}"#),
            asks: ("confirm", "{}"),
            process: started(&mut command, port)?,
            command,
            port,
        });
    }
    Ok(servers)
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn started(command: &mut Command, port: u16) -> Result<StdioHost> {
    let process = StdioHost::spawn(command)?;
    let listens = wait_until(START, || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let said = || {
        format!(
            "the server does not listen: {}",
            process.stderr().join("\n")
        )
    };
    ensure!(listens, said());
    Ok(process)
}

fn over_stdio(server: &mut Server) -> Result<Row> {
    let data = DataDir::new();
    let mut host = StdioHost::spawn(&mut gateway(&data, server, &["stdio"]))?;
    host.set_deadline(START);
    host.initialize(VERSION)?;
    check(&mut host, server, "stdio")
}

fn over_http(server: &mut Server) -> Result<Row> {
    let data = DataDir::new();
    let arguments = ["serve", "--listen", "127.0.0.1:0"];
    let process = StdioHost::spawn(&mut gateway(&data, server, &arguments))?;
    let line = process.wait_stderr(START, |line| line.starts_with("listening "))?;
    let url = line.trim_start_matches("listening ");
    let token = data.read("data/agent.token");
    let mut host = HttpHost::new(url)?.header("Authorization", &format!("Bearer {}", token.trim()));
    host.set_deadline(START);
    host.initialize(VERSION)?;
    check(&mut host, server, "http")
}

fn gateway(data: &DataDir, server: &Server, arguments: &[&str]) -> Command {
    let config = json!({
        "servers": {"s": {"url": server.url}}, "naming": {"prefix": "never"}, "policy": "allow-all",
    });
    let config = data.file("callgate.yaml", &config.to_string());
    let mut command = Command::new(callgate());
    command.args(arguments).arg("--config").arg(config);
    let folder: &Path = &data.path().join("data");
    command.arg("--data-dir").arg(folder);
    command
}

fn check(host: &mut dyn Host, server: &mut Server, door: &'static str) -> Result<Row> {
    let list = r#"{"jsonrpc":"2.0","id":"list","method":"tools/list","params":{}}"#;
    let listed = host.exchange(list, &mut answer)?;
    let tools = tool_names(listed.last().context("a list")?).context("tools in the list")?;
    let start = Instant::now();
    called(host, server.plain)?;
    let took = start.elapsed();
    let progress = count(&called(host, server.reports)?, |frame| {
        frame.method.as_deref() == Some("notifications/progress")
    });
    ensure!(progress == 4, "progress was reported {progress} times");
    // Some offer the tool that asks only to a host that can be asked when they first meet it.
    let asked = if tools.iter().any(|name| name == server.asks.0) {
        let frames = called(host, server.asks)?;
        let asked = count(&frames, |frame| {
            frame.method.as_deref() == Some("elicitation/create")
        });
        ensure!(asked == 1, "the host was asked {asked} times");
        "answered"
    } else {
        "not offered"
    };
    let back = restarted(host, server)?;
    Ok(Row {
        server: server.name,
        transport: server.transport,
        door,
        tools: tools.len(),
        took,
        progress,
        asked,
        back,
    })
}

/// Starts the server anew and gives the time until a call works again.
fn restarted(host: &mut dyn Host, server: &mut Server) -> Result<Duration> {
    server.process.kill()?;
    server.process = started(&mut server.command, server.port)?;
    let start = Instant::now();
    let back = wait_until(BACK, || called(host, server.plain).is_ok());
    ensure!(back, "no call works after a restart");
    Ok(start.elapsed())
}

fn tool_names(response: &str) -> Option<Vec<String>> {
    let result = Frame::parse(response)?.result?;
    let tools = items(member(&result, "tools")?)?;
    let name = |tool: &&str| serde_json::from_str(member(tool, "name")?).ok();
    Some(tools.iter().filter_map(name).collect())
}

/// Calls a tool, which has to succeed, and gives all frames of it.
fn called(host: &mut dyn Host, (tool, arguments): (&str, &str)) -> Result<Vec<Frame>> {
    let name = quoted(tool);
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":"call","method":"tools/call","params":{{"name":{name},"arguments":{arguments},"_meta":{{"progressToken":"p"}}}}}}"#
    );
    let frames = host.exchange(&line, &mut answer)?;
    let frames: Vec<Frame> = frames
        .iter()
        .filter_map(|line| Frame::parse(line))
        .collect();
    let last = frames.last().context("an answer")?;
    let result = last.result.as_deref();
    let succeeded = result.is_some_and(|result| member(result, "isError") != Some("true"));
    ensure!(succeeded, "`{tool}` answered {}", last.raw);
    Ok(frames)
}

/// The host's answer to what a server asks.
fn answer(question: &Frame) -> Option<String> {
    let id = question.id.as_deref()?;
    let result = match question.method.as_deref()? {
        "elicitation/create" => r#"{"action":"accept","content":{"value":true}}"#,
        "roots/list" => r#"{"roots":[]}"#,
        _ => return None,
    };
    Some(format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#
    ))
}

fn count(frames: &[Frame], wanted: impl Fn(&Frame) -> bool) -> usize {
    let said = frames.iter().filter(|frame| frame.kind() != Kind::Response);
    said.filter(|frame| wanted(frame)).count()
}

fn print(rows: &[Row]) {
    println!(
        "{:12}{:16}{:8}{:>6}{:>9}{:>10}  {:12}{:>12}",
        "server", "transport", "door", "tools", "ms", "progress", "question", "back after"
    );
    for row in rows {
        let (ms, back) = (row.took.as_secs_f64() * 1000.0, row.back.as_secs_f64());
        println!(
            "{:12}{:16}{:8}{:>6}{ms:>9.1}{:>10}  {:12}{back:>10.1} s",
            row.server, row.transport, row.door, row.tools, row.progress, row.asked
        );
    }
}
