//! Changing, hiding or forging what is on record.

use std::fs;
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{CANNED, Seen, attack, can, plain_tool, write};
use crate::evidence::{COUNTER, assert_done, run, segments, stdout};
use crate::setup::Bed;
use crate::talk::{DEADLINE, call, parsed};

/// A data folder with calls of two processes on record.
fn recorded() -> Bed {
    let bed = Bed::new(COUNTER);
    for keys in [["one", "two"], ["three", "four"]] {
        let mut host = bed.stdio_ready();
        for (id, key) in (1..).zip(keys) {
            let arguments = format!(r#"{{"key":"{key}"}}"#);
            assert_done(host.call(id, "n__effect", &arguments));
        }
        host.close(Duration::from_secs(10)).expect("it ends on EOF");
    }
    bed
}

/// Whether `verify` finds fault.
fn verified(bed: &Bed) -> Seen {
    let output = run(bed, &["activity", "verify"]);
    if output.status.success() {
        eprintln!("{}", String::from_utf8_lossy(&output.stdout));
        Seen::Passed
    } else {
        Seen::Detected
    }
}

/// Changes one segment for one look, and puts it back.
fn with_lines(bed: &Bed, segment: usize, change: impl FnOnce(&mut Vec<String>)) -> Seen {
    let path = &segments(bed)[segment];
    let good = fs::read_to_string(path).expect("it reads");
    let mut lines: Vec<String> = good.lines().map(str::to_owned).collect();
    change(&mut lines);
    fs::write(path, lines.join("\n") + "\n").expect("it is ours");
    let seen = verified(bed);
    fs::write(path, good).expect("it is ours");
    seen
}

/// The line with the hash that its content has.
fn hashed(line: &str) -> String {
    const FRONT: usize = r#"{"hash":""#.len();
    let content = &line[FRONT + 64 + 2..];
    let digest = Sha256::digest(content.as_bytes());
    let hash: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(r#"{{"hash":"{hash}",{content}"#)
}

fn line_of(lines: &[String], key: &str) -> usize {
    let key = format!("\"key\":\"{key}\"");
    let at = lines.iter().position(|line| line.contains(&key));
    at.expect("the call is on record")
}

#[test]
fn an_edited_entry_is_found() {
    let bed = recorded();
    attack("record", "an entry of the log is edited")
        .expect(Seen::Detected)
        .tries(["one", "two"], |key| {
            with_lines(&bed, 0, |lines| {
                let at = line_of(lines, key);
                lines[at] = lines[at].replace(key, "xxx");
            })
        })
        .check();
}

#[test]
fn an_edited_entry_with_a_new_hash_is_found() {
    let bed = recorded();
    attack(
        "record",
        "an entry is edited and given the hash that it then has",
    )
    .expect(Seen::Detected)
    .tries(["one", "two", "the last"], |key| {
        with_lines(&bed, 0, |lines| match *key {
            "the last" => {
                let last = lines.pop().expect("an entry");
                lines.push(hashed(&last.replace("\"kind\":", "\"more\":1,\"kind\":")));
            }
            key => {
                let at = line_of(lines, key);
                lines[at] = hashed(&lines[at].replace(key, "xxx"));
            }
        })
    })
    .check();
}

#[test]
fn dropped_moved_and_repeated_entries_are_found() {
    let bed = recorded();
    attack("record", "an entry is dropped, moved or repeated")
        .expect(Seen::Detected)
        .tries(["dropped", "moved", "repeated", "cut"], |how| {
            with_lines(&bed, 0, |lines| {
                let at = line_of(lines, "two");
                match *how {
                    "dropped" => drop(lines.remove(at)),
                    "moved" => lines.swap(at, at - 1),
                    "repeated" => lines.insert(at, lines[at].clone()),
                    _ => lines.truncate(at),
                }
            })
        })
        .check();
}

#[test]
fn entries_of_another_log_are_found() {
    let (bed, other) = (recorded(), recorded());
    let foreign = fs::read_to_string(&segments(&other)[0]).expect("it reads");
    let foreign: Vec<&str> = foreign.lines().collect();
    attack("record", "entries of another log are put in")
        .expect(Seen::Detected)
        .tries([1, 2, foreign.len()], |count| {
            with_lines(&bed, 1, |lines| {
                lines.extend(
                    foreign
                        .iter()
                        .rev()
                        .take(*count)
                        .map(|line| (*line).to_owned()),
                );
            })
        })
        .check();
}

#[test]
fn a_removed_writer_is_found() {
    let bed = recorded();
    attack("record", "everything that one process wrote is removed")
        .expect(Seen::Detected)
        .tries(["the folder", "its segments", "its head"], |what| {
            let segment = segments(&bed).swap_remove(0);
            let folder = segment.parent().expect("a folder").to_owned();
            let target: PathBuf = match *what {
                "the folder" => folder,
                "its segments" => segment,
                _ => folder.join("head"),
            };
            let away = bed.path("away");
            fs::rename(&target, &away).expect("it is ours");
            let seen = verified(&bed);
            fs::rename(&away, &target).expect("it is ours");
            seen
        })
        .check();
}

#[test]
fn a_replaced_or_missing_key_is_found() {
    let bed = recorded();
    let path = bed.path("data/activity/key");
    let good = fs::read(&path).expect("a key");
    attack("record", "the key of the log is removed or replaced")
        .expect(Seen::Detected)
        .tries(["replaced", "removed", "cut"], |how| {
            match *how {
                "replaced" => fs::write(&path, [7; 32]),
                "removed" => fs::remove_file(&path),
                _ => fs::write(&path, &good[..16]),
            }
            .expect("it is ours");
            let seen = verified(&bed);
            fs::write(&path, &good).expect("it is ours");
            seen
        })
        .check();
}

#[test]
fn lists_report_edited_entries() {
    let bed = recorded();
    attack("record", "a list shows an edited entry and says nothing")
        .expect(Seen::Detected)
        .tries([true, false], |indexed| {
            let path = &segments(&bed)[0];
            let good = fs::read_to_string(path).expect("it reads");
            if *indexed {
                run(&bed, &["activity", "list"]);
            }
            fs::write(path, good.replace("\"two\"", "\"2wo\"")).expect("it is ours");
            let output = run(&bed, &["activity", "list", "--json"]);
            fs::write(path, good).expect("it is ours");
            damage_reported(&output)
        })
        .check();
}

fn damage_reported(output: &Output) -> Seen {
    let page = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    if page.contains("2wo") || !said.contains("damaged") {
        eprintln!("{said}");
        Seen::Passed
    } else {
        Seen::Detected
    }
}

/// A server with tools of every kind, under a policy.
fn governed(policy: &str, more: &str) -> Bed {
    let bed = Bed::new(&format!("servers:\n{CANNED}policy: {policy}\n{more}"));
    let mut wipe = plain_tool("wipe");
    wipe["annotations"] = json!({"destructiveHint": true});
    let mut show = plain_tool("show");
    show["annotations"] = json!({"readOnlyHint": true});
    let mut remove = plain_tool("delete_all");
    remove["annotations"] = json!({"destructiveHint": false});
    can(
        &bed,
        &[
            wipe,
            show,
            remove,
            plain_tool("delete_thing"),
            plain_tool("plain"),
        ],
    );
    bed
}

/// What replay with the same policy says about the record.
fn replayed(bed: &Bed) -> Seen {
    let told = parsed(&stdout(&run(bed, &["policy", "replay", "--json"])));
    if told["different"] == 0 {
        Seen::Harmless
    } else {
        eprintln!("{told:#}");
        Seen::Passed
    }
}

fn shows_true_decisions(cause: &'static str) -> super::Attack {
    attack("record", cause).expect(Seen::Harmless)
}

#[test]
fn replay_of_held_and_denied_calls_shows_no_difference() {
    shows_true_decisions(
        "replay under the same policy shows other decisions for calls that waited for a person",
    )
    .tries(["approve", "deny", "pending"], |answer| {
        let bed = governed("default", "");
        let mut host = bed.stdio_ready();
        let response = call(&mut host, "s__wipe", r#"{"key":"a"}"#);
        let id = response["result"]["_meta"]["dev.callgate/approval_id"].clone();
        let id = id.as_str().expect("a person is asked").to_owned();
        if *answer != "pending" {
            stdout(&run(&bed, &["approvals", answer, &id]));
            call(&mut host, "s__wipe", r#"{"key":"a"}"#);
        }
        drop(host);
        replayed(&bed)
    })
    .check();
}

#[test]
fn replay_uses_declared_tool_hints() {
    shows_true_decisions("replay guesses what a tool declared from what it was taken to do")
        .tries(
            ["s__delete_all", "s__delete_thing", "s__show", "s__plain"],
            |tool| {
                let bed = governed("default", "");
                let mut host = bed.stdio_ready();
                call(&mut host, tool, r#"{"key":"a"}"#);
                drop(host);
                replayed(&bed)
            },
        )
        .check();
}

#[test]
fn replay_of_limited_calls_shows_no_difference() {
    let policies = [
        "version: '1'\nrules: [{scope: mcp_tool, rate_limit: {max_requests: 1, window: 1h}, allow: [{pattern: '*'}]}]\n",
        "version: '1'\nrules: [{scope: mcp_tool, allow: [{pattern: '*:show', conditions: [{require_prior: 's:show', time_window: 1h}]}, {pattern: '*:plain'}]}]\n",
    ];
    shows_true_decisions("replay shows other decisions for calls that a rate or history decided")
        .tries(policies, |policy| {
            let bed = governed("policy.yaml", "");
            write(&bed.path("policy.yaml"), policy);
            let checked = run(&bed, &["policy", "check"]);
            if !checked.status.success() {
                eprintln!("{}", String::from_utf8_lossy(&checked.stderr));
            }
            let mut host = bed.stdio_ready();
            for _ in 0..3 {
                call(&mut host, "s__show", r#"{"key":"a"}"#);
            }
            drop(host);
            replayed(&bed)
        })
        .check();
}

#[test]
fn replay_of_calls_without_a_policy_verdict_shows_no_difference() {
    shows_true_decisions("replay shows other decisions for calls that policy did not decide")
        .tries(["unknown tool", "intent", "token"], |kind| {
            let bed = governed("default", "");
            let served = bed.serve();
            let mut host = served.host_ready();
            match *kind {
                "unknown tool" => drop(call(&mut host, "s__nothing", "{}")),
                "intent" => {
                    let mut search = served.host().at("/mcp/search");
                    search
                        .initialize(crate::setup::VERSION)
                        .expect("it shakes hands");
                    let arguments =
                        r#"{"name":"s:wipe","args_json":"{}","intent":{"operation_type":"read"}}"#;
                    call(&mut search, "call_tool_read", arguments);
                }
                _ => {
                    let token = stdout(&run(
                        &bed,
                        &[
                            "token",
                            "create",
                            "--name",
                            "narrow",
                            "--role",
                            "agent",
                            "--ceiling",
                            "read",
                            "--json",
                        ],
                    ));
                    let token = parsed(&token)["token"]
                        .as_str()
                        .expect("a token")
                        .to_owned();
                    let mut narrow = served.host();
                    narrow.set_header("Authorization", &format!("Bearer {token}"));
                    narrow
                        .initialize(crate::setup::VERSION)
                        .expect("it shakes hands");
                    call(&mut narrow, "s__plain", "{}");
                }
            }
            drop(served);
            replayed(&bed)
        })
        .check();
}

/// The verdict of `explain` and the decision on record of the same call.
fn explained(bed: &Bed, tool: &str) -> Seen {
    let mut host = bed.stdio_ready();
    call(&mut host, &format!("s__{tool}"), r#"{"key":"a"}"#);
    host.close(DEADLINE).expect("the gateway ends");
    let page = parsed(&stdout(&run(
        bed,
        &["activity", "list", "--json", "--tool", tool],
    )));
    let decided = page["activities"][0]["decision"]
        .as_str()
        .unwrap_or_default()
        .to_lowercase();
    let rule = &page["activities"][0]["rule"];
    let name = format!("s:{tool}");
    let told: Value = parsed(&stdout(&run(
        bed,
        &["policy", "explain", &name, r#"{"key":"a"}"#, "--json"],
    )));
    if told["verdict"] == decided.as_str() && told["rule"] == *rule {
        Seen::Harmless
    } else {
        eprintln!("{told}\n{page}");
        Seen::Passed
    }
}

#[test]
fn explain_uses_declared_tool_hints() {
    shows_true_decisions(
        "explain says that a destructive tool passes, because it does not know its definition",
    )
    .tries(
        ["wipe", "delete_all", "delete_thing", "show", "plain"],
        |tool| explained(&governed("default", ""), tool),
    )
    .check();
}

#[test]
fn explain_uses_overrides_in_the_lock() {
    shows_true_decisions("explain does not know what a person said of a tool in the lock")
        .tries(["destructive", "write"], |word| {
            let bed = governed("default", "");
            let mut host = bed.stdio_ready();
            call(&mut host, "s__plain", "{}");
            host.close(DEADLINE).expect("the gateway ends");
            let lock = bed.read("callgate.lock");
            let with = lock.replace(
                "class: write",
                &format!("class: write\n      override: {word}"),
            );
            assert_ne!(with, lock, "the lock has a tool that writes");
            write(&bed.path("callgate.lock"), &with);
            explained(&bed, "plain")
        })
        .check();
}
