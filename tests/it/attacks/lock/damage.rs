//! Lock files that cannot be read, wholly or in part.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use callgate_testkit::wait_until;
use serde_json::{Value, json};

use super::{LOCK, bed, every_command_works, lists, started};
use crate::attacks::{Seen, attack, attempt, plain_tool, write};
use crate::setup::Bed;
use crate::shell::{named, run};
use crate::talk::{DEADLINE, tools};

/// A bed whose lock has `keep` and `read`, as a gateway wrote it; `read` says something else by now.
pub(super) fn accepted() -> Bed {
    let bed = bed(&[plain_tool("keep"), plain_tool("read")]);
    let ran = run(&mut named(&bed, ["lock", "accept", "--all"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    bed
}

/// Damages the lock of [`accepted`] while `read` is exchanged for another definition.
fn damaged(damage: impl FnOnce(&Bed, String)) -> Bed {
    let bed = accepted();
    let text = bed.read(LOCK);
    damage(&bed, text);
    let changed = json!({"name": "read", "description": "Another text."});
    lists(&bed, &[plain_tool("keep"), changed]);
    bed
}

/// What is seen when the lock was damaged and a tool was exchanged: that tool must not be offered.
fn exchanged(bed: &Bed, keep_stays: bool) -> Seen {
    let Some(mut host) = started(bed) else {
        return Seen::Passed;
    };
    // Until the server has listed its tools, its last known list is used.
    let read = "s__read".to_owned();
    if !wait_until(DEADLINE, || !tools(&mut host).contains(&read)) {
        return Seen::Passed;
    }
    let keep = attempt(bed, &mut host, "s__keep", "{}");
    let read = attempt(bed, &mut host, "s__read", "{}");
    drop(host);
    let works = every_command_works(bed);
    match works && (!keep_stays || keep == Seen::Passed) {
        true => read,
        false => Seen::Passed,
    }
}

/// Replaces the entry of `read` in a lock.
fn with_entry(lock: &str, entry: &str) -> String {
    let at = lock.find("    \"read\":").expect("it was accepted");
    format!("{}{entry}", &lock[..at])
}

#[test]
fn one_broken_lock_entry_withholds_one_tool() {
    attack("lock", "one entry of the lock is broken, so that no entry counts and no command works")
        .expect(Seen::Refused)
        .tries(
            [
                "    \"read\":\n      digest: \"zz\"\n      class: read\n",
                "    \"read\": 7\n",
                "    \"read\":\n      class: read\n",
                "    \"read\": null\n",
                "    \"read\": [a, b]\n",
                "    \"read\":\n      digest: \"0\"\n      unknown: 1\n",
                "    \"read\":\n      digest: {}\n      class: anything\n",
                "    \"read\":\n      digest: \"never closed\n      class: read\n",
                "    \"read\":\n      digest: &a \"x\"\n      class: *b\n",
                "    \"read\":\n<<<<<<< ours\n      class: read\n=======\n      class: write\n>>>>>>> theirs\n",
                "    \"read\":\n\tdigest: x\n",
            ],
            |entry| {
                let bed = damaged(|bed, text| write(&bed.path(LOCK), &with_entry(&text, entry)));
                exchanged(&bed, true)
            },
        )
        .check();
}

/// Ways in which a lock is none.
#[derive(Debug)]
enum Damage {
    Text(&'static str),
    Bytes(&'static [u8]),
    CutAt(usize),
    Laughs,
    Folder,
    Fifo,
    LinkToItself,
    OfOneMegabyteOfDepth,
}

impl Damage {
    fn apply(&self, bed: &Bed, text: &str) {
        let lock = bed.path(LOCK);
        match self {
            Self::Text(text) => write(&lock, text),
            Self::Bytes(bytes) => fs::write(&lock, bytes).expect("the bed is writable"),
            Self::CutAt(part) => write(&lock, &text[..text.len() * part / 10]),
            Self::Laughs => {
                let mut text = "version: 1\nservers:\n  a0: &a0 {x: {digest: lol}}\n".to_owned();
                for at in 1..40 {
                    let one = at - 1;
                    text.push_str(&format!(
                        "  a{at}: &a{at} {{x: *a{one}, y: *a{one}, z: *a{one}}}\n"
                    ));
                }
                write(&lock, &text);
            }
            Self::Folder => {
                fs::remove_file(&lock).expect("it is ours");
                fs::create_dir(&lock).expect("the bed is writable");
            }
            Self::Fifo => {
                fs::remove_file(&lock).expect("it is ours");
                let made = Command::new("mkfifo").arg(&lock).status();
                assert!(made.expect("mkfifo runs").success());
            }
            Self::LinkToItself => {
                fs::remove_file(&lock).expect("it is ours");
                symlink(&lock, &lock).expect("the bed is writable");
            }
            Self::OfOneMegabyteOfDepth => write(&lock, &"[".repeat(1 << 20)),
        }
    }
}

#[test]
fn an_unreadable_lock() {
    attack(
        "lock",
        "the lock cannot be read at all: what was accepted is forgotten, or no command works",
    )
    .expect(Seen::Refused)
    .tries(
        [
            Damage::Text("version: 1\nservers: 7\n"),
            Damage::CutAt(7),
            Damage::Folder,
            Damage::Fifo,
            Damage::Laughs,
            Damage::Text(""),
            Damage::Text("\u{feff}"),
            Damage::Text("version: 99\nservers: {}\n"),
            Damage::Text("<<<<<<< ours\nversion: 1\n=======\nversion: 1\n>>>>>>> theirs\n"),
            Damage::Bytes(b"version: 1\nservers:\n  s:\n    re\xff\xfead: {digest: x}\n"),
            Damage::Bytes(&[0; 4096]),
            Damage::Text("{\"version\": 1"),
            Damage::LinkToItself,
            Damage::OfOneMegabyteOfDepth,
            Damage::CutAt(2),
            Damage::CutAt(9),
        ],
        |damage| exchanged(&damaged(|bed, text| damage.apply(bed, &text)), false),
    )
    .check();
}

#[test]
fn an_unreadable_lock_is_not_overwritten() {
    attack(
        "lock",
        "a gateway that cannot read the lock writes a fresh one over it",
    )
    .expect(Seen::Harmless)
    .tries(["version: 1\nservers: 7\n", "", "<<<<<<< ours\n"], |text| {
        let bed = damaged(|bed, _| write(&bed.path(LOCK), text));
        drop(started(&bed));
        run(&mut named(&bed, ["lock", "accept", "--all"]));
        match bed.read(LOCK) == *text {
            true => Seen::Harmless,
            false => Seen::Passed,
        }
    })
    .check();
}

#[test]
fn line_endings_and_byte_order_marks() {
    attack(
        "lock",
        "an editor saves the lock in another form, and what was accepted is forgotten",
    )
    .expect(Seen::Refused)
    .tries(["\r\n", "\n\n", "BOM"], |form| {
        let bed = damaged(|bed, text| {
            let text = match *form {
                "BOM" => format!("\u{feff}{text}"),
                ending => text.replace('\n', ending),
            };
            write(&bed.path(LOCK), &text);
        });
        exchanged(&bed, true)
    })
    .check();
}

#[test]
fn a_full_disk_while_the_lock_is_written() {
    attack(
        "lock",
        "the disk is full while the lock is written, and the old one is lost",
    )
    .expect(Seen::Refused)
    .tries([1_u32], |kib| {
        let bed = accepted();
        let before = bed.read(LOCK);
        let changed = json!({"name": "read", "description": "Another text."});
        let more = (0..40).map(|at| plain_tool(&format!("more{at}")));
        let listed: Vec<Value> = [plain_tool("keep"), changed]
            .into_iter()
            .chain(more)
            .collect();
        lists(&bed, &listed);
        // No file may become longer than this, and what is longer already stays.
        let command = named(&bed, ["lock", "accept", "--all"]);
        let mut limited = Command::new("bash");
        limited
            .arg("-c")
            .arg(format!("trap '' XFSZ; ulimit -f {kib}; exec \"$0\" \"$@\""))
            .arg(command.get_program())
            .args(command.get_args())
            .current_dir(bed.path(""));
        for (name, value) in command.get_envs() {
            limited.env(name, value.unwrap_or_default());
        }
        run(&mut limited);
        assert_eq!(bed.read(LOCK), before, "the old lock stays");
        exchanged(&bed, true)
    })
    .check();
}
