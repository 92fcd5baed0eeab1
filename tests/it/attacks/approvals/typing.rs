//! `approvals watch` on a terminal: an answer decides the call that it names, once that call was shown.

use std::io::Write as _;
use std::process::{Child, ChildStdin};

use callgate_testkit::{StdioHost, wait_until};
use serde_json::json;

use super::{asking, held};
use crate::approvals::terminal::on_a_terminal;
use crate::attacks::{Seen, attack};
use crate::evidence::{run, stdout};
use crate::setup::Bed;
use crate::talk::{DEADLINE, parsed};

/// `approvals watch` on a terminal of its own.
struct Watching {
    process: Child,
    keyboard: ChildStdin,
}

impl Watching {
    fn start(bed: &Bed) -> Self {
        crate::attacks::write(&bed.path("shown"), "");
        let mut command = on_a_terminal(&bed.command(["approvals", "watch"]), &bed.path("shown"));
        let mut process = command.spawn().expect("`script` of util-linux is there");
        let keyboard = process.stdin.take().expect("it is piped");
        Self { process, keyboard }
    }

    fn types(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).expect("it reads");
        self.keyboard.flush().expect("it reads");
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits until the watch asks about this approval.
fn asked_about(bed: &Bed, id: &str) {
    let asked = || {
        let shown = bed.read("shown");
        shown
            .split_once(id)
            .is_some_and(|(_, rest)| rest.contains("approve"))
    };
    assert!(wait_until(DEADLINE, asked), "{}", bed.read("shown"));
}

/// Leaves what is asked about open, until the watch asks about the next approval.
fn go_on(bed: &Bed, watch: &mut Watching, next: &str) {
    let asked = wait_until(DEADLINE, || {
        watch.types("\n");
        let shown = bed.read("shown");
        shown
            .split_once(next)
            .is_some_and(|(_, rest)| rest.contains("approve"))
    });
    assert!(asked, "{}", bed.read("shown"));
}

fn status(bed: &Bed, id: &str) -> String {
    let shown = parsed(&stdout(&run(bed, &["approvals", "show", id, "--json"])));
    shown["status"].as_str().unwrap_or_default().to_owned()
}

/// How a call stands once the watch has gone on to the next one.
fn undecided(bed: &Bed, id: &str) -> Seen {
    match status(bed, id).as_str() {
        "pending" => Seen::Held,
        _ => Seen::Passed,
    }
}

fn hold(host: &mut StdioHost, key: &str) -> String {
    held(host, &json!({ "key": key }).to_string())
}

/// Types this when a call is shown, lets the watch go on to another call, and says how the first one stands.
fn answered(typed: &str) -> Seen {
    let bed = asking("");
    let mut host = bed.stdio_ready();
    let mut watch = Watching::start(&bed);
    let id = hold(&mut host, "a");
    asked_about(&bed, &id);
    watch.types(typed);
    let next = hold(&mut host, "b");
    go_on(&bed, &mut watch, &next);
    undecided(&bed, &id)
}

#[test]
fn answers_typed_before_the_call_is_shown() {
    attack("approvals", "an answer typed before the call was shown")
        .expect(Seen::Held)
        .tries(
            ["y\n", "y\ny\ny\n", "y 1\ny 2\n", "approve 1\n", "yes"],
            |typed| {
                let bed = asking("");
                let mut host = bed.stdio_ready();
                let mut watch = Watching::start(&bed);
                let waits = || bed.read("shown").contains("waiting");
                assert!(wait_until(DEADLINE, waits), "{}", bed.read("shown"));
                watch.types(typed);
                // The terminal echoes what it has taken.
                let echoed = || {
                    bed.read("shown")
                        .contains(typed.lines().last().unwrap_or_default())
                };
                assert!(wait_until(DEADLINE, echoed));
                let id = hold(&mut host, "a");
                asked_about(&bed, &id);
                // An answer that decides nothing: the watch has read everything before it.
                watch.types("\n");
                let next = hold(&mut host, "b");
                asked_about(&bed, &next);
                undecided(&bed, &id)
            },
        )
        .check();
}

#[test]
fn an_answer_that_names_no_call() {
    attack("approvals", "an answer that does not name the call")
        .expect(Seen::Held)
        .tries(
            [
                "y", "yes", "approve", "Y", "y ", "y ap_", "y ap", "y *", "1", "y -1",
            ],
            |typed| answered(&format!("{typed}\n")),
        )
        .check();
}

#[test]
fn an_answer_that_names_another_call() {
    attack("approvals", "an answer that names another call")
        .expect(Seen::Held)
        .tries(
            [
                "y 99",
                "y ap_zzz",
                "y 0",
                "approve 1000000",
                "y ap_00000000000000000000000000000000",
                "y 1 2",
            ],
            |typed| answered(&format!("{typed}\ny\n")),
        )
        .check();
}

#[test]
fn answers_from_a_pipe() {
    attack(
        "approvals",
        "answers that come from a pipe and not from a person",
    )
    .expect(Seen::Held)
    .tries(["y\n", "y 1\n", "approve 1\n"], |typed| {
        let bed = asking("");
        let mut host = bed.stdio_ready();
        let id = hold(&mut host, "a");
        let mut command = bed.command(["approvals", "watch"]);
        command
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped());
        let mut process = command
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("it starts");
        let mut keyboard = process.stdin.take().expect("it is piped");
        keyboard.write_all(typed.as_bytes()).expect("it reads");
        let mut shown = std::io::BufReader::new(process.stdout.take().expect("it is piped"));
        let mut line = String::new();
        while !line.contains("thing") {
            line.clear();
            std::io::BufRead::read_line(&mut shown, &mut line).expect("it shows the call");
        }
        let seen = undecided(&bed, &id);
        process.kill().expect("it is ours");
        process.wait().expect("it ends");
        seen
    })
    .check();
}
