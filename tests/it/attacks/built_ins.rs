//! Built-in tools directed at files they must not reach.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use callgate_testkit::{Host, StdioHost};
use serde_json::{Value, json};

use super::{Seen, attack, judged, write};
use crate::setup::Bed;
use crate::talk::call;

const SECRET: &str = "a-word-that-stands-nowhere-else";

/// The built-in tools over `@dir@/desk`, with a secret outside, and over all of `@dir@`, where the data folder is.
fn desk(roots: &str) -> (Bed, StdioHost) {
    let bed = Bed::new(&format!(
        "builtins: {{enabled: true, roots: [{roots}]}}\npolicy: allow-all\n"
    ));
    write(&bed.path("desk/file"), "plain\n");
    write(&bed.path("outside/secret"), SECRET);
    let host = bed.stdio_ready();
    (bed, host)
}

const DESK: &str = "'@dir@/desk'";
const ALL: &str = "'@dir@'";

fn response(host: &mut dyn Host, tool: &str, arguments: &Value) -> Value {
    call(host, &format!("builtin__{tool}"), &arguments.to_string())
}

/// A tool was asked for something; the attack worked when the secret is in the answer.
fn asked(host: &mut dyn Host, tool: &str, arguments: &Value) -> Seen {
    let response = response(host, tool, arguments);
    if response.to_string().contains(SECRET) {
        return Seen::Passed;
    }
    match judged(&response, false) {
        // An answer without the secret is as good as none.
        Seen::Passed => Seen::Harmless,
        seen => seen,
    }
}

#[test]
fn a_path_climbs_out_of_its_root() {
    let (bed, mut host) = desk(DESK);
    let outside = bed.path("outside/secret");
    attack("built_ins", "a path climbs out of its root")
        .expect(Seen::Refused)
        .tries(
            [
                json!("../outside/secret"),
                json!(outside),
                json!("file/../../outside/secret"),
                json!("/proc/self/cwd/../outside/secret"),
                json!(format!("/proc/self/root{}", outside.display())),
                json!("..//outside/./secret"),
            ],
            |path| asked(&mut host, "Read", &json!({"path": path})),
        )
        .check();
}

#[test]
fn a_link_leads_out_of_its_root() {
    let (bed, mut host) = desk(DESK);
    symlink(bed.path("outside/secret"), bed.path("desk/link")).expect("it is ours");
    symlink("../outside", bed.path("desk/folder")).expect("it is ours");
    symlink("folder", bed.path("desk/second")).expect("it is ours");
    attack("built_ins", "a link leads out of its root")
        .expect(Seen::Refused)
        .tries(["link", "folder/secret", "second/secret"], |path| {
            asked(&mut host, "Read", &json!({"path": path}))
        })
        .check();
}

#[test]
fn a_dangling_link_is_written_through() {
    let (bed, mut host) = desk(DESK);
    symlink(bed.path("outside/new"), bed.path("desk/new")).expect("it is ours");
    symlink("../outside/none/new", bed.path("desk/deep")).expect("it is ours");
    attack("built_ins", "Write follows a link that leads nowhere yet")
        .expect(Seen::Refused)
        .tries(["new", "deep"], |path| {
            let response = response(&mut host, "Write", &json!({"path": path, "content": "x"}));
            let made = bed.path("outside/new").exists() || bed.path("outside/none").exists();
            judged(&response, made)
        })
        .check();
}

#[test]
fn a_search_follows_links_out() {
    let (bed, mut host) = desk(DESK);
    symlink(bed.path("outside"), bed.path("desk/folder")).expect("it is ours");
    attack("built_ins", "Grep and Glob follow a link out of the root")
        .expect_any(&[Seen::Refused, Seen::Harmless])
        .tries(
            [
                ("Grep", json!({"pattern": "a-word-that", "path": "."})),
                ("Grep", json!({"pattern": "a-word-that", "path": "folder"})),
                ("Glob", json!({"pattern": "../outside/*"})),
            ],
            |(tool, arguments)| asked(&mut host, tool, arguments),
        )
        .check();
}

#[test]
fn a_command_starts_outside() {
    let (bed, mut host) = desk(DESK);
    symlink(bed.path("outside"), bed.path("desk/folder")).expect("it is ours");
    attack("built_ins", "Bash starts outside of the root")
        .expect(Seen::Refused)
        .tries(["../outside", "folder", "/", "/proc/self/root"], |cwd| {
            asked(
                &mut host,
                "Bash",
                &json!({"command": "cat secret", "cwd": cwd}),
            )
        })
        .check();
}

#[test]
fn unusual_bytes_split_the_checked_path() {
    let (_bed, mut host) = desk(DESK);
    attack(
        "built_ins",
        "odd characters make the check and the system read another path",
    )
    .expect(Seen::Refused)
    .tries(
        [
            "file\0/../../outside/secret",
            "~/secret",
            "",
            "..\\outside\\secret",
            "%2e%2e/outside/secret",
        ],
        |path| asked(&mut host, "Read", &json!({"path": path})),
    )
    .check();
}

#[test]
fn a_pipe_or_device_blocks_its_reader() {
    let (bed, mut host) = desk(DESK);
    let made = std::process::Command::new("mkfifo")
        .arg(bed.path("desk/pipe"))
        .status();
    assert!(made.expect("mkfifo is there").success());
    attack("built_ins", "a pipe or a device keeps its reader for ever")
        .expect(Seen::Refused)
        .tries(
            [("Read", "pipe"), ("Edit", "pipe"), ("Read", "/dev/zero")],
            |(tool, path)| {
                asked(
                    &mut host,
                    tool,
                    &json!({"path": path, "old": "a", "new": "b"}),
                )
            },
        )
        .check();
}

#[test]
fn a_token_is_read() {
    let (bed, mut host) = desk(ALL);
    write(&bed.path("data/admin.token"), SECRET);
    symlink(bed.path("data"), bed.path("desk/data")).expect("it is ours");
    symlink("../data/admin.token", bed.path("desk/token")).expect("it is ours");
    let whole = bed.path("data/admin.token");
    attack("built_ins", "Read opens a token in the data folder")
        .expect(Seen::Refused)
        .tries(
            [
                json!("data/admin.token"),
                json!("desk/token"),
                json!("desk/data/admin.token"),
                json!(whole),
                json!(format!("/proc/self/root{}", whole.display())),
                json!("desk/../data/./admin.token"),
            ],
            |path| asked(&mut host, "Read", &json!({"path": path})),
        )
        .check();
}

#[test]
fn a_hard_link_is_read_or_edited() {
    let (bed, mut host) = desk(ALL);
    write(&bed.path("data/admin.token"), SECRET);
    write(&bed.path("data/deep/er/key"), SECRET);
    fs::hard_link(bed.path("data/admin.token"), bed.path("desk/hard")).expect("one file system");
    fs::hard_link(bed.path("data/deep/er/key"), bed.path("desk/deep")).expect("one file system");
    fs::hard_link(bed.path("callgate.yaml"), bed.path("desk/config")).expect("one file system");
    attack("built_ins", "a hard link stands for a protected file")
        .expect(Seen::Refused)
        .tries(
            [
                ("Read", json!({"path": "desk/hard"})),
                ("Read", json!({"path": "desk/deep"})),
                (
                    "Edit",
                    json!({"path": "desk/config", "old": "allow-all", "new": "default"}),
                ),
                ("Grep", json!({"path": "desk/hard", "pattern": "a-word"})),
            ],
            |(tool, arguments)| match asked(&mut host, tool, arguments) {
                Seen::Harmless if *tool == "Edit" => Seen::Passed,
                seen => seen,
            },
        )
        .check();
}

#[test]
fn a_search_reaches_the_data_folder() {
    let (bed, mut host) = desk(ALL);
    write(&bed.path("data/found"), &format!("{SECRET} x\n"));
    write(&bed.path(&format!("data/{SECRET}")), "x\n");
    fs::hard_link(bed.path("data/found"), bed.path("desk/hard")).expect("one file system");
    attack(
        "built_ins",
        "Grep and Glob come across what is in the data folder",
    )
    .expect_any(&[Seen::Harmless, Seen::Refused])
    .tries(
        [
            (
                "Grep",
                json!({"pattern": "a-word-that.*x$", "path": ".", "output_mode": "content"}),
            ),
            ("Glob", json!({"pattern": "data/*"})),
            ("Grep", json!({"pattern": "a-word-that", "path": "data"})),
            ("Glob", json!({"pattern": "*", "cwd": "data"})),
            (
                "Grep",
                json!({"pattern": "a-word-that", "path": "data/found"}),
            ),
            ("Grep", json!({"pattern": "a-word-that", "path": "desk"})),
        ],
        |(tool, arguments)| asked(&mut host, tool, arguments),
    )
    .check();
}

#[test]
fn a_file_replaces_governing_files() {
    let (bed, mut host) = desk(ALL);
    attack(
        "built_ins",
        "Write puts a file or a folder into the data folder or over the configuration",
    )
    .expect(Seen::Refused)
    .tries(
        [
            "data/new/deep/file",
            "callgate.yaml",
            "data/activity",
            "callgate.lock",
            ".callgate/packs/p.py",
        ],
        |path| {
            let before = fs::read(bed.path(path)).ok();
            let response = response(
                &mut host,
                "Write",
                &json!({"path": path, "content": "x: 1\n"}),
            );
            judged(&response, fs::read(bed.path(path)).ok() != before)
        },
    )
    .check();
}

#[test]
fn a_link_is_swapped_between_check_and_use() {
    let (bed, mut host) = desk(ALL);
    write(&bed.path("data/racing/file"), SECRET);
    write(&bed.path("desk/real/file"), "plain");
    let (swap, done) = (bed.path("desk/swap"), Arc::new(AtomicBool::new(false)));
    let (good, bad, fresh) = (
        bed.path("desk/real"),
        bed.path("data/racing"),
        bed.path("desk/fresh"),
    );
    let stop = done.clone();
    let swapping = thread::spawn(move || {
        while !stop.load(Ordering::Acquire) {
            for target in [&good, &bad] {
                let swapped = symlink(target, &fresh).and_then(|()| fs::rename(&fresh, &swap));
                swapped.expect("it is ours");
            }
        }
    });
    let seen = attack(
        "built_ins",
        "a link is swapped in between the check and the use",
    )
    .expect_any(&[Seen::Refused, Seen::Harmless])
    .tries(["Read", "Write", "Grep"], |tool| {
        for at in 0..60 {
            let seen = match *tool {
                "Write" => {
                    let name = format!("desk/swap/new-{at}");
                    response(&mut host, "Write", &json!({"path": name, "content": "x"}));
                    let made = bed.path(&format!("data/racing/new-{at}")).exists();
                    if made { Seen::Passed } else { Seen::Harmless }
                }
                "Grep" => asked(
                    &mut host,
                    "Grep",
                    &json!({"path": "desk/swap", "pattern": "a-word.*"}),
                ),
                _ => asked(&mut host, "Read", &json!({"path": "desk/swap/file"})),
            };
            if seen == Seen::Passed {
                return seen;
            }
        }
        Seen::Harmless
    });
    done.store(true, Ordering::Release);
    swapping.join().expect("it only swaps");
    seen.check();
}
