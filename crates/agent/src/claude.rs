//! Claude Code.

use std::{
    fs,
    path::{Path, PathBuf},
};

use futures_util::future::{BoxFuture, ready};
use serde_json::{Value, json};

use crate::{
    Options, Proxy, StepFailed,
    access::{Access, GOOGLE_KEY_FILE, Variables},
    cli::{AgentCli, PROBE_KEY, touch},
    events::{AgentEvent, Tokens, number, text, used},
    home::{OwnHome, in_home},
    launch::{Launch, SERVER, Task, compact, nothing, push},
    login,
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
/// The user's login, beside the settings.
const CREDENTIALS: &str = ".credentials.json";
/// Switches for the clouds that offer Claude's models.
const USE_BEDROCK: &str = "CLAUDE_CODE_USE_BEDROCK";
const USE_VERTEX: &str = "CLAUDE_CODE_USE_VERTEX";
const USE_FOUNDRY: &str = "CLAUDE_CODE_USE_FOUNDRY";

/// What the user chose for every way to the model.
const MODELS: Access = Access {
    variables: &[
        "ANTHROPIC_MODEL",
        "ANTHROPIC_SMALL_FAST_MODEL",
        "ANTHROPIC_DEFAULT_OPUS_MODEL",
        "ANTHROPIC_DEFAULT_SONNET_MODEL",
        "ANTHROPIC_DEFAULT_HAIKU_MODEL",
        "ANTHROPIC_BETAS",
        "ANTHROPIC_CUSTOM_HEADERS",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
        "MAX_THINKING_TOKENS",
    ],
    base_url: None,
    hosts: &[],
};
const ANTHROPIC: Access = Access {
    variables: &BY_VARIABLE,
    base_url: Some("ANTHROPIC_BASE_URL"),
    hosts: &["api.anthropic.com"],
};
const BEDROCK: Access = Access {
    variables: &[
        USE_BEDROCK,
        "CLAUDE_CODE_SKIP_BEDROCK_AUTH",
        "AWS_BEARER_TOKEN_BEDROCK",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
    ],
    base_url: Some("ANTHROPIC_BEDROCK_BASE_URL"),
    hosts: &[
        "bedrock-runtime.{AWS_REGION|AWS_DEFAULT_REGION|us-east-1}.amazonaws.com",
        "bedrock.{AWS_REGION|AWS_DEFAULT_REGION|us-east-1}.amazonaws.com",
    ],
};
const VERTEX: Access = Access {
    variables: &[
        USE_VERTEX,
        "CLAUDE_CODE_SKIP_VERTEX_AUTH",
        "ANTHROPIC_VERTEX_PROJECT_ID",
        "CLOUD_ML_REGION",
        GOOGLE_KEY_FILE,
    ],
    base_url: Some("ANTHROPIC_VERTEX_BASE_URL"),
    hosts: &[
        "{CLOUD_ML_REGION|us-east5}-aiplatform.googleapis.com",
        "aiplatform.googleapis.com",
        "oauth2.googleapis.com",
    ],
};
const FOUNDRY: Access = Access {
    variables: &[
        USE_FOUNDRY,
        "ANTHROPIC_FOUNDRY_RESOURCE",
        "ANTHROPIC_FOUNDRY_API_KEY",
    ],
    base_url: Some("ANTHROPIC_FOUNDRY_BASE_URL"),
    hosts: &["{ANTHROPIC_FOUNDRY_RESOURCE|unset}.services.ai.azure.com"],
};

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

    fn accesses(&self, users: Variables<'_>, _options: &Options) -> Vec<&'static Access> {
        vec![&MODELS, service(users)]
    }

    fn instructions(&self) -> &'static [&'static str] {
        &["CLAUDE.md", "AGENTS.md"]
    }

    fn machine_settings(&self) -> &'static str {
        "/etc/claude-code"
    }

    fn launch<'a>(&'a self, task: &'a Task<'_>) -> BoxFuture<'a, Result<Launch, StepFailed>> {
        Box::pin(ready(launch(task)))
    }

    fn read_event(&self, event: &Value) -> Vec<AgentEvent> {
        read_event(event)
    }

    // Whole beginnings: what a tool printed that was used begins otherwise (`Exit code 1`).
    fn is_refusal(&self, tool: &str, error: &str) -> bool {
        [
            format!("<tool_use_error>Error: No such tool available: {tool}"),
            format!("Error: No such tool available: {tool}"),
            format!("Claude requested permissions to use {tool}, but you haven't granted it"),
            format!("Permission to use {tool} has been denied"),
        ]
        .iter()
        .any(|refusal| error.starts_with(refusal))
    }

    fn reports_cost(&self) -> bool {
        true
    }

    fn native_probe_calls(&self, proof: &Path) -> Vec<(&'static str, Value)> {
        let command = json!({"command": touch(proof), "description": "touch"});
        vec![
            ("Bash", command),
            ("Write", json!({"file_path": proof, "content": "x"})),
        ]
    }

    fn use_scripted_model(&self, options: &mut Options, url: &str) {
        options.set_variable("ANTHROPIC_BASE_URL", url);
        options.set_variable("ANTHROPIC_API_KEY", PROBE_KEY);
        options.set_variable("IS_SANDBOX", "1");
    }
}

/// The service or cloud that the user's variables choose.
fn service(users: Variables<'_>) -> &'static Access {
    if users.is_on(USE_BEDROCK) {
        &BEDROCK
    } else if users.is_on(USE_VERTEX) {
        &VERTEX
    } else if users.is_on(USE_FOUNDRY) {
        &FOUNDRY
    } else {
        &ANTHROPIC
    }
}

fn launch(task: &Task<'_>) -> Result<Launch, StepFailed> {
    let mut args = output_args(task);
    push_tools(&mut args, task)?;
    let mut stdin = task.whole_prompt();
    match task.proxy {
        Proxy::Full => {
            push_isolation(&mut args);
            // A prompt that begins with a slash would run one of Claude's own commands.
            stdin.insert(0, ' ');
        }
        Proxy::Additive | Proxy::Off => {}
    }
    let mut env = QUIET.map(|name| (name.to_owned(), "1".to_owned())).to_vec();
    let mut cwd = None;
    match (&task.home, task.proxy) {
        (Some(home), Proxy::Full) => {
            env.extend(login_variables(task, home)?);
            cwd = Some(home.work());
        }
        (Some(home), Proxy::Additive | Proxy::Off) => {
            env.extend(login_variables(task, home)?);
            copy_settings(task, &in_home(".claude"))?;
        }
        (None, _) if task.relay.is_some() && has_key(task.users) => {
            // Claude would write to the user's folder. Not for users with a login, whose renewed token would be lost.
            let folder = copy_settings(task, "claude")?.display().to_string();
            env.push((CONFIG_DIR.to_owned(), folder));
        }
        (None, _) => {}
    }
    Ok(Launch {
        args,
        env,
        stdin,
        cwd,
    })
}

fn has_key(users: Variables<'_>) -> bool {
    BY_VARIABLE.iter().any(|name| users.get(name).is_some())
}

/// Variables that lead Claude to its own folder in the step's home, with the user's login if that is a stored one.
fn login_variables(task: &Task<'_>, home: &OwnHome) -> Result<Vec<(String, String)>, StepFailed> {
    let folder = home.path().join(".claude").display().to_string();
    let mut variables = vec![(CONFIG_DIR.to_owned(), folder)];
    if service(task.users) == &ANTHROPIC
        && !has_key(task.users)
        && let Some(token) = stored_token(task)?
    {
        variables.push(("CLAUDE_CODE_OAUTH_TOKEN".to_owned(), token));
    }
    Ok(variables)
}

/// The access token of the user's login. The refresh token stays with the user: a token that a step renewed would end
/// the user's login, because a refresh token is used once.
fn stored_token(task: &Task<'_>) -> Result<Option<String>, StepFailed> {
    let Some(file) = users_folder(task.users).map(|folder| folder.join(CREDENTIALS)) else {
        return Ok(None);
    };
    let stored = login::read(&file);
    let Some(token) = text(&stored, "/claudeAiOauth/accessToken") else {
        return Ok(None);
    };
    if login::has_passed(stored.pointer("/claudeAiOauth/expiresAt")) {
        return Err(login::expired(PROGRAM));
    }
    Ok(Some(token))
}

/// The user's configuration folder.
fn users_folder(users: Variables<'_>) -> Option<PathBuf> {
    match users.get(CONFIG_DIR) {
        Some(folder) => Some(PathBuf::from(folder)),
        None => Some(Path::new(users.get("HOME")?).join(".claude")),
    }
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

/// Copies the user's settings into this folder of the step.
fn copy_settings(task: &Task<'_>, folder: &str) -> Result<PathBuf, StepFailed> {
    let users = users_folder(task.users);
    let settings = users.and_then(|users| fs::read_to_string(users.join("settings.json")).ok());
    let settings = settings.unwrap_or_else(|| "{}".to_owned());
    let copy = task
        .folder
        .write(&format!("{folder}/settings.json"), &settings)?;
    Ok(copy.with_file_name(""))
}

fn read_event(event: &Value) -> Vec<AgentEvent> {
    let content = event.pointer("/message/content").and_then(Value::as_array);
    let blocks = content.into_iter().flatten();
    match event["type"].as_str() {
        Some("assistant") => used_in_round(event)
            .into_iter()
            .chain(blocks.filter_map(block))
            .collect(),
        Some("user") => blocks.filter_map(tool_result).collect(),
        Some("result") => result(event),
        _ => Vec::new(),
    }
}

/// The tokens of a message. Claude repeats them with each part of the message.
fn used_in_round(event: &Value) -> Option<AgentEvent> {
    let usage = event.pointer("/message/usage")?;
    Some(AgentEvent::UsedInRound {
        id: text(event, "/message/id")?,
        tokens: tokens(usage),
    })
}

fn tokens(usage: &Value) -> Tokens {
    Tokens {
        input: number(usage, "/input_tokens")
            + number(usage, "/cache_read_input_tokens")
            + number(usage, "/cache_creation_input_tokens"),
        output: number(usage, "/output_tokens"),
        cost_usd: None,
    }
}

fn block(block: &Value) -> Option<AgentEvent> {
    match block["type"].as_str()? {
        "text" => text(block, "/text").map(AgentEvent::Text),
        "tool_use" => {
            let (name, id) = (block["name"].as_str()?, block["id"].as_str());
            Some(used(name, &[PREFIX], block.get("input"), id))
        }
        _ => None,
    }
}

/// The end of a tool's use, as the model is told of it.
fn tool_result(block: &Value) -> Option<AgentEvent> {
    let id = text(block, "/tool_use_id")?;
    let told = text(block, "/content").or_else(|| text(block, "/content/0/text"));
    let has_failed = block["is_error"].as_bool() == Some(true);
    Some(AgentEvent::NativeEnded {
        id,
        error: has_failed.then(|| told.unwrap_or_default()),
    })
}

fn result(event: &Value) -> Vec<AgentEvent> {
    let tokens = Tokens {
        cost_usd: event["total_cost_usd"].as_f64(),
        ..tokens(&event["usage"])
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
        access::passed,
        testing::{Bench, native_use, read},
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
    async fn full_mode_takes_the_login_and_no_settings_of_the_user() {
        let mut bench = Bench::new();
        bench.file("home/.claude/settings.json", r#"{"apiKeyHelper":"x"}"#);
        let login = |expires: i64| {
            let login = json!({"accessToken": "t", "refreshToken": "r", "expiresAt": expires});
            json!({"claudeAiOauth": login}).to_string()
        };
        let token = "CLAUDE_CODE_OAUTH_TOKEN";
        bench.file("home/.claude/.credentials.json", &login(0));
        let launch = launched(&bench, Proxy::Full).await;
        assert_eq!(launch.variable(token), Some("t"));
        let own = bench
            .folder
            .path()
            .join("home/.claude")
            .display()
            .to_string();
        assert_eq!(launch.variable(CONFIG_DIR), Some(own.as_str()));
        assert_eq!(launch.cwd, Some(bench.folder.path().join("work")));
        let settings = bench.folder.path().join("home/.claude/settings.json");
        assert!(!settings.exists());
        bench.file("home/.claude/.credentials.json", &login(1000));
        let expired = bench.launch(AgentKind::Claude, Proxy::Full, "x").await;
        assert!(matches!(expired, Err(StepFailed::LoginExpired { .. })));
        bench.set("ANTHROPIC_API_KEY", "k");
        assert_eq!(launched(&bench, Proxy::Full).await.variable(token), None);
    }

    #[test]
    fn the_cloud_that_the_user_chose_gets_its_variables_and_no_others() {
        for (switch, service) in [
            (None, &ANTHROPIC),
            (Some(USE_BEDROCK), &BEDROCK),
            (Some(USE_VERTEX), &VERTEX),
            (Some(USE_FOUNDRY), &FOUNDRY),
        ] {
            let pair = |name: &str| (name.to_owned(), "1".to_owned());
            let mut users: Vec<_> = [ANTHROPIC, BEDROCK, VERTEX, FOUNDRY]
                .iter()
                .flat_map(|access| access.variables)
                .filter(|name| !name.starts_with("CLAUDE_CODE_USE_"))
                .map(|name| pair(name))
                .collect();
            users.extend(switch.map(pair));
            let accesses = Claude.accesses(Variables(&users), &Options::default());
            assert_eq!(accesses, [&MODELS, service], "{switch:?}");
            let passed = passed(Variables(&users), &accesses, true);
            for (name, _) in passed {
                assert!(service.variables.contains(&name.as_str()), "{name}");
            }
        }
    }

    #[tokio::test]
    async fn additive_steps_of_users_with_an_api_key_get_a_private_copy_of_their_settings() {
        let mut bench = Bench::new();
        let users = bench.file("home/.claude/settings.json", r#"{"theme":"x"}"#);
        let without_key = launched(&bench, Proxy::Additive).await;
        assert_eq!(without_key.variable(CONFIG_DIR), None);
        bench.set("ANTHROPIC_API_KEY", "k");
        let launch = launched(&bench, Proxy::Additive).await;
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
                AgentEvent::Call,
                native_use("Bash", Some(&input)),
                native_use("mcp__other__Read", None),
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
