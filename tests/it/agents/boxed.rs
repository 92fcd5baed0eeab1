//! Agents in their boxes: what a hostile one can reach, with namespaces and without.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::Command;

use callgate_testkit::agents::{AgentScript, FakeCall};
use callgate_testkit::goplugin::plugin::RawPlugin;
use serde_json::json;

use super::{KNOWN, PROGRAMS, Stage};
use crate::shell::{Ran, run};
use crate::talk::parsed;

/// What a fake agent needs besides its step, to write down what it was given.
const FAKES: &str =
    "policy: allow-all\nagents: {box: {read: ['@dir@/script.json'], write: ['@dir@/agent.log']}}\n";

/// How a kernel is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kernel {
    AsItIs,
    WithoutNamespaces,
}

const KERNELS: [Kernel; 2] = [Kernel::AsItIs, Kernel::WithoutNamespaces];

/// The command on a kernel like this. Where no namespaces can be made anyway, as it is.
fn on(kernel: Kernel, command: Command) -> Command {
    if kernel == Kernel::AsItIs || !has_namespaces() {
        return command;
    }
    // The limit is that of the new user namespace.
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" \"$@\"";
    let mut outer = Command::new("unshare");
    outer
        .args(["-r", "sh", "-c", script])
        .arg(command.get_program());
    outer.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    outer
}

fn has_namespaces() -> bool {
    let tried = Command::new("unshare").args(["-r", "true"]).status();
    tried.is_ok_and(|status| status.success())
}

#[test]
fn every_agent_works_in_its_box_through_the_gate() {
    for kernel in KERNELS {
        for (provider, version) in PROGRAMS.into_iter().zip(KNOWN) {
            let stage = Stage::boxed(FAKES);
            fs::write(stage.bed.path("agent.log"), "").expect("it is ours");
            stage.script(AgentScript {
                version: version.to_owned(),
                calls: vec![FakeCall {
                    tool: "Write".to_owned(),
                    arguments: json!({"path": "made", "content": "x"}),
                }],
                text: "done".to_owned(),
                ..AgentScript::default()
            });
            let command = stage.agent(&[provider, "--prompt", "do it"]);
            let Ran { code, stderr, .. } = run(&mut on(kernel, command));
            assert_eq!(code, Some(0), "{provider} {kernel:?}: {stderr}");
            assert_eq!(stage.bed.read("desk/made"), "x", "{provider} {kernel:?}");
            let has_gaps = stderr.contains("the agent's box is incomplete here");
            let expected = kernel == Kernel::WithoutNamespaces || !has_namespaces();
            assert_eq!(has_gaps, expected, "{provider} {kernel:?}: {stderr}");
            stage.assert_nothing_left();
        }
    }
}

#[test]
fn additive_agents_have_the_work_folder_and_a_copy_of_their_settings() {
    for kernel in KERNELS {
        for (provider, version) in PROGRAMS.into_iter().zip(KNOWN) {
            let stage = Stage::boxed(FAKES);
            fs::write(stage.bed.path("agent.log"), "").expect("it is ours");
            let raw = RawPlugin::with_all(stage.bed.path("plugin.log"));
            raw.install(&stage.bed.path("data/plugins"), "raw");
            stage.script(AgentScript {
                version: version.to_owned(),
                calls: vec![FakeCall {
                    tool: "raw_echo".to_owned(),
                    arguments: json!({"text": "x"}),
                }],
                ..AgentScript::default()
            });
            let args = [
                provider, "--prompt", "x", "--mode", "additive", "--plugin", "raw:echo",
            ];
            let Ran { code, stderr, .. } = run(&mut on(kernel, stage.agent(&args)));
            assert_eq!(code, Some(0), "{provider} {kernel:?}: {stderr}");
            let given = stage.given();
            let desk = stage.bed.path("desk").canonicalize().expect("it is there");
            assert_eq!(
                given["cwd"],
                desk.display().to_string(),
                "{provider} {kernel:?}"
            );
            let home = given["env"]["HOME"].as_str().expect("a home");
            assert!(
                home.contains("/callgate-step-"),
                "{provider} {kernel:?}: {home}"
            );
            stage.assert_nothing_left();
        }
    }
}

/// An agent that speaks as Claude does, lists its tools and then tries what it can. It says which attacks worked.
const AGENT: &str = r#"#!/bin/bash
case "$*" in *--version*) echo '2.1.325 (Claude Code)'; exit ;; esac
cat > /dev/null
list='{"jsonrpc":"2.0","id":2,"method":"tools/list"}'
hello='{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}'
printf '%s\n' "$hello" '{"jsonrpc":"2.0","method":"notifications/initialized"}' "$list" |
  @callgate@ mcp-serve --config "${HOME%/home}/relay.json" > "$HOME/answers"
worked() { echo "$1"; }
out=$( { @attacks@
} 2>/dev/null | tr '\n' ' ')
printf '{"type":"result","subtype":"success","is_error":false,"result":"%s","usage":{"input_tokens":1,"output_tokens":1}}\n' "$out"
"#;

const ATTACKS: &str = r#"
grep -q '"Read"' "$HOME/answers" && worked control-door
grep -q '"Read"' <(printf '%s\n' "$hello" "$list" | @callgate@ mcp-serve --config "${HOME%/home}/relay.json") && worked door-again
cat @dir@/secret && worked secret
cat @dir@/desk/secret && worked project
ls @dir@/desk/* && worked project-list
echo x > @dir@/desk/written && worked project-write
cat @dir@/home/.claude.json && worked users-home
ls @dir@/data/* && worked data-list
cat @dir@/data/* && worked data-files
cat @dir@/callgate.yaml && worked configuration
echo x >> "${HOME%/home}/relay.json" && worked relay-file
touch "${HOME%/home}/lock.new" && worked step-folder
echo x > @dir@/bin/claude && worked program
[ "$(ls -d @dir@/tmp/callgate-step-*/home 2>/dev/null | wc -l)" -gt 1 ] && worked other-steps
kill -0 @pid@ && worked signal
cat /proc/@pid@/environ && worked environ-of-other
perl -MIO::Socket::UNIX -e 'exit !IO::Socket::UNIX->new(Peer => "@dir@/users.sock")' && worked unix-socket
exec 3<>/dev/tcp/127.0.0.1/@closed@ && worked unlisted-port
[ -n "$AWS_SECRET_ACCESS_KEY$OPENAI_API_KEY" ] && worked variables
through() {
  proxy=${HTTP_PROXY#http://}
  secret=${proxy%@*}; [ "$secret" = "$proxy" ] && secret=
  proxy=${proxy##*@}
  exec 4<>/dev/tcp/${proxy%:*}/${proxy#*:} || return 1
  printf 'CONNECT %s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: Basic %s\r\n\r\n' "$1" "$1" "$(printf %s "$secret" | base64 -w0)" >&4
  read -r -u 4 -t 20 status
  case $status in *' 200 '*) return 0 ;; *) return 1 ;; esac
}
through 127.0.0.1:@closed@ && worked unlisted-host
through 169.254.169.254:80 && worked metadata
through 127.0.0.1:@open@ && worked control-model
echo x > "$HOME/new" && worked control-home
echo x > "$TMPDIR/new" && worked control-temporary
true
"#;

/// A stage whose Claude is the hostile agent.
fn hostile(open: &str, closed: &str) -> Stage {
    let stage = Stage::boxed("policy: allow-all\n");
    fs::write(stage.bed.path("secret"), "hidden").expect("it is ours");
    fs::write(stage.bed.path("desk/secret"), "hidden").expect("it is ours");
    let text = AGENT.replace("@attacks@", ATTACKS);
    let text = stage
        .bed
        .filled_in(&text)
        .replace(
            "@callgate@",
            &callgate_testkit::callgate().display().to_string(),
        )
        .replace("@pid@", &std::process::id().to_string())
        .replace("@open@", open)
        .replace("@closed@", closed);
    let program = stage.bed.path("bin/claude");
    fs::remove_file(&program).expect("it is ours");
    fs::write(&program, text).expect("it is ours");
    fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("it is ours");
    stage
}

#[test]
fn a_hostile_agent_reaches_only_its_step_and_its_model() {
    for kernel in KERNELS {
        let (open, closed) = (listener(), listener());
        let port = |one: &TcpListener| one.local_addr().expect("it listens").port().to_string();
        let stage = hostile(&port(&open), &port(&closed));
        let _socket = UnixListener::bind(stage.bed.path("users.sock")).expect("it is ours");
        let mut command = stage.agent(&["claude", "--prompt", "attack", "--json"]);
        command
            .env(
                "ANTHROPIC_BASE_URL",
                format!("http://127.0.0.1:{}", port(&open)),
            )
            .env("ANTHROPIC_API_KEY", "k")
            .env("AWS_SECRET_ACCESS_KEY", "s")
            .env("OPENAI_API_KEY", "s");
        let ran = run(&mut on(kernel, command));
        assert_eq!(ran.code, Some(0), "{kernel:?}: {}", ran.stderr);
        let finished = ran.stdout.lines().last().expect("an event");
        let finished = parsed(finished);
        let mut worked: Vec<&str> = finished["text"]
            .as_str()
            .expect("a text")
            .split_whitespace()
            .collect();
        worked.retain(|word| *word != "hidden");
        worked.sort_unstable();
        let controls = [
            "control-door",
            "control-home",
            "control-model",
            "control-temporary",
        ];
        assert_eq!(worked, controls, "{kernel:?}");
        assert!(!stage.bed.path("desk/written").exists(), "{kernel:?}");
        closed.set_nonblocking(true).expect("it listens");
        assert!(closed.accept().is_err(), "nothing has connected");
        let reasons: Vec<String> = stage
            .records()
            .iter()
            .filter(|record| record["tool"] == "egress.connection")
            .map(|record| record["reason"].to_string())
            .collect();
        let refused = "outcome=refused reason=not_listed host=169.254.169.254";
        assert!(
            reasons.iter().any(|reason| reason.contains(refused)),
            "{reasons:?}"
        );
        assert!(
            reasons
                .iter()
                .all(|reason| reason.contains("agent claude, step ")),
            "{reasons:?}"
        );
        stage.assert_nothing_left();
    }
}

#[test]
fn a_boxed_agent_cannot_work_in_a_folder_that_holds_everything() {
    let stage = Stage::boxed("policy: allow-all\n");
    let mut command = stage.callgate(&[
        "agent", "claude", "--prompt", "x", "--mode", "additive", "--plugin", "raw:echo",
    ]);
    let raw = RawPlugin::with_all(stage.bed.path("plugin.log"));
    raw.install(&stage.bed.path("data/plugins"), "raw");
    command.arg("--workdir").arg(stage.bed.path("home"));
    let ran = run(&mut command);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("it contains your whole home folder"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("agents: {box: off}"), "{}", ran.stderr);
}

#[test]
fn what_runs_without_a_box_includes_agents_whose_box_is_off() {
    let boxed = Stage::boxed("policy: allow-all\n");
    let doctor = run(&mut boxed.callgate(&["doctor"])).stdout;
    let line = "agents are boxed (best_effort): each has its own program";
    assert!(doctor.contains(line), "{doctor}");
    assert!(doctor.contains("boxes: "), "{doctor}");
    let off = Stage::new();
    let doctor = run(&mut off.callgate(&["doctor"])).stdout;
    assert!(
        doctor.contains("without a box, so with all your rights: agents"),
        "{doctor}"
    );
}

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a port is free")
}
