//! `callgate mcp-serve`: on its own, and with an invalid relay file.

use std::fs;
use std::process::Command;
use std::time::Duration;

use callgate_testkit::{StdioHost, processes_with, wait_until};
use rustix::process::Signal;
use serde_json::json;

use crate::evidence::signal;
use crate::setup::{Bed, VERSION};
use crate::shell::{run, typed};
use crate::talk::{request, tools};

fn alone(bed: &Bed) -> Command {
    fs::create_dir_all(bed.path("desk")).expect("it is ours");
    let file = bed.path("relay.json");
    fs::write(&file, json!({"root_dir": bed.path("desk")}).to_string()).expect("it is ours");
    let mut command = typed(bed, ["mcp-serve", "--config"]);
    command.arg(file);
    command
}

#[test]
fn an_invalid_relay_file_exits_with_1() {
    let bed = Bed::new("");
    for (name, text) in [
        ("none.json", None),
        ("bad.json", Some("{")),
        ("unknown.json", Some(r#"{"sockets":"x"}"#)),
        ("no-token.json", Some(r#"{"socket":"/nowhere"}"#)),
        ("gone.json", Some(r#"{"socket":"/nowhere","token":"x"}"#)),
        ("empty.json", Some(r#"{"intercept_builtins":false}"#)),
    ] {
        if let Some(text) = text {
            fs::write(bed.path(name), text).expect("it is ours");
        }
        let mut command = typed(&bed, ["mcp-serve", "--config"]);
        let ran = run(command.arg(bed.path(name)));
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (Some(1), ""),
            "{name}: {}",
            ran.stderr
        );
        assert!(ran.stderr.starts_with("error: "), "{name}: {}", ran.stderr);
    }
    assert_eq!(run(&mut typed(&bed, ["mcp-serve"])).code, Some(1));
}

#[test]
fn mcp_serve_alone_serves_unprefixed_tools_and_answers_shutdown() {
    let bed = Bed::new("");
    let mut host = StdioHost::connect(&mut alone(&bed), VERSION).expect("it shakes hands");
    assert_eq!(
        tools(&mut host),
        ["Bash", "Edit", "Glob", "Grep", "Read", "Write"]
    );
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"Write","arguments":{"path":"x","content":"y"}}}"#;
    assert_eq!(request(&mut host, call)["result"].get("isError"), None);
    assert_eq!(bed.read("desk/x"), "y");
    let goodbye = r#"{"jsonrpc":"2.0","id":2,"method":"shutdown"}"#;
    assert_eq!(request(&mut host, goodbye)["result"], json!({}));
    let ended = host.wait(Duration::from_secs(10)).expect("it ends");
    assert!(ended.success(), "{ended}");
    let ran = run(&mut typed(&bed, ["activity", "export"]));
    assert!(
        ran.stdout.contains(r#""tool":"Write""#) && ran.stdout.contains(r#""source":"agent""#),
        "{}",
        ran.stdout
    );
}

#[test]
fn every_way_to_end_mcp_serve_stops_running_commands() {
    for how in [None, Some(Signal::INT), Some(Signal::TERM)] {
        let bed = Bed::new("");
        let mut host = StdioHost::connect(&mut alone(&bed), VERSION).expect("it shakes hands");
        let mark = bed.path("the-command").display().to_string();
        let arguments = json!({"command": format!("export MARK={mark}; sleep 600; true")});
        host.send(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"Bash","arguments":{arguments}}}}}"#)).expect("it reads");
        assert!(
            wait_until(Duration::from_secs(20), || processes_with(&mark).len() >= 2),
            "it runs"
        );
        match how {
            None => host.close_stdin(),
            Some(how) => signal(host.pid(), how),
        }
        assert!(
            wait_until(Duration::from_secs(8), || processes_with(&mark).is_empty()),
            "after {how:?}"
        );
        assert!(host.wait(Duration::from_secs(8)).is_ok(), "after {how:?}");
    }
}
