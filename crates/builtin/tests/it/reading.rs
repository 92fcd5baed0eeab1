//! Read: lines, pages, and what is not text.

use serde_json::json;

use crate::fixture::{Answer, Fixture};

/// The most text that one Read returns.
const PAGE: usize = 256 * 1024;

#[tokio::test]
async fn read_returns_lines_unchanged() {
    let fixture = Fixture::new();
    fixture.file("dos", "one\r\ntwo\r\n");
    fixture.file("unended", "één\n\u{1F980}");
    fixture.file("empty", "");
    assert_eq!(
        fixture.ok("Read", json!({"path": "dos"})).await,
        "one\r\ntwo\r\n"
    );
    assert_eq!(
        fixture.ok("Read", json!({"path": "unended"})).await,
        "één\n🦀"
    );
    assert_eq!(fixture.ok("Read", json!({"path": "empty"})).await, "");
}

#[tokio::test]
async fn offset_and_limit_select_lines_and_the_answer_names_the_next_offset() {
    let fixture = Fixture::new();
    fixture.file("five", "1\n2\n3\n4\n5\n");
    let more = |next: u32| format!("[more lines follow: continue with offset {next}]");
    let cases = [
        (json!({"limit": 2}), vec!["1\n2\n".to_owned(), more(3)]),
        (
            json!({"offset": 0, "limit": 1}),
            vec!["1\n".to_owned(), more(2)],
        ),
        (
            json!({"offset": 2.0, "limit": 3}),
            vec!["2\n3\n4\n".to_owned(), more(5)],
        ),
        (json!({"offset": 4}), vec!["4\n5\n".to_owned()]),
        (json!({"offset": 4, "limit": 2}), vec!["4\n5\n".to_owned()]),
        (
            json!({"offset": 6}),
            vec!["[the file has 5 lines]".to_owned()],
        ),
        (
            json!({"offset": u64::MAX}),
            vec!["[the file has 5 lines]".to_owned()],
        ),
    ];
    for (mut arguments, texts) in cases {
        arguments["path"] = json!("five");
        let answer = fixture.call("Read", arguments.clone()).await;
        let is_error = false;
        assert_eq!(answer, Answer { is_error, texts }, "{arguments}");
    }
}

/// Following the notes gives the whole file, without a gap and without a line twice.
#[tokio::test]
async fn the_pages_of_a_large_file_join_to_the_whole_file() {
    let fixture = Fixture::new();
    let line = |number: usize| format!("{number:07} {}\n", "x".repeat(991));
    let whole: String = (0..600).map(line).collect();
    fixture.file("large", &whole);
    let (mut read, mut offset, mut pages) = (String::new(), 1, 0);
    loop {
        let answer = fixture
            .call("Read", json!({"path": "large", "offset": offset}))
            .await;
        assert!(answer.texts[0].len() <= PAGE, "{}", answer.texts[0].len());
        read.push_str(&answer.texts[0]);
        pages += 1;
        let Some(note) = answer.texts.get(1) else {
            break;
        };
        let next = note.strip_prefix("[more lines follow: continue with offset ");
        offset = next
            .and_then(|next| next.strip_suffix(']'))
            .unwrap()
            .parse()
            .unwrap();
    }
    assert_eq!(pages, 3);
    assert!(read == whole, "{} bytes of {}", read.len(), whole.len());
}

#[tokio::test]
async fn an_overlong_line_is_cut_and_the_next_offset_named() {
    let fixture = Fixture::new();
    fixture.file("wide", format!("first\n{}\nlast", "y".repeat(2 * PAGE)));
    let answer = fixture.call("Read", json!({"path": "wide"})).await;
    assert_eq!(
        answer.texts,
        ["first\n", "[more lines follow: continue with offset 2]"]
    );
    let answer = fixture
        .call("Read", json!({"path": "wide", "offset": 2}))
        .await;
    assert_eq!(answer.texts[0].len(), PAGE);
    assert_eq!(
        answer.texts[1],
        "[line 2 is longer than 262144 bytes and was cut; the next line has offset 3]"
    );
    assert_eq!(
        fixture
            .ok("Read", json!({"path": "wide", "offset": 3}))
            .await,
        "last"
    );
}

#[tokio::test]
async fn read_reports_binary_files_without_their_content() {
    let fixture = Fixture::new();
    fixture.file("picture", b"\x89PNG\x00\x01\x02");
    let late = [&b"text\n".repeat(4000)[..], b"\x00"].concat();
    fixture.file("late", &late);
    fixture.file("latin", b"caf\xe9\n");
    assert_eq!(
        fixture.ok("Read", json!({"path": "picture"})).await,
        "[`picture` is a binary file of 7 bytes]"
    );
    assert_eq!(
        fixture.ok("Read", json!({"path": "late"})).await,
        "[`late` is a binary file of 20001 bytes]"
    );
    assert_eq!(
        fixture.ok("Read", json!({"path": "latin"})).await,
        "caf\u{fffd}\n"
    );
}

#[tokio::test]
async fn read_reports_folders_pipes_sockets_and_loops_distinctly() {
    let fixture = Fixture::new();
    fixture.file("folder/file", "x");
    fixture.pipe("pipe");
    std::os::unix::fs::symlink("loop", fixture.root().join("loop")).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(fixture.root().join("socket")).unwrap();
    let cases = [
        ("folder", "`folder` is a folder"),
        (".", "`.` is a folder"),
        ("pipe", "`pipe` is not a regular file"),
        ("socket", "`socket`: No such device or address (os error 6)"),
        ("none", "`none`: No such file or directory (os error 2)"),
        (
            "folder/file/x",
            "`folder/file/x`: Not a directory (os error 20)",
        ),
    ];
    for (path, expected) in cases {
        assert_eq!(fixture.error("Read", json!({"path": path})).await, expected);
    }
    let said = fixture.error("Read", json!({"path": "loop"})).await;
    assert!(said.starts_with("`loop`"), "{said}");
}

#[tokio::test]
async fn read_accepts_path_and_file_path_as_one_argument() {
    let fixture = Fixture::new();
    fixture.file("a", "alpha");
    assert_eq!(fixture.ok("Read", json!({"file_path": "a"})).await, "alpha");
    assert_eq!(
        fixture
            .ok("Read", json!({"path": "a", "file_path": "a", "more": 1}))
            .await,
        "alpha"
    );
    assert_eq!(
        fixture
            .error("Read", json!({"path": "a", "file_path": "b"}))
            .await,
        "`path` and `file_path` name the same argument but have different values"
    );
}
