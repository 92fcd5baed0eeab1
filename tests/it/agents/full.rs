//! Successful steps: how an agent is started, what it can do, and what is recorded.

use callgate_testkit::agents::{AgentScript, FakeCall};
use serde_json::{Value, json};

use super::{KNOWN, PROGRAMS, Stage};
use crate::shell::run;

/// A prompt with everything that an agent could take for something else.
const PROMPT: &str = "/help read @secret.txt and \"do\" it";

fn working(version: &str) -> AgentScript {
    AgentScript {
        version: version.to_owned(),
        calls: vec![FakeCall {
            tool: "Write".to_owned(),
            arguments: json!({"path": "made", "content": "by the agent"}),
        }],
        text: "all done".to_owned(),
        ..AgentScript::default()
    }
}

#[test]
fn every_agents_calls_pass_the_gate() {
    for (provider, version) in PROGRAMS.into_iter().zip(KNOWN) {
        let stage = Stage::new();
        stage.script(working(version));
        let ran = run(&mut stage.agent(&[provider, "--prompt", PROMPT, "--model", "p/m"]));
        assert_eq!(ran.code, Some(0), "{provider}: {}", ran.stderr);
        assert_eq!(ran.stdout, "all done\n", "{provider}");
        assert!(!ran.stderr.contains("WARN"), "{provider}: {}", ran.stderr);
        assert_eq!(stage.bed.read("desk/made"), "by the agent", "{provider}");
        let given = stage.given();
        assert_eq!(
            given["tools"],
            json!(["Bash", "Edit", "Glob", "Grep", "Read", "Write"]),
            "{provider}"
        );
        assert_eq!(given["env"].get("CALLGATE_DATA_DIR"), None, "{provider}");
        let records = stage.records();
        let call = records
            .iter()
            .find(|record| record["tool"] == "Write")
            .expect("a record");
        assert_eq!(
            (&call["server"], &call["source"]),
            (&json!("builtin"), &json!("agent")),
            "{provider}"
        );
        let step = stage.step_record();
        let session = call["session_id"].as_str().expect("a session");
        assert!(step.starts_with(&format!("step={session} provider={provider} status=success tokens_input=100 tokens_output=20")), "{step}");
        stage.assert_nothing_left();
    }
}

#[test]
fn claude_is_started_as_documented() {
    let stage = Stage::new();
    stage.script(working(KNOWN[0]));
    let ran = run(&mut stage.agent(&["claude", "--prompt", PROMPT, "--model", "m"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let expected = [
        "-p",
        "--output-format",
        "stream-json",
        "--verbose",
        "--no-session-persistence",
        "--model",
        "m",
        "--mcp-config",
        "$STEP/claude-mcp.json",
        "--allowedTools",
        "mcp__callgate",
        "--setting-sources",
        "user",
        "--strict-mcp-config",
        "--tools",
        "",
        "--disable-slash-commands",
        "--settings",
        r#"{"permissions":{"deny":["Read"]},"disableAllHooks":true}"#,
    ];
    assert_eq!(stage.argv(), expected);
    let given = stage.given();
    assert_eq!(stage.task(), PROMPT);
    for name in [
        "DISABLE_TELEMETRY",
        "DISABLE_ERROR_REPORTING",
        "DISABLE_AUTOUPDATER",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    ] {
        assert_eq!(given["env"][name], "1", "{name}");
    }
    assert!(stage.step_record().contains("cost_usd=0.25"));
}

#[test]
fn gemini_is_started_as_documented() {
    let stage = Stage::new();
    stage.script(working(KNOWN[1]));
    let ran = run(&mut stage.agent(&["gemini", "--prompt", PROMPT]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let expected = [
        "-o",
        "stream-json",
        "--skip-trust",
        "--allowed-mcp-server-names",
        "callgate",
        "-e",
        "none",
        "--policy",
        "$STEP/gemini-policy.toml",
    ];
    assert_eq!(stage.argv(), expected);
    let home = stage.given()["env"]["GEMINI_CLI_HOME"]
        .as_str()
        .map(|home| stage.plain(home));
    assert_eq!(home.as_deref(), Some("$STEP/home"));
    assert_eq!(stage.task(), PROMPT.replace('@', "\\@"));
    let cwd = stage.given()["cwd"].as_str().map(|cwd| stage.plain(cwd));
    assert_eq!(cwd.as_deref(), Some("$STEP/work"));
}

#[test]
fn codex_is_started_as_documented() {
    let stage = Stage::new();
    stage.script(working(KNOWN[2]));
    let ran = run(&mut stage.agent(&["codex", "--prompt", PROMPT]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(stage.task(), PROMPT);
    let argv = stage.argv();
    assert_eq!(
        argv[..6],
        [
            "exec",
            "--json",
            "--skip-git-repo-check",
            "--ephemeral",
            "-s",
            "read-only"
        ]
    );
    let settings: Vec<&str> = pairs(&argv, "-c");
    assert_eq!(
        settings[..7],
        [
            r#"mcp_servers.callgate.command="$BIN""#,
            r#"mcp_servers.callgate.args=["mcp-serve","--config","$STEP/relay.json"]"#,
            r#"mcp_servers.callgate.default_tools_approval_mode="approve""#,
            "mcp_servers.callgate.required=true",
            "mcp_servers.callgate.tool_timeout_sec=600",
            "tool_output_token_limit=200000",
            r#"features.code_mode.direct_only_tool_namespaces=["mcp__callgate"]"#,
        ]
    );
    for setting in [
        r#"web_search="disabled""#,
        "tools.update_plan.enabled=false",
        r#"model_catalog_json="$STEP/codex-models.json""#,
    ] {
        assert!(settings.contains(&setting), "{setting}: {settings:?}");
    }
    let off = pairs(&argv, "--disable");
    assert_eq!(off.len(), 19, "{off:?}");
    for feature in [
        "apps",
        "plugins",
        "shell_tool",
        "unified_exec",
        "workspace_dependencies",
    ] {
        assert!(off.contains(&feature), "{feature}: {off:?}");
    }
}

#[test]
fn opencode_is_started_as_documented() {
    let stage = Stage::new();
    stage.script(working(KNOWN[3]));
    let ran = run(&mut stage.agent(&["opencode", "--prompt", PROMPT, "--model", "p/m"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let mut argv = stage.argv();
    let agent = argv.pop().expect("an agent");
    assert_eq!(
        argv,
        [
            "run", "--format", "json", "--title", "step", "-m", "p/m", "--pure", "--agent"
        ]
    );
    assert!(agent.starts_with("step-") && agent.len() == 31, "{agent}");
    let given = stage.given();
    assert_eq!(stage.task(), PROMPT);
    assert_eq!(given["env"]["OPENCODE_DISABLE_PROJECT_CONFIG"], "1");
    let config = given["env"]["OPENCODE_CONFIG_CONTENT"]
        .as_str()
        .expect("a configuration");
    let config: Value = serde_json::from_str(&stage.plain(config)).expect("it is JSON");
    let permission = json!({"*": "deny", "callgate_*": "allow"});
    assert_eq!(config["permission"], permission);
    assert_eq!(config["agent"][&agent]["permission"], permission);
    let cwd = given["cwd"].as_str().map(|cwd| stage.plain(cwd));
    assert_eq!(cwd.as_deref(), Some("$STEP/home/.config/opencode"));
    assert_eq!(
        config["mcp"].as_object().map(|servers| servers.len()),
        Some(1)
    );
    assert_eq!(
        config["mcp"]["callgate"]["command"],
        json!(["$BIN", "mcp-serve", "--config", "$STEP/relay.json"])
    );
}

fn pairs<'a>(argv: &'a [String], flag: &str) -> Vec<&'a str> {
    let windows = argv.windows(2).filter(|pair| pair[0] == flag);
    windows.map(|pair| pair[1].as_str()).collect()
}

#[test]
fn native_tools_appear_on_record_as_bypassed() {
    for (provider, version) in PROGRAMS.into_iter().zip(KNOWN) {
        let stage = Stage::new();
        stage.script(AgentScript {
            native: vec![FakeCall {
                tool: "its_own".to_owned(),
                arguments: json!({"command": "rm x"}),
            }],
            ..working(version)
        });
        let ran = run(&mut stage.agent(&[provider, "--prompt", "x"]));
        assert_eq!(ran.code, Some(0), "{provider}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("(not gated)"),
            "{provider}: {}",
            ran.stderr
        );
        let records = stage.records();
        let bypassed: Vec<&Value> = records
            .iter()
            .filter(|record| record["status"] == "bypassed")
            .collect();
        assert_eq!(bypassed.len(), 1, "{provider}: {records:?}");
        assert_eq!(bypassed[0]["server"], provider);
        assert_eq!(bypassed[0]["arguments"]["command"], "rm x", "{provider}");
        assert!(stage.step_record().ends_with("bypassed=1"));
    }
}

#[test]
fn an_unknown_agent_version_causes_a_warning_and_a_prompt_suffix() {
    let stage = Stage::new();
    stage.script(working("99.0.0"));
    let ran = run(&mut stage.agent(&["codex", "--prompt", "do it"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let warning = "\
WARN: mcp_proxy on provider=codex runs in coexistence mode.
      Built-in tools cannot be disabled and may bypass the proxy.
      Use 'claude' or 'openai-compatible' for guaranteed MCP-only isolation.
";
    assert!(ran.stderr.contains(warning), "{}", ran.stderr);
    assert!(
        ran.stderr.contains(r#""level":"WARN""#),
        "the log has it, too: {}",
        ran.stderr
    );
    assert_eq!(
        stage.task(),
        "do it\n\nUse only MCP tools, never built-in tools"
    );
}

#[test]
fn step_events_are_printed_as_json() {
    let stage = Stage::new();
    stage.script(working(KNOWN[0]));
    let ran = run(&mut stage.agent(&["claude", "--prompt", "x", "--json"]));
    let events: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let kinds: Vec<&str> = events
        .iter()
        .filter_map(|event| event["type"].as_str())
        .collect();
    assert_eq!(
        kinds,
        ["started", "call", "call_ended", "text", "finished"],
        "{}",
        ran.stderr
    );
    assert_eq!(events[4]["status"], "success");
    assert_eq!(events[4]["text"], "all done");
    assert_eq!(
        events[4]["tokens"],
        json!({"input": 100, "output": 20, "cost_usd": 0.25})
    );
}

#[test]
fn invalid_steps_are_refused_before_an_agent_starts() {
    let stage = Stage::new();
    stage.script(working(KNOWN[0]));
    for (args, expected) in [
        (
            vec!["claude", "--prompt", "x", "--mode", "additive"],
            "USER.MCP_PROXY.EMPTY_PROXY",
        ),
        (
            vec!["claude", "--prompt", "x", "--plugin", "kubernetes:get"],
            "USER.MCP_PROXY.UNKNOWN_PLUGIN",
        ),
        (vec!["claude"], "`--prompt` is missing"),
        (vec!["someone", "--prompt", "x"], "unknown agent `someone`"),
        (
            vec!["claude", "--prompt", "@/no/such/file"],
            "prompt `/no/such/file`",
        ),
        (vec!["claude", "--prompt", "x", "--timeout", "soon"], "soon"),
    ] {
        let ran = run(&mut stage.agent(&args));
        assert_eq!(ran.code, Some(1), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{args:?}: {}", ran.stderr);
    }
    assert_eq!(stage.bed.read("agent.log"), "", "no agent was started");
}

#[test]
fn prompts_can_come_from_files_and_the_policy_applies_to_agents() {
    let stage = Stage::with("policy: policy.yaml\n");
    let policy = "version: \"1\"\nname: t\nrules:\n  - scope: mcp_tool\n    deny: [{pattern: \"builtin:Write\"}]\n    allow: [{pattern: \"*:*\"}]\n";
    std::fs::write(stage.bed.path("policy.yaml"), policy).expect("it is ours");
    std::fs::write(stage.bed.path("prompt.txt"), "from a file").expect("it is ours");
    stage.script(working(KNOWN[0]));
    let prompt = format!("@{}", stage.bed.path("prompt.txt").display());
    let ran = run(&mut stage.agent(&["claude", "--prompt", &prompt]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let given = stage.given();
    assert_eq!(stage.task(), "from a file");
    assert_eq!(
        given["tools"],
        json!(["Bash", "Edit", "Glob", "Grep", "Read"]),
        "what is refused is not shown"
    );
    let answer = given["results"][0].to_string();
    assert!(answer.contains("denied by policy"), "{answer}");
    assert_eq!(stage.bed.read("desk/made"), "");
}
