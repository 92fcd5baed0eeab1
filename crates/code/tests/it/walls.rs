//! The box from the inside: what a worker cannot do, whatever runs in it.

use std::{collections::HashMap, process::Command};

/// What came of each try behind a wall, and whether this kernel has the wall.
fn tried(wall: &str) -> (bool, HashMap<String, String>) {
    let output = Command::new(env!("CARGO_BIN_EXE_callgate-worker"))
        .arg(format!("probe={wall}"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines: HashMap<String, String> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(what, came)| (what.to_owned(), came.to_owned()))
        .collect();
    let stands = lines.remove("stands").unwrap() == "true";
    println!("{wall}: stands {stands}, {lines:?}");
    (stands, lines)
}

fn assert_refused(tried: &HashMap<String, String>, what: &[&str]) {
    for what in what {
        assert!(tried[*what].starts_with("refused"), "{what}: {tried:?}");
    }
}

const FILES: [&str; 4] = ["read-file", "write-file", "list-folder", "read-process"];
const CONNECTIONS: [&str; 3] = ["tcp-connect", "tcp-listen", "udp"];
const PROCESSES: [&str; 3] = ["start-program", "start-thread", "signal-parent"];

#[test]
fn resource_limits_deny_new_descriptors() {
    let (stands, tried) = tried("limits");
    assert!(stands);
    assert_refused(&tried, &FILES);
    assert_refused(&tried, &CONNECTIONS);
    assert_refused(&tried, &["unix-socket"]);
}

#[test]
fn landlock_denies_files_where_supported() {
    let (stands, tried) = tried("files");
    if stands {
        assert_refused(&tried, &FILES[..3]);
        assert_refused(&tried, &["start-program"]);
    }
}

#[test]
fn seccomp_denies_system_calls_where_supported() {
    let (stands, tried) = tried("calls");
    if stands {
        assert_refused(&tried, &FILES);
        assert_refused(&tried, &CONNECTIONS);
        assert_refused(&tried, &PROCESSES);
        assert_refused(&tried, &["unix-socket"]);
    }
}

#[test]
fn a_worker_has_every_restriction() {
    let (stands, tried) = tried("all");
    assert_refused(&tried, &FILES);
    assert_refused(&tried, &CONNECTIONS);
    if stands {
        assert_refused(&tried, &PROCESSES);
    }
}
