//! Gemini CLI.

use std::{
    fs,
    path::{Path, PathBuf},
};

use futures_util::future::{BoxFuture, ready};
use serde_json::{Map, Value, json};

use crate::{
    Options, Proxy, StepFailed,
    access::{Access, GOOGLE_KEY_FILE, Variables},
    cli::{AgentCli, PROBE_KEY, touch},
    events::{AgentEvent, Tokens, number, text, used},
    home::{OwnHome, home_of, in_home, in_work},
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
/// The files with the user's login, beside the settings. A step's copy has the refresh token, because an access token of
/// Google's lasts an hour. Google's refresh tokens can be used again, so the copy that is renewed does not end the user's.
const CREDENTIALS: [&str; 2] = ["oauth_creds.json", "google_accounts.json"];
/// Beside the settings, too: variables, of which a step takes those of the login.
const VARIABLES: &str = ".env";
/// Switches for the kinds of login.
const USE_VERTEX: &str = "GOOGLE_GENAI_USE_VERTEXAI";
const USE_LOGIN: &str = "GOOGLE_GENAI_USE_GCA";

const API_KEY: Access = Access {
    variables: &["GEMINI_API_KEY", "GEMINI_MODEL"],
    base_url: Some("GOOGLE_GEMINI_BASE_URL"),
    hosts: &["generativelanguage.googleapis.com"],
};
const LOGIN: Access = Access {
    variables: &[
        USE_LOGIN,
        "GEMINI_MODEL",
        "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_CLOUD_PROJECT_ID",
    ],
    base_url: None,
    hosts: &[
        "cloudcode-pa.googleapis.com",
        "oauth2.googleapis.com",
        "www.googleapis.com",
    ],
};
const VERTEX: Access = Access {
    variables: &[
        USE_VERTEX,
        "GEMINI_MODEL",
        "GOOGLE_API_KEY",
        "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_CLOUD_PROJECT_ID",
        "GOOGLE_CLOUD_LOCATION",
        GOOGLE_KEY_FILE,
    ],
    base_url: Some("GOOGLE_VERTEX_BASE_URL"),
    hosts: &[
        "{GOOGLE_CLOUD_LOCATION|us-central1}-aiplatform.googleapis.com",
        "aiplatform.googleapis.com",
        "oauth2.googleapis.com",
    ],
};

/// The kinds of login by Gemini's names for them.
const KINDS: [(&str, &Access); 3] = [
    ("gemini-api-key", &API_KEY),
    ("oauth-personal", &LOGIN),
    ("vertex-ai", &VERTEX),
];

#[derive(Debug)]
pub(crate) struct Gemini;

impl AgentCli for Gemini {
    fn program(&self) -> &'static str {
        PROGRAM
    }

    fn isolated_version(&self) -> &'static str {
        "0.61.0"
    }

    fn accesses(&self, users: Variables<'_>, _options: &Options) -> Vec<&'static Access> {
        let (_, access) = kind(users);
        vec![access]
    }

    fn instructions(&self) -> &'static [&'static str] {
        &["GEMINI.md", "AGENTS.md"]
    }

    fn machine_settings(&self) -> &'static str {
        "/etc/gemini-cli"
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

    fn validates_arguments(&self) -> bool {
        true
    }

    fn is_refusal(&self, _tool: &str, error: &str) -> bool {
        ["tool_not_registered", "policy_violation"].contains(&error)
    }

    fn native_probe_calls(&self, proof: &Path) -> Vec<(&'static str, Value)> {
        let content = json!({"file_path": proof, "content": "x"});
        vec![
            ("run_shell_command", json!({"command": touch(proof)})),
            ("write_file", content),
        ]
    }

    fn use_scripted_model(&self, options: &mut Options, url: &str) {
        options.set_variable("GOOGLE_GEMINI_BASE_URL", url);
        options.set_variable("GEMINI_API_KEY", PROBE_KEY);
        options.model = Some("gemini-2.5-pro".to_owned());
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
    let mut stdin = task.whole_prompt();
    let mut env = Vec::new();
    let mut cwd = None;
    if task.proxy == Proxy::Additive {
        let why = "would change Gemini's environment, and Gemini has no option to ignore it";
        task.refuse_project_files(&[".gemini/.env"], why)?;
    }
    match (&task.home, task.proxy) {
        (Some(home), Proxy::Full) => {
            settings(task, &in_home(".gemini"), fresh_settings(task))?;
            env.push((HOME.to_owned(), home.path().display().to_string()));
            env.extend(stored_variables(task));
            push_isolation(task, &mut args)?;
            cwd = Some(own_folder(task, home)?);
            // Unescaped, `@` reads a file into the prompt, and a leading slash runs a command of Gemini's own.
            stdin = format!(" {}", stdin.replace('@', "\\@"));
        }
        (_, Proxy::Additive) => {
            // Native tools stay in this mode, and so do the user's settings for them.
            settings(task, &in_home(".gemini"), users_own(task))?;
            copy(task, VARIABLES, &in_home(".gemini"))?;
            let home = home_of(task.folder).display().to_string();
            env.push((HOME.to_owned(), home));
        }
        (_, Proxy::Full | Proxy::Off) => {}
    }
    Ok(Launch {
        args,
        env,
        stdin,
        cwd,
    })
}

/// Disables everything except the tools of our server.
fn push_isolation(task: &Task<'_>, args: &mut Vec<String>) -> Result<(), StepFailed> {
    let policy = task.folder.write("gemini-policy.toml", POLICY)?;
    let policy = policy.display().to_string();
    let only = ["--allowed-mcp-server-names", SERVER, "-e", "none"];
    push(args, &only);
    push(args, &["--policy", &policy]);
    Ok(())
}

/// The folder to start Gemini in, which is not the work folder: it would load `.env` files from there. Its own are empty, so
/// that Gemini finds them and does not search the parent folders for others.
fn own_folder(task: &Task<'_>, home: &OwnHome) -> Result<PathBuf, StepFailed> {
    for name in [".gemini/.env", ".env"] {
        task.folder.write(&in_work(name), "")?;
    }
    Ok(home.work())
}

/// The kind of login that the user's settings or variables choose, by Gemini's name for it.
fn kind(users: Variables<'_>) -> (&'static str, &'static Access) {
    let home = users_home(users);
    let chosen = selected(&users_settings(home.as_deref()));
    let stored = |name: &str| {
        let home = home.as_ref();
        home.is_some_and(|home| home.join(name).exists())
    };
    let name = match chosen.as_deref() {
        Some(name) => name,
        None if users.is_on(USE_VERTEX) => "vertex-ai",
        None if users.is_on(USE_LOGIN) => "oauth-personal",
        None if users.get("GEMINI_API_KEY").is_none() && stored(CREDENTIALS[0]) => "oauth-personal",
        None => "gemini-api-key",
    };
    let found = KINDS.into_iter().find(|(known, _)| *known == name);
    found.unwrap_or(KINDS[0])
}

/// The kind of login in the user's settings.
fn selected(settings: &Value) -> Option<String> {
    let nested = text(settings, "/security/auth/selectedType");
    nested.or_else(|| text(settings, "/selectedAuthType"))
}

/// Variables of the login in the user's `.env` file, which no variable of the environment replaces. The file's other
/// variables are configuration, an endpoint among them.
fn stored_variables(task: &Task<'_>) -> Vec<(String, String)> {
    let (_, access) = kind(task.users);
    let file = users_home(task.users).and_then(|home| {
        let read = |path: PathBuf| fs::read_to_string(path).ok();
        read(home.join(VARIABLES)).or_else(|| read(home.parent()?.join(VARIABLES)))
    });
    let lines = file.iter().flat_map(|text| text.lines());
    let pairs = lines.filter_map(variable);
    pairs
        .filter(|(name, _)| access.variables.contains(&name.as_str()))
        .filter(|(name, _)| !task.env.iter().any(|(known, _)| known == name))
        .collect()
}

/// A line of a `.env` file.
fn variable(line: &str) -> Option<(String, String)> {
    let line = line.trim();
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (name, value) = line.split_once('=')?;
    let value = value.trim();
    let quoted = ['"', '\'', '`'].into_iter().find_map(|quote| {
        let inside = value.strip_prefix(quote)?;
        inside.split(quote).next()
    });
    let plain = || value.split(" #").next().unwrap_or_default().trim_end();
    Some((
        name.trim().to_owned(),
        quoted.unwrap_or_else(plain).to_owned(),
    ))
}

/// Writes settings with our server, and the user's login, into a folder of the step.
fn settings(
    task: &Task<'_>,
    folder: &str,
    mut settings: Map<String, Value>,
) -> Result<(), StepFailed> {
    let Some(relay) = &task.relay else {
        return Ok(());
    };
    let servers = settings.entry("mcpServers").or_insert_with(nothing);
    if let Some(servers) = servers.as_object_mut() {
        servers.insert(SERVER.to_owned(), server(relay));
    }
    for (key, value) in quiet_settings() {
        settings.insert(key.to_owned(), value);
    }
    let settings = compact(&Value::Object(settings));
    task.folder
        .write(&format!("{folder}/settings.json"), &settings)?;
    for name in CREDENTIALS {
        copy(task, name, folder)?;
    }
    Ok(())
}

fn users_settings(home: Option<&Path>) -> Value {
    let written = home.and_then(|home| fs::read_to_string(home.join("settings.json")).ok());
    written
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_else(nothing)
}

/// Settings that take nothing from the user's but the kind of login.
fn fresh_settings(task: &Task<'_>) -> Map<String, Value> {
    let (kind, _) = kind(task.users);
    let settings = json!({
        "security": {"auth": {"selectedType": kind}},
        "advanced": {"ignoreLocalEnv": true},
        // Keeps Gemini from reading instructions in the parents of the step's folder.
        "context": {"memoryBoundaryMarkers": []},
    });
    settings.as_object().cloned().unwrap_or_default()
}

/// The user's settings, without the work folder's variables.
fn users_own(task: &Task<'_>) -> Map<String, Value> {
    let users = users_settings(users_home(task.users).as_deref());
    let mut settings = object(Some(&users));
    let mut advanced = object(users.get("advanced"));
    advanced.insert("ignoreLocalEnv".to_owned(), json!(true));
    settings.insert("advanced".to_owned(), Value::Object(advanced));
    if selected(&users).is_none() {
        // Left to itself, Gemini takes an endpoint in a variable for a kind of login that it then refuses.
        let (kind, _) = kind(task.users);
        let mut security = Value::Object(object(users.get("security")));
        security["auth"] = Value::Object(object(users.pointer("/security/auth")));
        security["auth"]["selectedType"] = json!(kind);
        settings.insert("security".to_owned(), security);
    }
    settings
}

/// A copy of an object; an empty one in place of anything else.
fn object(value: Option<&Value>) -> Map<String, Value> {
    value
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default()
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

/// Copies a file beside the user's settings into a folder of the step.
fn copy(task: &Task<'_>, name: &str, folder: &str) -> Result<(), StepFailed> {
    let own = users_home(task.users).and_then(|home| fs::read_to_string(home.join(name)).ok());
    if let Some(own) = own {
        task.folder.write(&format!("{folder}/{name}"), &own)?;
    }
    Ok(())
}

fn users_home(users: Variables<'_>) -> Option<PathBuf> {
    let home = users.get(HOME).or_else(|| users.get("HOME"))?;
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
            let id = event["tool_id"].as_str();
            name.map(|name| used(name, &PREFIXES, arguments, id))
                .into_iter()
                .collect()
        }
        Some("tool_result") => tool_result(event).into_iter().collect(),
        Some("error") => text(event, "/message")
            .map(AgentEvent::Trouble)
            .into_iter()
            .collect(),
        Some("result") => result(event),
        _ => Vec::new(),
    }
}

/// The end of a tool's use. The error is its kind, which no tool's output can imitate.
fn tool_result(event: &Value) -> Option<AgentEvent> {
    let has_failed = event["status"] == "error";
    let kind = text(event, "/error/type").unwrap_or_default();
    Some(AgentEvent::NativeEnded {
        id: text(event, "/tool_id")?,
        error: has_failed.then_some(kind),
    })
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
        testing::{Bench, done, native_use, read},
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
        let settings = bench.in_home(".gemini/settings.json");
        assert_eq!(settings["hooksConfig"]["enabled"], false);
        let servers = settings["mcpServers"].as_object().unwrap();
        assert_eq!(servers.keys().collect::<Vec<_>>(), ["callgate"]);
    }

    #[tokio::test]
    async fn gemini_gets_the_login_of_the_users_env_file_and_nothing_else() {
        let mut bench = Bench::new();
        bench.file("work/.gemini/.env", "GEMINI_API_KEY=thief");
        let users = "export GEMINI_API_KEY='users' # mine\nGOOGLE_GEMINI_BASE_URL=http://x\nNODE_OPTIONS=-r x\n";
        bench.file("home/.gemini/.env", users);
        let launch = launched(&bench, Proxy::Full, "x").await;
        assert_eq!(launch.variable("GEMINI_API_KEY"), Some("users"));
        assert_eq!(launch.variable("GOOGLE_GEMINI_BASE_URL"), None);
        assert_eq!(launch.variable("NODE_OPTIONS"), None);
        let cwd = launch.cwd.unwrap();
        assert_eq!(cwd, bench.folder.path().join("work"));
        for name in [".gemini/.env", ".env"] {
            assert_eq!(fs::read_to_string(cwd.join(name)).unwrap(), "", "{name}");
        }
        bench.set("GEMINI_API_KEY", "of the environment");
        let launch = launched(&bench, Proxy::Full, "x").await;
        assert_eq!(launch.variable("GEMINI_API_KEY"), None);
    }

    #[test]
    fn lines_of_env_files_are_read_as_gemini_reads_them() {
        for (line, expected) in [
            ("A=b", Some(("A", "b"))),
            (" export A = b # c", Some(("A", "b"))),
            ("A='b # c' d", Some(("A", "b # c"))),
            ("A=\"\"", Some(("A", ""))),
            ("A='b", Some(("A", "b"))),
            ("A", None),
            ("", None),
        ] {
            let read = variable(line);
            let read = read
                .as_ref()
                .map(|(name, value)| (name.as_str(), value.as_str()));
            assert_eq!(read, expected, "{line}");
        }
    }

    #[test]
    fn the_kind_of_login_follows_settings_then_variables_then_stored_credentials() {
        let mut bench = Bench::new();
        let name = |bench: &Bench| kind(Variables(&bench.env)).0;
        assert_eq!(name(&bench), "gemini-api-key");
        bench.file("home/.gemini/oauth_creds.json", "{}");
        assert_eq!(name(&bench), "oauth-personal");
        bench.set("GEMINI_API_KEY", "k");
        assert_eq!(name(&bench), "gemini-api-key");
        bench.set(USE_VERTEX, "true");
        assert_eq!(name(&bench), "vertex-ai");
        let settings = r#"{"security":{"auth":{"selectedType":"oauth-personal"}}}"#;
        bench.file("home/.gemini/settings.json", settings);
        assert_eq!(name(&bench), "oauth-personal");
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
    async fn additive_mode_chooses_the_kind_of_login_that_the_user_has_not_chosen() {
        let mut bench = Bench::new();
        let users = r#"{"security":{"folderTrust":{"enabled":true}}}"#;
        bench.file("home/.gemini/settings.json", users);
        bench.set("GEMINI_API_KEY", "k");
        bench.set("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:1");
        launched(&bench, Proxy::Additive, "x").await;
        let security = &bench.in_home(".gemini/settings.json")["security"];
        assert_eq!(security["auth"]["selectedType"], "gemini-api-key");
        assert_eq!(security["folderTrust"]["enabled"], true);
    }

    #[tokio::test]
    async fn additive_mode_keeps_user_settings_and_full_mode_only_the_login() {
        let bench = Bench::new();
        let users = r#"{"theme":"dark","security":{"auth":{"selectedType":"vertex-ai"}},"mcpServers":{"mine":{}}}"#;
        bench.file("home/.gemini/settings.json", users);
        launched(&bench, Proxy::Additive, "x").await;
        let additive = bench.in_home(".gemini/settings.json");
        launched(&bench, Proxy::Full, "x").await;
        let full = bench.in_home(".gemini/settings.json");
        assert_eq!(additive["theme"], "dark");
        assert!(additive["mcpServers"]["mine"].is_object());
        assert_eq!(full.get("theme"), None);
        assert_eq!(full["mcpServers"].get("mine"), None);
        for settings in [&additive, &full] {
            assert_eq!(settings["security"]["auth"]["selectedType"], "vertex-ai");
            assert_eq!(settings["advanced"]["ignoreLocalEnv"], true);
        }
    }

    #[tokio::test]
    async fn the_gemini_login_is_copied_and_not_moved() {
        let bench = Bench::new();
        let users = bench.file("home/.gemini/oauth_creds.json", r#"{"token":1}"#);
        launched(&bench, Proxy::Full, "x").await;
        assert_eq!(bench.in_home(".gemini/oauth_creds.json")["token"], 1);
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
            assert_eq!(launch.stdin, full);
            let launch = launched(&bench, Proxy::Off, prompt).await;
            assert_eq!(launch.stdin, prompt);
        }
    }

    #[test]
    fn gemini_knows_gateway_tools_in_both_spellings() {
        let arguments = json!({"path": "a"});
        for (name, said) in [
            ("mcp_callgate_Read", AgentEvent::Call),
            ("callgate__Read", AgentEvent::Call),
            ("read_file", native_use("read_file", Some(&arguments))),
            (
                "xcallgate__Read",
                native_use("xcallgate__Read", Some(&arguments)),
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
