//! Five servers from npm and PyPI, each in the box that `callgate servers learn` wrote for it: the calls that were made while
//! it was watched work in the box, and an attempt outside of it is refused.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use callgate_testkit::{DataDir, StdioHost, callgate};
use serde_json::{Value, json};

use super::install;
use crate::command::{command, output, run as run_command};

/// What a page and a file outside of every box contain.
const SECRET: &str = "the-secret-outside";
const PAGE: &str = "the-page-inside";

/// How long a gateway may take to end.
const CLOSING: Duration = Duration::from_secs(30);

struct Server {
    name: &'static str,
    program: String,
    args: Vec<String>,
    env: Value,
    /// Made while the server is watched, and again in its box.
    calls: Vec<Call>,
    attempt: Attempt,
}

struct Call {
    tool: &'static str,
    arguments: Value,
    /// What the answer must contain.
    expected: &'static str,
}

/// A start of the same server that makes it reach for something outside, and the call that would show it.
struct Attempt {
    /// Put in front of the server's start in a shell.
    shell: String,
    args: Vec<String>,
    /// `None` for a server that reaches for nothing itself.
    call: Option<Call>,
}

fn call(tool: &'static str, arguments: Value, expected: &'static str) -> Call {
    Call {
        tool,
        arguments,
        expected,
    }
}

/// Where everything of one run lies.
struct Place {
    data: DataDir,
    page: u16,
    /// Serves the secret, and is in no box.
    other_page: u16,
}

/// Runs the check and prints a table.
pub(super) fn run() -> Result<()> {
    let place = Place {
        data: DataDir::new(),
        page: serve_page(PAGE)?,
        other_page: serve_page(SECRET)?,
    };
    for folder in ["docs", "notes", "outside"] {
        fs::create_dir(place.path(folder))?;
    }
    fs::write(place.path("docs/read.md"), "an old file\n")?;
    fs::write(place.path("outside/secret.txt"), format!("{SECRET}\n"))?;
    let entity = json!({"type": "entity", "name": SECRET, "entityType": "x", "observations": []});
    fs::write(place.path("outside/memory.json"), entity.to_string())?;
    repository(&place.path("repo"), "nothing")?;
    repository(&place.path("outside/repo"), SECRET)?;
    println!(
        "{:12}{:>6}{:>6}{:>7}{:>5}  attempts outside of the box",
        "server", "calls", "read", "write", "net"
    );
    for server in &servers(&place)? {
        check(&place, server).with_context(|| format!("server `{}`", server.name))?;
    }
    Ok(())
}

fn check(place: &Place, server: &Server) -> Result<()> {
    let plain = configured(server, &server.program, &server.args);
    let config = place.path(&format!("{}.yaml", server.name));
    fs::write(&config, &plain)?;
    let learned = learn(place, &config, server)?;
    let written = fs::read_to_string(&config)?;
    let added = boxed_lines(&plain, &written)?;
    ensure!(
        learned["written"] == json!(true),
        "no box was written: {learned}"
    );
    // Something new to commit.
    let new = format!("repo/{}.txt", server.name);
    fs::write(place.path(&new), "new\n")?;
    let mut host = connect(place, &config)?;
    for call in &server.calls {
        let answer = made(&mut host, server, call)?;
        let works = answer.contains(call.expected) && !answer.contains("\"isError\":true");
        ensure!(
            works,
            "in its box, `{}` answered {answer}\n{added}",
            call.tool
        );
    }
    drop(host);
    attempts(place, server, &added)?;
    let count = |key: &str| learned["box"][key].as_array().map_or(0, Vec::len);
    println!(
        "{:12}{:>6}{:>6}{:>7}{:>5}  refused; all succeed without it",
        server.name,
        server.calls.len(),
        count("read"),
        count("write"),
        count("net")
    );
    Ok(())
}

/// The lines that were added; every other line must be as it was.
fn boxed_lines(before: &str, after: &str) -> Result<String> {
    let start = after.find("    box:").context("no box was written")?;
    let (head, rest) = after.split_at(start);
    let tail = before
        .strip_prefix(head)
        .context("lines before the box changed")?;
    let added = rest
        .strip_suffix(tail)
        .context("lines after the box changed")?;
    Ok(added.to_owned())
}

/// The same reach outside, without and with the box: a file through the shell, a new file, and through the server itself.
fn attempts(place: &Place, server: &Server, added: &str) -> Result<()> {
    let Attempt { shell, args, call } = &server.attempt;
    let escaped = place.path("outside/escaped");
    let script = format!(
        "cat '{}' >&2; echo x > '{}'; {shell} exec \"$@\"",
        place.path("outside/secret.txt").display(),
        escaped.display()
    );
    let own = [server.program.clone()];
    let words = ["-c".to_owned(), script, "sh".to_owned()];
    let args: Vec<String> = words
        .into_iter()
        .chain(own)
        .chain(args.iter().cloned())
        .collect();
    let free = configured(server, "sh", &args);
    // A box contains its own program, which is the shell here.
    let program = format!("      read:\n        - {}\n", json!(server.program));
    let added = added.replacen("      read:\n", &program, 1);
    let boxed = free.replace("policy:", &format!("{added}policy:"));
    for (text, is_boxed) in [(free, false), (boxed, true)] {
        let config = place.path(&format!("{}-attempt.yaml", server.name));
        fs::write(&config, &text)?;
        let data = place.path(&format!("data-{}-{is_boxed}", server.name));
        let mut command = callgate_command(&config, &data);
        let mut host = opened(&mut command)?;
        // Any call, so that the server has started.
        let answer = made(&mut host, server, call.as_ref().unwrap_or(&server.calls[0]))?;
        // Waits for the last lines of the log.
        host.close(CLOSING)?;
        let log = data.join(format!("logs/{}.log", server.name));
        let log = fs::read_to_string(log).unwrap_or_default();
        // The shell wrote there what it could read.
        let own = call.as_ref().map(|call| answer.contains(call.expected));
        let reached = [
            ("a file", Some(log.contains(SECRET))),
            ("a new file", Some(escaped.exists())),
            ("the server's own reach", own),
        ];
        for (what, reached) in reached {
            let Some(reached) = reached else { continue };
            ensure!(
                reached != is_boxed,
                "boxed: {is_boxed}, {what} reached: {reached}\n{answer}\n{text}"
            );
        }
        let _ = fs::remove_file(&escaped);
    }
    Ok(())
}

fn configured(server: &Server, program: &str, args: &[String]) -> String {
    format!(
        "# What {name} is for.\nservers:\n  {name}:\n    command: {program}   # kept\n    args: {args}\n    env: {env}\npolicy: allow-all\n",
        name = server.name,
        program = json!(program),
        args = json!(args),
        env = server.env,
    )
}

/// Makes the calls while the server is watched, and lets the box be written.
fn learn(place: &Place, config: &Path, server: &Server) -> Result<Value> {
    let mut learn = callgate_command(config, &place.path("data"));
    learn.args(["servers", "learn", server.name, "--yes", "--json"]);
    for call in &server.calls {
        learn.args(["--call", &format!("{} {}", call.tool, call.arguments)]);
    }
    let printed = output(&mut learn)?;
    let learned: Value = serde_json::from_str(printed.trim()).context("what `learn` printed")?;
    for made in learned["calls"].as_array().into_iter().flatten() {
        ensure!(made["error"].is_null(), "without a box: {made}");
    }
    Ok(learned)
}

fn connect(place: &Place, config: &Path) -> Result<StdioHost> {
    opened(&mut callgate_command(config, &place.path("data")))
}

fn opened(command: &mut Command) -> Result<StdioHost> {
    let mut host = StdioHost::spawn(command.arg("stdio"))?;
    host.set_deadline(Duration::from_secs(60));
    host.initialize("2025-11-25")?;
    Ok(host)
}

fn callgate_command(config: &Path, data: &Path) -> Command {
    let mut command = Command::new(callgate());
    command
        .arg("--config")
        .arg(config)
        .arg("--data-dir")
        .arg(data);
    command
}

fn made(host: &mut StdioHost, server: &Server, call: &Call) -> Result<String> {
    let name = format!("{}__{}", server.name, call.tool);
    host.call(7, &name, &call.arguments.to_string())
}

impl Place {
    fn path(&self, name: &str) -> PathBuf {
        self.data.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

fn servers(place: &Place) -> Result<Vec<Server>> {
    let node = install::node()?;
    let modules = install::npm_servers(&node)?;
    let programs = install::pypi_servers()?;
    let entry = |name: &str| {
        let entry = modules.join(format!("@modelcontextprotocol/server-{name}/dist/index.js"));
        entry.display().to_string()
    };
    let node = node.program.display().to_string();
    let python = |name: &str| programs.join(name).display().to_string();
    Ok(vec![
        filesystem(place, node.clone(), entry("filesystem")),
        memory(place, node, entry("memory")),
        git(place, python("mcp-server-git")),
        time(python("mcp-server-time")),
        fetch(place, python("mcp-server-fetch")),
    ])
}

fn filesystem(place: &Place, program: String, entry: String) -> Server {
    let docs = place.text("docs");
    let outside = place.text("outside");
    let read = |path: String, expected| call("read_text_file", json!({"path": path}), expected);
    Server {
        name: "filesystem",
        program,
        args: vec![entry.clone(), docs.clone()],
        env: json!({}),
        calls: vec![
            call("list_directory", json!({"path": docs}), "read.md"),
            read(place.text("docs/read.md"), "an old file"),
            call(
                "write_file",
                json!({"path": place.text("docs/new.md"), "content": "new"}),
                "new.md",
            ),
        ],
        attempt: Attempt {
            shell: String::new(),
            args: vec![entry, docs, outside],
            call: Some(read(place.text("outside/secret.txt"), SECRET)),
        },
    }
}

fn memory(place: &Place, program: String, entry: String) -> Server {
    let thing = json!({"name": "gate", "entityType": "thing", "observations": ["it is shut"]});
    let outside = place.text("outside/memory.json");
    Server {
        name: "memory",
        program,
        args: vec![entry.clone()],
        env: json!({"MEMORY_FILE_PATH": place.text("notes/memory.json")}),
        calls: vec![
            call("create_entities", json!({"entities": [thing]}), ""),
            call("read_graph", json!({}), "it is shut"),
        ],
        attempt: Attempt {
            shell: format!("export MEMORY_FILE_PATH='{outside}';"),
            args: vec![entry],
            call: Some(call("read_graph", json!({}), SECRET)),
        },
    }
}

fn git(place: &Place, program: String) -> Server {
    let repo = place.text("repo");
    let outside = place.text("outside/repo");
    let repository = |path: &str| vec!["--repository".to_owned(), path.to_owned()];
    Server {
        name: "git",
        program,
        args: repository(&repo),
        env: json!({}),
        calls: vec![
            call("git_status", json!({"repo_path": repo}), "On branch"),
            call("git_log", json!({"repo_path": repo}), "first"),
            call(
                "git_add",
                json!({"repo_path": repo, "files": ["."]}),
                "staged",
            ),
            call(
                "git_commit",
                json!({"repo_path": repo, "message": "second"}),
                "committed",
            ),
        ],
        attempt: Attempt {
            shell: String::new(),
            args: repository(&outside),
            call: Some(call(
                "git_show",
                json!({"repo_path": outside, "revision": "HEAD"}),
                SECRET,
            )),
        },
    }
}

fn time(program: String) -> Server {
    let berlin = "Europe/Berlin";
    let now = call("get_current_time", json!({"timezone": berlin}), berlin);
    Server {
        name: "time",
        program,
        args: Vec::new(),
        env: json!({}),
        calls: vec![now],
        attempt: Attempt {
            shell: String::new(),
            args: Vec::new(),
            call: None,
        },
    }
}

fn fetch(place: &Place, program: String) -> Server {
    let args = ["--ignore-robots-txt", "--allow-private-ips"];
    let args: Vec<String> = args.map(str::to_owned).to_vec();
    let page = |port: u16, expected| {
        let url = format!("http://127.0.0.1:{port}/");
        call("fetch", json!({"url": url, "raw": true}), expected)
    };
    Server {
        name: "fetch",
        program,
        args: args.clone(),
        env: json!({}),
        calls: vec![page(place.page, PAGE)],
        attempt: Attempt {
            shell: String::new(),
            args,
            call: Some(page(place.other_page, SECRET)),
        },
    }
}

/// A repository with one commit of this text, and one new file.
fn repository(folder: &Path, text: &str) -> Result<()> {
    run_command(command("git").args(["init", "--quiet"]).arg(folder))?;
    fs::write(folder.join("committed.txt"), text)?;
    let git = |args: &[&str]| {
        let mut git = command("git");
        run_command(git.arg("-C").arg(folder).args(args))
    };
    for (key, value) in [
        ("user.name", "soak"),
        ("user.email", "soak@example.invalid"),
    ] {
        git(&["config", key, value])?;
    }
    git(&["add", "committed.txt"])?;
    git(&["commit", "--quiet", "-m", "first"])?;
    fs::write(folder.join("new.txt"), "new\n")?;
    Ok(())
}

/// Serves this text on a loopback port to every client.
fn serve_page(text: &'static str) -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
                text.len()
            );
        }
    });
    Ok(port)
}
