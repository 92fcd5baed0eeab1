//! Glob: which files a pattern means, in which order, and how many of them are told.

use std::{
    fs::File,
    time::{Duration, SystemTime},
};

use serde_json::json;

use crate::fixture::Fixture;

/// Makes files, each a minute older than the one before it.
fn aged(fixture: &Fixture, names: &[&str]) {
    let mut time = SystemTime::now();
    for name in names {
        fixture.file(name, "");
        time -= Duration::from_secs(60);
        let file = File::options()
            .write(true)
            .open(fixture.root().join(name))
            .unwrap();
        file.set_modified(time).unwrap();
    }
}

#[tokio::test]
async fn one_star_matches_within_a_folder_and_two_across_folders() {
    let fixture = Fixture::new();
    aged(
        &fixture,
        &[
            "src/deep/lib.rs",
            "readme.md",
            "src/main.rs",
            "build.rs",
            "src/ünïcode.txt",
        ],
    );
    let cases = [
        (
            json!({"pattern": "**/*.rs"}),
            "src/deep/lib.rs\nsrc/main.rs\nbuild.rs",
        ),
        (json!({"pattern": "*.rs"}), "build.rs"),
        (json!({"pattern": "./src/*.rs"}), "src/main.rs"),
        (json!({"pattern": "*.rs", "cwd": "src"}), "src/main.rs"),
        (json!({"pattern": "*.rs", "path": "src"}), "src/main.rs"),
        (
            json!({"pattern": "**/*.{md,txt}"}),
            "readme.md\nsrc/ünïcode.txt",
        ),
        (json!({"pattern": "src/ün*code.???"}), "src/ünïcode.txt"),
        (
            json!({"pattern": "**/[a-m]*.rs"}),
            "src/deep/lib.rs\nsrc/main.rs\nbuild.rs",
        ),
        (json!({"pattern": "*.RS"}), "[no file matches]"),
        (json!({"pattern": "src"}), "[no file matches]"),
    ];
    for (arguments, expected) in cases {
        assert_eq!(
            fixture.ok("Glob", arguments.clone()).await,
            expected,
            "{arguments}"
        );
    }
}

#[tokio::test]
async fn glob_finds_hidden_files_but_not_ignored_ones() {
    let fixture = Fixture::new();
    aged(
        &fixture,
        &[
            ".github/ci.yml",
            ".env",
            "target/out",
            "deep/kept",
            "deep/left-out",
            ".git/config",
        ],
    );
    fixture.file("target/.gitignore", "");
    fixture.file(".gitignore", "target/\n*.log\n!kept.log\n");
    fixture.file("deep/.ignore", "left-out\n");
    aged(&fixture, &["kept.log", "left-out.log"]);
    let found = fixture.ok("Glob", json!({"pattern": "**"})).await;
    let mut found: Vec<&str> = found.lines().collect();
    found.sort_unstable();
    let expected = [
        ".env",
        ".github/ci.yml",
        ".gitignore",
        "deep/.ignore",
        "deep/kept",
        "kept.log",
    ];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn absolute_glob_patterns_must_lie_within_cwd() {
    let fixture = Fixture::new();
    aged(&fixture, &["src/main.rs", "src-other/main.rs"]);
    let root = fixture.root().display().to_string();
    let inside = json!({"pattern": format!("{root}/src/*.rs"), "cwd": "src"});
    assert_eq!(fixture.ok("Glob", inside).await, "src/main.rs");
    for pattern in [
        "../**".to_owned(),
        "x/../../**".to_owned(),
        "/etc/*".to_owned(),
        format!("{root}/*"),
        // The name of the folder is only the beginning of this one.
        format!("{root}/src-other/*.rs"),
    ] {
        let said = fixture
            .error("Glob", json!({"pattern": pattern, "cwd": "src"}))
            .await;
        let expected =
            format!("`{pattern}` leads outside `{root}/src`; pass another folder as `cwd`");
        assert_eq!(said, expected);
    }
}

#[tokio::test]
async fn glob_lists_the_newest_thousand_and_the_total() {
    let fixture = Fixture::new();
    for number in 0..1003 {
        fixture.file(&format!("{number:04}"), "");
    }
    aged(&fixture, &["0007"]);
    let answer = fixture.call("Glob", json!({"pattern": "*"})).await;
    assert_eq!(
        answer.texts[1],
        "[the newest 1000 of 1003 files; narrow the pattern]"
    );
    let names: Vec<&str> = answer.texts[0].lines().collect();
    assert_eq!(names.len(), 1000);
    assert!(!names.contains(&"0007"), "the oldest is left out");
}

#[tokio::test]
async fn invalid_glob_patterns_and_folders_are_reported() {
    let fixture = Fixture::new();
    fixture.file("file", "");
    fixture.pipe("pipe");
    for (arguments, expected) in [
        (
            json!({"pattern": "a["}),
            "`a[` is not a valid glob: unclosed character class; missing ']'",
        ),
        (
            json!({"pattern": "*", "cwd": "file"}),
            "`file` is not a folder",
        ),
        (
            json!({"pattern": "*", "cwd": "pipe"}),
            "`pipe` is not a folder",
        ),
        (
            json!({"pattern": "*", "cwd": "none"}),
            "`none`: No such file or directory (os error 2)",
        ),
    ] {
        assert_eq!(fixture.error("Glob", arguments).await, expected);
    }
    assert_eq!(
        fixture.ok("Glob", json!({"pattern": "*"})).await,
        "file",
        "a pipe is not a file"
    );
}
