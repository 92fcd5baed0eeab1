//! What the agents that are asked about themselves first, Codex and OpenCode, are launched with; and which files of a work
//! folder any agent obeys.

use callgate_agent::{AgentKind, Proxy};
use serde_json::{Value, json};

use crate::stage::{Given, Stage, isolated};

async fn launched(stage: &Stage, kind: AgentKind, proxy: Proxy) -> Given {
    stage.script(isolated(kind));
    stage.run(&stage.step(kind, proxy)).await.unwrap();
    stage.given()
}

#[tokio::test]
async fn full_mode_disables_codex_tools_and_other_servers() {
    let given = launched(&Stage::new(), AgentKind::Codex, Proxy::Full).await;
    for feature in ["shell_tool", "unified_exec", "view_image", "hooks", "apps"] {
        assert!(given.has(&["--disable", feature]), "{feature}");
    }
    assert!(given.has(&["-s", "read-only"]));
    assert!(given.has(&["-c", r#"web_search="disabled""#]));
    assert!(given.has(&["-c", "mcp_servers.users-own.enabled=false"]));
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
    assert_eq!(config["mcp"]["users-own"], json!({"enabled": false}));
    assert_eq!(config["mcp"]["callgate"]["enabled"], true);
    assert!(given.has(&["--pure"]));
}

#[tokio::test]
async fn full_mode_starts_opencode_in_a_copy_of_the_users_configuration() {
    let stage = Stage::new();
    stage.file("home/.config/opencode/opencode.json", r#"{"theme":"x"}"#);
    let given = launched(&stage, AgentKind::OpenCode, Proxy::Full).await;
    let home = given.variable("XDG_CONFIG_HOME").unwrap();
    assert!(home.contains("callgate-step-"), "{home}");
    assert_eq!(given.0["cwd"], format!("{home}/opencode"));
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
        assert_eq!(stage.given().0["stdin"], prompt, "{prompt:?}");
    }
}

#[tokio::test]
async fn a_prompt_larger_than_a_pipe_buffer_arrives_complete() {
    let stage = Stage::new();
    stage.script(isolated(AgentKind::OpenCode));
    let mut step = stage.step(AgentKind::OpenCode, Proxy::Full);
    step.prompt = "é".repeat(1024 * 1024);
    stage.run(&step).await.unwrap();
    assert_eq!(stage.given().0["stdin"], step.prompt);
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
