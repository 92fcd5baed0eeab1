//! Codex.

use std::path::Path;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use crate::{
    Options, Proxy, StepFailed,
    ask::{Question, ask},
    cli::{AgentCli, PROBE_KEY, touch},
    events::{AgentEvent, Tokens, number, text},
    folder::Folder,
    launch::{Launch, SERVER, Task, push},
};

const PROGRAM: &str = "codex";
/// The variable that sets Codex's configuration folder.
const HOME: &str = "CODEX_HOME";

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
/// Settings that disable further native tools.
const TOOLS_OFF: [&str; 3] = [
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

    fn use_scripted_model(
        &self,
        options: &mut Options,
        home: &Folder,
        url: &str,
    ) -> Result<(), StepFailed> {
        options.set_variable(HOME, &home.path().display().to_string());
        options.set_variable("PROBE_KEY", PROBE_KEY);
        for setting in [
            r#"model_provider="probe""#.to_owned(),
            r#"model_providers.probe.name="probe""#.to_owned(),
            format!(r#"model_providers.probe.base_url="{url}/v1""#),
            r#"model_providers.probe.wire_api="responses""#.to_owned(),
            r#"model_providers.probe.env_key="PROBE_KEY""#.to_owned(),
        ] {
            options.extra_args.extend(["-c".to_owned(), setting]);
        }
        Ok(())
    }
}

async fn launch(task: &Task<'_>) -> Result<Launch, StepFailed> {
    let mut args = Vec::new();
    push(
        &mut args,
        &["exec", "--json", "--skip-git-repo-check", "--ephemeral"],
    );
    match (&task.options.sandbox, task.proxy) {
        (Some(sandbox), _) => push(&mut args, &["-s", sandbox]),
        (None, Proxy::Full) => push(&mut args, &["-s", "read-only"]),
        // Additive mode keeps native editing, which `read-only` would disable. The user's own setting takes precedence.
        (None, Proxy::Additive) if !users_sandbox(task) => {
            push(&mut args, &["-s", "workspace-write"]);
        }
        (None, Proxy::Additive | Proxy::Off) => {}
    }
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
    match task.proxy {
        Proxy::Full => full(task, &mut args).await?,
        Proxy::Additive | Proxy::Off => {}
    }
    Ok(Launch {
        args,
        env: Vec::new(),
        stdin: task.prompt.clone(),
        cwd: None,
    })
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

async fn full(task: &Task<'_>, args: &mut Vec<String>) -> Result<(), StepFailed> {
    for feature in FEATURES {
        push(args, &["--disable", feature]);
    }
    for setting in TOOLS_OFF {
        push(args, &["-c", setting]);
    }
    for name in other_servers(task).await? {
        push(
            args,
            &["-c", &format!("mcp_servers.{}.enabled=false", key(&name))],
        );
    }
    let catalog = task
        .folder
        .write("codex-models.json", &models(task).await?)?;
    let catalog = format!(
        "model_catalog_json={}",
        toml(&catalog.display().to_string())
    );
    push(args, &["-c", &catalog]);
    Ok(())
}

/// The MCP servers that the user has configured.
async fn other_servers(task: &Task<'_>) -> Result<Vec<String>, StepFailed> {
    let listed = asked(task, &["mcp", "list", "--json"]).await?;
    let listed: Value = serde_json::from_str(&listed).unwrap_or_default();
    let names = listed.as_array().into_iter().flatten();
    let names = names.filter_map(|server| text(server, "/name"));
    Ok(names.filter(|name| name != SERVER).collect())
}

/// Codex's model catalog without native tools: the catalog decides which tools each model gets.
async fn models(task: &Task<'_>) -> Result<String, StepFailed> {
    let bundled = asked(task, &["debug", "models", "--bundled"]).await?;
    without_tools(&bundled)
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

async fn asked(task: &Task<'_>, args: &[&str]) -> Result<String, StepFailed> {
    let question = Question {
        program: PROGRAM,
        args,
        env: task.env,
        // Not the work folder: configuration files in it could change the answer.
        cwd: task.folder.path(),
    };
    ask(task.warden_program, &question).await
}

/// Whether the user's configuration sets `sandbox_mode`.
fn users_sandbox(task: &Task<'_>) -> bool {
    let home = task.variable(HOME).map(std::path::PathBuf::from);
    let home = home.or_else(|| Some(std::path::Path::new(task.variable("HOME")?).join(".codex")));
    let written = home.and_then(|home| std::fs::read_to_string(home.join("config.toml")).ok());
    let sets = |line: &str| line.trim_start().starts_with("sandbox_mode");
    written.is_some_and(|text| text.lines().any(sets))
}

/// A TOML string. TOML's basic strings accept JSON's escapes.
fn toml(text: &str) -> String {
    callgate_wire::quote(text)
}

/// A component of a dotted TOML key, quoted if necessary.
fn key(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(plain) {
        name.to_owned()
    } else {
        toml(name)
    }
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
    let native = |tool: &str, arguments: Option<Value>| AgentEvent::Native {
        tool: tool.to_owned(),
        arguments: arguments.map(|value| value.to_string()),
    };
    match item["type"].as_str()? {
        "agent_message" => text(item, "/text").map(AgentEvent::Text),
        "mcp_tool_call" if item["server"] == SERVER => text(item, "/tool").map(AgentEvent::Call),
        "mcp_tool_call" => {
            let name = format!("{}:{}", text(item, "/server")?, text(item, "/tool")?);
            Some(native(
                &name,
                item.get("arguments")
                    .filter(|value| value.is_object())
                    .cloned(),
            ))
        }
        "command_execution" => {
            let command = json!({"command": item["command"]});
            Some(native("shell", Some(command)))
        }
        "file_change" => {
            let changes = json!({"changes": item["changes"]});
            Some(native("apply_patch", Some(changes)))
        }
        "web_search" => Some(native("web_search", None)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AgentKind,
        testing::{Bench, done, native, read},
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
    fn unusual_server_names_are_quoted_as_one_key_part() {
        for (name, expected) in [
            ("plain-name_1", "plain-name_1"),
            ("a.b", r#""a.b""#),
            ("a\"b", r#""a\"b""#),
            ("", r#""""#),
        ] {
            assert_eq!(key(name), expected);
        }
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
        assert_eq!(of(call), [AgentEvent::Call("Read".to_owned())]);
        let other = json!({"type": "mcp_tool_call", "server": "mine", "tool": "Read", "arguments": {"a": 1}});
        assert_eq!(of(other), [native("mine:Read", Some(&json!({"a": 1})))]);
        let command = json!({"type": "command_execution", "command": "ls"});
        assert_eq!(
            of(command),
            [native("shell", Some(&json!({"command": "ls"})))]
        );
        let change = json!({"type": "file_change", "changes": []});
        assert_eq!(
            of(change),
            [native("apply_patch", Some(&json!({"changes": []})))]
        );
        assert_eq!(
            of(json!({"type": "web_search"})),
            [native("web_search", None)]
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
