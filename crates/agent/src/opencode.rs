//! OpenCode.

use std::{
    fs,
    path::{Path, PathBuf},
};

use futures_util::future::{BoxFuture, ready};
use serde_json::{Map, Value, json};
use ulid::Ulid;

use crate::{
    Options, Proxy, StepFailed,
    access::{Access, Variables},
    cli::{AgentCli, LongestResult, PROBE_KEY, touch},
    events::{AgentEvent, Tokens, native, number, text, used},
    home::OwnHome,
    launch::{CALL_TIMEOUT_MS, Launch, Relay, SERVER, Task, compact, push},
};

mod providers;

use providers::{accesses, custom_provider, stored_logins};

const PROGRAM: &str = "opencode";
/// The variable with configuration for OpenCode.
const CONFIG: &str = "OPENCODE_CONFIG_CONTENT";
/// Makes OpenCode ignore most of the configuration in the work folder, but not all.
const NO_PROJECT: &str = "OPENCODE_DISABLE_PROJECT_CONFIG";
/// Files in a work folder that OpenCode would execute, or that configure what it executes.
const PROJECT_FILES: [&str; 8] = [
    "opencode.json",
    "opencode.jsonc",
    ".opencode/opencode.json",
    ".opencode/opencode.jsonc",
    ".opencode/plugin",
    ".opencode/plugins",
    ".opencode/tool",
    ".opencode/tools",
];
/// The prefix that OpenCode gives to our tools.
const PREFIX: &str = "callgate_";
/// Switches off updates, downloads and default plugins, for every proxied step.
const QUIET: [&str; 4] = [
    "OPENCODE_DISABLE_AUTOUPDATE",
    "OPENCODE_DISABLE_MODELS_FETCH",
    "OPENCODE_DISABLE_LSP_DOWNLOAD",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS",
];
/// Switches off the files of other agents that OpenCode reads, for full interception.
const ALONE: [&str; 2] = [
    "OPENCODE_DISABLE_CLAUDE_CODE",
    "OPENCODE_DISABLE_EXTERNAL_SKILLS",
];
/// The name under which OpenCode reports a tool that it does not offer; its input has the name that the model used.
const UNKNOWN_TOOL: &str = "invalid";
/// The variable with logins for OpenCode.
const LOGINS: &str = "OPENCODE_AUTH_CONTENT";

#[derive(Debug)]
pub(crate) struct OpenCode;

impl AgentCli for OpenCode {
    fn program(&self) -> &'static str {
        PROGRAM
    }

    fn isolated_version(&self) -> &'static str {
        "1.18.33"
    }

    fn accesses(&self, users: Variables<'_>, options: &Options) -> Vec<&'static Access> {
        accesses(users, options)
    }

    fn instructions(&self) -> &'static [&'static str] {
        &["AGENTS.md", "CLAUDE.md"]
    }

    fn machine_settings(&self) -> &'static str {
        "/etc/opencode"
    }

    fn launch<'a>(&'a self, task: &'a Task<'_>) -> BoxFuture<'a, Result<Launch, StepFailed>> {
        Box::pin(ready(launch(task)))
    }

    fn read_event(&self, event: &Value) -> Vec<AgentEvent> {
        read_event(event)
    }

    fn longest_result(&self) -> Option<LongestResult> {
        Some(LongestResult {
            bytes: 50 * 1024,
            lines: 2000,
        })
    }

    fn reports_cost(&self) -> bool {
        true
    }

    fn native_probe_calls(&self, proof: &Path) -> Vec<(&'static str, Value)> {
        let command = json!({"command": touch(proof), "description": "touch"});
        vec![
            ("bash", command),
            ("write", json!({"filePath": proof, "content": "x"})),
        ]
    }

    fn use_scripted_model(&self, options: &mut Options, url: &str) {
        options.base_url = Some(format!("{url}/v1"));
        options.model = Some("probe/probe".to_owned());
        options.set_variable("OPENAI_API_KEY", PROBE_KEY);
    }
}

fn launch(task: &Task<'_>) -> Result<Launch, StepFailed> {
    let mut args = Vec::new();
    push(&mut args, &["run", "--format", "json", "--title", "step"]);
    if let Some(model) = &task.options.model {
        push(&mut args, &["-m", model]);
    }
    let mut env = Vec::new();
    if task.proxy == Proxy::Additive {
        let why = "would be loaded by OpenCode, which has no option to ignore it";
        task.refuse_project_files(&PROJECT_FILES, why)?;
    }
    let agent = format!("step-{}", Ulid::generate().to_string().to_lowercase());
    if let Some(relay) = &task.relay {
        let config = config(task, &agent, relay);
        env.push((CONFIG.to_owned(), compact(&config)));
        env.extend(QUIET.map(|name| (name.to_owned(), "1".to_owned())));
        env.push((NO_PROJECT.to_owned(), "1".to_owned()));
    }
    let mut cwd = None;
    if let Some(home) = &task.home {
        if let Some(logins) = stored_logins(task.users, task.options)? {
            env.push((LOGINS.to_owned(), compact(&logins)));
        }
        match task.proxy {
            Proxy::Full => {
                push(&mut args, &["--pure", "--agent", &agent]);
                env.extend(ALONE.map(|name| (name.to_owned(), "1".to_owned())));
                cwd = Some(own_folder(home)?);
            }
            Proxy::Additive | Proxy::Off => copy_settings(task, home)?,
        }
    }
    Ok(Launch {
        args,
        env,
        stdin: task.whole_prompt(),
        cwd,
    })
}

/// The folder to start OpenCode in. It has a second configuration loader, which ignores both `--pure` and the variable. That
/// loader only skips project configuration if OpenCode is started inside of the user's configuration folder.
fn own_folder(home: &OwnHome) -> Result<PathBuf, StepFailed> {
    let folder = home.path().join(".config/opencode");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Copies the user's settings into the step's home.
fn copy_settings(task: &Task<'_>, home: &OwnHome) -> Result<(), StepFailed> {
    let users = match task.users.get("XDG_CONFIG_HOME") {
        Some(folder) => Some(PathBuf::from(folder)),
        None => task
            .users
            .get("HOME")
            .map(|home| Path::new(home).join(".config")),
    };
    let own = own_folder(home)?;
    for name in ["opencode.json", "opencode.jsonc"] {
        let file = users
            .as_ref()
            .map(|users| users.join("opencode").join(name));
        if let Some(text) = file.and_then(|file| fs::read_to_string(file).ok()) {
            fs::write(own.join(name), text)?;
        }
    }
    Ok(())
}

fn config(task: &Task<'_>, agent: &str, relay: &Relay) -> Value {
    let mut config = match task.proxy {
        Proxy::Full => Map::new(),
        Proxy::Additive | Proxy::Off => inherited(task),
    };
    config.insert("autoupdate".to_owned(), json!(false));
    config.insert("share".to_owned(), json!("disabled"));
    if task.home.is_some()
        && let Some((name, provider)) = custom_provider(task.users, task.options)
    {
        config.insert("provider".to_owned(), json!({name: provider}));
        config.insert("small_model".to_owned(), json!(task.options.model));
    }
    if task.proxy == Proxy::Full {
        let permission = json!({"*": "deny", "callgate_*": "allow"});
        let settings = json!({"mode": "primary", "permission": permission});
        config.insert("agent".to_owned(), json!({agent: settings}));
        config.insert("permission".to_owned(), permission);
    }
    let command: Vec<String> = std::iter::once(relay.command())
        .chain(relay.args())
        .collect();
    let own = json!({
        "type": "local",
        "command": command,
        "enabled": true,
        "timeout": CALL_TIMEOUT_MS,
    });
    config.insert("mcp".to_owned(), json!({SERVER: own}));
    Value::Object(config)
}

/// The user's own value of the variable, which ours extends.
fn inherited(task: &Task<'_>) -> Map<String, Value> {
    let written = task.users.get(CONFIG);
    let parsed = written.and_then(|text| serde_json::from_str::<Value>(text).ok());
    parsed
        .and_then(|value| value.as_object().cloned())
        .unwrap_or_default()
}

fn read_event(event: &Value) -> Vec<AgentEvent> {
    let part = &event["part"];
    match event["type"].as_str() {
        Some("text") => text(part, "/text")
            .map(AgentEvent::Text)
            .into_iter()
            .collect(),
        Some("tool_use") => tool(part).into_iter().collect(),
        Some("step_finish") => finish(part),
        Some("error") => {
            let why = text(event, "/error/data/message").or_else(|| text(event, "/error/name"));
            vec![AgentEvent::Done {
                text: None,
                error: Some(why.unwrap_or_else(|| "no reason was given".to_owned())),
            }]
        }
        _ => Vec::new(),
    }
}

/// A use of a tool, which OpenCode reports once it has ended.
fn tool(part: &Value) -> Option<AgentEvent> {
    let (name, arguments) = (part["tool"].as_str()?, part.pointer("/state/input"));
    if name == UNKNOWN_TOOL {
        let asked = arguments.and_then(|input| input["tool"].as_str());
        return Some(AgentEvent::NativeRefused(native(asked?, None)));
    }
    Some(used(name, &[PREFIX], arguments, None))
}

fn finish(part: &Value) -> Vec<AgentEvent> {
    let tokens = Tokens {
        input: number(part, "/tokens/input")
            + number(part, "/tokens/cache/read")
            + number(part, "/tokens/cache/write"),
        output: number(part, "/tokens/output") + number(part, "/tokens/reasoning"),
        cost_usd: part["cost"].as_f64(),
    };
    let mut said = vec![AgentEvent::Used(tokens)];
    // OpenCode sends this event after each round; the last round is the one without tool calls.
    if part["reason"] != "tool-calls" {
        said.push(AgentEvent::Done {
            text: None,
            error: None,
        });
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AgentKind,
        testing::{Bench, done, native_use, read},
    };

    #[tokio::test]
    async fn additive_mode_refuses_project_files_that_opencode_would_load() {
        for name in PROJECT_FILES {
            let bench = Bench::new();
            let file = bench.file(&format!("work/{name}"), "{}");
            let refused = bench
                .launch(AgentKind::OpenCode, Proxy::Additive, "x")
                .await;
            let Err(StepFailed::ProjectFile { path, .. }) = refused else {
                panic!("{name}: {refused:?}");
            };
            assert_eq!(path, file);
        }
    }

    #[tokio::test]
    async fn additive_mode_refuses_opencode_files_in_parent_folders_except_home() {
        let bench = Bench::new();
        bench.file("home/opencode.json", "{}");
        let launched = bench
            .launch(AgentKind::OpenCode, Proxy::Additive, "x")
            .await;
        assert!(launched.is_ok(), "{launched:?}");
        bench.file("opencode.json", "{}");
        let refused = bench
            .launch(AgentKind::OpenCode, Proxy::Additive, "x")
            .await;
        assert!(matches!(refused, Err(StepFailed::ProjectFile { .. })));
    }

    #[tokio::test]
    async fn gateway_settings_are_merged_into_the_users_config_variable() {
        let mut bench = Bench::new();
        bench.set(CONFIG, r#"{"theme":"x","share":"auto"}"#);
        let launch = bench
            .launch(AgentKind::OpenCode, Proxy::Additive, "x")
            .await;
        let launch = launch.unwrap();
        let config: Value = serde_json::from_str(launch.variable(CONFIG).unwrap()).unwrap();
        assert_eq!(config["theme"], "x");
        assert_eq!(config["share"], "disabled");
        assert_eq!(config["mcp"]["callgate"]["command"][0], "/opt/callgate");
        assert_eq!(launch.variable(NO_PROJECT), Some("1"));
    }

    #[tokio::test]
    async fn opencode_keeps_its_environment_when_the_proxy_is_off() {
        let launch = Bench::new()
            .launch(AgentKind::OpenCode, Proxy::Off, "x")
            .await;
        let launch = launch.unwrap();
        assert_eq!(launch.env, []);
        assert_eq!(launch.cwd, None);
    }

    #[test]
    fn a_round_ending_in_tool_calls_is_not_final() {
        let of = |reason: &str| {
            let part = json!({"reason": reason, "cost": 0.5, "tokens": {"input": 1, "output": 2, "cache": {"read": 30}}});
            read(
                AgentKind::OpenCode,
                &json!({"type": "step_finish", "part": part}),
            )
        };
        let used = AgentEvent::Used(Tokens {
            input: 31,
            output: 2,
            cost_usd: Some(0.5),
        });
        assert_eq!(of("stop"), [used.clone(), done(None)]);
        assert_eq!(of("tool-calls"), [used]);
    }

    #[test]
    fn opencode_errors_are_final_and_unknown_events_are_ignored() {
        let of = |event: Value| read(AgentKind::OpenCode, &event);
        let named = json!({"type": "error", "error": {"name": "APIError"}});
        assert_eq!(of(named), [done(Some("APIError"))]);
        assert_eq!(
            of(json!({"type": "error"})),
            [done(Some("no reason was given"))]
        );
        for event in [json!({"type": "new"}), json!({}), json!([1]), json!(null)] {
            assert_eq!(of(event), []);
        }
    }

    #[test]
    fn only_the_gateways_prefix_marks_a_gateway_tool() {
        let of = |tool: &str| {
            let part = json!({"tool": tool, "state": {"input": {"a": 1}}});
            read(
                AgentKind::OpenCode,
                &json!({"type": "tool_use", "part": part}),
            )
        };
        assert_eq!(of("callgate_Read"), [AgentEvent::Call]);
        assert_eq!(of("bash"), [native_use("bash", Some(&json!({"a": 1})))]);
        let other = of("mine_callgate_Read");
        assert_eq!(
            other,
            [native_use("mine_callgate_Read", Some(&json!({"a": 1})))]
        );
    }
}
