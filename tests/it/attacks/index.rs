//! An edited index that would show something other than the record.

use std::fs;
use std::process::Output;
use std::time::Duration;

use callgate_testkit::HttpHost;
use rusqlite::Connection;
use serde_json::Value;

use super::{Seen, attack};
use crate::evidence::{COUNTER, all_records, assert_done, run, stdout};
use crate::setup::{Bed, Served};
use crate::talk::parsed;

/// A data folder with calls on record, and an index that has them.
fn recorded() -> Bed {
    let bed = Bed::new(COUNTER);
    call_some(&bed, &["one", "two", "three"]);
    listed(&bed);
    bed
}

fn call_some(bed: &Bed, keys: &[&str]) {
    let mut host = bed.stdio_ready();
    for (id, key) in (1..).zip(keys) {
        let arguments = format!(r#"{{"key":"{key}"}}"#);
        assert_done(host.call(id, "n__effect", &arguments));
    }
    host.close(Duration::from_secs(10)).expect("it ends on EOF");
}

/// What the commands say about the record.
#[derive(Debug, PartialEq)]
struct Told {
    listed: Vec<Value>,
    of_server: Vec<Value>,
    of_tool: Vec<Value>,
    succeeded: Vec<Value>,
    exported: Vec<Value>,
    shown: Vec<Value>,
    summary: Value,
    total: Value,
}

fn listed(bed: &Bed) -> (Told, String) {
    let mut said = String::new();
    let mut ran = |args: &[&str]| -> String {
        let output = run(bed, args);
        said.push_str(&String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let mut page = |filter: &[&str]| -> (Vec<Value>, Value) {
        let args = [&["activity", "list", "--json", "--limit", "1000"], filter].concat();
        let page: Value = serde_json::from_str(&ran(&args)).unwrap_or_default();
        let all = page["activities"].as_array().cloned().unwrap_or_default();
        (all, page["total"].clone())
    };
    let (all, total) = page(&[]);
    let told = Told {
        of_server: page(&["--server", "n"]).0,
        of_tool: page(&["--tool", "effect"]).0,
        succeeded: page(&["--status", "success"]).0,
        exported: all_records(&ran(&["activity", "export"])),
        shown: all
            .iter()
            .filter(|record| record["type"] == "tool_call")
            .map(|record| {
                let id = record["id"].as_str().unwrap_or_default();
                serde_json::from_str(&ran(&["activity", "show", id])).unwrap_or_default()
            })
            .collect(),
        summary: serde_json::from_str(&ran(&["activity", "summary", "--json"])).unwrap_or_default(),
        listed: all,
        total,
    };
    (told, said)
}

/// Runs an attacker's statements on the index. Those that it does not take have no effect.
fn edit(bed: &Bed, sql: &str) {
    let connection = Connection::open(bed.path("data/index.sqlite")).expect("it is a file of ours");
    for statement in sql.split(";;") {
        let _ = connection.execute_batch(statement);
    }
}

/// The outcome of an edit: whether commands still show the truth, and whether the damage is reported.
fn judged(bed: &Bed, truth: &Told) -> Seen {
    let (told, said) = listed(bed);
    if told != *truth {
        eprintln!("{said}");
        Seen::Passed
    } else if said.contains("index.sqlite") {
        Seen::Detected
    } else {
        Seen::Harmless
    }
}

/// An attack that edits the index in several ways.
fn edited(cause: &'static str, spellings: &[&'static str]) -> super::Attack {
    let bed = recorded();
    let truth = listed(&bed).0;
    attack("index", cause)
        .expect_any(&[Seen::Detected, Seen::Harmless])
        .tries(spellings.iter().copied(), |sql| {
            edit(&bed, sql);
            judged(&bed, &truth)
        })
}

#[test]
fn edited_index_rows_are_not_shown() {
    let spellings = [
        "UPDATE sort SET status = 'error' WHERE tool = 'effect'",
        "UPDATE sort SET decision = 'DENY'",
        "UPDATE activity SET sort = (SELECT min(id) FROM sort)",
        "UPDATE activity SET places = (SELECT places FROM activity ORDER BY at LIMIT 1)",
        "UPDATE session SET name = 'another'",
        "UPDATE activity SET request = '4711', parent = id",
    ];
    edited("a row of the index is edited", &spellings).check();
}

#[test]
fn deleted_index_rows_are_noticed() {
    let spellings = [
        "DELETE FROM activity WHERE at = (SELECT max(at) FROM activity WHERE sort IN (SELECT id FROM sort WHERE tool = 'effect'))",
        "DELETE FROM activity",
        "DELETE FROM activity WHERE sort IN (SELECT id FROM sort WHERE tool = 'effect');; DELETE FROM sort WHERE tool = 'effect'",
        "DELETE FROM session",
    ];
    edited("a row of the index is deleted", &spellings).check();
}

#[test]
fn added_index_rows_are_not_shown() {
    let spellings = [
        "INSERT INTO activity SELECT at + 1, x'01900000000000000000000000000001', writer, segment, sort, session, request, parent, places FROM activity WHERE sort IN (SELECT id FROM sort WHERE tool = 'effect') LIMIT 1",
        "INSERT INTO activity SELECT at + 1, x'01900000000000000000000000000001', writer, segment, sort, session, request, parent, places FROM activity WHERE sort IN (SELECT id FROM sort WHERE tool = 'effect') LIMIT 1;; UPDATE sort SET count = count + 1 WHERE tool = 'effect'",
    ];
    edited("a row is added to the index", &spellings).check();
}

#[test]
fn edited_filter_columns_hide_no_record() {
    let spellings = [
        "UPDATE sort SET server = 'm' WHERE tool = 'effect'",
        "UPDATE sort SET tool = 'harmless' WHERE tool = 'effect'",
        "UPDATE activity SET sort = (SELECT id FROM sort WHERE tool <> 'effect') WHERE at = (SELECT max(at) FROM activity WHERE sort IN (SELECT id FROM sort WHERE tool = 'effect'))",
        "UPDATE activity SET at = at - 100000000000 WHERE at = (SELECT max(at) FROM activity WHERE sort IN (SELECT id FROM sort WHERE tool = 'effect'))",
        "UPDATE sort SET tenant = 'other', agent = 'other', decision = 'DENY', intent_type = 'read'",
        "UPDATE activity SET at = 0",
    ];
    edited(
        "a filter's column is edited, so that a filter hides a record",
        &spellings,
    )
    .check();
}

#[test]
fn edited_index_counts_are_not_shown() {
    let spellings = [
        "UPDATE sort SET count = count + 40",
        "DELETE FROM sort",
        "UPDATE sort SET count = 0 WHERE tool = 'effect'",
    ];
    edited("the counts of the index are edited", &spellings).check();
}

#[test]
fn triggers_and_views_planted_in_the_index_have_no_effect() {
    let bed = recorded();
    let spellings = [
        "CREATE TRIGGER hide AFTER INSERT ON activity BEGIN DELETE FROM activity WHERE id = new.id; END",
        "CREATE TRIGGER blur AFTER INSERT ON activity BEGIN UPDATE sort SET server = 'm'; END",
        "ALTER TABLE activity RENAME TO kept;; CREATE VIEW activity AS SELECT * FROM kept WHERE at < 0",
        "DROP INDEX activity_sort;; CREATE INDEX activity_sort ON activity (sort, at, id) WHERE at < 0",
    ];
    let mut number = 0;
    attack(
        "index",
        "a trigger or a view in the index hides later calls",
    )
    .expect_any(&[Seen::Detected, Seen::Harmless])
    .tries(spellings, |sql| {
        edit(&bed, sql);
        number += 1;
        let key = format!("later {number}");
        call_some(&bed, &[&key]);
        let (told, _) = listed(&bed);
        let has = |records: &[Value]| {
            let found = records
                .iter()
                .filter(|record| record["arguments"]["key"] == key.as_str());
            found.count() == 1
        };
        let everywhere = [
            &told.listed,
            &told.of_server,
            &told.of_tool,
            &told.succeeded,
            &told.exported,
        ];
        if everywhere.into_iter().all(|records| has(records)) {
            Seen::Harmless
        } else {
            Seen::Passed
        }
    })
    .check();
}

#[test]
fn edited_index_positions_hide_no_later_call() {
    let bed = recorded();
    let spellings = [
        "UPDATE writer SET offset = 999999999",
        "UPDATE writer SET segment = 999, offset = 0, first = 999",
        "DELETE FROM writer",
        "UPDATE writer SET offset = 0, segment = 1",
    ];
    let truth = listed(&bed).0;
    attack("index", "how far the log was read is edited")
        .expect_any(&[Seen::Detected, Seen::Harmless])
        .tries(spellings, |sql| {
            edit(&bed, sql);
            judged(&bed, &truth)
        })
        .check();
}

#[test]
fn the_index_of_another_data_folder_is_not_used() {
    let (bed, other) = (recorded(), Bed::new(COUNTER));
    call_some(&other, &["elsewhere"]);
    listed(&other);
    let truth = listed(&bed).0;
    attack("index", "the index of another data folder is put in its place")
        .expect_any(&[Seen::Detected, Seen::Harmless])
        .tries([false, true], |with_marks| {
            for suffix in ["", "-wal", "-shm"] {
                let name = format!("data/index.sqlite{suffix}");
                let _ = fs::remove_file(bed.path(&name));
                let _ = fs::copy(other.path(&name), bed.path(&name));
            }
            if *with_marks {
                // The writers of the folder, as if they had been read to their end.
                for entry in fs::read_dir(bed.path("data/activity")).expect("a log").flatten() {
                    let writer = entry.file_name().to_string_lossy().into_owned();
                    edit(&bed, &format!("INSERT INTO writer (name, segment, offset, first) VALUES ('{writer}', 1, 1, 1)"));
                }
            }
            judged(&bed, &truth)
        })
        .check();
}

#[test]
fn an_older_copy_of_the_index_is_updated() {
    let bed = recorded();
    let names = [
        "data/index.sqlite",
        "data/index.sqlite-wal",
        "data/index.sqlite-shm",
    ];
    let old = names.map(|name| fs::read(bed.path(name)).ok());
    call_some(&bed, &["four"]);
    let truth = listed(&bed).0;
    attack("index", "an older copy of the index is put back")
        .expect_any(&[Seen::Detected, Seen::Harmless])
        .tries(["an older copy"], |_| {
            for (name, content) in names.iter().zip(&old) {
                let _ = fs::remove_file(bed.path(name));
                if let Some(content) = content {
                    fs::write(bed.path(name), content).expect("it is ours");
                }
            }
            judged(&bed, &truth)
        })
        .check();
}

#[test]
fn a_broken_index_is_rebuilt() {
    let bed = recorded();
    let truth = listed(&bed).0;
    attack("index", "the index is cut, emptied, overwritten or removed")
        .expect_any(&[Seen::Detected, Seen::Harmless])
        .tries(["cut", "overwritten", "removed", "emptied"], |how| {
            let path = bed.path("data/index.sqlite");
            let content = fs::read(&path).expect("it is there");
            let _ = fs::remove_file(bed.path("data/index.sqlite-wal"));
            let _ = fs::remove_file(bed.path("data/index.sqlite-shm"));
            match *how {
                "cut" => fs::write(&path, &content[..content.len() / 2]),
                "overwritten" => fs::write(&path, vec![7; content.len()]),
                "removed" => fs::remove_file(&path),
                _ => fs::write(&path, b""),
            }
            .expect("it is ours");
            judged(&bed, &truth)
        })
        .check();
}

/// Whether a command found fault with the index.
fn found(output: &Output) -> Seen {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let named = String::from_utf8_lossy(&text).contains("index.sqlite");
    if named && !output.status.success() {
        Seen::Detected
    } else {
        eprintln!("{}", String::from_utf8_lossy(&text));
        Seen::Passed
    }
}

const EDITS: [&str; 5] = [
    "UPDATE sort SET server = 'm' WHERE tool = 'effect'",
    "DELETE FROM activity WHERE at = (SELECT max(at) FROM activity WHERE sort IN (SELECT id FROM sort WHERE tool = 'effect'))",
    "UPDATE sort SET count = count + 1",
    "CREATE VIEW planted AS SELECT 1",
    "INSERT INTO activity SELECT at + 1, x'01900000000000000000000000000001', writer, segment, sort, session, request, parent, places FROM activity WHERE sort IN (SELECT id FROM sort WHERE tool = 'effect') LIMIT 1",
];

#[test]
fn verify_compares_the_index_with_the_log() {
    let bed = recorded();
    attack("index", "verify says that all is well while the index lies")
        .expect(Seen::Detected)
        .tries(EDITS, |sql| {
            listed(&bed);
            edit(&bed, sql);
            let seen = found(&run(&bed, &["activity", "verify"]));
            let again = run(&bed, &["activity", "verify"]);
            assert!(again.status.success(), "what differed was made again");
            seen
        })
        .check();
}

#[test]
fn doctor_compares_the_index_with_the_log() {
    let bed = recorded();
    attack("index", "doctor says that all is well while the index lies")
        .expect(Seen::Detected)
        .tries(EDITS, |sql| {
            listed(&bed);
            edit(&bed, sql);
            found(&run(&bed, &["doctor"]))
        })
        .check();
}

#[test]
fn replay_ignores_edits_of_the_index() {
    let bed = recorded();
    let truth = stdout(&run(&bed, &["policy", "replay", "--json"]));
    let spellings = [
        "UPDATE sort SET decision = 'DENY'",
        "UPDATE sort SET type = 'event' WHERE tool = 'effect'",
        "DELETE FROM activity",
    ];
    attack("index", "replay is shown other decisions than were made")
        .expect_any(&[Seen::Detected, Seen::Harmless])
        .tries(spellings, |sql| {
            edit(&bed, sql);
            let told = stdout(&run(&bed, &["policy", "replay", "--json"]));
            if told == truth {
                Seen::Harmless
            } else {
                Seen::Passed
            }
        })
        .check();
}

fn api(served: &Served, path: &str) -> Value {
    let host = HttpHost::new(&served.url.replace("/mcp", path)).expect("an http URL");
    let host = host.header("Authorization", &format!("Bearer {}", served.admin_token));
    let reply = host.send("GET", &[], b"").expect("it answers");
    parsed(&reply.text().expect("text"))
}

#[test]
fn the_activity_api_ignores_edits_of_the_index() {
    let bed = recorded();
    let served = bed.serve();
    let path = "/api/v1/activity?server=n&type=tool_call";
    let truth = api(&served, path);
    assert_eq!(truth["total"], 3, "{truth}");
    let spellings = [
        "UPDATE sort SET server = 'm' WHERE tool = 'effect'",
        "UPDATE activity SET sort = (SELECT min(id) FROM sort)",
        "DELETE FROM activity WHERE sort IN (SELECT id FROM sort WHERE tool = 'effect')",
        "UPDATE sort SET count = count + 40",
    ];
    attack("index", "the index is edited while a gateway runs")
        .expect_any(&[Seen::Detected, Seen::Harmless])
        .tries(spellings, |sql| {
            edit(&bed, sql);
            if api(&served, path) == truth {
                Seen::Harmless
            } else {
                Seen::Passed
            }
        })
        .check();
}
