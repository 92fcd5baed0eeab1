//! Codex.

use std::{
    fs,
    path::{Path, PathBuf},
};

use callgate_process::sandbox;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    Options, Proxy, StepFailed,
    access::{Access, Variables},
    ask::{Question, ask},
    cli::{AgentCli, PROBE_KEY, touch},
    events::{AgentEvent, Tokens, native, number, text},
    home::{OwnHome, in_home},
    launch::{Launch, SERVER, Task, compact, push},
    login,
};

const PROGRAM: &str = "codex";
/// The variable that sets Codex's configuration folder.
const HOME: &str = "CODEX_HOME";

/// Variables with an API key, in the order in which they count.
const KEYS: [&str; 2] = ["CODEX_API_KEY", "OPENAI_API_KEY"];
/// The variable that replaces the endpoint.
const BASE_URL: &str = "OPENAI_BASE_URL";
/// The name of the provider in the settings of a step with another endpoint.
const PROVIDER: &str = "step";
/// Codex refuses a longer prompt. What stands before a task of about that length becomes its developer instructions.
const MAX_PROMPT_CHARS: usize = 1 << 20;
/// The configuration in the step's home.
const CONFIG: &str = ".codex/config.toml";
/// The user's login, in the configuration folder.
const CREDENTIALS: &str = "auth.json";

const BY_KEY: Access = Access {
    variables: &KEYS,
    base_url: Some(BASE_URL),
    hosts: &["api.openai.com"],
};
const BY_LOGIN: Access = Access {
    variables: &[],
    base_url: None,
    hosts: &["chatgpt.com"],
};

/// Settings that switch off telemetry and update checks, for every proxied step.
const QUIET: [&str; 4] = [
    "analytics.enabled=false",
    "feedback.enabled=false",
    "check_for_update_on_startup=false",
    r#"otel.exporter="none""#,
];
/// Features that bring native tools.
const FEATURES: [&str; 17] = [
    "shell_tool",
    "unified_exec",
    "view_image",
    "multi_agent",
    "multi_agent_v2",
    "goals",
    "image_generation",
    "tool_suggest",
    "sleep_tool",
    "skill_search",
    "hooks",
    "browser_use",
    "computer_use",
    "in_app_browser",
    "memories",
    "shell_snapshot",
    "workspace_dependencies",
];
/// Settings that disable further native tools, and the instructions that Codex finds above the folder it starts in.
const TOOLS_OFF: [&str; 5] = [
    "project_doc_max_bytes=0",
    // Without it, Codex reads `.codex/config.toml` of every folder from the next repository on, and ends if its box refuses one.
    "project_root_markers=[]",
    r#"web_search="disabled""#,
    "tools.experimental_request_user_input.enabled=false",
    "tools.update_plan.enabled=false",
];

#[derive(Debug)]
pub(crate) struct Codex;

impl AgentCli for Codex {
    fn program(&self) -> &'static str {
        PROGRAM
    }

    fn isolated_version(&self) -> &'static str {
        "0.166.0"
    }

    fn accesses(&self, users: Variables<'_>, options: &Options) -> Vec<&'static Access> {
        let has_key = KEYS.iter().any(|name| users.get(name).is_some());
        let is_elsewhere = options.base_url.is_some() || users.get(BASE_URL).is_some();
        if has_key || is_elsewhere || !stored(users)["tokens"].is_object() {
            vec![&BY_KEY]
        } else {
            vec![&BY_LOGIN]
        }
    }

    fn instructions(&self) -> &'static [&'static str] {
        &["AGENTS.md"]
    }

    fn machine_settings(&self) -> &'static str {
        "/etc/codex"
    }

    fn launch<'a>(&'a self, task: &'a Task<'_>) -> BoxFuture<'a, Result<Launch, StepFailed>> {
        Box::pin(launch(task))
    }

    fn read_event(&self, event: &Value) -> Vec<AgentEvent> {
        read_event(event)
    }

    fn native_probe_calls(&self, proof: &Path) -> Vec<(&'static str, Value)> {
        let command = touch(proof);
        vec![
            ("shell", json!({"command": ["bash", "-lc", command]})),
            ("exec_command", json!({"cmd": command})),
            ("shell_command", json!({"command": command})),
        ]
    }

    fn use_scripted_model(&self, options: &mut Options, url: &str) {
        options.base_url = Some(format!("{url}/v1"));
        options.set_variable(KEYS[0], PROBE_KEY);
    }
}

async fn launch(task: &Task<'_>) -> Result<Launch, StepFailed> {
    let mut args = Vec::new();
    push(
        &mut args,
        &["exec", "--json", "--skip-git-repo-check", "--ephemeral"],
    );
    push_sandbox(&mut args, task);
    if let Some(model) = &task.options.model {
        push(&mut args, &["-m", model]);
    }
    if let Some(relay) = &task.relay {
        let server = format!("mcp_servers.{SERVER}");
        let words: Vec<String> = relay.args().iter().map(|arg| toml(arg)).collect();
        for setting in [
            format!("{server}.command={}", toml(&relay.command())),
            format!("{server}.args=[{}]", words.join(",")),
            format!(r#"{server}.default_tools_approval_mode="approve""#),
            format!("{server}.required=true"),
            format!("{server}.tool_timeout_sec=600"),
            "tool_output_token_limit=200000".to_owned(),
            r#"features.code_mode.direct_only_tool_namespaces=["mcp__callgate"]"#.to_owned(),
        ] {
            push(&mut args, &["-c", &setting]);
        }
        for setting in QUIET {
            push(&mut args, &["-c", setting]);
        }
        push(&mut args, &["--disable", "apps", "--disable", "plugins"]);
        push(&mut args, &["-c", &untrusted(task.workdir)]);
    }
    let mut env = Vec::new();
    let mut cwd = None;
    let mut prompt = task.whole_prompt();
    if let Some(home) = &task.home {
        env.extend(own_home(task, home)?);
        endpoint(task, &mut args);
        match task.proxy {
            Proxy::Full => {
                if prompt.chars().count() > MAX_PROMPT_CHARS {
                    let preface = toml(&task.preface);
                    let config = format!("developer_instructions = {preface}\n");
                    task.folder.write(&in_home(CONFIG), &config)?;
                    prompt.clone_from(&task.prompt);
                }
                full(task, &env, &mut args).await?;
                cwd = Some(home.work());
            }
            Proxy::Additive | Proxy::Off => {
                task.folder
                    .write(&in_home(CONFIG), &users_config(task.users))?;
            }
        }
    }
    Ok(Launch {
        args,
        env,
        stdin: prompt,
        cwd,
    })
}

/// Codex's own sandbox, which its native tools run in.
fn push_sandbox(args: &mut Vec<String>, task: &Task<'_>) {
    match (&task.options.sandbox, task.proxy) {
        (Some(sandbox), _) => push(args, &["-s", sandbox]),
        (None, Proxy::Full) => push(args, &["-s", "read-only"]),
        // Additive mode keeps native editing, which `read-only` would disable. The user's own setting takes precedence.
        (None, Proxy::Additive) if !users_sandbox(task) => {
            // Codex cannot make its own sandbox in ours.
            let is_confined =
                task.sandbox.is_some() && sandbox::probe(task.warden_program).holds_required();
            let sandbox = match is_confined {
                true => "danger-full-access",
                false => "workspace-write",
            };
            push(args, &["-s", sandbox]);
        }
        (None, Proxy::Additive | Proxy::Off) => {}
    }
}

/// The configuration folder in the step's home, with the user's login.
fn own_home(task: &Task<'_>, home: &OwnHome) -> Result<Vec<(String, String)>, StepFailed> {
    let login = stored(task.users);
    let login = match api_key(task.users) {
        Some((_, key)) => json!({"OPENAI_API_KEY": key}),
        None if login["tokens"].is_object() => access_alone(login)?,
        None => json!({"OPENAI_API_KEY": login["OPENAI_API_KEY"]}),
    };
    let name = in_home(&format!(".codex/{CREDENTIALS}"));
    // Also creates the folder: Codex does not start without it.
    task.folder.write(&name, &compact(&login))?;
    let folder = home.path().join(".codex").display().to_string();
    Ok(vec![(HOME.to_owned(), folder)])
}

/// The user's login without its refresh token.
fn access_alone(mut login: Value) -> Result<Value, StepFailed> {
    let token = text(&login, "/tokens/access_token").unwrap_or_default();
    if login::has_passed(login::claims(&token).get("exp")) {
        return Err(login::expired(PROGRAM));
    }
    login["tokens"]["refresh_token"] = json!("");
    // Codex renews a login that is some days old; this one cannot be renewed, and is known to be valid.
    login["last_refresh"] = json!(Timestamp::now().to_string());
    Ok(login)
}

/// The key in the user's environment, with its variable.
fn api_key(users: Variables<'_>) -> Option<(&'static str, &str)> {
    let mut found = KEYS.into_iter();
    found.find_map(|name| users.get(name).map(|key| (name, key)))
}

/// Settings for an endpoint other than OpenAI's.
fn endpoint(task: &Task<'_>, args: &mut Vec<String>) {
    let url = task.options.base_url.as_deref();
    let Some(url) = url.or_else(|| task.users.get(BASE_URL)) else {
        return;
    };
    let provider = format!("model_providers.{PROVIDER}");
    for setting in [
        format!("model_provider={}", toml(PROVIDER)),
        format!("{provider}.name={}", toml(PROVIDER)),
        format!("{provider}.base_url={}", toml(url)),
        format!(r#"{provider}.wire_api="responses""#),
    ] {
        push(args, &["-c", &setting]);
    }
    if let Some((variable, _)) = api_key(task.users) {
        let setting = format!("{provider}.env_key={}", toml(variable));
        push(args, &["-c", &setting]);
    }
}

/// The login that Codex stored in the user's home; null if there is none.
fn stored(users: Variables<'_>) -> Value {
    let folder = users_folder(users);
    folder.map_or(Value::Null, |folder| login::read(&folder.join(CREDENTIALS)))
}

/// The user's configuration folder.
fn users_folder(users: Variables<'_>) -> Option<PathBuf> {
    match users.get(HOME) {
        Some(folder) => Some(PathBuf::from(folder)),
        None => Some(Path::new(users.get("HOME")?).join(".codex")),
    }
}

fn users_config(users: Variables<'_>) -> String {
    let file = users_folder(users).map(|folder| folder.join("config.toml"));
    let text = file.and_then(|file| fs::read_to_string(file).ok());
    text.unwrap_or_default()
}

/// Marks the work folder and its parents as untrusted projects, so that Codex ignores `.codex/config.toml` in them even
/// if the user trusts them.
fn untrusted(workdir: &Path) -> String {
    let real = workdir.canonicalize().ok();
    let mut folders: Vec<&Path> = workdir.ancestors().collect();
    folders.extend(real.iter().flat_map(|real| real.ancestors()));
    folders.sort_unstable();
    folders.dedup();
    let entry = |folder: &&Path| {
        format!(
            r#"{}={{trust_level="untrusted"}}"#,
            toml(&folder.display().to_string())
        )
    };
    let entries: Vec<String> = folders.iter().map(entry).collect();
    format!("projects={{{}}}", entries.join(","))
}

async fn full(
    task: &Task<'_>,
    added: &[(String, String)],
    args: &mut Vec<String>,
) -> Result<(), StepFailed> {
    for feature in FEATURES {
        push(args, &["--disable", feature]);
    }
    for setting in TOOLS_OFF {
        push(args, &["-c", setting]);
    }
    let catalog = task
        .folder
        .write("codex-models.json", &models(task, added).await?)?;
    let catalog = format!(
        "model_catalog_json={}",
        toml(&catalog.display().to_string())
    );
    push(args, &["-c", &catalog]);
    Ok(())
}

/// Codex's model catalog without native tools: the catalog decides which tools each model gets.
async fn models(task: &Task<'_>, added: &[(String, String)]) -> Result<String, StepFailed> {
    let env = [task.env, added].concat();
    let question = Question {
        program: PROGRAM,
        args: &["debug", "models", "--bundled"],
        env: &env,
        // Not the work folder: configuration files in it could change the answer.
        cwd: task.folder.path(),
        sandbox: task.sandbox,
    };
    without_tools(&ask(task.warden_program, &question).await?)
}

fn without_tools(bundled: &str) -> Result<String, StepFailed> {
    let mut catalog: Value = serde_json::from_str(bundled).map_err(|error| {
        StepFailed::Agent(format!(
            "`codex debug models` did not print valid JSON: {error}"
        ))
    })?;
    let models = match &mut catalog {
        Value::Array(models) => Some(models),
        other => other.get_mut("models").and_then(Value::as_array_mut),
    };
    for model in models
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
    {
        for (key, value) in [
            ("apply_patch_tool_type", Value::Null),
            ("shell_type", "disabled".into()),
            ("tool_mode", "direct".into()),
            ("multi_agent_version", "disabled".into()),
            ("supports_search_tool", false.into()),
            ("experimental_supported_tools", Value::Array(Vec::new())),
        ] {
            model.insert(key.to_owned(), value);
        }
    }
    Ok(catalog.to_string())
}

/// Whether the user's configuration sets `sandbox_mode`.
fn users_sandbox(task: &Task<'_>) -> bool {
    let sets = |line: &str| line.trim_start().starts_with("sandbox_mode");
    users_config(task.users).lines().any(sets)
}

/// A TOML string. TOML's basic strings accept JSON's escapes.
fn toml(text: &str) -> String {
    callgate_wire::quote(text)
}

fn read_event(event: &Value) -> Vec<AgentEvent> {
    match event["type"].as_str() {
        Some("item.completed") => item(&event["item"]).into_iter().collect(),
        Some("turn.completed") => vec![
            AgentEvent::Used(Tokens {
                input: number(event, "/usage/input_tokens"),
                output: number(event, "/usage/output_tokens"),
                cost_usd: None,
            }),
            AgentEvent::Done {
                text: None,
                error: None,
            },
        ],
        Some("turn.failed") => {
            let why = text(event, "/error/message");
            let error = why.unwrap_or_else(|| "no reason was given".to_owned());
            vec![AgentEvent::Done {
                text: None,
                error: Some(error),
            }]
        }
        Some("error") => text(event, "/message")
            .map(AgentEvent::Trouble)
            .into_iter()
            .collect(),
        _ => Vec::new(),
    }
}

fn item(item: &Value) -> Option<AgentEvent> {
    let used = match item["type"].as_str()? {
        "agent_message" => return text(item, "/text").map(AgentEvent::Text),
        "mcp_tool_call" if item["server"] == SERVER => return Some(AgentEvent::Call),
        "mcp_tool_call" => {
            let name = format!("{}:{}", text(item, "/server")?, text(item, "/tool")?);
            native(&name, item.get("arguments"))
        }
        "command_execution" => native("shell", Some(&json!({"command": item["command"]}))),
        "file_change" => native("apply_patch", Some(&json!({"changes": item["changes"]}))),
        "web_search" => native("web_search", None),
        _ => return None,
    };
    // Not `failed`, which a command is, too, that ran and ended with an error.
    Some(match item["status"].as_str() {
        Some("declined") => AgentEvent::NativeRefused(used),
        Some(_) | None => AgentEvent::Native { id: None, used },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AgentKind,
        testing::{Bench, done, native_use, read},
    };

    async fn settings(bench: &Bench, proxy: Proxy) -> Vec<String> {
        let launch = bench.launch(AgentKind::Codex, proxy, "x").await.unwrap();
        launch.args
    }

    #[tokio::test]
    async fn projects_up_to_the_root_are_untrusted() {
        let bench = Bench::new();
        let args = settings(&bench, Proxy::Additive).await;
        let projects = args.iter().find(|arg| arg.starts_with("projects={"));
        let projects = projects.unwrap();
        for folder in bench.path("work").ancestors() {
            let entry = format!(r#""{}"={{trust_level="untrusted"}}"#, folder.display());
            assert!(projects.contains(&entry), "{entry} in {projects}");
        }
    }

    #[tokio::test]
    async fn additive_mode_keeps_the_users_sandbox_setting() {
        let bench = Bench::new();
        let has = |args: &[String], word: &str| args.iter().any(|arg| arg == word);
        assert!(has(
            &settings(&bench, Proxy::Additive).await,
            "workspace-write"
        ));
        bench.file("home/.codex/config.toml", "sandbox_mode = \"read-only\"\n");
        assert!(!has(&settings(&bench, Proxy::Additive).await, "-s"));
    }

    #[tokio::test]
    async fn codex_gets_no_gateway_settings_when_the_proxy_is_off() {
        let args = settings(&Bench::new(), Proxy::Off).await;
        let expected = ["exec", "--json", "--skip-git-repo-check", "--ephemeral"];
        assert_eq!(args, expected);
    }

    #[test]
    fn only_the_tools_are_removed_from_each_model_of_the_catalog() {
        for bundled in [
            r#"{"models":[{"slug":"a","shell_type":"default"},{"slug":"b"}]}"#,
            r#"[{"slug":"a","apply_patch_tool_type":"freeform"},{"slug":"b"}]"#,
        ] {
            let catalog: Value = serde_json::from_str(&without_tools(bundled).unwrap()).unwrap();
            let models = catalog.get("models").unwrap_or(&catalog);
            for (model, slug) in models.as_array().unwrap().iter().zip(["a", "b"]) {
                assert_eq!(model["slug"], slug);
                assert_eq!(model["shell_type"], "disabled");
                assert_eq!(model["apply_patch_tool_type"], Value::Null);
                assert_eq!(model["experimental_supported_tools"], json!([]));
            }
        }
        assert!(without_tools("not JSON").is_err());
    }

    #[test]
    fn codex_commands_patches_searches_and_other_servers_count_as_native() {
        let of = |item: Value| {
            read(
                AgentKind::Codex,
                &json!({"type": "item.completed", "item": item}),
            )
        };
        let call = json!({"type": "mcp_tool_call", "server": "callgate", "tool": "Read"});
        assert_eq!(of(call), [AgentEvent::Call]);
        let other = json!({"type": "mcp_tool_call", "server": "mine", "tool": "Read", "arguments": {"a": 1}});
        assert_eq!(of(other), [native_use("mine:Read", Some(&json!({"a": 1})))]);
        let command = json!({"type": "command_execution", "command": "ls"});
        assert_eq!(
            of(command),
            [native_use("shell", Some(&json!({"command": "ls"})))]
        );
        let change = json!({"type": "file_change", "changes": []});
        assert_eq!(
            of(change),
            [native_use("apply_patch", Some(&json!({"changes": []})))]
        );
        assert_eq!(
            of(json!({"type": "web_search"})),
            [native_use("web_search", None)]
        );
        assert_eq!(of(json!({"type": "reasoning"})), []);
    }

    #[test]
    fn only_the_end_of_a_turn_is_final_for_codex() {
        let of = |event: Value| read(AgentKind::Codex, &event);
        assert_eq!(of(json!({"type": "turn.completed"}))[1], done(None));
        let failed = json!({"type": "turn.failed", "error": {"message": "no"}});
        assert_eq!(of(failed), [done(Some("no"))]);
        let error = json!({"type": "error", "message": "again"});
        assert_eq!(of(error), [AgentEvent::Trouble("again".to_owned())]);
        assert_eq!(of(json!({"type": "turn.started"})), []);
    }
}
