//! What is stored of a held call, where it is shown, and for how long.

use std::fs;

use callgate_testkit::wait_until;
use serde_json::json;

use super::{asking, held};
use crate::approvals::{approval_of, approve, notifying::listen, told};
use crate::attacks::{Seen, attack};
use crate::evidence::{run, signal, stdout};
use crate::setup::Bed;
use crate::talk::{DEADLINE, call};

/// A secret in a form that redaction knows.
const SECRET: &str = "password=hunter2-correct-horse";

/// The bytes of the database of approvals that are not zero.
fn weight(bed: &Bed) -> usize {
    let files = ["data/approvals.sqlite", "data/approvals.sqlite-wal"];
    let bytes = files.map(|file| fs::read(bed.path(file)).unwrap_or_default());
    let used = |file: &Vec<u8>| file.iter().filter(|byte| **byte != 0).count();
    bytes.iter().map(used).sum()
}

/// Arguments that take much room.
fn large(key: &str) -> String {
    json!({"key": key, "text": "0123456789".repeat(60_000)}).to_string()
}

/// Whether any file below a folder has this text.
fn is_in_files(folder: &std::path::Path, text: &str) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| {
        if path.is_dir() {
            return is_in_files(&path, text);
        }
        let bytes = fs::read(&path).unwrap_or_default();
        bytes
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    })
}

#[test]
fn secrets_of_a_held_call_in_the_data_folder() {
    let bed = asking("");
    let served = bed.serve();
    let mut host = served.host_ready();
    let arguments = [
        json!({"command": format!("mysql --{SECRET}")}),
        json!({"a": "x".repeat(5000), "command": SECRET}),
        json!({"deep": [{"command": SECRET}]}),
    ];
    attack("approvals", "a secret of a held call is kept in plain text")
        .expect(Seen::Harmless)
        .tries(arguments, |arguments| {
            let id = held(&mut host, &arguments.to_string());
            let pending = is_in_files(&bed.path("data"), "hunter2");
            approve(&served, &id);
            call(&mut host, super::DELETE, &arguments.to_string());
            let after = is_in_files(&bed.path("data"), "hunter2");
            if pending || after {
                Seen::Passed
            } else {
                Seen::Harmless
            }
        })
        .check();
}

#[test]
fn arguments_kept_after_the_decision() {
    let bed = asking("");
    let served = bed.serve();
    let mut host = served.host_ready();
    let decide = |how: &str, id: &str| match how {
        "api approve" => approve(&served, id),
        "api deny" => {
            let route = format!("/v1/deny/{id}");
            assert_eq!(told(&served, &served.admin_token, "POST", &route).0, 200);
        }
        "cli approve" => drop(stdout(&run(&bed, &["approvals", "approve", id]))),
        _ => drop(stdout(&run(&bed, &["approvals", "deny", id]))),
    };
    attack("approvals", "whole arguments are kept after the decision")
        .expect(Seen::Harmless)
        .tries(
            ["api approve", "cli deny", "api deny", "cli approve"],
            |how| {
                let before = weight(&bed);
                let id = held(&mut host, &large(how));
                let pending = weight(&bed);
                decide(how, &id);
                let after = weight(&bed);
                let was_kept = pending > before + 500_000;
                if was_kept && after < before + 50_000 {
                    Seen::Harmless
                } else {
                    Seen::Passed
                }
            },
        )
        .check();
}

#[test]
fn arguments_kept_after_expiry() {
    attack(
        "approvals",
        "whole arguments are kept after the approval expired",
    )
    .expect(Seen::Harmless)
    .tries(["killed", "ended", "running"], |how| {
        let bed = asking("approvals: {expire_after: 300ms}\n");
        let mut host = bed.stdio_ready();
        held(&mut host, &large(how));
        if weight(&bed) < 500_000 {
            return Seen::Passed;
        }
        match *how {
            "killed" => host.kill().expect("it is ours"),
            "ended" => host.close_stdin(),
            _ => {}
        }
        let erased = wait_until(DEADLINE, || {
            // The next process that opens the store erases what is over.
            stdout(&run(&bed, &["approvals", "list"]));
            weight(&bed) < 100_000
        });
        if erased { Seen::Harmless } else { Seen::Passed }
    })
    .check();
}

#[test]
fn arguments_kept_after_kill_9_of_the_decider() {
    let bed = asking("");
    attack(
        "approvals",
        "whole arguments are kept after a gateway died with its decision",
    )
    .expect(Seen::Harmless)
    .tries(["approve", "deny"], |how| {
        let served = bed.serve();
        let mut host = served.host_ready();
        let id = held(&mut host, &large(how));
        if weight(&bed) < 500_000 {
            return Seen::Passed;
        }
        let route = format!("/v1/{how}/{id}");
        assert_eq!(told(&served, &served.admin_token, "POST", &route).0, 200);
        let mut process = served.process;
        signal(process.pid(), rustix::process::Signal::KILL);
        process.wait(DEADLINE).expect("it ends");
        stdout(&run(&bed, &["approvals", "list"]));
        if weight(&bed) < 200_000 {
            Seen::Harmless
        } else {
            Seen::Passed
        }
    })
    .check();
}

#[test]
fn arguments_in_a_webhook() {
    attack("approvals", "a webhook carries arguments")
        .expect(Seen::Harmless)
        .tries(["generic", "slack"], |format| {
            let (url, heard) = listen(0);
            let bed = asking(&format!(
                "approvals: {{notify: [{{url: '{url}', format: {format}}}]}}\n"
            ));
            let mut host = bed.stdio_ready();
            let id = held(&mut host, r#"{"note":"a plain sentence of the agent"}"#);
            let body = heard.recv_timeout(DEADLINE).expect("it is told").body;
            assert!(
                body.contains(&id) && body.contains("delete_thing"),
                "{body}"
            );
            if body.contains("plain sentence") {
                Seen::Passed
            } else {
                Seen::Harmless
            }
        })
        .check();
}

#[test]
fn a_call_that_cannot_be_shown_is_approved() {
    attack(
        "approvals",
        "approving a call whose arguments cannot be read any more",
    )
    .expect(Seen::Refused)
    .tries(["another key", "no key"], |how| {
        let bed = asking("");
        let mut host = bed.stdio_ready();
        let id = held(&mut host, r#"{"key":"a"}"#);
        let key = bed.path("data/seal.key");
        match *how {
            "another key" => crate::attacks::write(&key, &"0".repeat(64)),
            _ => fs::remove_file(&key).expect("it is ours"),
        }
        let approved = run(&bed, &["approvals", "approve", &id]);
        if approved.status.success() {
            return Seen::Passed;
        }
        let again = approval_of(&call(&mut host, super::DELETE, r#"{"key":"a"}"#));
        assert_eq!(again, id, "it is still asked for");
        let denied = run(&bed, &["approvals", "deny", &id]);
        if denied.status.success() {
            Seen::Refused
        } else {
            Seen::Passed
        }
    })
    .check();
}
