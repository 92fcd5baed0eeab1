//! Last known definitions: a second start lists at once.

use std::{fs, path::Path};

use callgate_testkit::DataDir;

use super::Remote;
use crate::setup::Bed;
use crate::talk::{DEADLINE, call_text, tools};

#[test]
fn a_second_start_lists_before_a_server_over_http_answers() {
    let folder = DataDir::new();
    let ready = folder.path().join("ready");
    let remote = Remote::start(&["--start-when", &ready.display().to_string()]);
    assert_lists_before_the_server_answers(&remote.bed(""), &ready);
}

#[test]
fn a_second_start_lists_before_a_server_over_stdio_answers() {
    let folder = DataDir::new();
    let ready = folder.path().join("ready");
    let server = format!("@counter@ --start-when {}", ready.display());
    let bed = Bed::new(&format!("servers: {{x: {{command: '{server}'}}}}"));
    assert_lists_before_the_server_answers(&bed, &ready);
}

/// The server answers `initialize` only while `ready` exists.
fn assert_lists_before_the_server_answers(bed: &Bed, ready: &Path) {
    fs::write(ready, "").expect("the folder is writable");
    let mut host = bed.stdio_ready();
    let first = tools(&mut host);
    assert!(!first.is_empty());
    host.close(DEADLINE).expect("it ends");
    fs::remove_file(ready).expect("it exists");
    let mut host = bed.stdio_ready();
    assert_eq!(tools(&mut host), first);
    fs::write(ready, "").expect("the folder is writable");
    assert_eq!(
        call_text(&mut host, "x__read_thing", r#"{"key":"k"}"#),
        "read k",
        "a call waits for the server"
    );
}
