//! Plugins behind the gate: listed, called, crashing, and not started without permission.

use std::fs;
use std::time::Duration;

use callgate_testkit::goplugin::plugin::{RawPlugin, Wrong};
use callgate_testkit::{StdioHost, processes_with, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::evidence::{all_records, signal};
use crate::setup::{Bed, VERSION};
use crate::shell::{run, typed};
use crate::talk::{request, tools};

fn bed(raw: &RawPlugin) -> Bed {
    let bed = Bed::new("policy: allow-all\nplugins: {raw: {path: plugins/raw, config: {a: 1}}}\n");
    let raw = RawPlugin {
        log: bed.path("log"),
        ..raw.clone()
    };
    raw.install(&bed.path("plugins"), "raw");
    bed
}

fn call(host: &mut StdioHost, tool: &str, arguments: &Value) -> Value {
    let line = json!({
        "jsonrpc": "2.0", "id": 7, "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    });
    request(host, &line.to_string())
}

#[test]
fn plugin_operations_are_tools_behind_the_gate() {
    for (plain, tcp) in [(true, false), (false, false), (false, true)] {
        assert_goes_through_the_gate(&RawPlugin {
            plain,
            tcp,
            ..RawPlugin::with_all("".into())
        });
    }
}

fn assert_goes_through_the_gate(raw: &RawPlugin) {
    let bed = bed(raw);
    let mut host = bed.stdio_ready();
    let expected = [
        "raw__echo",
        "raw__fail",
        "raw__crash",
        "raw__huge",
        "raw__wait",
    ];
    assert_eq!(tools(&mut host), expected);
    let answer = call(&mut host, "raw__echo", &json!({"text": "é", "times": 2}));
    let expected = json!({"text": "é", "times": 2, "output": r#"{"text":"é","times":2}"#});
    assert_eq!(answer["result"]["structuredContent"], expected);
    let failed = call(&mut host, "raw:fail", &json!({}));
    assert_eq!(failed["result"]["isError"], true);
    assert_eq!(
        failed["result"]["content"][1]["text"],
        "it was asked to fail"
    );
    host.close(Duration::from_secs(10)).expect("it ends");
    let log = bed.read("log");
    assert_eq!(
        log,
        "init {\"a\":1}\nexecute echo {\"text\":\"é\",\"times\":2}\nexecute fail {}\nshutdown\n"
    );
    let records = all_records(&run(&mut bed.command(["activity", "export"])).stdout);
    let calls: Vec<_> = records
        .iter()
        .filter(|record| record["type"] == "tool_call")
        .map(|record| (record["server"].clone(), record["tool"].clone()))
        .collect();
    let expected = [("raw", "echo"), ("raw", "fail")];
    assert_eq!(calls, expected.map(|(a, b)| (json!(a), json!(b))));
    let marker = bed.path("plugins").display().to_string();
    assert!(wait_until(Duration::from_secs(8), || processes_with(
        &marker
    )
    .is_empty()));
}

#[test]
fn a_plugin_crash_leaves_the_effect_unknown_and_the_plugin_restarts() {
    let bed = bed(&RawPlugin::with_all("".into()));
    let mut host = bed.stdio_ready();
    let crashed = call(&mut host, "raw__crash", &json!({}));
    assert_eq!(crashed["error"]["data"]["effect"], "unknown", "{crashed}");
    // The next call waits for the new process.
    let next = call(&mut host, "raw__echo", &json!({"text": "x"}));
    assert_eq!(next["result"]["structuredContent"]["text"], "x", "{next}");
    let log = bed.read("log");
    assert_eq!(log.matches("execute crash").count(), 1, "{log}");
    assert_eq!(log.matches("init").count(), 2, "{log}");
    let huge = call(&mut host, "raw__huge", &json!({}));
    let text = huge["error"]["message"].as_str().expect("an error");
    assert!(text.contains("larger than the frame limit"), "{text}");
    let after = call(&mut host, "raw__echo", &json!({"text": "y"}));
    assert_eq!(after["result"]["structuredContent"]["text"], "y");
}

#[test]
fn a_plugin_that_was_killed_between_calls_is_restarted_for_the_next_one() {
    let bed = bed(&RawPlugin::with_all("".into()));
    let mut host = bed.stdio_ready();
    let program = bed.path("plugins/raw/awf-plugin-raw").display().to_string();
    for round in 1..=2 {
        let killed = processes_with(&program);
        assert!(!killed.is_empty(), "the plugin runs");
        for pid in &killed {
            signal(*pid, Signal::KILL);
        }
        let gone = || {
            killed
                .iter()
                .all(|pid| !processes_with(&program).contains(pid))
        };
        assert!(wait_until(Duration::from_secs(20), gone));
        let next = call(&mut host, "raw__echo", &json!({"text": "x"}));
        assert_eq!(next["result"]["structuredContent"]["text"], "x", "{next}");
        let log = bed.read("log");
        assert_eq!(log.matches("init").count(), round + 1, "{log}");
        assert_eq!(log.matches("execute echo").count(), round, "{log}");
    }
}

#[test]
fn a_plugin_operation_times_out() {
    let bed = bed(&RawPlugin::with_all("".into()));
    let config = "policy: allow-all\nplugins: {raw: {path: plugins/raw, timeout: 1s}}\n";
    fs::write(bed.path("callgate.yaml"), config).expect("it is ours");
    let mut host = bed.stdio_ready();
    let slow = call(&mut host, "raw__wait", &json!({}));
    assert_eq!(slow["error"]["data"]["effect"], "unknown", "{slow}");
    assert_eq!(slow["error"]["data"]["timeout_ms"], 1000);
}

#[test]
fn a_plugin_that_fails_to_start_does_not_stop_the_gateway() {
    let raw = RawPlugin {
        wrong: Wrong::AppVersion,
        ..RawPlugin::default()
    };
    let bed = bed(&raw);
    let config = "policy: allow-all\nbuiltins: {enabled: true}\nplugins: {raw: {path: plugins/raw}, none: {path: nowhere}}\n";
    fs::write(bed.path("callgate.yaml"), config).expect("it is ours");
    let mut host = bed.stdio_ready();
    assert_eq!(tools(&mut host).len(), 6);
    let stderr = host.stderr().join("\n");
    assert!(stderr.contains("plugin protocol version 9"), "{stderr}");
    assert!(stderr.contains("nowhere"), "{stderr}");
}

#[test]
fn invalid_plugin_names_are_configuration_errors() {
    for (config, expected) in [
        ("plugins: {builtin: {path: x}}\n", "reserved"),
        (
            "servers: {x: {command: y}}\nplugins: {x: {path: z}}\n",
            "a server already has this name",
        ),
        ("plugins: {x: {paths: z}}\n", "unknown field `paths`"),
    ] {
        let bed = Bed::new(config);
        let ran = run(&mut bed.command(["config", "check"]));
        assert_eq!(ran.code, Some(2), "{config}: {}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{config}: {}", ran.stderr);
    }
}

#[test]
fn mcp_serve_alone_offers_the_plugins_of_its_relay_file() {
    let bed = Bed::new("");
    let raw = RawPlugin::with_all(bed.path("log"));
    raw.install(&bed.path("data/plugins"), "raw");
    let file = json!({
        "intercept_builtins": false,
        "plugin_tools": [{"plugin": "raw", "expose": ["echo"]}],
    });
    fs::write(bed.path("relay.json"), file.to_string()).expect("it is ours");
    let mut command = typed(&bed, ["mcp-serve", "--config"]);
    command.arg(bed.path("relay.json"));
    let mut host = StdioHost::connect(&mut command, VERSION).expect("it shakes hands");
    assert_eq!(tools(&mut host), ["raw_echo"]);
    let answer = call(&mut host, "raw_echo", &json!({"text": "x"}));
    assert_eq!(answer["result"]["structuredContent"]["text"], "x");
}

#[test]
fn a_discovered_plugin_starts_only_when_trusted() {
    for place in [".callgate/plugins", ".awf/plugins", "listed"] {
        let bed = Bed::new("");
        let raw = RawPlugin::with_all(bed.path("log"));
        let program = raw.install(&bed.path(place), "raw");
        // A link would be trusted by what it leads to, and that never changes here.
        let content = fs::read(&program).expect("it is there");
        fs::remove_file(&program).expect("it is ours");
        fs::write(&program, content).expect("it is ours");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&program, mode).expect("it is ours");
        let trusted = if place == "listed" {
            fs::create_dir(bed.path(".awf")).expect("it is fresh");
            let list = bed.path(".awf/plugins.yaml");
            let text = "plugins: {raw: {path: ../listed/raw}}\n";
            fs::write(&list, text).expect("it is ours");
            list
        } else {
            bed.path(place).join("raw")
        };
        let file = json!({"plugin_tools": [{"plugin": "raw", "expose": ["echo"]}], "root_dir": bed.path("")});
        fs::write(bed.path("relay.json"), file.to_string()).expect("it is ours");
        let serve = || {
            let mut command = typed(&bed, ["mcp-serve", "--config"]);
            command.arg(bed.path("relay.json"));
            command
        };
        let ran = run(&mut serve());
        assert_eq!(ran.code, Some(1), "{place}");
        let code = "USER.MCP_PROXY.UNKNOWN_PLUGIN: plugin `raw`";
        assert!(ran.stderr.contains(code), "{place}: {}", ran.stderr);
        assert!(ran.stderr.contains("callgate trust"), "{}", ran.stderr);
        let ran = run(typed(&bed, ["trust"]).arg(&trusted));
        assert_eq!(ran.code, Some(0), "{place}: {}", ran.stderr);
        let mut host = StdioHost::connect(&mut serve(), VERSION).expect("it shakes hands");
        assert!(tools(&mut host).contains(&"raw_echo".to_owned()), "{place}");
        drop(host);
        let mut changed = fs::read(&program).expect("it is there");
        changed.push(b'\n');
        fs::remove_file(&program).expect("it is ours");
        fs::write(&program, changed).expect("it is ours");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&program, mode).expect("it is ours");
        assert_eq!(run(&mut serve()).code, Some(1), "{place}: it changed");
    }
}
