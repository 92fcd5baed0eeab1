//! Claude Code.

use std::{
    fs,
    path::{Path, PathBuf},
};

use futures_util::future::{BoxFuture, ready};
use serde_json::{Value, json};

use crate::{
    Options, Proxy, StepFailed,
    cli::{AgentCli, PROBE_KEY, touch},
    events::{AgentEvent, Tokens, number, text, used},
    folder::Folder,
    launch::{Launch, SERVER, Task, compact, nothing, push},
};

const PROGRAM: &str = "claude";

/// Variables that switch off telemetry, error reports and updates.
const QUIET: [&str; 4] = [
    "DISABLE_TELEMETRY",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_AUTOUPDATER",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
];
/// The variable that sets Claude's configuration folder.
const CONFIG_DIR: &str = "CLAUDE_CONFIG_DIR";
/// Variables that authenticate Claude without a login.
const BY_VARIABLE: [&str; 3] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
];
/// The prefix that Claude gives to our tools.
const PREFIX: &str = "mcp__callgate__";

#[derive(Debug)]
pub(crate) struct Claude;

impl AgentCli for Claude {
    fn program(&self) -> &'static str {
        PROGRAM
    }

    fn isolated_version(&self) -> &'static str {
        "2.1.325"
    }

    fn launch<'a>(&'a self, task: &'a Task<'_>) -> BoxFuture<'a, Result<Launch, StepFailed>> {
        Box::pin(ready(launch(task)))
    }

    fn read_event(&self, event: &Value) -> Vec<AgentEvent> {
        read_event(event)
    }

    fn native_probe_calls(&self, proof: &Path) -> Vec<(&'static str, Value)> {
        let command = json!({"command": touch(proof), "description": "touch"});
        vec![
            ("Bash", command),
            ("Write", json!({"file_path": proof, "content": "x"})),
        ]
    }

    fn use_scripted_model(
        &self,
        options: &mut Options,
        home: &Folder,
        url: &str,
    ) -> Result<(), StepFailed> {
        let config = home.path().join("claude").display().to_string();
        options.set_variable("ANTHROPIC_BASE_URL", url);
        options.set_variable("ANTHROPIC_API_KEY", PROBE_KEY);
        options.set_variable(CONFIG_DIR, &config);
        options.set_variable("IS_SANDBOX", "1");
        Ok(())
    }
}

fn launch(task: &Task<'_>) -> Result<Launch, StepFailed> {
    let mut args = output_args(task);
    push_tools(&mut args, task)?;
    let mut stdin = task.prompt.clone();
    match task.proxy {
        Proxy::Full => {
            push_isolation(&mut args);
            // A prompt that begins with a slash would run one of Claude's own commands.
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
        args,
        env,
        stdin,
        cwd: None,
    })
}

/// Arguments for the output format and the model, independent of the tools.
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

/// Connects Claude to our server, and lists the tools that it may call without asking.
fn push_tools(args: &mut Vec<String>, task: &Task<'_>) -> Result<(), StepFailed> {
    let mut allowed = task.options.allowed_tools.clone();
    if let Some(relay) = &task.relay {
        let server = json!({
            "type": "stdio",
            "command": relay.command(),
            "args": relay.args(),
            "env": nothing(),
            // Without it our tools are hidden behind tool search in additive mode.
            "alwaysLoad": true,
        });
        let file = json!({"mcpServers": {SERVER: server}});
        let file = task.folder.write("claude-mcp.json", &compact(&file))?;
        push(args, &["--mcp-config", &file.display().to_string()]);
        // Without it Claude denies every call to our server, and still exits with 0.
        allowed.insert(0, "mcp__callgate".to_owned());
    }
    if !allowed.is_empty() {
        push(args, &["--allowedTools", &allowed.join(",")]);
    }
    if task.relay.is_some() {
        // Settings in the work folder are not trusted: they could run commands, or send the user's API key elsewhere.
        push(args, &["--setting-sources", "user"]);
    }
    Ok(())
}

/// Disables everything except the tools of our server.
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

/// A configuration folder for Claude's own state, with a copy of the user's settings: Claude would write to the user's
/// folder otherwise. Not used for users with a login, because a token renewed in a copy would be lost.
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

fn read_event(event: &Value) -> Vec<AgentEvent> {
    match event["type"].as_str() {
        Some("assistant") => {
            let blocks = event.pointer("/message/content").and_then(Value::as_array);
            blocks.into_iter().flatten().filter_map(block).collect()
        }
        Some("result") => result(event),
        _ => Vec::new(),
    }
}

fn block(block: &Value) -> Option<AgentEvent> {
    match block["type"].as_str()? {
        "text" => text(block, "/text").map(AgentEvent::Text),
        "tool_use" => Some(used(block["name"].as_str()?, &[PREFIX], block.get("input"))),
        _ => None,
    }
}

fn result(event: &Value) -> Vec<AgentEvent> {
    let tokens = Tokens {
        input: number(event, "/usage/input_tokens")
            + number(event, "/usage/cache_read_input_tokens")
            + number(event, "/usage/cache_creation_input_tokens"),
        output: number(event, "/usage/output_tokens"),
        cost_usd: event["total_cost_usd"].as_f64(),
    };
    let final_text = text(event, "/result");
    let failed = event["is_error"].as_bool() == Some(true) || event["subtype"] != "success";
    let error = failed.then(|| {
        let why = final_text.clone().or_else(|| text(event, "/subtype"));
        why.unwrap_or_else(|| "no reason was given".to_owned())
    });
    vec![
        AgentEvent::Used(tokens),
        AgentEvent::Done {
            text: final_text,
            error,
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AgentKind,
        testing::{Bench, native, read},
    };

    async fn launched(bench: &Bench, proxy: Proxy) -> Launch {
        let launch = bench.launch(AgentKind::Claude, proxy, "/help me").await;
        launch.unwrap()
    }

    #[tokio::test]
    async fn full_mode_disables_all_native_tools_of_claude() {
        let launch = launched(&Bench::new(), Proxy::Full).await;
        assert_eq!(launch.value("--tools"), Some(""));
        assert!(launch.args.iter().any(|arg| arg == "--strict-mcp-config"));
        let settings: Value = serde_json::from_str(launch.value("--settings").unwrap()).unwrap();
        assert_eq!(settings["disableAllHooks"], true);
        assert_eq!(settings["permissions"]["deny"], json!(["Read"]));
        assert_eq!(launch.value("--allowedTools"), Some("mcp__callgate"));
    }

    #[tokio::test]
    async fn claude_ignores_work_folder_settings_in_every_proxied_mode() {
        let bench = Bench::new();
        for (proxy, sources) in [
            (Proxy::Full, Some("user")),
            (Proxy::Additive, Some("user")),
            (Proxy::Off, None),
        ] {
            let launch = launched(&bench, proxy).await;
            assert_eq!(launch.value("--setting-sources"), sources, "{proxy:?}");
        }
    }

    #[tokio::test]
    async fn the_relay_is_the_only_server_in_claudes_configuration() {
        let bench = Bench::new();
        let launch = launched(&bench, Proxy::Full).await;
        let file = bench.folder.path().join("claude-mcp.json");
        assert_eq!(launch.value("--mcp-config"), file.to_str());
        let servers = bench.written("claude-mcp.json")["mcpServers"].take();
        assert_eq!(servers.as_object().unwrap().len(), 1);
        assert_eq!(servers["callgate"]["command"], "/opt/callgate");
        let relay = bench.folder.path().join("relay.json");
        let args = json!(["mcp-serve", "--config", relay]);
        assert_eq!(servers["callgate"]["args"], args);
    }

    #[tokio::test]
    async fn slash_prompts_are_not_run_as_commands_in_full_mode() {
        let bench = Bench::new();
        assert_eq!(launched(&bench, Proxy::Full).await.stdin, " /help me");
        assert_eq!(launched(&bench, Proxy::Off).await.stdin, "/help me");
    }

    #[tokio::test]
    async fn users_with_an_api_key_get_a_private_copy_of_their_settings() {
        let mut bench = Bench::new();
        let users = bench.file("home/.claude/settings.json", r#"{"theme":"x"}"#);
        let without_key = launched(&bench, Proxy::Full).await;
        assert_eq!(without_key.variable(CONFIG_DIR), None);
        bench.set("ANTHROPIC_API_KEY", "k");
        let launch = launched(&bench, Proxy::Full).await;
        let home = bench.folder.path().join("claude/").display().to_string();
        assert_eq!(launch.variable(CONFIG_DIR), Some(home.as_str()));
        assert_eq!(bench.written("claude/settings.json")["theme"], "x");
        assert_eq!(fs::read_to_string(users).unwrap(), r#"{"theme":"x"}"#);
    }

    #[tokio::test]
    async fn claude_sends_no_telemetry_in_any_mode() {
        let bench = Bench::new();
        for proxy in [Proxy::Full, Proxy::Additive, Proxy::Off] {
            let launch = launched(&bench, proxy).await;
            for name in QUIET {
                assert_eq!(launch.variable(name), Some("1"), "{name} {proxy:?}");
            }
        }
    }

    #[test]
    fn claudes_own_tools_and_other_servers_tools_count_as_native() {
        let input = json!({"command": "ls"});
        let event = json!({"type": "assistant", "message": {"content": [
            {"type": "text", "text": "hm"},
            {"type": "tool_use", "name": "mcp__callgate__Read", "input": {}},
            {"type": "tool_use", "name": "Bash", "input": input},
            {"type": "tool_use", "name": "mcp__other__Read"},
            {"type": "thinking", "thinking": "?"},
        ]}});
        assert_eq!(
            read(AgentKind::Claude, &event),
            [
                AgentEvent::Text("hm".to_owned()),
                AgentEvent::Call("Read".to_owned()),
                native("Bash", Some(&input)),
                native("mcp__other__Read", None),
            ]
        );
    }

    #[test]
    fn success_requires_the_success_subtype_and_no_error_flag() {
        for (event, error) in [
            (json!({"subtype": "success", "is_error": false}), None),
            (json!({"subtype": "success"}), None),
            (
                json!({"subtype": "success", "is_error": true, "result": "no credit"}),
                Some("no credit"),
            ),
            (
                json!({"subtype": "error_max_turns"}),
                Some("error_max_turns"),
            ),
            (json!({}), Some("no reason was given")),
        ] {
            let mut event = event;
            event["type"] = json!("result");
            let said = read(AgentKind::Claude, &event);
            let Some(AgentEvent::Done { error: found, .. }) = said.last() else {
                panic!("{event} is final");
            };
            assert_eq!(found.as_deref(), error, "{event}");
        }
    }

    #[test]
    fn cached_tokens_count_as_input() {
        let event = json!({"type": "result", "subtype": "success", "result": "ok", "total_cost_usd": 0.5, "usage":
            {"input_tokens": 1, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 300, "output_tokens": 4}});
        let tokens = Tokens {
            input: 321,
            output: 4,
            cost_usd: Some(0.5),
        };
        assert_eq!(read(AgentKind::Claude, &event)[0], AgentEvent::Used(tokens));
    }
}
