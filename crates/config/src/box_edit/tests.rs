use std::os::unix::fs::PermissionsExt;

use super::*;

const USUAL: &str = "\
# The file's first comment.
policy: cautious   # kept

servers:
  # Notes.
  notes:
    command: notes-mcp   # with a comment
    # In front of `args`.
    args: [--root, \"/srv/a b\"]

  # Of the other.
  other:
    command: other-mcp
    env:
      NAME: value
builtins:
  enabled: true
";

fn written() -> WrittenBox {
    WrittenBox {
        mode: None,
        read: vec!["~/docs".to_owned(), "./a b".to_owned()],
        write: vec!["/var/x".to_owned()],
        net: vec!["api.example.com".to_owned(), "db:5432".to_owned()],
    }
}

const LINES: &str = "    box:
      read:
        - ~/docs
        - \"./a b\"
      write:
        - /var/x
      net:
        - api.example.com
        - \"db:5432\"
";

#[test]
fn a_box_is_put_behind_the_last_key_and_every_other_byte_stays() {
    let edited = with_box(USUAL, "notes", &written()).unwrap();
    let (before, after) = USUAL.split_once("\n\n  # Of").unwrap();
    assert_eq!(edited, format!("{before}\n{LINES}\n  # Of{after}"));
    let edited = with_box(USUAL, "other", &written()).unwrap();
    let (before, after) = USUAL.split_once("builtins").unwrap();
    assert_eq!(edited, format!("{before}{LINES}builtins{after}"));
}

#[test]
fn an_old_box_is_replaced_wherever_it_stands() {
    for old in [
        "    box: best_effort\n",
        "    box: {mode: required, net: [a.example]}\n",
        "    box:\n      read:\n      - x\n      - y\n",
        LINES,
    ] {
        let with_old = USUAL.replace(
            "    command: notes-mcp",
            &format!("{old}    command: notes-mcp"),
        );
        let edited = with_box(&with_old, "notes", &written()).unwrap();
        assert_eq!(edited, with_old.replace(old, LINES), "{old}");
    }
}

#[test]
fn a_box_without_anything_and_one_with_a_mode_are_written() {
    let text = "servers:\n  a:\n    command: x\n";
    let edited = with_box(text, "a", &WrittenBox::default()).unwrap();
    assert_eq!(edited, format!("{text}    box: {{}}\n"));
    let only_mode = WrittenBox {
        mode: Some(BoxChoice::BestEffort),
        ..WrittenBox::default()
    };
    let edited = with_box(text, "a", &only_mode).unwrap();
    assert_eq!(edited, format!("{text}    box:\n      mode: best_effort\n"));
}

#[test]
fn where_the_last_value_has_no_clear_end_the_box_comes_first() {
    let last = "    description: |\n      text\n\n      more\n\n";
    let start = "servers:\n  a:   # a comment\n";
    let text = format!("{start}    command: x\n{last}# end\n");
    let edited = with_box(&text, "a", &written()).unwrap();
    assert_eq!(edited, text.replace(start, &format!("{start}{LINES}")));
    let text = format!("{start}    command: x\n    env:\n# end\n");
    let edited = with_box(&text, "a", &written()).unwrap();
    assert_eq!(edited, text.replace("# end", &format!("{LINES}# end")));
}

#[test]
fn unusual_files_are_refused_with_the_reason() {
    let cases = [
        ("servers: {a: {command: x}}\n", "braces"),
        ("servers:\n  a: {command: x}\n", "braces"),
        ("{\"servers\": {\"a\": {\"command\": \"x\"}}}\n", "braces"),
        ("servers:\n  b: &b\n    command: x\n  a: *b\n", "anchors"),
        ("servers:\n  a: !x\n    command: x\n", "tags"),
        ("servers:\n  a:\n    command: x\r\n", "CR LF"),
        ("servers:\n  a:\n    command: x", "last line"),
        (
            "servers:\n  a:\n    command: x\n---\nservers: {}\n",
            "several",
        ),
        ("servers:\n  a:\n    args:\n    \t- x\n", "tabs"),
        ("\u{feff}servers:\n  a:\n    command: x\n", "byte order"),
        ("servers:\n  b:\n    command: x\n", "not under `servers`"),
        ("mcpServers:\n  a:\n    command: x\n", "no key `servers`"),
        ("servers:\n  a:\n", "not made of keys"),
        ("servers: [\n", "not YAML"),
        (
            "servers:\n  a:\n    box: # why\n      read: [x]\n    command: x\n",
            "comments",
        ),
        ("", "last line"),
    ];
    for (text, expected) in cases {
        let error = with_box(text, "a", &written()).unwrap_err().to_string();
        assert!(error.contains(expected), "{text:?}: {error}");
    }
}

#[test]
fn texts_are_quoted_where_yaml_would_read_something_else() {
    let cases = [
        ("/srv/a-b_c+1@x", "/srv/a-b_c+1@x"),
        ("~/x", "~/x"),
        ("~", "\"~\""),
        (".5", "\".5\""),
        ("1.5", "\"1.5\""),
        ("10.0.0.0/8", "\"10.0.0.0/8\""),
        ("off", "\"off\""),
        ("a: b", "\"a: b\""),
        ("*.example.com", "\"*.example.com\""),
        ("/a # b", "\"/a # b\""),
        ("/a\"b\\", "\"/a\\\"b\\\\\""),
        ("/ü", "\"/ü\""),
    ];
    for (text, expected) in cases {
        assert_eq!(scalar(text), expected);
        let read: String = serde_saphyr::from_str(&scalar(text)).unwrap();
        assert_eq!(read, text);
    }
}

#[test]
fn saving_keeps_the_mode_and_the_link_and_refuses_a_file_that_changed() {
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (
        folder.path().join("real.yaml"),
        folder.path().join("link.yaml"),
    );
    fs::write(&real, "before\n").unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    save(&link, "before\n", "after\n").unwrap();
    assert_eq!(fs::read_to_string(&real).unwrap(), "after\n");
    assert!(link.is_symlink());
    assert_eq!(
        real.metadata().unwrap().permissions().mode() & 0o7777,
        0o640
    );
    let error = save(&link, "before\n", "again\n").unwrap_err();
    assert!(matches!(error, NotEdited::Changed), "{error}");
    assert_eq!(fs::read_to_string(&real).unwrap(), "after\n");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}
