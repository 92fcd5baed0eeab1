//! How steps end: false success reports fail, and a step leaves nothing behind however it ends.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use callgate_testkit::agents::{AgentScript, FakeCall, Misbehave};
use callgate_testkit::{processes_with, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{KNOWN, PROGRAMS, Stage};
use crate::evidence::signal;
use crate::setup::VERSION;
use crate::shell::run;

/// How many steps are ended unless `CALLGATE_AGENT_ENDS` says otherwise.
const ROUNDS: usize = 5;

fn version(provider: &str) -> String {
    let at = PROGRAMS.iter().position(|name| *name == provider);
    KNOWN[at.expect("it is one of them")].to_owned()
}

fn misbehaving(provider: &str, misbehave: Misbehave) -> AgentScript {
    AgentScript {
        version: version(provider),
        calls: vec![FakeCall {
            tool: "Read".to_owned(),
            arguments: json!({"path": "none"}),
        }],
        text: "all is well".to_owned(),
        misbehave,
        ..AgentScript::default()
    }
}

#[test]
fn false_success_reports_of_agents_fail_the_step() {
    let cases = [
        (Misbehave::NoServer, "the agent's tools were never listed"),
        (
            Misbehave::ServerCrashes,
            "the agent's tools were never listed",
        ),
        (Misbehave::NoFinal, "without a final event (exit code 0)"),
        (Misbehave::FinalThenFails, "the agent failed: exit code 9"),
        (Misbehave::SaysFailed, "the agent failed: it did not work"),
    ];
    for (at, (misbehave, expected)) in cases.into_iter().enumerate() {
        let provider = PROGRAMS[at % PROGRAMS.len()];
        let stage = Stage::new();
        stage.script(misbehaving(provider, misbehave));
        let ran = run(&mut stage.agent(&[provider, "--prompt", "x"]));
        assert_eq!(
            ran.code,
            Some(3),
            "{provider} {misbehave:?}: {}",
            ran.stderr
        );
        assert!(
            ran.stderr.contains(expected),
            "{provider} {misbehave:?}: {}",
            ran.stderr
        );
        assert!(
            !stage.step_record().contains("status=success"),
            "{misbehave:?}"
        );
        stage.assert_nothing_left();
    }
}

#[test]
fn every_agent_without_its_tools_fails() {
    for provider in PROGRAMS {
        let stage = Stage::new();
        stage.script(misbehaving(provider, Misbehave::NoServer));
        let ran = run(&mut stage.agent(&[provider, "--prompt", "x"]));
        assert_eq!(ran.code, Some(3), "{provider}: {}", ran.stderr);
        assert!(
            stage.step_record().contains("status=NO_TOOLS"),
            "{provider}"
        );
    }
}

#[test]
fn a_server_crash_during_a_call_leaves_a_finished_record() {
    let stage = Stage::new();
    let mark = stage.bed.path("running").display().to_string();
    stage.script(AgentScript {
        calls: vec![FakeCall {
            tool: "Bash".to_owned(),
            arguments: json!({"command": format!("export MARK={mark}; sleep 600; true")}),
        }],
        ..misbehaving("claude", Misbehave::ServerCrashesInCall)
    });
    let ran = run(&mut stage.agent(&["claude", "--prompt", "x"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
    let records = stage.records();
    let calls: Vec<_> = records
        .iter()
        .filter(|record| record["tool"] == "Bash")
        .collect();
    for call in calls {
        assert!(call["status"].is_string(), "it has an end: {call}");
    }
    stage.assert_nothing_left();
}

#[test]
fn a_missing_agent_program_is_named_by_the_command() {
    let stage = Stage::new();
    stage.script(misbehaving("claude", Misbehave::No));
    let mut command = stage.agent(&["claude", "--prompt", "x"]);
    command.env("PATH", "/usr/bin:/bin");
    let ran = run(&mut command);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("`claude` could not be started"),
        "{}",
        ran.stderr
    );
    stage.assert_nothing_left();
}

/// How a step is ended.
#[derive(Debug, Clone, Copy)]
enum End {
    Signal(Signal),
    Timeout,
    Fails,
}

const ENDS: [End; 5] = [
    End::Signal(Signal::INT),
    End::Signal(Signal::TERM),
    End::Signal(Signal::KILL),
    End::Timeout,
    End::Fails,
];

/// A step whose agent runs a command that never ends, as soon as the command runs.
fn running(stage: &Stage, provider: &str, end: End, misbehave: Misbehave) -> (Child, String) {
    let mark = stage.bed.path("the-command").display().to_string();
    let command = format!("export MARK={mark}; (setsid sleep 600 &) ; sleep 600; true");
    stage.script(AgentScript {
        version: version(provider),
        calls: vec![FakeCall {
            tool: "Bash".to_owned(),
            arguments: json!({"command": command, "timeout_seconds": 500}),
        }],
        misbehave,
        ..AgentScript::default()
    });
    let mut args = vec![provider, "--prompt", "x"];
    if matches!(end, End::Timeout) {
        args.extend(["--timeout", "2s"]);
    }
    let mut command = stage.agent(&args);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let child = child.expect("the binary starts");
    let patience = Duration::from_secs(20);
    assert!(
        wait_until(patience, || processes_with(&mark).len() >= 2),
        "the command runs"
    );
    (child, mark)
}

/// Whether a process runs a program of that name.
fn is_called(pid: u32, name: &str) -> bool {
    let comm = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    comm.is_ok_and(|comm| comm.trim() == name)
}

#[test]
fn a_step_leaves_nothing_behind_however_it_ends() {
    let rounds = std::env::var("CALLGATE_AGENT_ENDS").ok();
    let rounds: usize = rounds.and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let mut longest = Duration::ZERO;
    for round in 0..rounds {
        let (end, provider) = (ENDS[round % ENDS.len()], PROGRAMS[round % PROGRAMS.len()]);
        let misbehave = [
            Misbehave::No,
            Misbehave::HangsDeaf,
            Misbehave::ExitsWellWhenTold,
        ][round % 3];
        let stage = Stage::new();
        let (mut child, mark) = running(&stage, provider, end, misbehave);
        let start = Instant::now();
        match end {
            End::Signal(how) => signal(child.id(), how),
            End::Timeout => {}
            // The agent dies in the middle of its call.
            End::Fails => {
                let all = processes_with(
                    stage
                        .bed
                        .path("")
                        .display()
                        .to_string()
                        .trim_end_matches('/'),
                );
                let agents: Vec<u32> = all
                    .into_iter()
                    .filter(|pid| is_called(*pid, provider))
                    .collect();
                assert_eq!(agents.len(), 1, "the agent itself");
                signal(agents[0], Signal::KILL);
            }
        }
        let mut code = None;
        let patience = Duration::from_secs(12);
        let ended = wait_until(patience, || {
            code = child.try_wait().expect("it is ours");
            code.is_some()
        });
        assert!(
            ended,
            "round {round}: {provider} {end:?} {misbehave:?} does not end"
        );
        let code = code.expect("it has ended");
        assert!(
            !code.success(),
            "round {round}: {provider} {end:?} {misbehave:?}: {code}"
        );
        let gone = wait_until(Duration::from_secs(8), || processes_with(&mark).is_empty());
        let took = start.elapsed();
        assert!(
            gone,
            "round {round}: {provider} {end:?} {misbehave:?}: {:?}",
            processes_with(&mark)
        );
        if !matches!(end, End::Timeout) {
            assert!(
                took < Duration::from_secs(12),
                "round {round}: {provider} {end:?} {misbehave:?} took {took:?}"
            );
            longest = longest.max(took);
        }
        stage.assert_nothing_left();
    }
    println!("{rounds} steps ended, nothing left; the longest end took {longest:?}");
}

/// The answer of a step's socket to a client that begins with `words`; empty if it closes the connection.
fn answer_to_client(socket: &Path, words: &str) -> String {
    let mut stream = UnixStream::connect(socket).expect("the step listens");
    let hello = callgate_testkit::initialize_line(VERSION);
    // A door that is shut before all is said breaks the stream.
    let _ = stream.write_all(format!("{words}\n{hello}\n").as_bytes());
    let _ = stream.shutdown(Shutdown::Write);
    let mut said = String::new();
    let _ = stream.read_to_string(&mut said);
    said
}

#[test]
fn a_steps_socket_accepts_one_connection_with_its_token() {
    let stage = Stage::new();
    let end = End::Signal(Signal::TERM);
    let (mut child, _) = running(&stage, "claude", end, Misbehave::No);
    let folder = stage.left().into_iter().next().expect("the step's folder");
    let relay = std::fs::read_to_string(folder.join("relay.json")).expect("the relay's file");
    let relay: Value = serde_json::from_str(&relay).expect("it is JSON");
    let token = relay["token"].as_str().expect("a token");
    let socket = folder.join("gate.sock");
    let other = token.replace(|_: char| true, "0");
    for words in [token, &other, &token[1..], "", "GET / HTTP/1.1"] {
        assert_eq!(answer_to_client(&socket, words), "", "{words:?}");
    }
    signal(child.id(), Signal::TERM);
    child.wait().expect("it is ours");
    stage.assert_nothing_left();
}
