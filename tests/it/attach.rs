//! Hosts beside a running `serve`: they attach to it, and servers are not started again.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::process::Command;
use std::time::Duration;

use callgate_testkit::{StdioHost, wait_until};
use rustix::process::Signal;

use crate::evidence::{
    COUNTER, alive, assert_done, assert_sound, call_line, ledger, record_of, records, servers_with,
    signal, wait_for_effect,
};
use crate::setup::{Bed, VERSION};
use crate::talk::{DEADLINE, call_text, introduction, tools};

/// A host that declares these capabilities, once it has said that it is attached.
fn attached(bed: &Bed, capabilities: &str) -> StdioHost {
    let mut host = bed.stdio();
    host.wait_stderr(DEADLINE, |line| {
        line.starts_with("attached to the gateway at ")
    })
    .expect("it attaches");
    host.request(&introduction(Some(capabilities)))
        .expect("it is answered");
    host
}

/// A host that says that it is not attached, and why.
fn alone(command: &mut Command, why: &str) -> StdioHost {
    let host = StdioHost::connect(command, VERSION).expect("it serves alone");
    let said = host.stderr().join("\n");
    assert!(
        !said.contains("attached to the gateway") || said.contains(why),
        "{said}"
    );
    assert!(said.contains(why), "{said}");
    host
}

fn servers(bed: &Bed) -> Vec<u32> {
    let folder = bed.path("").display().to_string();
    servers_with(folder.trim_end_matches('/'))
}

#[test]
fn hosts_beside_a_running_gateway_share_its_servers() {
    let bed = Bed::new(COUNTER);
    let mut served = bed.serve();
    let mut first = attached(&bed, "{}");
    let mut second = attached(&bed, "{}");
    for (at, host) in [&mut first, &mut second].into_iter().enumerate() {
        assert!(tools(host).contains(&"n__effect".to_owned()));
        assert_done(host.call(1, "n__effect", &format!(r#"{{"key":"host{at}"}}"#)));
    }
    assert_eq!(servers(&bed).len(), 1, "one process serves both hosts");
    let mut asked = attached(&bed, r#"{"sampling":{}}"#);
    let mut asked_too = attached(&bed, r#"{"sampling":{}}"#);
    for host in [&mut asked, &mut asked_too] {
        assert_done(host.call(1, "n__read_thing", r#"{"key":"k"}"#));
    }
    assert_eq!(servers(&bed).len(), 2, "one more for another kind of host");
    for host in [&mut first, &mut second, &mut asked, &mut asked_too] {
        let status = host.close(DEADLINE).expect("it ends with its host");
        assert!(status.success(), "{status}");
    }
    signal(served.process.pid(), Signal::TERM);
    let status = served.process.wait(DEADLINE).expect("it ends");
    assert!(status.success(), "{status}");
    assert!(!bed.path("data/serve.sock").exists());
    assert!(wait_until(DEADLINE, || alive(&bed).is_empty()));

    assert_eq!(ledger(&bed), ["host0", "host1"]);
    let records = records(&bed);
    for key in ["host0", "host1"] {
        let record = record_of(&records, key).expect("a record");
        assert_eq!(record["transport"], "stdio");
        assert_eq!(record["status"], "success");
    }
    assert_sound(&bed);
}

#[test]
fn kill_9_of_the_gateway_ends_its_relays_and_leaves_nothing() {
    let bed = Bed::new(COUNTER);
    let served = bed.serve();
    let mut hosts = [attached(&bed, "{}"), attached(&bed, "{}")];
    hosts[0]
        .send(&call_line(1, "slow", r#"{"key":"open","ms":600000}"#))
        .expect("it reads");
    wait_for_effect(&bed, "open");
    signal(served.process.pid(), Signal::KILL);
    for host in &mut hosts {
        let status = host.wait(DEADLINE).expect("it ends with its gateway");
        assert_eq!(status.code(), Some(3));
        let said = host.stderr().join("\n");
        let expected = format!(
            "error: the gateway (process {}) ended\nhelp: ",
            served.process.pid()
        );
        assert!(said.contains(&expected), "{said}");
    }
    let nothing_left = wait_until(Duration::from_secs(2), || alive(&bed).is_empty());
    assert!(nothing_left, "{:?}", alive(&bed));
    assert!(
        !bed.path("data/serve.sock").exists(),
        "the socket is cleared away"
    );

    let mut host = bed.stdio_ready();
    assert_eq!(
        call_text(&mut host, "n__read_thing", r#"{"key":"k"}"#),
        "read k"
    );
    let records = records(&bed);
    assert_eq!(
        record_of(&records, "open").expect("a record")["status"],
        "unknown"
    );
}

#[test]
fn a_stopping_gateway_answers_attached_hosts_first() {
    let bed = Bed::new(COUNTER);
    let mut served = bed.serve();
    let mut host = attached(&bed, "{}");
    host.send(&call_line(1, "slow", r#"{"key":"last","ms":1500}"#))
        .expect("it reads");
    wait_for_effect(&bed, "last");
    signal(served.process.pid(), Signal::TERM);
    assert_done(host.recv_where(|frame| frame.answers("1")));
    served.process.wait(DEADLINE).expect("it ends");
    let status = host.wait(DEADLINE).expect("it ends with its gateway");
    assert_eq!(status.code(), Some(3));
    let records = records(&bed);
    assert_eq!(
        record_of(&records, "last").expect("a record")["status"],
        "success"
    );
}

#[test]
fn a_stopped_relay_cancels_only_its_own_calls() {
    let bed = Bed::new(COUNTER);
    let _served = bed.serve();
    let mut stays = attached(&bed, "{}");
    for (key, how) in [("killed", Signal::KILL), ("told", Signal::TERM)] {
        let mut goes = attached(&bed, "{}");
        let slow = format!(r#"{{"key":"{key}","ms":600000}}"#);
        goes.send(&call_line(1, "slow", &slow)).expect("it reads");
        wait_for_effect(&bed, key);
        signal(goes.pid(), how);
        let status = goes.wait(DEADLINE).expect("it ends");
        if how == Signal::TERM {
            assert!(status.success(), "{status}");
        }
        let ended = wait_until(DEADLINE, || {
            record_of(&records(&bed), key).is_some_and(|record| record["status"] == "unknown")
        });
        assert!(ended, "the call of `{key}` has an end");
        assert_done(stays.call(7, "n__effect", &format!(r#"{{"key":"after {key}"}}"#)));
    }
    assert_eq!(servers(&bed).len(), 1);
}

#[test]
fn hosts_with_different_flags_or_configuration_serve_alone() {
    let bed = Bed::new(COUNTER);
    let _served = bed.serve();
    let with_flag = |args: &[&str]| bed.command(["stdio"].iter().chain(args));
    let flags = "this command has flags of its own";
    drop(alone(&mut with_flag(&["--policy", "default"]), flags));
    drop(alone(&mut with_flag(&["--server", "more:cat"]), flags));
    let mut told = with_flag(&[]);
    drop(alone(told.env("CALLGATE_UPSTREAM_TIMEOUT", "5s"), flags));
    drop(alone(&mut with_flag(&["--no-attach"]), ""));

    std::fs::copy(bed.path("callgate.yaml"), bed.path("other.yaml")).expect("it is ours");
    let mut other = Command::new(callgate_testkit::callgate());
    other
        .args(["stdio", "--config"])
        .arg(bed.path("other.yaml"));
    other.arg("--data-dir").arg(bed.path("data"));
    drop(alone(&mut other, "it uses a different configuration file"));
    assert!(bed.path("data/serve.sock").exists());
}

#[test]
fn a_data_folder_path_too_long_for_a_socket_is_served() {
    let bed = Bed::new(COUNTER);
    let deep = bed.path(&"deep".repeat(40));
    let gateway = |args: &[&str]| {
        let mut command = Command::new(callgate_testkit::callgate());
        command
            .args(args)
            .arg("--config")
            .arg(bed.path("callgate.yaml"));
        command.arg("--data-dir").arg(&deep);
        command
    };
    let served = StdioHost::spawn(&mut gateway(&["serve", "--listen", "127.0.0.1:0"]));
    let served = served.expect("it starts");
    for said in ["could not open the socket for attached hosts", "listening "] {
        served
            .wait_stderr(DEADLINE, |line| line.contains(said))
            .expect("it says so");
    }
    let mut host = StdioHost::connect(&mut gateway(&["stdio"]), VERSION).expect("it serves alone");
    assert_done(host.call(1, "n__effect", r#"{"key":"k"}"#));
}

#[test]
fn the_socket_is_private_and_a_stale_one_is_replaced() {
    let bed = Bed::new(COUNTER);
    let socket = bed.path("data/serve.sock");
    let mut served = bed.serve();
    let data = std::fs::metadata(&socket).expect("it is there");
    assert!(data.file_type().is_socket());
    assert_eq!(data.permissions().mode() & 0o777, 0o600);
    served.process.kill().expect("it is ours");
    assert!(socket.exists(), "a killed gateway leaves its socket");
    let mut host = bed.stdio_ready();
    assert!(
        !tools(&mut host).is_empty(),
        "a dead socket does not count as a gateway"
    );
    drop(host);

    let _again = bed.serve();
    let mut first = attached(&bed, "{}");
    let second = bed.serve();
    second
        .process
        .wait_stderr(DEADLINE, |line| {
            line.contains("another `serve` already accepts")
        })
        .expect("a living one is not replaced");
    drop(second);
    assert!(socket.exists());
    assert_done(first.call(1, "n__effect", r#"{"key":"k"}"#));
}
