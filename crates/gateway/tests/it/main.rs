//! The gateway as a library: what a program that embeds it relies on.

use std::process::Command;

/// The example is what the README shows, so it is run as it is.
#[test]
fn the_embedding_example_gates_and_records_its_calls() {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/embed.rs");
    let source = std::fs::read_to_string(manifest).expect("the example is there");
    let code = source.lines().filter(|line| !line.trim().is_empty());
    assert!(code.count() < 60, "the example has grown");
    let test = std::env::current_exe().expect("a running program has a path");
    let built = test
        .parent()
        .and_then(|deps| deps.parent())
        .expect("deps lies in a folder");
    let output = Command::new(built.join("examples/embed")).output();
    let output = output.expect("the example is built with the tests");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(text.contains("half past nine"), "{text}");
    assert!(text.contains("requires approval"), "{text}");
    assert!(
        text.contains(r#"Some("now") Some(Success)"#)
            && text.contains(r#"Some("reset") Some(Blocked)"#),
        "{text}"
    );
}
