//! Additive steps: an agent keeps its own tools and gets those of plugins.

use std::process::Stdio;
use std::time::Duration;

use callgate_testkit::agents::{AgentScript, FakeCall, Misbehave};
use callgate_testkit::goplugin::plugin::RawPlugin;
use callgate_testkit::{ChatModel, ChatReply, wait_until};
use rustix::process::Signal;
use serde_json::json;

use super::{KNOWN, PROGRAMS, Stage};
use crate::evidence::signal;
use crate::shell::run;

const PROMPT: &str = "/help read @secret.txt";

fn stage() -> Stage {
    let stage = Stage::new();
    let raw = RawPlugin::with_all(stage.bed.path("plugin.log"));
    raw.install(&stage.bed.path("data/plugins"), "raw");
    stage
}

fn script(version: &str, tool: &str) -> AgentScript {
    AgentScript {
        version: version.to_owned(),
        calls: vec![FakeCall {
            tool: tool.to_owned(),
            arguments: json!({"text": "x"}),
        }],
        text: "done".to_owned(),
        ..AgentScript::default()
    }
}

#[test]
fn additive_steps_add_plugin_tools_to_every_agents_own() {
    for (provider, version) in PROGRAMS.into_iter().zip(KNOWN) {
        let stage = stage();
        stage.script(AgentScript {
            native: vec![FakeCall {
                tool: "Bash".to_owned(),
                arguments: json!({}),
            }],
            ..script(version, "raw_echo")
        });
        let args = [
            provider,
            "--prompt",
            PROMPT,
            "--mode",
            "additive",
            "--plugin",
            "raw:echo, fail",
        ];
        let ran = run(&mut stage.agent(&args));
        assert_eq!(ran.code, Some(0), "{provider}: {}", ran.stderr);
        assert!(!ran.stderr.contains("WARN"), "{provider}: {}", ran.stderr);
        let given = stage.given();
        assert_eq!(
            given["tools"],
            json!(["raw_echo", "raw_fail"]),
            "{provider}"
        );
        let argv = stage.argv();
        assert_eq!(given["stdin"], PROMPT, "{provider}: it is sent unchanged");
        for full in [
            "--strict-mcp-config",
            "--tools",
            "--policy",
            "--allowed-mcp-server-names",
            "read-only",
            "--pure",
            "shell_tool",
        ] {
            assert!(!argv.iter().any(|arg| arg == full), "{provider}: {argv:?}");
        }
        let log = stage.bed.read("plugin.log");
        assert_eq!(
            log, "execute echo {\"text\":\"x\"}\nshutdown\n",
            "{provider}"
        );
        let records = stage.records();
        let call = records.iter().find(|record| record["tool"] == "echo");
        let call = call.expect("a record");
        assert_eq!(
            (&call["server"], &call["source"]),
            (&json!("raw"), &json!("agent"))
        );
        let step = stage.step_record();
        assert!(step.contains("status=success"), "{step}");
        assert!(step.ends_with("bypassed=1"), "{step}");
        stage.assert_nothing_left();
    }
}

#[test]
fn intercepting_steps_offer_plugin_tools_beside_gateway_tools() {
    let stage = stage();
    stage.script(script(KNOWN[0], "raw_echo"));
    let args = ["claude", "--prompt", PROMPT, "--plugin", "raw:echo"];
    let ran = run(&mut stage.agent(&args));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let expected = ["Bash", "Edit", "Glob", "Grep", "Read", "Write", "raw_echo"];
    assert_eq!(stage.given()["tools"], json!(expected));
}

#[test]
fn additive_model_steps_offer_only_plugin_tools() {
    let stage = stage();
    let model = ChatModel::start(vec![
        ChatReply::call(&[
            ("raw_echo", json!({"text": "x"})),
            ("Read", json!({"path": "a"})),
        ]),
        ChatReply::say("done"),
    ]);
    let args = [
        "openai-compatible",
        "--prompt",
        PROMPT,
        "--model",
        "m",
        "--mode",
        "additive",
        "--plugin",
        "raw:echo",
    ];
    let mut command = stage.agent(&args);
    let ran = run(command
        .env("OPENAI_BASE_URL", &model.url)
        .env("OPENAI_API_KEY", "k"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let requests = model.requests();
    let tools = requests[0]["tools"].as_array().expect("tools");
    assert_eq!(tools.len(), 1);
    assert_eq!(tools[0]["function"]["name"], "raw_echo");
    let told = requests[1]["messages"].to_string();
    assert!(told.contains("error: "), "there is no Read: {told}");
    stage.assert_nothing_left();
}

#[test]
fn tool_name_collisions_are_found_before_an_agent_starts() {
    let stage = stage();
    stage.script(script(KNOWN[0], "raw_echo"));
    for (name, operation) in [("a", "b_c"), ("a_b", "c")] {
        let raw = RawPlugin {
            operations: vec![(operation.to_owned(), Vec::new())],
            ..RawPlugin::default()
        };
        raw.install(&stage.bed.path("data/plugins"), name);
    }
    let model = ChatModel::start(vec![ChatReply::say("done")]);
    for provider in ["claude", "openai_compatible"] {
        let args = [
            provider, "--prompt", "x", "--model", "m", "--mode", "additive", "--plugin", "a:b_c",
            "--plugin", "a_b:c",
        ];
        let ran = run(stage.agent(&args).env("OPENAI_BASE_URL", &model.url));
        assert_eq!(ran.code, Some(1), "{provider}");
        let expected =
            "USER.MCP_PROXY.NAME_COLLISION: tools `a:b_c` and `a_b:c` are both shown as `a_b_c`";
        assert!(ran.stderr.contains(expected), "{provider}: {}", ran.stderr);
    }
    assert_eq!(stage.bed.read("agent.log"), "", "no agent was started");
    assert!(model.requests().is_empty(), "no model was asked");
}

#[test]
fn missing_and_unmappable_operations_are_named() {
    let stage = stage();
    let raw = RawPlugin {
        operations: vec![("odd".to_owned(), vec!["x:float".to_owned()])],
        ..RawPlugin::default()
    };
    raw.install(&stage.bed.path("data/plugins"), "odd");
    for (plugin, expected) in [
        (
            "raw:none",
            "USER.MCP_PROXY.UNKNOWN_OPERATION: plugin `raw` has no operation `none`",
        ),
        (
            "odd:odd",
            "USER.MCP_PROXY.UNSUPPORTED_SCHEMA: plugin `odd`, operation `odd`, input `x`",
        ),
        ("raw:", "USER.MCP_PROXY.EMPTY_PROXY"),
        ("raw", "USER.MCP_PROXY.EMPTY_PROXY"),
    ] {
        let ran = run(&mut stage.agent(&["claude", "--prompt", "x", "--plugin", plugin]));
        assert_eq!(ran.code, Some(1), "{plugin}");
        assert!(ran.stderr.contains(expected), "{plugin}: {}", ran.stderr);
    }
}

#[test]
fn a_plugin_ends_with_its_step_however_the_step_ends() {
    for how in [Signal::INT, Signal::TERM, Signal::KILL] {
        let stage = stage();
        stage.script(AgentScript {
            misbehave: Misbehave::HangsDeaf,
            ..script(KNOWN[0], "raw_echo")
        });
        let args = [
            "claude", "--prompt", "x", "--mode", "additive", "--plugin", "raw:echo",
        ];
        let mut command = stage.agent(&args);
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let called = || stage.bed.read("plugin.log").contains("execute echo");
        assert!(wait_until(Duration::from_secs(30), called), "{how:?}");
        signal(child.id(), how);
        child.wait().expect("it is ours");
        stage.assert_nothing_left();
    }
}
