//! `callgate connect --print HOST`: the snippet that connects a host.

use std::process::ExitCode;

use callgate_process::command_line;
use serde_json::json;

use crate::{
    args::{Connect, Gateway, HostKind, Shared},
    exit::Failed,
    print::outln,
    setup,
};

/// How a host reaches the gateway.
enum Way {
    Stdio { command: String, args: Vec<String> },
    Http { url: String, token: String },
}

pub(crate) fn run(shared: &Shared, connect: &Connect) -> Result<ExitCode, Failed> {
    let settings = setup::settings(shared, &Gateway::default(), true)?;
    let way = if connect.http {
        let token = settings.tokens()?.agent;
        Way::Http {
            url: format!("http://{}/mcp", settings.listen(None)?),
            token,
        }
    } else {
        Way::Stdio {
            command: own_program()?,
            args: stdio_args(shared)?,
        }
    };
    let (place, snippet) = snippet(connect.print, &way);
    eprintln!("{place}");
    outln!("{snippet}");
    Ok(ExitCode::SUCCESS)
}

fn own_program() -> Result<String, Failed> {
    let program = std::env::current_exe().map_err(|error| Failed::system(error.to_string()))?;
    Ok(program.to_string_lossy().into_owned())
}

fn stdio_args(shared: &Shared) -> Result<Vec<String>, Failed> {
    let mut args = vec!["stdio".to_owned()];
    for (flag, path) in [
        ("--config", &shared.config),
        ("--data-dir", &shared.data_dir),
    ] {
        if let Some(path) = path {
            let whole =
                std::path::absolute(path).map_err(|error| Failed::user(error.to_string()))?;
            args.extend([flag.to_owned(), whole.to_string_lossy().into_owned()]);
        }
    }
    Ok(args)
}

/// Where the snippet goes, and the snippet.
fn snippet(host: HostKind, way: &Way) -> (&'static str, String) {
    let pretty = |value: serde_json::Value| format!("{value:#}");
    match (host, way) {
        (HostKind::Claude, Way::Stdio { command, args }) => (
            "run this, for Claude Code:",
            format!(
                "claude mcp add callgate -- {}",
                command_line::join(std::iter::once(command).chain(args))
            ),
        ),
        (HostKind::Claude, Way::Http { url, token }) => (
            "run this, for Claude Code:",
            format!(
                "claude mcp add --transport http callgate {url} --header \"Authorization: Bearer {token}\""
            ),
        ),
        (HostKind::Codex, Way::Stdio { command, args }) => (
            "add this to ~/.codex/config.toml:",
            format!(
                "[mcp_servers.callgate]\ncommand = {}\nargs = {}",
                json!(command),
                json!(args)
            ),
        ),
        (HostKind::Codex, Way::Http { url, .. }) => (
            "add this to ~/.codex/config.toml, and put the agent token into CALLGATE_TOKEN:",
            format!(
                "[mcp_servers.callgate]\nurl = {}\nbearer_token_env_var = \"CALLGATE_TOKEN\"",
                json!(url)
            ),
        ),
        (HostKind::Cursor, way) => (
            "add this to ~/.cursor/mcp.json:",
            pretty(json!({"mcpServers": {"callgate": plain(way)}})),
        ),
        (HostKind::Gemini, way) => (
            "add this to ~/.gemini/settings.json:",
            pretty(json!({"mcpServers": {"callgate": gemini(way)}})),
        ),
        (HostKind::Vscode, way) => (
            "add this to .vscode/mcp.json:",
            pretty(json!({"servers": {"callgate": typed(way)}})),
        ),
        (HostKind::Opencode, way) => (
            "add this to opencode.json:",
            pretty(json!({"mcp": {"callgate": opencode(way)}})),
        ),
    }
}

fn plain(way: &Way) -> serde_json::Value {
    match way {
        Way::Stdio { command, args } => json!({"command": command, "args": args}),
        Way::Http { url, token } => json!({"url": url, "headers": bearer(token)}),
    }
}

fn typed(way: &Way) -> serde_json::Value {
    match way {
        Way::Stdio { command, args } => json!({"type": "stdio", "command": command, "args": args}),
        Way::Http { url, token } => json!({"type": "http", "url": url, "headers": bearer(token)}),
    }
}

fn gemini(way: &Way) -> serde_json::Value {
    match way {
        Way::Stdio { command, args } => json!({"command": command, "args": args}),
        Way::Http { url, token } => json!({"httpUrl": url, "headers": bearer(token)}),
    }
}

fn opencode(way: &Way) -> serde_json::Value {
    match way {
        Way::Stdio { command, args } => {
            let command: Vec<&String> = std::iter::once(command).chain(args).collect();
            json!({"type": "local", "command": command, "enabled": true})
        }
        Way::Http { url, token } => {
            json!({"type": "remote", "url": url, "headers": bearer(token), "enabled": true})
        }
    }
}

fn bearer(token: &str) -> serde_json::Value {
    json!({"Authorization": format!("Bearer {token}")})
}
