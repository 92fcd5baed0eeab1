//! Clients from npm, PyPI and crates.io, unchanged, through both doors: they list, call, read, prompt and answer a
//! question; rmcp in both eras of the protocol. The inspector's command line cannot answer one, and does the rest.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use callgate_testkit::{DataDir, StdioHost, bin, callgate};
use serde_json::{Value, json};

use super::install::{self, Node};
use crate::command::output;

const PYTHON_1: &str = include_str!("real_clients/python_1.py");
const PYTHON_2: &str = include_str!("real_clients/python_2.py");
const TYPESCRIPT: &str = include_str!("real_clients/typescript.mjs");
const RMCP: &str = include_str!("real_clients/rmcp.rs");

/// How long `serve` may take until it listens on a busy machine.
const START: Duration = Duration::from_secs(60);

/// What the inspector is asked, and a part of what it must answer.
const INSPECTED: [(&[&str], &str); 5] = [
    (&["--method", "tools/list"], "s__echo"),
    (
        &[
            "--method",
            "tools/call",
            "--tool-name",
            "s__echo",
            "--tool-arg",
            "key=k",
        ],
        "s echoes k",
    ),
    (&["--method", "resources/list"], "callgate://t/shared://doc"),
    (
        &["--method", "resources/read", "--uri", "s://1"],
        "s reads s://1",
    ),
    (
        &[
            "--method",
            "prompts/get",
            "--prompt-name",
            "s__p0",
            "--prompt-args",
            "who=me",
        ],
        "s greets me by p0",
    ),
];

/// A client, made by a script of ours.
struct Client {
    name: &'static str,
    /// What it answers when it is asked.
    answers: &'static str,
    program: PathBuf,
    /// What stands before the arguments that say which door: the script, or the era.
    first: OsString,
}

/// A door, as the arguments that a client reaches it by.
struct Door {
    name: &'static str,
    arguments: Vec<String>,
}

/// Runs the check and prints a table.
pub(super) fn run() -> Result<()> {
    let data = DataDir::new();
    let node = install::node()?;
    let clients = clients(&data, &node)?;
    let config = config(&data);
    let served = Served::start(&data, &config)?;
    let doors = [stdio_door(&data, &config), served.door()];
    println!("{:24}{:8}{:>10}", "client", "door", "took");
    for door in &doors {
        for client in &clients {
            let took = look(client, door)
                .with_context(|| format!("{} over {}", client.name, door.name))?;
            println!(
                "{:24}{:8}{:>8} ms",
                client.name,
                door.name,
                took.as_millis()
            );
        }
        let took = inspect(&node, door).with_context(|| format!("inspector, {}", door.name))?;
        println!(
            "{:24}{:8}{:>8} ms",
            "inspector",
            door.name,
            took.as_millis()
        );
    }
    Ok(())
}

fn clients(data: &DataDir, node: &Node) -> Result<Vec<Client>> {
    let [one, two] = install::python_clients()?;
    // A module is found from where the script lies.
    let modules = install::npm_clients(node)?;
    let script = modules.with_file_name("typescript.mjs");
    std::fs::write(&script, TYPESCRIPT)?;
    let rmcp = install::rmcp_client(RMCP)?;
    let in_era = |name, era: &str| Client {
        name,
        answers: "rmcp",
        program: rmcp.clone(),
        first: era.into(),
    };
    Ok(vec![
        Client {
            name: "Python mcp 1.x",
            answers: "python 1",
            program: one,
            first: data.file("python_1.py", PYTHON_1).into(),
        },
        Client {
            name: "Python mcp 2.x",
            answers: "python 2",
            program: two,
            first: data.file("python_2.py", PYTHON_2).into(),
        },
        Client {
            name: "TypeScript SDK",
            answers: "typescript",
            program: node.program.clone(),
            first: script.into(),
        },
        in_era("rmcp 2025-11-25", "handshake"),
        in_era("rmcp 2026-07-28", "stateless"),
    ])
}

/// Two servers of the test kit, so that names and URIs must be routed.
fn config(data: &DataDir) -> PathBuf {
    let shelf = bin("shelf-upstream");
    let server = |tag: &str| json!({"command": shelf, "args": ["--tag", tag]});
    let config = json!({"servers": {"s": server("s"), "t": server("t")}, "policy": "allow-all"});
    data.file("callgate.yaml", &config.to_string())
}

fn gateway(config: &Path, data: &DataDir, folder: &str) -> [String; 4] {
    let folder = data.path().join(folder).display().to_string();
    let config = config.display().to_string();
    [
        "--config".to_owned(),
        config,
        "--data-dir".to_owned(),
        folder,
    ]
}

fn stdio_door(data: &DataDir, config: &Path) -> Door {
    let program = callgate().display().to_string();
    let begin = ["stdio".to_owned(), program, "stdio".to_owned()];
    Door {
        name: "stdio",
        arguments: begin
            .into_iter()
            .chain(gateway(config, data, "stdio-data"))
            .collect(),
    }
}

/// A running `serve`, with its URL and token.
struct Served {
    url: String,
    token: String,
    _process: StdioHost,
}

impl Served {
    fn start(data: &DataDir, config: &Path) -> Result<Self> {
        let mut command = Command::new(callgate());
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        command.args(gateway(config, data, "http-data"));
        let process = StdioHost::spawn(&mut command)?;
        let line = process.wait_stderr(START, |line| line.starts_with("listening "))?;
        let token = data.read("http-data/agent.token").trim().to_owned();
        ensure!(!token.is_empty(), "`serve` wrote no agent token");
        Ok(Self {
            url: line.trim_start_matches("listening ").to_owned(),
            token,
            _process: process,
        })
    }

    fn door(&self) -> Door {
        Door {
            name: "http",
            arguments: vec!["http".to_owned(), self.url.clone(), self.token.clone()],
        }
    }
}

/// Lets a client look at everything.
fn look(client: &Client, door: &Door) -> Result<Duration> {
    let start = Instant::now();
    let mut command = Command::new(&client.program);
    command.arg(&client.first).args(&door.arguments);
    let printed = output(&mut command)?;
    let saw: Value = serde_json::from_str(printed.trim())?;
    let expected = json!({
        "tools": 28,
        "resources": 8,
        "prompts": 4,
        "called": "s echoes k",
        "read": "s reads s://1",
        "prompt": "s greets me by p0",
        "answered": client.answers,
    });
    ensure!(saw == expected, "it saw {saw}");
    Ok(start.elapsed())
}

fn inspect(node: &Node, door: &Door) -> Result<Duration> {
    let start = Instant::now();
    let inspector = install::inspector(node)?;
    for (arguments, expected) in INSPECTED {
        let mut command = Command::new(&node.program);
        command.arg(&inspector).arg("--cli");
        match door.arguments.as_slice() {
            [way, url, token] if way == "http" => {
                let header = format!("Authorization: Bearer {token}");
                command.arg(url).args(arguments).args(["--header", &header]);
            }
            // Its own arguments come before the server's, which begin with dashes, too.
            [_, server @ ..] => {
                command.args(arguments).arg("--").args(server);
            }
            [] => {}
        }
        // It starts `node` by name.
        let printed = output(command.env("PATH", install::path_with(&node.program)))?;
        ensure!(printed.contains(expected), "{arguments:?}: {printed}");
    }
    Ok(start.elapsed())
}
