//! Write and Edit: what stands in the file afterwards, and that a failed change leaves it alone.

use std::{
    fs::{self, File},
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
};

use futures_util::future::join_all;
use serde_json::json;

use crate::fixture::Fixture;

#[tokio::test]
async fn write_stores_exact_content_and_creates_missing_folders() {
    let fixture = Fixture::new();
    let content = "é\r\n\u{0}tail without a line end";
    let said = fixture
        .ok("Write", json!({"path": "a/b/c", "content": content}))
        .await;
    assert_eq!(said, format!("wrote {} bytes to `a/b/c`", content.len()));
    assert_eq!(fixture.content("a/b/c"), content.as_bytes());
    fixture
        .ok("Write", json!({"path": "a/b/c", "content": ""}))
        .await;
    assert_eq!(fixture.content("a/b/c"), b"");
    assert_eq!(fixture.names("a/b"), ["c"], "no temporary file is left");
}

#[tokio::test]
async fn write_keeps_file_modes_and_links() {
    let fixture = Fixture::new();
    fixture.file("real/run.sh", "old");
    let script = fixture.root().join("real/run.sh");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o751)).unwrap();
    symlink("real/run.sh", fixture.root().join("link")).unwrap();
    fixture
        .ok("Write", json!({"path": "link", "content": "new"}))
        .await;
    fixture
        .ok(
            "Edit",
            json!({"path": "link", "old": "new", "new": "newer"}),
        )
        .await;
    assert_eq!(fixture.content("real/run.sh"), b"newer");
    assert_eq!(fs::metadata(&script).unwrap().mode() & 0o7777, 0o751);
    let link = fs::symlink_metadata(fixture.root().join("link")).unwrap();
    assert!(link.file_type().is_symlink());
}

/// A reader that opened the file before sees the old content to its end: the file is replaced, not overwritten.
#[tokio::test]
async fn files_are_replaced_atomically() {
    let fixture = Fixture::new();
    fixture.file("file", "old content");
    let mut before = File::open(fixture.root().join("file")).unwrap();
    fixture
        .ok("Write", json!({"path": "file", "content": "new"}))
        .await;
    let mut seen = String::new();
    std::io::Read::read_to_string(&mut before, &mut seen).unwrap();
    assert_eq!(seen, "old content");
    assert_eq!(fixture.content("file"), b"new");
}

#[tokio::test]
async fn write_refuses_folders_and_special_files() {
    let fixture = Fixture::new();
    fixture.file("folder/file", "kept");
    fixture.pipe("pipe");
    for (path, expected) in [
        ("folder", "`folder` is a folder"),
        (".", "`.` is a folder"),
        ("pipe", "`pipe` is not a regular file"),
    ] {
        let said = fixture
            .error("Write", json!({"path": path, "content": "x"}))
            .await;
        assert_eq!(said, expected);
    }
    let below_a_file = json!({"path": "folder/file/x", "content": "x"});
    let said = fixture.error("Write", below_a_file).await;
    assert!(said.starts_with("`folder/file/x`: "), "{said}");
    assert_eq!(fixture.names("."), ["folder", "pipe"]);
    assert_eq!(fixture.content("folder/file"), b"kept");
}

#[tokio::test]
async fn edit_matches_literally_and_changes_no_other_byte() {
    let fixture = Fixture::new();
    fixture.file("raw", b"\xff\x00 a.c abc $1 \r\n\xfe");
    let said = fixture
        .ok("Edit", json!({"path": "raw", "old": "a.c", "new": "$1\\n"}))
        .await;
    assert_eq!(said, "replaced 1 time in `raw`");
    assert_eq!(fixture.content("raw"), b"\xff\x00 $1\\n abc $1 \r\n\xfe");
    let all =
        json!({"file_path": "raw", "old_string": "$1", "new_string": "", "replace_all": true});
    assert_eq!(fixture.ok("Edit", all).await, "replaced 2 times in `raw`");
    assert_eq!(fixture.content("raw"), b"\xff\x00 \\n abc  \r\n\xfe");
}

#[tokio::test]
async fn ambiguous_edits_are_refused_with_a_reason() {
    let fixture = Fixture::new();
    fixture.file("file", "one two two");
    let cases = [
        (
            json!({"old": "two", "new": "2"}),
            "`old` occurs 2 times in `file`: include more of the surrounding text, or set `replace_all`",
        ),
        (
            json!({"old": "three", "new": "3"}),
            "`old` does not occur in `file`",
        ),
        (
            json!({"old": "TWO", "new": "2", "replace_all": true}),
            "`old` does not occur in `file`",
        ),
        (
            json!({"old": "one", "new": "one"}),
            "`old` and `new` are the same",
        ),
        (
            json!({"old": "", "new": "x"}),
            "`old` must be a non-empty text from the file; use Write to create a file",
        ),
        (
            json!({"old": "one", "old_string": "two", "new": "x"}),
            "`old` and `old_string` name the same argument but have different values",
        ),
    ];
    for (mut arguments, expected) in cases {
        arguments["path"] = json!("file");
        assert_eq!(
            fixture.error("Edit", arguments.clone()).await,
            expected,
            "{arguments}"
        );
    }
    assert_eq!(fixture.content("file"), b"one two two");
    let missing = json!({"path": "none", "old": "a", "new": "b"});
    let said = fixture.error("Edit", missing).await;
    assert_eq!(said, "`none`: No such file or directory (os error 2)");
    assert_eq!(fixture.names("."), ["file"]);
}

#[tokio::test]
async fn edit_refuses_files_over_the_size_limit() {
    let fixture = Fixture::new();
    fixture.file("huge", "start");
    let huge = File::options()
        .write(true)
        .open(fixture.root().join("huge"))
        .unwrap();
    huge.set_len(64 * 1024 * 1024 + 1).unwrap();
    let said = fixture
        .error("Edit", json!({"path": "huge", "old": "start", "new": "x"}))
        .await;
    assert_eq!(
        said,
        "`huge` is larger than 67108864 bytes, the limit of Edit"
    );
}

/// Each edit reads the file and writes it back, so without a lock most of these would be lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_edits_of_one_file_are_all_kept() {
    const EDITS: usize = 24;
    let fixture = Fixture::new();
    let words: Vec<String> = (0..EDITS).map(|number| format!("<{number}>")).collect();
    fixture.file("file", words.join("\n"));
    let edit = |number: usize| {
        let (old, new) = (format!("<{number}>"), format!("[{number}]"));
        fixture.ok("Edit", json!({"path": "file", "old": old, "new": new}))
    };
    join_all((0..EDITS).map(edit)).await;
    let expected: Vec<String> = (0..EDITS).map(|number| format!("[{number}]")).collect();
    assert_eq!(fixture.content("file"), expected.join("\n").as_bytes());
}
