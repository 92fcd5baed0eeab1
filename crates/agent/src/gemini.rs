//! Gemini CLI.

use std::{
    fs,
    path::{Path, PathBuf},
};

use futures_util::future::{BoxFuture, ready};
use serde_json::{Map, Value, json};

use crate::{
    Options, Proxy, StepFailed,
    cli::{AgentCli, PROBE_KEY, touch},
    events::{AgentEvent, Tokens, number, text, used},
    folder::Folder,
    launch::{CALL_TIMEOUT_MS, Launch, Relay, SERVER, Task, compact, nothing, push},
};

const PROGRAM: &str = "gemini";
/// The variable that sets the folder with Gemini's configuration.
const HOME: &str = "GEMINI_CLI_HOME";

/// Denies every tool except those of our server. An empty `tools.core` setting would hide our tools as well.
const POLICY: &str = r#"[[rule]]
toolName = "*"
decision = "deny"
priority = 900

[[rule]]
mcpName = "callgate"
toolName = "*"
decision = "allow"
priority = 950
"#;
/// The prefixes that versions of Gemini give to our tools.
const PREFIXES: [&str; 2] = ["mcp_callgate_", "callgate__"];
/// The files with the user's login, beside the settings.
const CREDENTIALS: [&str; 3] = ["oauth_creds.json", "google_accounts.json", ".env"];
/// The file with instructions that Gemini reads from its working directory.
const CONTEXT: &str = "GEMINI.md";

#[derive(Debug)]
pub(crate) struct Gemini;

impl AgentCli for Gemini {
    fn program(&self) -> &'static str {
        PROGRAM
    }

    fn isolated_version(&self) -> &'static str {
        "0.61.0"
    }

    fn launch<'a>(&'a self, task: &'a Task<'_>) -> BoxFuture<'a, Result<Launch, StepFailed>> {
        Box::pin(ready(launch(task)))
    }

    fn read_event(&self, event: &Value) -> Vec<AgentEvent> {
        read_event(event)
    }

    fn text_separator(&self) -> &'static str {
        ""
    }

    fn native_probe_calls(&self, proof: &Path) -> Vec<(&'static str, Value)> {
        let content = json!({"file_path": proof, "content": "x"});
        vec![
            ("run_shell_command", json!({"command": touch(proof)})),
            ("write_file", content),
        ]
    }

    fn use_scripted_model(
        &self,
        options: &mut Options,
        home: &Folder,
        url: &str,
    ) -> Result<(), StepFailed> {
        let auth = json!({"security": {"auth": {"selectedType": "gemini-api-key"}}});
        home.write(".gemini/settings.json", &compact(&auth))?;
        options.set_variable(HOME, &home.path().display().to_string());
        options.set_variable("GOOGLE_GEMINI_BASE_URL", url);
        options.set_variable("GEMINI_API_KEY", PROBE_KEY);
        options.model = Some("gemini-2.5-pro".to_owned());
        Ok(())
    }
}

fn launch(task: &Task<'_>) -> Result<Launch, StepFailed> {
    let mut args = Vec::new();
    push(&mut args, &["-o", "stream-json", "--skip-trust"]);
    if let Some(model) = &task.options.model {
        push(&mut args, &["-m", model]);
    }
    if let Some(mode) = &task.options.approval_mode {
        push(&mut args, &["--approval-mode", mode]);
    }
    let mut prompt = task.prompt.clone();
    let mut env = Vec::new();
    let mut cwd = None;
    if task.proxy == Proxy::Additive {
        let why = "would change Gemini's environment, and Gemini has no option to ignore it";
        task.refuse_project_files(&[".gemini/.env"], why)?;
    }
    if task.relay.is_some() {
        settings(task)?;
        let home = task.folder.path().display().to_string();
        env.push((HOME.to_owned(), home));
    }
    match task.proxy {
        Proxy::Full => {
            let policy = task.folder.write("gemini-policy.toml", POLICY)?;
            let policy = policy.display().to_string();
            // Gemini is not started in the work folder: it would load `.env` files from there, and a `GEMINI.md` can pull
            // other files into the prompt. `--include-directories` would load the work folder's `GEMINI.md` as well.
            cwd = Some(own_folder(task)?);
            push(
                &mut args,
                &[
                    "--allowed-mcp-server-names",
                    SERVER,
                    "-e",
                    "none",
                    "--policy",
                    &policy,
                ],
            );
            // Unescaped, `@` reads a file into the prompt, and a leading slash runs a command of Gemini's own.
            prompt = format!(" {}", prompt.replace('@', "\\@"));
        }
        Proxy::Additive | Proxy::Off => {}
    }
    push(&mut args, &["-p", &prompt]);
    Ok(Launch {
        args,
        env,
        stdin: String::new(),
        cwd,
    })
}

/// A private folder to start Gemini in. It has the user's `.env` files, so that Gemini finds those and does not search
/// the parent folders for others.
fn own_folder(task: &Task<'_>) -> Result<PathBuf, StepFailed> {
    let variables = users_variables(task).unwrap_or_default();
    for name in [".gemini/.env", ".env"] {
        task.folder.write(&format!("work/{name}"), &variables)?;
    }
    let place = task
        .folder
        .write(&format!("work/{CONTEXT}"), &task.place())?;
    Ok(place.with_file_name(""))
}

/// The content of the user's `.env` file for Gemini.
fn users_variables(task: &Task<'_>) -> Option<String> {
    let own = users_home(task)?;
    let beside = own.parent()?.join(".env");
    let read = |path: PathBuf| fs::read_to_string(path).ok();
    read(own.join(".env")).or_else(|| read(beside))
}

/// Writes the step's settings into its private home. The user's settings are only read.
fn settings(task: &Task<'_>) -> Result<(), StepFailed> {
    let Some(relay) = &task.relay else {
        return Ok(());
    };
    let home = users_home(task);
    let mut settings = inherited_settings(task, &users_settings(home.as_deref()));
    let servers = settings.entry("mcpServers").or_insert_with(nothing);
    if let Some(servers) = servers.as_object_mut() {
        servers.insert(SERVER.to_owned(), server(relay));
    }
    for (key, value) in quiet_settings() {
        settings.insert(key.to_owned(), value);
    }
    task.folder
        .write(".gemini/settings.json", &compact(&Value::Object(settings)))?;
    if let Some(home) = home {
        copy_credentials(task, &home)?;
    }
    Ok(())
}

fn users_settings(home: Option<&Path>) -> Value {
    let written = home.and_then(|home| fs::read_to_string(home.join("settings.json")).ok());
    written
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_else(nothing)
}

/// The part of the user's settings that the step inherits.
fn inherited_settings(task: &Task<'_>, users: &Value) -> Map<String, Value> {
    let mut settings = match task.proxy {
        Proxy::Full | Proxy::Off => Map::new(),
        // Native tools stay in this mode, and so do the user's settings for them.
        Proxy::Additive => users.as_object().cloned().unwrap_or_default(),
    };
    for key in ["security", "selectedAuthType"] {
        if let Some(value) = users.get(key) {
            settings.insert(key.to_owned(), value.clone());
        }
    }
    let mut advanced = object(users, "advanced");
    advanced.insert("ignoreLocalEnv".to_owned(), json!(true));
    settings.insert("advanced".to_owned(), Value::Object(advanced));
    if task.proxy == Proxy::Full {
        // Keeps Gemini from reading instructions in the parents of the step's folder.
        let context = json!({"memoryBoundaryMarkers": []});
        settings.insert("context".to_owned(), context);
    }
    settings
}

/// Our server in the format of Gemini's settings.
fn server(relay: &Relay) -> Value {
    json!({
        "command": relay.command(),
        "args": relay.args(),
        "env": nothing(),
        "trust": true,
        "timeout": CALL_TIMEOUT_MS,
    })
}

/// Settings that disable hooks, usage reports and updates, and raise the limit at which results are cut.
fn quiet_settings() -> [(&'static str, Value); 5] {
    [
        ("hooksConfig", json!({"enabled": false})),
        ("telemetry", json!({"enabled": false})),
        ("privacy", json!({"usageStatisticsEnabled": false})),
        (
            "general",
            json!({"enableAutoUpdate": false, "enableAutoUpdateNotification": false, "disableAutoUpdate": true}),
        ),
        ("tools", json!({"truncateToolOutputThreshold": 500_000})),
    ]
}

/// Copies the user's login into the step's home.
fn copy_credentials(task: &Task<'_>, home: &Path) -> Result<(), StepFailed> {
    for name in CREDENTIALS {
        if let Ok(own) = fs::read_to_string(home.join(name)) {
            task.folder.write(&format!(".gemini/{name}"), &own)?;
        }
    }
    Ok(())
}

/// An object in the user's settings; empty if it is missing.
fn object(users: &Value, key: &str) -> Map<String, Value> {
    let found = users.get(key).and_then(Value::as_object);
    found.cloned().unwrap_or_default()
}

fn users_home(task: &Task<'_>) -> Option<PathBuf> {
    let home = task.variable(HOME).or_else(|| task.variable("HOME"))?;
    Some(PathBuf::from(home).join(".gemini"))
}

fn read_event(event: &Value) -> Vec<AgentEvent> {
    match event["type"].as_str() {
        Some("message") if event["role"] == "assistant" => text(event, "/content")
            .map(AgentEvent::Text)
            .into_iter()
            .collect(),
        Some("tool_use") => {
            let name = event["tool_name"]
                .as_str()
                .or_else(|| event["name"].as_str());
            let arguments = event.get("parameters").or_else(|| event.get("args"));
            name.map(|name| used(name, &PREFIXES, arguments))
                .into_iter()
                .collect()
        }
        Some("error") => text(event, "/message")
            .map(AgentEvent::Trouble)
            .into_iter()
            .collect(),
        Some("result") => result(event),
        _ => Vec::new(),
    }
}

fn result(event: &Value) -> Vec<AgentEvent> {
    let tokens = Tokens {
        input: number(event, "/stats/input_tokens"),
        output: number(event, "/stats/output_tokens"),
        cost_usd: None,
    };
    let error = (event["status"] != "success").then(|| {
        let why = text(event, "/error/message");
        why.unwrap_or_else(|| "no reason was given".to_owned())
    });
    vec![
        AgentEvent::Used(tokens),
        AgentEvent::Done { text: None, error },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AgentKind,
        testing::{Bench, done, native, read},
    };

    async fn launched(bench: &Bench, proxy: Proxy, prompt: &str) -> Launch {
        let launch = bench.launch(AgentKind::Gemini, proxy, prompt).await;
        launch.unwrap()
    }

    #[tokio::test]
    async fn full_mode_denies_gemini_all_but_gateway_tools() {
        let bench = Bench::new();
        let launch = launched(&bench, Proxy::Full, "x").await;
        let policy = fs::read_to_string(launch.value("--policy").unwrap()).unwrap();
        assert_eq!(policy, POLICY);
        assert_eq!(launch.value("--allowed-mcp-server-names"), Some("callgate"));
        assert_eq!(launch.value("-e"), Some("none"));
        let settings = bench.written(".gemini/settings.json");
        assert_eq!(settings["hooksConfig"]["enabled"], false);
        let servers = settings["mcpServers"].as_object().unwrap();
        assert_eq!(servers.keys().collect::<Vec<_>>(), ["callgate"]);
    }

    #[tokio::test]
    async fn gemini_starts_outside_the_work_folder_and_reads_the_users_env_file() {
        let bench = Bench::new();
        bench.file("work/.gemini/.env", "GEMINI_API_KEY=thief");
        bench.file("home/.gemini/.env", "GEMINI_API_KEY=users");
        let launch = launched(&bench, Proxy::Full, "x").await;
        let cwd = launch.cwd.unwrap();
        assert!(cwd.starts_with(bench.folder.path()), "{}", cwd.display());
        for name in [".gemini/.env", ".env"] {
            let found = fs::read_to_string(cwd.join(name)).unwrap();
            assert_eq!(found, "GEMINI_API_KEY=users", "{name}");
        }
        let told = fs::read_to_string(cwd.join("GEMINI.md")).unwrap();
        let work = bench.path("work").display().to_string();
        assert!(told.contains(&work), "{told}");
    }

    #[tokio::test]
    async fn additive_mode_refuses_project_files_that_gemini_would_load() {
        let bench = Bench::new();
        let file = bench.file("work/.gemini/.env", "GEMINI_API_KEY=thief");
        let refused = bench.launch(AgentKind::Gemini, Proxy::Additive, "x").await;
        let Err(StepFailed::ProjectFile { path, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(path, file);
    }

    #[tokio::test]
    async fn additive_mode_keeps_user_settings_and_full_mode_only_the_login() {
        let bench = Bench::new();
        let users = r#"{"theme":"dark","security":{"auth":1},"mcpServers":{"mine":{}}}"#;
        bench.file("home/.gemini/settings.json", users);
        launched(&bench, Proxy::Additive, "x").await;
        let additive = bench.written(".gemini/settings.json");
        launched(&bench, Proxy::Full, "x").await;
        let full = bench.written(".gemini/settings.json");
        assert_eq!(additive["theme"], "dark");
        assert!(additive["mcpServers"]["mine"].is_object());
        assert_eq!(full.get("theme"), None);
        assert_eq!(full["mcpServers"].get("mine"), None);
        for settings in [&additive, &full] {
            assert_eq!(settings["security"]["auth"], 1);
            assert_eq!(settings["advanced"]["ignoreLocalEnv"], true);
        }
    }

    #[tokio::test]
    async fn the_gemini_login_is_copied_and_not_moved() {
        let bench = Bench::new();
        let users = bench.file("home/.gemini/oauth_creds.json", r#"{"token":1}"#);
        launched(&bench, Proxy::Full, "x").await;
        assert_eq!(bench.written(".gemini/oauth_creds.json")["token"], 1);
        assert!(users.exists());
    }

    #[tokio::test]
    async fn full_mode_escapes_file_and_command_syntax_in_gemini_prompts() {
        let bench = Bench::new();
        for (prompt, full) in [
            ("@/etc/passwd", " \\@/etc/passwd"),
            ("/memory a@b", " /memory a\\@b"),
            ("--yolo", " --yolo"),
            ("", " "),
        ] {
            let launch = launched(&bench, Proxy::Full, prompt).await;
            assert_eq!(launch.value("-p"), Some(full));
            let launch = launched(&bench, Proxy::Off, prompt).await;
            assert_eq!(launch.value("-p"), Some(prompt));
        }
    }

    #[test]
    fn gemini_knows_gateway_tools_in_both_spellings() {
        let arguments = json!({"path": "a"});
        for (name, said) in [
            ("mcp_callgate_Read", AgentEvent::Call("Read".to_owned())),
            ("callgate__Read", AgentEvent::Call("Read".to_owned())),
            ("read_file", native("read_file", Some(&arguments))),
            (
                "xcallgate__Read",
                native("xcallgate__Read", Some(&arguments)),
            ),
        ] {
            let event = json!({"type": "tool_use", "tool_name": name, "parameters": arguments});
            assert_eq!(read(AgentKind::Gemini, &event), [said]);
        }
    }

    #[test]
    fn only_a_result_is_final_for_gemini() {
        let event = json!({"type": "result", "status": "success", "stats": {"input_tokens": 3}});
        assert_eq!(read(AgentKind::Gemini, &event)[1], done(None));
        let event = json!({"type": "result", "status": "error"});
        let said = read(AgentKind::Gemini, &event);
        assert_eq!(said[1], done(Some("no reason was given")));
        let event = json!({"type": "error", "message": "quota"});
        let said = read(AgentKind::Gemini, &event);
        assert_eq!(said, [AgentEvent::Trouble("quota".to_owned())]);
    }

    #[test]
    fn user_messages_are_not_read_as_agent_output() {
        let event = json!({"type": "message", "role": "user", "content": "x"});
        assert_eq!(read(AgentKind::Gemini, &event), []);
    }
}
