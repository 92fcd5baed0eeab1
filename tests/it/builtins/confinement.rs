//! No path leads out of a root: not upwards, not through a link, not in another spelling, and not in the
//! moment between looking and opening.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::json;

use super::Fixture;

const SECRET: &str = "the secret outside";

/// A root with every way out that there is, and a secret outside of it.
fn with_escaping_links() -> Fixture {
    let fixture = Fixture::new();
    let outside = fixture.bed.path("outside");
    fs::create_dir(&outside).expect("the folder is fresh");
    fs::write(outside.join("secret"), SECRET).expect("it is ours");
    let work = fixture.bed.path("desk");
    fixture.file("inside/file", "inside");
    symlink(&outside, work.join("folder-link")).expect("it is ours");
    symlink("../outside", work.join("relative-link")).expect("it is ours");
    symlink(outside.join("secret"), work.join("file-link")).expect("it is ours");
    symlink("folder-link", work.join("link-to-link")).expect("it is ours");
    symlink(outside.join("new"), work.join("dangling-link")).expect("it is ours");
    symlink(work.join("inside"), work.join("link-that-stays")).expect("it is ours");
    fixture
}

/// Ways to the secret, and to a file beside it.
fn ways(fixture: &Fixture) -> Vec<String> {
    let outside = fixture.bed.path("outside").display().to_string();
    let mut ways: Vec<String> = [
        "../outside/secret",
        "inside/../../outside/secret",
        "./../outside/./secret",
        "folder-link/secret",
        "relative-link/secret",
        "file-link",
        "link-to-link/secret",
        "dangling-link",
        "inside/../folder-link/secret",
        "none/../../outside/secret",
        "~/secret",
        "~root/secret",
        "\u{ff0e}\u{ff0e}/outside/secret",
        "..\u{2215}outside\u{2215}secret",
        "%2e%2e/outside/secret",
        "..\\outside\\secret",
        "../outside/secret\u{0}",
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd/../outside/secret",
        "/etc/passwd",
        "//etc/passwd",
    ]
    .map(str::to_owned)
    .to_vec();
    ways.push(format!("{outside}/secret"));
    ways.push(format!(
        "{}/../outside/secret",
        fixture.bed.path("desk").display()
    ));
    ways
}

#[test]
fn builtin_tools_refuse_paths_outside_their_roots() {
    let mut fixture = with_escaping_links();
    for way in ways(&fixture) {
        for (tool, arguments) in [
            ("Read", json!({"path": way})),
            ("Edit", json!({"path": way, "old": "secret", "new": "x"})),
            ("Grep", json!({"path": way, "pattern": "."})),
            ("Glob", json!({"cwd": way, "pattern": "**"})),
            ("Bash", json!({"cwd": way, "command": "cat secret"})),
        ] {
            let (failed, text) = fixture.call(tool, &arguments);
            assert!(failed, "{tool} {way:?}: {text}");
            assert!(
                !text.contains(SECRET) && !text.contains("root:"),
                "{tool} {way:?}: {text}"
            );
        }
        // Some of these are odd names of files inside, which may be made.
        let _ = fixture.call("Write", &json!({"path": way, "content": "overwritten"}));
    }
    let outside: Vec<_> = fs::read_dir(fixture.bed.path("outside"))
        .expect("it is ours")
        .flatten()
        .collect();
    assert_eq!(outside.len(), 1, "{outside:?}");
    assert_eq!(fixture.bed.read("outside/secret"), SECRET);
}

#[test]
fn builtin_searches_do_not_follow_links_out_of_a_root() {
    let mut fixture = with_escaping_links();
    let (_, found) = fixture.call("Grep", &json!({"pattern": "secret|inside"}));
    assert_eq!(found, "inside/file:1:inside");
    let (_, found) = fixture.call("Glob", &json!({"pattern": "**/*"}));
    assert_eq!(found, "inside/file");
}

#[test]
fn builtin_tools_follow_links_within_a_root() {
    let mut fixture = with_escaping_links();
    let (failed, text) = fixture.call("Read", &json!({"path": "link-that-stays/file"}));
    assert_eq!((failed, text.as_str()), (false, "inside"));
}

#[test]
fn a_refused_path_names_the_root_and_the_setting() {
    let mut fixture = with_escaping_links();
    let root = fs::canonicalize(fixture.bed.path("desk")).expect("it is there");
    let (_, text) = fixture.call("Read", &json!({"path": "/etc/passwd"}));
    let expected = format!(
        "`/etc/passwd` is outside of the root `{}`; `builtins.roots` in callgate.yaml adds folders",
        root.display()
    );
    assert_eq!(text, expected);
}

#[test]
fn links_swapped_in_during_a_call_do_not_escape_builtin_roots() {
    let mut fixture = with_escaping_links();
    let work = fixture.bed.path("desk");
    fixture.file("flip/secret", "inside");
    symlink("../outside", work.join("spare")).expect("it is ours");
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let folder = work.clone();
    let flipping = thread::spawn(move || {
        let (flip, spare) = (folder.join("flip"), folder.join("spare"));
        let mut flips = 0_u64;
        while !stopped.load(Ordering::Relaxed) {
            // Both at once, so that there is always one or the other.
            renameat_with(CWD, &flip, CWD, &spare, RenameFlags::EXCHANGE).expect("both are ours");
            flips += 1;
        }
        flips
    });
    let mut inside = 0;
    for _ in 0..150 {
        let (failed, text) = fixture.call("Read", &json!({"path": "flip/secret"}));
        assert!(!text.contains(SECRET), "{text}");
        inside += u32::from(!failed);
        let _ = fixture.call(
            "Write",
            &json!({"path": "flip/secret", "content": "inside"}),
        );
        let _ = fixture.call(
            "Write",
            &json!({"path": "flip/new/er", "content": "inside"}),
        );
        let (_, text) = fixture.call("Grep", &json!({"pattern": "secret|inside", "path": "flip"}));
        assert!(!text.contains(SECRET), "{text}");
    }
    stop.store(true, Ordering::Relaxed);
    let flips = flipping.join().expect("it flips to the end");
    assert!(
        flips > 100 && inside > 0,
        "{flips} flips, {inside} reads inside"
    );
    let outside: Vec<_> = fs::read_dir(fixture.bed.path("outside"))
        .expect("it is ours")
        .flatten()
        .collect();
    assert_eq!(outside.len(), 1, "{outside:?}");
    assert_eq!(fixture.bed.read("outside/secret"), SECRET);
}
