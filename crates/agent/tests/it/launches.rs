//! What agents are started with: arguments, variables, a home of their own and a prompt; and which files of a work folder
//! they obey.

use callgate_agent::{AgentKind, Proxy, StepEvent};
use serde_json::{Value, json};

use crate::stage::{Given, Stage, isolated};

async fn launched(stage: &Stage, kind: AgentKind, proxy: Proxy) -> Given {
    stage.script(isolated(kind));
    stage.run(&stage.step(kind, proxy)).await.unwrap();
    stage.given()
}

#[tokio::test]
async fn full_mode_disables_codex_tools() {
    let given = launched(&Stage::new(), AgentKind::Codex, Proxy::Full).await;
    for feature in ["shell_tool", "unified_exec", "view_image", "hooks", "apps"] {
        assert!(given.has(&["--disable", feature]), "{feature}");
    }
    assert!(given.has(&["-s", "read-only"]));
    assert!(given.has(&["-c", r#"web_search="disabled""#]));
    assert!(given.has(&["-c", "mcp_servers.callgate.required=true"]));
    let args = given.args();
    let catalog = args
        .iter()
        .find(|arg| arg.starts_with("model_catalog_json="));
    assert!(catalog.unwrap().ends_with("/codex-models.json\""));
}

#[tokio::test]
async fn full_mode_denies_opencode_all_but_gateway_tools() {
    let given = launched(&Stage::new(), AgentKind::OpenCode, Proxy::Full).await;
    let config = given.variable("OPENCODE_CONFIG_CONTENT").unwrap();
    let config: Value = serde_json::from_str(config).unwrap();
    let permission = json!({"*": "deny", "callgate_*": "allow"});
    assert_eq!(config["permission"], permission);
    let agent = given.value("--agent").unwrap();
    assert_eq!(config["agent"][agent]["permission"], permission);
    let servers = config["mcp"].as_object().unwrap();
    assert_eq!(servers.keys().collect::<Vec<_>>(), ["callgate"]);
    assert!(given.has(&["--pure"]));
}

/// What a user configured for each agent, and must not reach a step in full mode.
const USERS: [(&str, &str); 8] = [
    (".claude.json", "canary"),
    (".claude/settings.json", "canary"),
    (".claude/CLAUDE.md", "canary"),
    (".gemini/settings.json", r#"{"theme":"canary"}"#),
    (".gemini/GEMINI.md", "canary"),
    (".codex/config.toml", "model = \"canary\""),
    (".codex/AGENTS.md", "canary"),
    (".config/opencode/opencode.json", r#"{"theme":"canary"}"#),
];

#[tokio::test]
async fn in_full_mode_an_agent_has_a_home_made_from_nothing() {
    for kind in AgentKind::PROGRAMS {
        let stage = Stage::with_env(&[
            ("XDG_CONFIG_HOME", "/elsewhere"),
            ("CODEX_HOME", "/elsewhere"),
        ]);
        for (name, text) in USERS {
            stage.file(&format!("home/{name}"), text);
        }
        let given = launched(&stage, *kind, Proxy::Full).await;
        let home = given.variable("HOME").unwrap();
        assert!(home.contains("/callgate-step-"), "{kind}: {home}");
        let temporary = given.variable("TMPDIR").unwrap();
        assert!(temporary.contains("/callgate-step-"), "{kind}: {temporary}");
        for name in ["CONFIG", "DATA", "STATE", "CACHE"] {
            let folder = given.variable(&format!("XDG_{name}_HOME")).unwrap();
            assert!(folder.starts_with(home), "{kind}: {folder}");
        }
        for name in ["CODEX_HOME", "GEMINI_CLI_HOME", "CLAUDE_CONFIG_DIR"] {
            let folder = given.variable(name).unwrap_or(home);
            assert!(folder.starts_with(home), "{kind}: {folder}");
        }
        let files = given.0["home"].to_string();
        assert!(!files.contains("canary"), "{kind}: {files}");
    }
}

#[tokio::test]
async fn in_full_mode_an_agent_starts_in_an_empty_folder() {
    for kind in AgentKind::PROGRAMS {
        let stage = Stage::new();
        let given = launched(&stage, *kind, Proxy::Full).await;
        let cwd = given.0["cwd"].as_str().unwrap();
        let (_, below) = cwd.rsplit_once("/callgate-step-").unwrap();
        let (_, below) = below.split_once('/').unwrap();
        let expected = match kind {
            AgentKind::OpenCode => "home/.config/opencode",
            _ => "work",
        };
        assert_eq!(below, expected, "{kind}");
        let given = launched(&stage, *kind, Proxy::Additive).await;
        let work = stage.path("work").display().to_string();
        assert_eq!(given.0["cwd"], work, "{kind}");
    }
}

/// Variables that every agent gets, by name or by the start of their names.
const EVERYONES: [&str; 5] = ["PATH", "LC_", "HOME", "TMPDIR", "XDG_"];
/// Variables that steps set, by the start of their names.
const OURS: [&str; 8] = [
    "DISABLE_",
    "CLAUDE_CODE_DISABLE_",
    "CLAUDE_CONFIG_DIR",
    "GEMINI_CLI_HOME",
    "CODEX_HOME",
    "OPENCODE_",
    "TRACEPARENT",
    // A shell sets these.
    "PWD",
];

/// Variables of a user that no agent may get: they change what programs load, or are credentials for something else.
const WITHHELD: [&str; 14] = [
    "NODE_OPTIONS",
    "NODE_PATH",
    "LD_PRELOAD",
    "BASH_ENV",
    "GIT_CONFIG_GLOBAL",
    "npm_config_userconfig",
    "BUN_OPTIONS",
    "GITHUB_TOKEN",
    "SSH_AUTH_SOCK",
    "DATABASE_URL",
    "OPENCODE_CONFIG",
    "GEMINI_SYSTEM_MD",
    "CLAUDE_CODE_EXTRA_BODY",
    "CALLGATE_DATA_DIR",
];

#[tokio::test]
async fn in_full_mode_an_agent_gets_listed_variables_alone() {
    let credentials = [
        (AgentKind::Claude, "ANTHROPIC_API_KEY"),
        (AgentKind::Gemini, "GEMINI_API_KEY"),
        (AgentKind::Codex, "OPENAI_API_KEY"),
        (AgentKind::OpenCode, "GROQ_API_KEY"),
    ];
    let all = credentials.iter().map(|(_, name)| (*name, "canary"));
    let withheld = WITHHELD.iter().map(|name| (*name, "canary"));
    let users: Vec<(&str, &str)> = all.chain(withheld).chain([("LC_ALL", "C")]).collect();
    for (kind, credential) in credentials {
        let stage = Stage::with_env(&users);
        stage.script(isolated(kind));
        let mut step = stage.step(kind, Proxy::Full);
        step.options.model = (kind == AgentKind::OpenCode).then(|| "groq/m".to_owned());
        stage.run(&step).await.unwrap();
        let given = stage.given();
        assert_eq!(given.variable(credential), Some("canary"), "{kind}");
        for (name, _) in given.0["env"].as_object().unwrap() {
            let mut listed = EVERYONES.iter().chain(&OURS);
            let is_listed = listed.any(|start| name.starts_with(start));
            assert!(is_listed || name == credential, "{kind}: {name}");
        }
        for name in WITHHELD {
            assert_ne!(given.variable(name), Some("canary"), "{kind}: {name}");
        }
    }
}

#[tokio::test]
async fn codex_gets_the_login_of_the_user_without_its_refresh_token() {
    let login = |token: &str| json!({"tokens": {"access_token": token, "refresh_token": "canary", "account_id": "a"}});
    let stage = Stage::new();
    stage.file("home/.codex/auth.json", &login("h.e30.s").to_string());
    let given = launched(&stage, AgentKind::Codex, Proxy::Full).await;
    let written = given.0["home"][".codex/auth.json"].as_str().unwrap();
    let written: Value = serde_json::from_str(written).unwrap();
    assert_eq!(written["tokens"]["access_token"], "h.e30.s");
    assert_eq!(written["tokens"]["refresh_token"], "");
    // {"exp":1}
    stage.file(
        "home/.codex/auth.json",
        &login("h.eyJleHAiOjF9.s").to_string(),
    );
    let failed = stage.run(&stage.step(AgentKind::Codex, Proxy::Full)).await;
    let told = failed.unwrap_err().to_string();
    assert!(told.contains("the login of `codex` has expired"), "{told}");
}

#[tokio::test]
async fn project_instructions_reach_an_agent_as_the_answer_of_a_read_call() {
    for (kind, name) in [
        (AgentKind::Claude, "CLAUDE.md"),
        (AgentKind::Gemini, "GEMINI.md"),
        (AgentKind::Codex, "AGENTS.md"),
        (AgentKind::OpenCode, "AGENTS.md"),
    ] {
        let stage = Stage::new();
        stage.file(&format!("work/{name}"), "see @secret.txt");
        launched(&stage, kind, Proxy::Full).await;
        assert_eq!(stage.reached(), [json!({"path": name})], "{kind}");
        let given = stage.given();
        let prompt = given.0["stdin"].as_str().unwrap();
        // The stage's `Read` answers with its arguments.
        assert!(prompt.contains(&format!(r#"did {{"path":"{name}"}}"#)));
        assert!(prompt.ends_with("\n\ndo it"), "{prompt}");
        assert!(!prompt.contains("secret"), "{prompt}");
        let before = stage.reached().len();
        launched(&stage, kind, Proxy::Additive).await;
        assert_eq!(stage.reached().len(), before, "{kind}: additive");
    }
}

#[tokio::test]
async fn instructions_that_policy_denies_are_left_out_with_a_warning() {
    let stage = Stage::denying("Read");
    stage.file("work/AGENTS.md", "canary");
    let given = launched(&stage, AgentKind::Codex, Proxy::Full).await;
    let prompt = given.0["stdin"].as_str().unwrap();
    assert!(prompt.contains("which you are not given"), "{prompt}");
    assert!(!prompt.contains("canary"), "{prompt}");
    let warned = stage.events().into_iter().any(|event| {
        matches!(event, StepEvent::Warning { text } if text.starts_with("`AGENTS.md` is not handed to the agent: "))
    });
    assert!(warned, "{:?}", stage.events());
}

#[tokio::test]
async fn agents_ignore_configuration_in_the_work_folder() {
    for kind in AgentKind::PROGRAMS {
        let stage = Stage::new();
        for name in [
            ".claude/settings.json",
            ".mcp.json",
            ".gemini/.env",
            ".env",
            ".codex/config.toml",
            "opencode.json",
            ".opencode/plugin/x.js",
        ] {
            stage.file(&format!("work/{name}"), "{}");
        }
        // Codex obeys a project that the user trusts.
        let work = stage.path("work").display().to_string();
        let trust = format!("[projects.\"{work}\"]\ntrust_level = \"trusted\"\n");
        stage.file("home/.codex/config.toml", &trust);
        launched(&stage, *kind, Proxy::Full).await;
        let obeyed = stage.obeyed();
        assert!(!obeyed.contains(&work), "{kind}: {obeyed}");
    }
}

#[tokio::test]
async fn unusual_prompts_reach_an_agent_unchanged() {
    for prompt in [
        "",
        "--help",
        "$(touch x) `y` \"z\" 'q'",
        "line\nline\r\n\ttab",
        "\u{202e}é🦀\u{0}end",
    ] {
        let stage = Stage::new();
        stage.script(isolated(AgentKind::Codex));
        let mut step = stage.step(AgentKind::Codex, Proxy::Full);
        step.prompt = prompt.to_owned();
        stage.run(&step).await.unwrap();
        assert_eq!(stage.task(), prompt, "{prompt:?}");
    }
}

#[tokio::test]
async fn prompts_of_a_mebibyte_arrive_complete_and_never_as_an_argument() {
    for kind in AgentKind::PROGRAMS {
        for proxy in [Proxy::Full, Proxy::Additive, Proxy::Off] {
            let stage = Stage::new();
            stage.script(isolated(*kind));
            let mut step = stage.step(*kind, proxy);
            step.prompt = "é".repeat(512 * 1024);
            stage.run(&step).await.unwrap();
            let given = stage.given();
            let prompt = given.0["stdin"].as_str().unwrap();
            assert!(prompt.ends_with(&step.prompt), "{kind} {proxy:?}");
            let longest = given.args().iter().map(|arg| arg.len()).max();
            assert!(longest < Some(8 * 1024), "{kind} {proxy:?}");
        }
    }
}

#[tokio::test]
async fn what_stands_before_the_longest_prompt_of_codex_becomes_its_developer_instructions() {
    let stage = Stage::new();
    stage.script(isolated(AgentKind::Codex));
    let mut step = stage.step(AgentKind::Codex, Proxy::Full);
    step.prompt = "x".repeat(1 << 20);
    stage.run(&step).await.unwrap();
    let given = stage.given();
    assert!(given.0["stdin"] == json!(step.prompt));
    let config = given.0["home"][".codex/config.toml"].as_str().unwrap();
    assert!(
        config.starts_with("developer_instructions = \"You work in the folder `"),
        "{config}"
    );
}

#[tokio::test]
async fn agents_get_no_gateway_tools_when_the_proxy_is_off() {
    for kind in AgentKind::PROGRAMS {
        let stage = Stage::new();
        let given = launched(&stage, *kind, Proxy::Off).await;
        assert_eq!(given.0.get("tools"), None, "{kind}");
        let args = given.args().join(" ");
        assert!(!args.contains("callgate"), "{kind}: {args}");
        assert_eq!(given.variable("OPENCODE_CONFIG_CONTENT"), None);
    }
}
