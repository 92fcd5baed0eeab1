//! Grep: which lines match, what is shown around them, and which files are searched at all.

use serde_json::json;

use crate::fixture::Fixture;

#[tokio::test]
async fn grep_shows_file_and_line_number_in_path_order() {
    let fixture = Fixture::new();
    fixture.file("b.txt", "needle\nhay\n  needle, needle\n");
    fixture.file("a/c.txt", "hay\nneedle without an end");
    fixture.file("dos.txt", "needle\r\n");
    assert_eq!(
        fixture.ok("Grep", json!({"pattern": "needle"})).await,
        "a/c.txt:2:needle without an end\nb.txt:1:needle\nb.txt:3:  needle, needle\ndos.txt:1:needle"
    );
    assert_eq!(
        fixture
            .ok("Grep", json!({"pattern": "needle", "output_mode": "count"}))
            .await,
        "a/c.txt:1\nb.txt:2\ndos.txt:1",
        "lines are counted, not occurrences"
    );
    assert_eq!(
        fixture
            .ok(
                "Grep",
                json!({"pattern": "needle", "output_mode": "files_with_matches", "context": 3})
            )
            .await,
        "a/c.txt\nb.txt\ndos.txt"
    );
    assert_eq!(
        fixture
            .ok("Grep", json!({"pattern": "^hay$", "path": "b.txt"}))
            .await,
        "b.txt:2:hay"
    );
    assert_eq!(
        fixture.ok("Grep", json!({"pattern": "nowhere"})).await,
        "[no matches]"
    );
}

#[tokio::test]
async fn grep_marks_context_lines_and_gaps() {
    let fixture = Fixture::new();
    let lines: Vec<String> = (1..=12).map(|number| format!("line {number}")).collect();
    fixture.file("file", lines.join("\n"));
    let around = json!({"pattern": "line (3|4|9)$", "context": 1});
    assert_eq!(
        fixture.ok("Grep", around).await,
        "file-2-line 2\nfile:3:line 3\nfile:4:line 4\nfile-5-line 5\n--\nfile-8-line 8\nfile:9:line 9\nfile-10-line 10"
    );
    let from_the_edge = json!({"pattern": "line 1$", "context": 2});
    assert_eq!(
        fixture.ok("Grep", from_the_edge).await,
        "file:1:line 1\nfile-2-line 2\nfile-3-line 3"
    );
}

#[tokio::test]
async fn grep_context_is_limited_to_a_thousand_lines_each_side() {
    let fixture = Fixture::new();
    let lines = (1..=4000).map(|number| if number == 2000 { "needle" } else { "hay" });
    fixture.file("file", lines.collect::<Vec<_>>().join("\n"));
    let shown = fixture
        .ok("Grep", json!({"pattern": "needle", "context": 100_000}))
        .await;
    let shown: Vec<&str> = shown.lines().collect();
    assert_eq!(shown.len(), 2001);
    assert_eq!((shown[0], shown[2000]), ("file-1000-hay", "file-3000-hay"));
}

#[tokio::test]
async fn grep_matches_all_scripts_and_tolerates_invalid_utf8() {
    let fixture = Fixture::new();
    fixture.file("words", "Ärger\nстрока\n日本語\n🦀 crab\n");
    fixture.file("latin", b"caf\xe9 needle\n");
    let cases = [
        (
            json!({"pattern": "äRGER", "case_insensitive": true}),
            "words:1:Ärger",
        ),
        (json!({"pattern": "^\\w{6}$"}), "words:2:строка"),
        (json!({"pattern": "本.$"}), "words:3:日本語"),
        (
            json!({"pattern": "\\p{Emoji_Presentation}"}),
            "words:4:🦀 crab",
        ),
        (json!({"pattern": "needle"}), "latin:1:caf\u{fffd} needle"),
        (json!({"pattern": "(?i)CRAB"}), "words:4:🦀 crab"),
    ];
    for (arguments, expected) in cases {
        assert_eq!(
            fixture.ok("Grep", arguments.clone()).await,
            expected,
            "{arguments}"
        );
    }
}

#[tokio::test]
async fn grep_skips_binary_files_and_searches_hidden_ones() {
    let fixture = Fixture::new();
    fixture.file("binary", b"needle\n\x00\nneedle\n");
    fixture.file(".hidden/file", "needle\n");
    fixture.file(".git/config", "needle\n");
    fixture.pipe("pipe");
    assert_eq!(
        fixture.ok("Grep", json!({"pattern": "needle"})).await,
        ".hidden/file:1:needle"
    );
    let named = json!({"pattern": "needle", "path": "binary"});
    assert_eq!(fixture.ok("Grep", named).await, "[no matches]");
}

#[tokio::test]
async fn grep_honours_ignore_files_unless_a_file_is_named() {
    let fixture = Fixture::new();
    fixture.file(".gitignore", "*.log\n/target\n");
    fixture.file("sub/.gitignore", "!kept.log\n");
    fixture.file("sub/.ignore", "secret\n");
    for name in [
        "a.log",
        "sub/kept.log",
        "sub/secret",
        "target/x",
        "sub/target/y",
    ] {
        fixture.file(name, "needle\n");
    }
    assert_eq!(
        fixture.ok("Grep", json!({"pattern": "needle"})).await,
        "sub/kept.log:1:needle\nsub/target/y:1:needle"
    );
    let named = json!({"pattern": "needle", "path": "a.log"});
    assert_eq!(fixture.ok("Grep", named).await, "a.log:1:needle");
}

#[tokio::test]
async fn a_grep_glob_without_a_slash_matches_file_names() {
    let fixture = Fixture::new();
    for name in ["top.rs", "src/main.rs", "src/deep/lib.rs", "src/notes.md"] {
        fixture.file(name, "needle\n");
    }
    for (glob, path, expected) in [
        ("*.rs", ".", "src/deep/lib.rs\nsrc/main.rs\ntop.rs"),
        ("src/*.rs", ".", "src/main.rs"),
        ("./src/**/*.rs", ".", "src/deep/lib.rs\nsrc/main.rs"),
        ("deep/*", "src", "src/deep/lib.rs"),
        (
            "*.{md,rs}",
            "src",
            "src/deep/lib.rs\nsrc/main.rs\nsrc/notes.md",
        ),
    ] {
        let arguments = json!({"pattern": "needle", "glob": glob, "path": path, "output_mode": "files_with_matches"});
        assert_eq!(
            fixture.ok("Grep", arguments).await,
            expected,
            "{glob} in {path}"
        );
    }
}

#[tokio::test]
async fn grep_marks_truncated_lines_and_answers() {
    let fixture = Fixture::new();
    fixture.file("wide", format!("needle {}\n", "é".repeat(5000)));
    let wide = fixture.ok("Grep", json!({"pattern": "needle"})).await;
    assert_eq!(
        wide,
        format!("wide:1:needle {}…", "é".repeat(2000 - "needle ".len()))
    );
    fixture.file("many", "match\n".repeat(100_000));
    let answer = fixture.call("Grep", json!({"pattern": "match"})).await;
    assert_eq!(
        answer.texts[1],
        "[more matches omitted: narrow the pattern or the path]"
    );
    let length = answer.texts[0].len();
    let (limit, line) = (256 * 1024, "many:100000:match".len());
    assert!((limit - line..=limit + line).contains(&length), "{length}");
    let counted = json!({"pattern": "match", "output_mode": "count"});
    assert_eq!(fixture.call("Grep", counted).await.texts, ["many:100000"]);
}

#[tokio::test]
async fn invalid_grep_patterns_and_paths_are_reported() {
    let fixture = Fixture::new();
    fixture.pipe("pipe");
    for (arguments, expected) in [
        (
            json!({"pattern": "("}),
            "`(` is not a valid regular expression: ",
        ),
        (
            json!({"pattern": "(?=x)"}),
            "`(?=x)` is not a valid regular expression: ",
        ),
        (
            json!({"pattern": "a\nb"}),
            "`a\nb` is not a valid regular expression: ",
        ),
        (
            json!({"pattern": "x", "glob": "["}),
            "`[` is not a valid glob: ",
        ),
        (
            json!({"pattern": "x", "output_mode": "lines"}),
            "`output_mode` must be content, files_with_matches or count",
        ),
        (
            json!({"pattern": "x", "context": -1}),
            "`context` must be a non-negative integer",
        ),
        (
            json!({"pattern": "x", "path": "none"}),
            "`none`: No such file or directory",
        ),
        (
            json!({"pattern": "x", "path": "pipe"}),
            "`pipe` is not a regular file",
        ),
    ] {
        let said = fixture.error("Grep", arguments).await;
        assert!(said.starts_with(expected), "{said}");
    }
}

/// The walk opens ignore files by itself; one that has no end must not keep it.
#[tokio::test]
async fn pipes_named_like_ignore_files_do_not_block_searches() {
    for folder in ["", "bad/"] {
        let fixture = Fixture::new();
        fixture.file("a.txt", "needle");
        fixture.file("bad/b.txt", "needle");
        fixture.pipe(&format!("{folder}.gitignore"));
        fixture.file(".git/info/x", "");
        fixture.pipe(".git/info/exclude");
        std::os::unix::fs::symlink("/dev/zero", fixture.root().join(format!("{folder}.ignore")))
            .expect("the folder is ours");
        let found = fixture.ok("Grep", json!({"pattern": "needle"})).await;
        assert!(found.contains("a.txt:1:needle"), "{folder}: {found}");
        let found = fixture.ok("Glob", json!({"pattern": "**/*.txt"})).await;
        assert!(found.contains("a.txt"), "{folder}: {found}");
    }
}
