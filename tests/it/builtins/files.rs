//! Read, Write and Edit.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::{Value, json};

use super::{BUILTINS, Fixture};
use crate::evidence::records;
use crate::setup::Bed;
use crate::talk::list;

#[test]
fn six_tools_are_listed_by_name_with_their_hints() {
    let mut fixture = Fixture::new();
    let response = list(&mut fixture.host, "");
    let tools = response["result"]["tools"].as_array().expect("tools");
    let told: Vec<(&str, &Value)> = tools
        .iter()
        .map(|tool| {
            let name = tool["name"].as_str().expect("a name");
            assert_eq!(tool["inputSchema"]["type"], "object", "{name}");
            assert!(
                tool["description"]
                    .as_str()
                    .is_some_and(|text| text.len() > 20)
            );
            assert_eq!(tool["annotations"].get("destructiveHint"), None, "{name}");
            assert_eq!(tool["_meta"]["anthropic/maxResultSizeChars"], 500_000);
            let properties = tool["inputSchema"]["properties"].as_object();
            for (argument, schema) in properties.expect("arguments") {
                assert!(schema["description"].is_string(), "{name} {argument}");
            }
            (name, &tool["annotations"]["readOnlyHint"])
        })
        .collect();
    let (yes, no) = (&Value::Bool(true), &Value::Bool(false));
    let expected = [
        ("builtin__Bash", no),
        ("builtin__Edit", no),
        ("builtin__Glob", yes),
        ("builtin__Grep", yes),
        ("builtin__Read", yes),
        ("builtin__Write", no),
    ];
    assert_eq!(told, expected);
}

#[test]
fn read_works_as_documented() {
    let mut fixture = Fixture::new();
    fixture.file("a.txt", "one\ntwo\nthree\nfour");
    fixture.file("empty", "");
    fixture.file("dos.txt", "one\r\ntwo\r\n");
    fixture.file("latin.txt", b"caf\xe9\n");
    fixture.file("picture.png", b"\x89PNG\x00\x01\x02");
    fixture.file("sub/deep.txt", "deep");
    fixture.table(&[
        (
            "Read",
            json!({"path": "a.txt"}),
            false,
            "one\ntwo\nthree\nfour",
        ),
        (
            "Read",
            json!({"file_path": "a.txt", "limit": 1}),
            false,
            "one\n\n[more lines follow: continue with offset 2]",
        ),
        (
            "Read",
            json!({"path": "a.txt", "offset": 2, "limit": 2}),
            false,
            "two\nthree\n\n[more lines follow: continue with offset 4]",
        ),
        ("Read", json!({"path": "a.txt", "offset": 4}), false, "four"),
        (
            "Read",
            json!({"path": "a.txt", "offset": 9}),
            false,
            "[the file has 4 lines]",
        ),
        (
            "Read",
            json!({"path": "./sub/../a.txt", "wait_for_previous": true}),
            false,
            "one",
        ),
        ("Read", json!({"path": "empty"}), false, ""),
        (
            "Read",
            json!({"path": "dos.txt", "offset": 2}),
            false,
            "two\r\n",
        ),
        ("Read", json!({"path": "latin.txt"}), false, "caf\u{fffd}"),
        (
            "Read",
            json!({"path": "picture.png"}),
            false,
            "binary file of 7 bytes",
        ),
        ("Read", json!({"path": "sub"}), true, "`sub` is a folder"),
        (
            "Read",
            json!({"path": "none"}),
            true,
            "`none`: No such file",
        ),
        ("Read", json!({}), true, "`path` is missing"),
        ("Read", json!({"path": 7}), true, "`path` must be a string"),
        (
            "Read",
            json!({"path": "a.txt", "offset": -1}),
            true,
            "`offset` must be a non-negative integer",
        ),
        (
            "Read",
            json!({"path": "a.txt", "limit": "x"}),
            true,
            "`limit` must be a non-negative integer",
        ),
        ("Read", json!({"path": ""}), true, "the path is empty"),
        ("Read", json!([1]), true, "the arguments must be an object"),
    ]);
    let whole = fixture.bed.path("desk/a.txt").display().to_string();
    let (failed, text) = fixture.call("Read", &json!({"path": whole}));
    assert!(!failed && text.starts_with("one"), "{text}");
}

#[test]
fn a_large_file_is_read_page_by_page() {
    let mut fixture = Fixture::new();
    let line = "x".repeat(1023);
    let large = format!("{line}\n").repeat(300);
    fixture.file("large", &large);
    let (_, first) = fixture.call("Read", &json!({"path": "large"}));
    assert!(
        first.ends_with("[more lines follow: continue with offset 257]"),
        "{}",
        &first[first.len() - 60..]
    );
    let (_, second) = fixture.call("Read", &json!({"path": "large", "offset": 257}));
    assert_eq!(second.len(), 44 * 1024, "the rest and no note");
    fixture.file("one-line", "y".repeat(512 * 1024));
    let (_, cut) = fixture.call("Read", &json!({"path": "one-line"}));
    assert!(
        cut.contains("[line 1 is longer than 262144 bytes and was cut"),
        "it says so"
    );
}

#[test]
fn pipes_do_not_block_tools() {
    let mut fixture = Fixture::new();
    let pipe = fixture.bed.path("desk/pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo runs").success());
    fixture.table(&[
        (
            "Read",
            json!({"path": "pipe"}),
            true,
            "is not a regular file",
        ),
        (
            "Write",
            json!({"path": "pipe", "content": "x"}),
            true,
            "is not a regular file",
        ),
        (
            "Grep",
            json!({"path": "pipe", "pattern": "x"}),
            true,
            "is not a regular file",
        ),
    ]);
}

#[test]
fn write_works_as_documented() {
    let mut fixture = Fixture::new();
    fixture.file("run.sh", "old");
    let script = fixture.bed.path("desk/run.sh");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o751)).expect("it is ours");
    fixture.file("real/target.txt", "old");
    symlink("real/target.txt", fixture.bed.path("desk/link")).expect("it is ours");
    symlink("real/later.txt", fixture.bed.path("desk/dangling")).expect("it is ours");
    fixture.table(&[
        (
            "Write",
            json!({"path": "a/b/c.txt", "content": "é\n"}),
            false,
            "wrote 3 bytes to `a/b/c.txt`",
        ),
        (
            "Write",
            json!({"path": "run.sh", "content": "new"}),
            false,
            "wrote 3 bytes",
        ),
        (
            "Write",
            json!({"path": "link", "content": "through"}),
            false,
            "wrote 7 bytes",
        ),
        (
            "Write",
            json!({"path": "dangling", "content": "made"}),
            false,
            "wrote 4 bytes",
        ),
        (
            "Write",
            json!({"path": "real", "content": "x"}),
            true,
            "`real` is a folder",
        ),
        (
            "Write",
            json!({"path": ".", "content": "x"}),
            true,
            "`.` is a folder",
        ),
        (
            "Write",
            json!({"path": "run.sh/x", "content": "x"}),
            true,
            "run.sh/x",
        ),
        ("Write", json!({"path": "x"}), true, "`content` is missing"),
        ("Write", json!({"content": "x"}), true, "`path` is missing"),
        (
            "Write",
            json!({"path": "x", "content": {}}),
            true,
            "`content` must be a string",
        ),
    ]);
    assert_eq!(fixture.content("a/b/c.txt"), "é\n");
    assert_eq!(fixture.content("run.sh"), "new");
    let mode = fs::metadata(&script)
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o751, "the mode is kept");
    assert_eq!(fixture.content("real/target.txt"), "through");
    assert_eq!(fixture.content("real/later.txt"), "made");
    let link = fs::symlink_metadata(fixture.bed.path("desk/link")).expect("it is there");
    assert!(link.file_type().is_symlink(), "the link is kept");
    let left = fs::read_dir(fixture.bed.path("desk"))
        .expect("it is ours")
        .flatten();
    let left: Vec<_> = left
        .filter(|entry| entry.file_name().to_string_lossy().ends_with(".tmp"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn edit_works_as_documented() {
    let mut fixture = Fixture::new();
    fixture.file("a.txt", "one two two\nthree (x)\n");
    fixture.table(&[
        ("Edit", json!({"path": "a.txt", "old": "one", "new": "1"}), false, "replaced 1 time"),
        ("Edit", json!({"path": "a.txt", "old": "two", "new": "2"}), true, "`old` occurs 2 times"),
        ("Edit", json!({"file_path": "a.txt", "old_string": "two", "new_string": "2", "replace_all": true}), false, "replaced 2 times"),
        ("Edit", json!({"path": "a.txt", "old": "(x)", "new": "$1\\n"}), false, "replaced 1 time"),
        ("Edit", json!({"path": "a.txt", "old": "none", "new": ""}), true, "does not occur"),
        ("Edit", json!({"path": "a.txt", "old": "", "new": "x"}), true, "a non-empty text"),
        ("Edit", json!({"path": "a.txt", "new": "x"}), true, "`old` is missing"),
        ("Edit", json!({"path": "a.txt", "old": "x"}), true, "`new` is missing"),
        ("Edit", json!({"path": "a.txt", "old": "1", "new": "1"}), true, "are the same"),
        ("Edit", json!({"path": "none", "old": "1", "new": "2"}), true, "No such file"),
        ("Edit", json!({"path": "a.txt", "old": "1", "new": "2", "replace_all": "yes"}), true, "`replace_all` must be true or false"),
    ]);
    assert_eq!(fixture.content("a.txt"), "1 2 2\nthree $1\\n\n");
}

#[test]
fn policy_paths_and_tool_paths_name_the_same_files() {
    let bed = Bed::new(&BUILTINS.replace("allow-all", "policy.yaml"));
    std::fs::create_dir(bed.path("desk")).expect("the folder is fresh");
    let policy = "\
version: \"1\"
name: t
rules:
  - scope: mcp_tool
    allow: [{pattern: \"*:*\"}]
  - scope: filesystem
    deny: [{paths: [\"@dir@/desk/secret/**\"]}]
    allow: [{paths: [\"@dir@/desk/**\"]}]
";
    fs::write(bed.path("policy.yaml"), bed.filled_in(policy)).expect("it is ours");
    // The gateway is started elsewhere: relative paths of calls start from the root all the same.
    let host = bed.stdio_ready();
    let mut fixture = Fixture { bed, host };
    fixture.file("secret/key", "hush");
    fixture.file("open", "hello");
    fixture.table(&[
        ("Read", json!({"path": "open"}), false, "hello"),
        (
            "Read",
            json!({"path": "secret/key"}),
            true,
            "[callgate] Action denied by policy.",
        ),
        (
            "Write",
            json!({"file_path": "secret/key", "content": ""}),
            true,
            "[callgate] Action denied by policy.",
        ),
    ]);
    assert_eq!(fixture.content("secret/key"), "hush");
    drop(fixture.host);
    let told: Vec<Value> = records(&fixture.bed);
    assert_eq!(told[0]["server"], "builtin");
    assert_eq!(told[0]["tool"], "Read");
    assert_eq!(told[0]["status"], "success");
    assert_eq!(told[1]["status"], "blocked");
}
