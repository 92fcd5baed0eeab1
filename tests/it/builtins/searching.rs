//! Glob and Grep.

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::Fixture;

fn source_tree() -> Fixture {
    let fixture = Fixture::new();
    fixture.file("src/main.rs", "fn main() {\n    needle();\n}\n");
    fixture.file("src/deep/lib.rs", "// Needle\nfn needle() {}\n");
    fixture.file("readme.md", "no such thing\n");
    fixture.file("target/out.rs", "needle\n");
    fixture.file(".gitignore", "target/\n");
    fixture.file(".github/ci.yml", "needle: yes\n");
    fixture.file(".git/config", "needle\n");
    fixture.file("picture.bin", b"needle\x00needle\n");
    // Newest first: the older a file, the further back it stands.
    for (age, name) in [
        "src/deep/lib.rs",
        "readme.md",
        "src/main.rs",
        ".github/ci.yml",
    ]
    .iter()
    .enumerate()
    {
        let file = File::options()
            .write(true)
            .open(fixture.bed.path("desk").join(name));
        let when = SystemTime::now() - Duration::from_secs(60 * (age as u64 + 1));
        file.expect("it is there")
            .set_modified(when)
            .expect("it is ours");
    }
    fixture
}

#[test]
fn glob_works_as_documented() {
    let mut fixture = source_tree();
    let cases = [
        (
            json!({"pattern": "**/*.rs"}),
            "src/deep/lib.rs\nsrc/main.rs",
        ),
        (json!({"pattern": "*.rs"}), "[no file matches]"),
        (json!({"pattern": "*.rs", "cwd": "src"}), "src/main.rs"),
        (json!({"pattern": "./src/*.rs"}), "src/main.rs"),
        (
            json!({"pattern": "**/*.{md,yml}"}),
            "readme.md\n.github/ci.yml",
        ),
        (json!({"pattern": "target/**"}), "[no file matches]"),
        (json!({"pattern": ".git/**"}), "[no file matches]"),
    ];
    for (arguments, expected) in cases {
        assert_eq!(
            fixture.call("Glob", &arguments),
            (false, expected.to_owned()),
            "{arguments}"
        );
    }
    let whole = fixture.bed.path("desk/src").display().to_string();
    let (failed, text) = fixture.call(
        "Glob",
        &json!({"pattern": format!("{whole}/*.rs"), "cwd": "src"}),
    );
    assert_eq!((failed, text.as_str()), (false, "src/main.rs"));
    fixture.table(&[
        ("Glob", json!({"pattern": "../**"}), true, "leads outside"),
        ("Glob", json!({"pattern": "/etc/*"}), true, "leads outside"),
        (
            "Glob",
            json!({"pattern": "a[", }),
            true,
            "is not a valid glob",
        ),
        (
            "Glob",
            json!({"pattern": "*", "cwd": "readme.md"}),
            true,
            "is not a folder",
        ),
        (
            "Glob",
            json!({"pattern": "*", "cwd": "none"}),
            true,
            "No such file",
        ),
        ("Glob", json!({}), true, "`pattern` is missing"),
    ]);
}

#[test]
fn long_glob_answers_are_truncated_with_a_note() {
    let mut fixture = Fixture::new();
    for number in 0..1003 {
        fixture.file(&format!("{number}"), "");
    }
    let (_, text) = fixture.call("Glob", &json!({"pattern": "*"}));
    assert!(
        text.ends_with("[the newest 1000 of 1003 files; narrow the pattern]"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1001);
}

#[test]
fn grep_works_as_documented() {
    let mut fixture = source_tree();
    let cases = [
        (
            json!({"pattern": "needle"}),
            ".github/ci.yml:1:needle: yes\nsrc/deep/lib.rs:2:fn needle() {}\nsrc/main.rs:2:    needle();",
        ),
        (
            json!({"pattern": "needle", "path": "src", "case_insensitive": true}),
            "src/deep/lib.rs:1:// Needle\nsrc/deep/lib.rs:2:fn needle() {}\nsrc/main.rs:2:    needle();",
        ),
        (
            json!({"pattern": "needle", "glob": "*.rs", "output_mode": "files_with_matches"}),
            "src/deep/lib.rs\nsrc/main.rs",
        ),
        (
            json!({"pattern": "(?i)needle", "output_mode": "count"}),
            ".github/ci.yml:1\nsrc/deep/lib.rs:2\nsrc/main.rs:1",
        ),
        (
            json!({"pattern": "needle\\(", "glob": "src/*.rs", "context": 1}),
            "src/main.rs-1-fn main() {\nsrc/main.rs:2:    needle();\nsrc/main.rs-3-}",
        ),
        (
            json!({"pattern": "^fn", "path": "src/main.rs"}),
            "src/main.rs:1:fn main() {",
        ),
        (
            json!({"pattern": "needle", "path": "picture.bin"}),
            "[no matches]",
        ),
        (json!({"pattern": "nowhere to be seen"}), "[no matches]"),
    ];
    for (arguments, expected) in cases {
        assert_eq!(
            fixture.call("Grep", &arguments),
            (false, expected.to_owned()),
            "{arguments}"
        );
    }
    fixture.table(&[
        (
            "Grep",
            json!({"pattern": "("}),
            true,
            "is not a valid regular expression",
        ),
        (
            "Grep",
            json!({"pattern": "x", "output_mode": "lines"}),
            true,
            "content, files_with_matches or count",
        ),
        (
            "Grep",
            json!({"pattern": "x", "context": -1}),
            true,
            "`context` must be a non-negative integer",
        ),
        (
            "Grep",
            json!({"pattern": "x", "path": "none"}),
            true,
            "No such file",
        ),
        (
            "Grep",
            json!({"pattern": "x", "glob": "["}),
            true,
            "is not a valid glob",
        ),
        ("Grep", json!({}), true, "`pattern` is missing"),
    ]);
}

#[test]
fn long_grep_answers_are_truncated_with_a_note() {
    let mut fixture = Fixture::new();
    fixture.file("many", "match\n".repeat(100_000));
    fixture.file("wide", format!("match {}\n", "x".repeat(10_000)));
    let (_, text) = fixture.call("Grep", &json!({"pattern": "match"}));
    assert!(text.ends_with("[more matches omitted: narrow the pattern or the path]"));
    assert!(text.len() < 300 * 1024, "{}", text.len());
    let (_, text) = fixture.call("Grep", &json!({"pattern": "match", "path": "wide"}));
    assert!(text.ends_with('…') && text.len() < 2100, "{}", text.len());
}

#[test]
fn searches_skip_unreadable_files() {
    let mut fixture = source_tree();
    // A loop of links, and a link that leads nowhere: neither is a file that could be read.
    std::os::unix::fs::symlink("loop", fixture.bed.path("desk/loop")).expect("it is ours");
    std::os::unix::fs::symlink("nowhere", fixture.bed.path("desk/gone")).expect("it is ours");
    fs::create_dir(fixture.bed.path("desk/closed")).expect("it is ours");
    let (failed, text) = fixture.call("Grep", &json!({"pattern": "needle", "path": "src/main.rs"}));
    assert!(!failed, "{text}");
    let (failed, text) = fixture.call("Grep", &json!({"pattern": "needle"}));
    assert!(!failed && text.contains("src/main.rs:2"), "{text}");
}
