//! Claude Code.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::{
    Proxy, StepFailed,
    events::{Said, Tokens},
    launch::{Launch, SERVER, Task, compact, nothing, number, push, text, used},
};

/// What is not to be sent anywhere or changed.
const QUIET: [&str; 4] = [
    "DISABLE_TELEMETRY",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_AUTOUPDATER",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
];
/// Where Claude keeps its configuration, when it is told.
const CONFIG_DIR: &str = "CLAUDE_CONFIG_DIR";
/// What Claude can be let in by without a login.
const BY_VARIABLE: [&str; 3] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
];
/// Our tools as Claude names them.
const PREFIX: &str = "mcp__callgate__";

pub(crate) fn launch(task: &Task<'_>) -> Result<Launch, StepFailed> {
    let mut args = output_args(task);
    push_tools(&mut args, task)?;
    let mut stdin = task.prompt.clone();
    match task.proxy {
        Proxy::Full => {
            push_isolation(&mut args);
            // A command of Claude's own begins with a slash.
            stdin.insert(0, ' ');
        }
        Proxy::Additive | Proxy::Off => {}
    }
    let mut env = QUIET.map(|name| (name.to_owned(), "1".to_owned())).to_vec();
    if task.relay.is_some() && BY_VARIABLE.iter().any(|name| task.variable(name).is_some()) {
        let home = private_home(task)?;
        env.push((CONFIG_DIR.to_owned(), home.display().to_string()));
    }
    Ok(Launch {
        program: "claude".to_owned(),
        args,
        env,
        stdin,
        cwd: None,
    })
}

/// How Claude runs and reports, whichever tools it has.
fn output_args(task: &Task<'_>) -> Vec<String> {
    let mut args = Vec::new();
    push(
        &mut args,
        &[
            "-p",
            "--output-format",
            "stream-json",
            "--verbose",
            "--no-session-persistence",
        ],
    );
    if let Some(model) = &task.options.model {
        push(&mut args, &["--model", model]);
    }
    if let Some(mode) = &task.options.permission_mode {
        push(&mut args, &["--permission-mode", mode]);
    }
    args
}

/// Connects Claude to our server and says which tools it may call without asking.
fn push_tools(args: &mut Vec<String>, task: &Task<'_>) -> Result<(), StepFailed> {
    let mut allowed = task.options.allowed_tools.clone();
    if let Some(relay) = &task.relay {
        let server = json!({
            "type": "stdio",
            "command": relay.command(),
            "args": relay.args(),
            "env": nothing(),
            "alwaysLoad": true,
        });
        let file = json!({"mcpServers": {SERVER: server}});
        let file = task.folder.write("claude-mcp.json", &compact(&file))?;
        push(args, &["--mcp-config", &file.display().to_string()]);
        allowed.insert(0, "mcp__callgate".to_owned());
    }
    if !allowed.is_empty() {
        push(args, &["--allowedTools", &allowed.join(",")]);
    }
    if task.relay.is_some() {
        // Settings of the work folder could run commands and send the user's key elsewhere.
        push(args, &["--setting-sources", "user"]);
    }
    Ok(())
}

/// Switches off everything but the tools of our server.
fn push_isolation(args: &mut Vec<String>) {
    push(
        args,
        &[
            "--strict-mcp-config",
            "--tools",
            "",
            "--disable-slash-commands",
            "--settings",
            r#"{"permissions":{"deny":["Read"]},"disableAllHooks":true}"#,
        ],
    );
}

/// A folder for what Claude notes about itself, with the user's settings in it: it would write into the
/// user's own. Whoever has logged in keeps theirs, because a login that is renewed in a copy is lost.
fn private_home(task: &Task<'_>) -> Result<PathBuf, StepFailed> {
    let users = match task.variable(CONFIG_DIR) {
        Some(folder) => Some(PathBuf::from(folder)),
        None => task
            .variable("HOME")
            .map(|home| Path::new(home).join(".claude")),
    };
    let settings = users.and_then(|users| fs::read_to_string(users.join("settings.json")).ok());
    let settings = settings.unwrap_or_else(|| "{}".to_owned());
    let file = task.folder.write("claude/settings.json", &settings)?;
    Ok(file.with_file_name(""))
}

pub(crate) fn said(line: &Value) -> Vec<Said> {
    match line["type"].as_str() {
        Some("assistant") => {
            let blocks = line.pointer("/message/content").and_then(Value::as_array);
            blocks.into_iter().flatten().filter_map(block).collect()
        }
        Some("result") => result(line),
        _ => Vec::new(),
    }
}

fn block(block: &Value) -> Option<Said> {
    match block["type"].as_str()? {
        "text" => text(block, "/text").map(Said::Text),
        "tool_use" => Some(used(block["name"].as_str()?, &[PREFIX], block.get("input"))),
        _ => None,
    }
}

fn result(line: &Value) -> Vec<Said> {
    let tokens = Tokens {
        input: number(line, "/usage/input_tokens")
            + number(line, "/usage/cache_read_input_tokens")
            + number(line, "/usage/cache_creation_input_tokens"),
        output: number(line, "/usage/output_tokens"),
        cost_usd: line["total_cost_usd"].as_f64(),
    };
    let final_text = text(line, "/result");
    let failed = line["is_error"].as_bool() == Some(true) || line["subtype"] != "success";
    let error = failed.then(|| {
        let why = final_text.clone().or_else(|| text(line, "/subtype"));
        why.unwrap_or_else(|| "it does not say why".to_owned())
    });
    vec![
        Said::Used(tokens),
        Said::Done {
            text: final_text,
            error,
        },
    ]
}
