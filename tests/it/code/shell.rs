//! `callgate run`: the same from the shell.

use std::{io::Write, process::Stdio};

use super::bed;
use crate::evidence::{run, stdout};

#[test]
fn scripts_can_be_run_from_the_shell() {
    let bed = bed("policy: allow-all\n");
    let shown = stdout(&run(
        &bed,
        &["run", "[s.name for s in wix.list_sites().sites]"],
    ));
    assert_eq!(shown.trim(), r#"["Alpha","Beta"]"#);
    std::fs::write(
        bed.path("script.py"),
        "x = wix.list_sites()\nreturn len(x.sites)\n",
    )
    .unwrap();
    let file = bed.path("script.py");
    let shown = stdout(&run(&bed, &["run", &file.display().to_string()]));
    assert_eq!(shown.trim(), "2");
    let failed = run(&bed, &["run", "1/0"]);
    assert_eq!(failed.status.code(), Some(1));
    let error = String::from_utf8_lossy(&failed.stderr);
    assert!(error.contains("line 1: ZeroDivisionError"), "{error}");
}

#[test]
fn scripts_can_be_read_from_standard_input() {
    let bed = bed("policy: allow-all\n");
    let mut child = bed
        .command(["run", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input
        .write_all(b"x = wix.list_sites()\nlen(x.sites)\n")
        .unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!(stdout(&output).trim(), "2");
}
