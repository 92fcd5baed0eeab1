//! Looking at the agent that is installed: it is run against a scripted model in a home of its own, and
//! what it offers and what its own tools can do is seen.

use std::{fs, path::Path, sync::Arc, time::Duration};

use serde::Serialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    AgentKind, Options, Proxy, Step, StepFailed, Verdict,
    folder::{self, Folder},
    scripted::{Offered, Scripted, ScriptedModel, ScriptedTool, Turn},
    step::House,
    verdict::Installed,
};

/// How long an agent may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// The file that an agent's own tools would make.
const PROOF: &str = "native-proof";
/// Tools that ask the configured MCP servers for resources: in a step that is our own server alone, so
/// what they say passes the gate.
const TO_OUR_SERVER: [&str; 3] = [
    "list_mcp_resources",
    "list_mcp_resource_templates",
    "read_mcp_resource",
];
/// What nobody checks.
const KEY: &str = "probe";

/// What was seen of an agent.
#[derive(Debug, Clone, Serialize)]
pub struct ProbeReport {
    /// The agent.
    pub provider: String,
    /// Its version.
    pub version: String,
    /// The tools that it offered, with the names that it gives them.
    pub offered: Vec<String>,
    /// Those of them that are not ours.
    pub native: Vec<String>,
    /// Whether a call of a native tool had any effect.
    pub native_effect: bool,
    /// Whether a call of our tools got to the gate.
    pub reached: bool,
    /// What that amounts to.
    pub verdict: Verdict,
    /// How the step ended, when it did not end well.
    pub error: Option<String>,
}

/// Runs the agent that is installed against a scripted model. The gate of `house` must have the built-in
/// tools over `workdir`.
pub async fn probe(
    house: &Arc<House>,
    kind: AgentKind,
    workdir: &Path,
) -> Result<ProbeReport, StepFailed> {
    folder::sweep();
    let installed = house
        .verdicts
        .installed(&house.warden_program, kind, &house.env)
        .await?;
    let home = Folder::make()?;
    let reached = "probe-reached";
    let model = ScriptedModel::start(script(kind, workdir, reached)).await?;
    let step = Step {
        kind,
        prompt: "Do what the script says.".to_owned(),
        workdir: workdir.to_owned(),
        proxy: Proxy::Full,
        options: options(kind, &home, &model)?,
        timeout: Some(PATIENCE),
    };
    let stop = CancellationToken::new();
    let ended = step.run(house, stop, &|_| ()).await;
    let seen = Seen {
        offered: model.offered(),
        native_effect: workdir.join(PROOF).exists(),
        reached: workdir.join(reached).exists(),
        error: ended.err().map(|failed| failed.to_string()),
    };
    for name in [PROOF, reached] {
        // Most of the time there is only one of them.
        let _ = fs::remove_file(workdir.join(name));
    }
    let report = seen.report(kind, &installed);
    house.verdicts.keep(kind, &installed, report.verdict);
    Ok(report)
}

struct Seen {
    offered: Vec<Vec<Offered>>,
    native_effect: bool,
    reached: bool,
    error: Option<String>,
}

impl Seen {
    fn report(self, kind: AgentKind, installed: &Installed) -> ProbeReport {
        let mut offered: Vec<Offered> = self.offered.into_iter().flatten().collect();
        offered.sort();
        offered.dedup();
        let is_ours = |tool: &Offered| {
            whole(tool).contains("callgate") || TO_OUR_SERVER.contains(&tool.name.as_str())
        };
        let native: Vec<String> = offered
            .iter()
            .filter(|tool| !is_ours(tool))
            .map(whole)
            .collect();
        let isolated = !offered.is_empty()
            && native.is_empty()
            && !self.native_effect
            && self.reached
            && self.error.is_none();
        ProbeReport {
            provider: kind.to_string(),
            version: installed.version.clone(),
            offered: offered.iter().map(whole).collect(),
            native,
            native_effect: self.native_effect,
            reached: self.reached,
            verdict: if isolated {
                Verdict::Isolated
            } else {
                Verdict::Coexists
            },
            error: self.error,
        }
    }
}

fn whole(tool: &Offered) -> String {
    match &tool.namespace {
        Some(namespace) => format!("{namespace}/{}", tool.name),
        None => tool.name.clone(),
    }
}

/// Every native tool that could leave a trace, then one of ours, then the end.
fn script(kind: AgentKind, workdir: &Path, reached: &str) -> Vec<Turn> {
    let proof = workdir.join(PROOF).display().to_string();
    let touch = format!("touch '{proof}'");
    let native = |name: &str, arguments: Value| {
        Turn::Call(vec![Scripted {
            tool: ScriptedTool::Native(name.to_owned()),
            arguments,
        }])
    };
    let mut turns = match kind {
        AgentKind::Claude => vec![
            native("Bash", json!({"command": touch, "description": "touch"})),
            native("Write", json!({"file_path": proof, "content": "x"})),
        ],
        AgentKind::Gemini => vec![
            native("run_shell_command", json!({"command": touch})),
            native("write_file", json!({"file_path": proof, "content": "x"})),
        ],
        AgentKind::Codex => vec![
            native("shell", json!({"command": ["bash", "-lc", touch]})),
            native("exec_command", json!({"cmd": touch})),
            native("shell_command", json!({"command": touch})),
        ],
        AgentKind::OpenCode => vec![
            native("bash", json!({"command": touch, "description": "touch"})),
            native("write", json!({"filePath": proof, "content": "x"})),
        ],
        AgentKind::OpenAiCompatible => Vec::new(),
    };
    turns.push(Turn::Call(vec![Scripted {
        tool: ScriptedTool::Ours("Write".to_owned()),
        arguments: json!({"path": reached, "content": "x"}),
    }]));
    turns.push(Turn::Say("done".to_owned()));
    turns
}

/// Leads an agent to the scripted model, in a home that is not the user's.
fn options(kind: AgentKind, home: &Folder, model: &ScriptedModel) -> Result<Options, StepFailed> {
    let place = home.path().display().to_string();
    let url = format!("http://{}", model.address);
    let mut options = Options {
        extra_env: home_variables(&place),
        ..Options::default()
    };
    match kind {
        AgentKind::Claude => lead_claude(&mut options, &place, &url),
        AgentKind::Gemini => lead_gemini(&mut options, home, &url)?,
        AgentKind::Codex => lead_codex(&mut options, &place, &url),
        AgentKind::OpenCode => lead_opencode(&mut options, &url),
        AgentKind::OpenAiCompatible => {}
    }
    Ok(options)
}

/// The variables by which programs find the user's folders.
fn home_variables(place: &str) -> Vec<(String, String)> {
    let mut variables = vec![("HOME".to_owned(), place.to_owned())];
    for name in [
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
        "XDG_CACHE_HOME",
    ] {
        variables.push((name.to_owned(), format!("{place}/{name}")));
    }
    variables
}

fn set(options: &mut Options, name: &str, value: &str) {
    options.extra_env.push((name.to_owned(), value.to_owned()));
}

fn lead_claude(options: &mut Options, place: &str, url: &str) {
    set(options, "ANTHROPIC_BASE_URL", url);
    set(options, "ANTHROPIC_API_KEY", KEY);
    set(options, "CLAUDE_CONFIG_DIR", &format!("{place}/claude"));
    set(options, "IS_SANDBOX", "1");
}

fn lead_gemini(options: &mut Options, home: &Folder, url: &str) -> Result<(), StepFailed> {
    let auth = json!({"security": {"auth": {"selectedType": "gemini-api-key"}}});
    home.write(".gemini/settings.json", &auth.to_string())?;
    let place = home.path().display().to_string();
    set(options, "GEMINI_CLI_HOME", &place);
    set(options, "GOOGLE_GEMINI_BASE_URL", url);
    set(options, "GEMINI_API_KEY", KEY);
    options.model = Some("gemini-2.5-pro".to_owned());
    Ok(())
}

fn lead_codex(options: &mut Options, place: &str, url: &str) {
    set(options, "CODEX_HOME", place);
    set(options, "PROBE_KEY", KEY);
    for setting in [
        r#"model_provider="probe""#.to_owned(),
        r#"model_providers.probe.name="probe""#.to_owned(),
        format!(r#"model_providers.probe.base_url="{url}/v1""#),
        r#"model_providers.probe.wire_api="responses""#.to_owned(),
        r#"model_providers.probe.env_key="PROBE_KEY""#.to_owned(),
    ] {
        options.extra_args.extend(["-c".to_owned(), setting]);
    }
}

fn lead_opencode(options: &mut Options, url: &str) {
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible",
        "name": "probe",
        "options": {"baseURL": format!("{url}/v1"), "apiKey": KEY},
        "models": {"probe": {"name": "probe", "tool_call": true, "limit": {"context": 100_000, "output": 10_000}}},
    });
    let config = json!({"provider": {"probe": provider}, "small_model": "probe/probe"});
    set(options, "OPENCODE_CONFIG_CONTENT", &config.to_string());
    options.model = Some("probe/probe".to_owned());
}
