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
enum HostTransport {
    Stdio { command: String, args: Vec<String> },
    Http { url: String, token: String },
}

pub(crate) fn run(shared: &Shared, connect: &Connect) -> Result<ExitCode, Failed> {
    let settings = setup::settings(shared, &Gateway::default(), true)?;
    let transport = if connect.http {
        let token = settings.tokens()?.agent;
        HostTransport::Http {
            url: format!("http://{}/mcp", settings.listen(None)?),
            token,
        }
    } else {
        HostTransport::Stdio {
            command: own_program()?,
            args: stdio_args(shared)?,
        }
    };
    let (place, snippet) = snippet(connect.print, &transport);
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

/// The instruction where to put the snippet, and the snippet.
fn snippet(host: HostKind, transport: &HostTransport) -> (&'static str, String) {
    let pretty = |value: serde_json::Value| format!("{value:#}");
    match (host, transport) {
        (HostKind::Claude, HostTransport::Stdio { command, args }) => (
            "run this, for Claude Code:",
            format!(
                "claude mcp add callgate -- {}",
                command_line::join(std::iter::once(command).chain(args))
            ),
        ),
        (HostKind::Claude, HostTransport::Http { url, token }) => (
            "run this, for Claude Code:",
            format!(
                "claude mcp add --transport http callgate {url} --header \"Authorization: Bearer {token}\""
            ),
        ),
        (HostKind::Codex, HostTransport::Stdio { command, args }) => (
            "add this to ~/.codex/config.toml:",
            format!(
                "[mcp_servers.callgate]\ncommand = {}\nargs = {}",
                json!(command),
                json!(args)
            ),
        ),
        (HostKind::Codex, HostTransport::Http { url, .. }) => (
            "add this to ~/.codex/config.toml, and put the agent token into CALLGATE_TOKEN:",
            format!(
                "[mcp_servers.callgate]\nurl = {}\nbearer_token_env_var = \"CALLGATE_TOKEN\"",
                json!(url)
            ),
        ),
        (HostKind::Cursor, transport) => (
            "add this to ~/.cursor/mcp.json:",
            pretty(json!({"mcpServers": {"callgate": plain(transport)}})),
        ),
        (HostKind::Gemini, transport) => (
            "add this to ~/.gemini/settings.json:",
            pretty(json!({"mcpServers": {"callgate": gemini(transport)}})),
        ),
        (HostKind::Vscode, transport) => (
            "add this to .vscode/mcp.json:",
            pretty(json!({"servers": {"callgate": typed(transport)}})),
        ),
        (HostKind::Opencode, transport) => (
            "add this to opencode.json:",
            pretty(json!({"mcp": {"callgate": opencode(transport)}})),
        ),
    }
}

fn plain(transport: &HostTransport) -> serde_json::Value {
    match transport {
        HostTransport::Stdio { command, args } => json!({"command": command, "args": args}),
        HostTransport::Http { url, token } => json!({"url": url, "headers": bearer(token)}),
    }
}

fn typed(transport: &HostTransport) -> serde_json::Value {
    match transport {
        HostTransport::Stdio { command, args } => {
            json!({"type": "stdio", "command": command, "args": args})
        }
        HostTransport::Http { url, token } => {
            json!({"type": "http", "url": url, "headers": bearer(token)})
        }
    }
}

fn gemini(transport: &HostTransport) -> serde_json::Value {
    match transport {
        HostTransport::Stdio { command, args } => json!({"command": command, "args": args}),
        HostTransport::Http { url, token } => json!({"httpUrl": url, "headers": bearer(token)}),
    }
}

fn opencode(transport: &HostTransport) -> serde_json::Value {
    match transport {
        HostTransport::Stdio { command, args } => {
            let command: Vec<&String> = std::iter::once(command).chain(args).collect();
            json!({"type": "local", "command": command, "enabled": true})
        }
        HostTransport::Http { url, token } => {
            json!({"type": "remote", "url": url, "headers": bearer(token), "enabled": true})
        }
    }
}

fn bearer(token: &str) -> serde_json::Value {
    json!({"Authorization": format!("Bearer {token}")})
}
