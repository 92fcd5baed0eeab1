//! No path leads out of a root: not upwards, not through a link, not in another spelling, and not in the moment between
//! the lookup and the opening.

use std::{
    fs,
    os::unix::fs::symlink,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Instant,
};

use callgate_builtin::{RootError, Roots};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};

use crate::fixture::{DEADLINE, Fixture};

const SECRET: &str = "the secret outside";

/// A root with links out of it, and a secret outside.
fn with_escaping_links() -> Fixture {
    let fixture = Fixture::new();
    let (root, outside) = (fixture.root(), fixture.beside("outside"));
    fs::write(outside.join("secret"), SECRET).unwrap();
    fixture.file("inside/file", "inside");
    symlink(&outside, root.join("folder-link")).unwrap();
    symlink("../outside", root.join("relative-link")).unwrap();
    symlink(outside.join("secret"), root.join("file-link")).unwrap();
    symlink("folder-link", root.join("link-to-link")).unwrap();
    symlink(outside.join("new"), root.join("dangling-link")).unwrap();
    symlink("inside", root.join("link-that-stays")).unwrap();
    fixture
}

fn every_tool(path: &str) -> [(&'static str, Value); 6] {
    [
        ("Read", json!({"path": path})),
        ("Write", json!({"path": path, "content": "overwritten"})),
        ("Edit", json!({"path": path, "old": "secret", "new": "x"})),
        ("Grep", json!({"path": path, "pattern": "."})),
        ("Glob", json!({"cwd": path, "pattern": "**"})),
        ("Bash", json!({"cwd": path, "command": "cat secret"})),
    ]
}

fn assert_outside_untouched(fixture: &Fixture) {
    let outside = fixture.beside("outside");
    let names: Vec<PathBuf> = fs::read_dir(&outside)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(names, [outside.join("secret")]);
    assert_eq!(fs::read_to_string(outside.join("secret")).unwrap(), SECRET);
}

#[tokio::test]
async fn every_tool_refuses_paths_outside_its_roots() {
    let fixture = with_escaping_links();
    let (root, outside) = (fixture.root(), fixture.beside("outside"));
    let mut ways: Vec<String> = [
        "..",
        "../outside",
        "../outside/secret",
        "inside/../../outside/secret",
        "none/../../outside/secret",
        "./.././outside/./secret",
        "folder-link",
        "folder-link/secret",
        "relative-link/secret",
        "file-link",
        "link-to-link/secret",
        "dangling-link",
        "inside/../folder-link/secret",
        "~",
        "~/secret",
        "~root/secret",
        "/",
        "/etc/passwd",
        "//etc/passwd",
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd/../secret",
    ]
    .map(str::to_owned)
    .to_vec();
    ways.push(outside.join("secret").display().to_string());
    ways.push(format!("{}/../outside/secret", root.display()));
    // A folder whose name only begins like the root's is another folder.
    ways.push(format!("{}-other/secret", root.display()));
    let roots = format!("outside of the root `{}`", root.display());
    for way in &ways {
        for (tool, arguments) in every_tool(way) {
            let said = fixture.error(tool, arguments).await;
            assert!(
                said.starts_with(&format!("`{way}` is {roots}; ")),
                "{tool}: {said}"
            );
        }
    }
    assert_outside_untouched(&fixture);
}

#[tokio::test]
async fn encoded_path_separators_are_plain_file_names() {
    let fixture = with_escaping_links();
    // To the system these are file names like any other, and nothing of that name exists.
    for way in [
        "..\\outside\\secret",
        "%2e%2e/outside/secret",
        "\u{ff0e}\u{ff0e}/outside/secret",
        "..\u{2215}outside\u{2215}secret",
        "...",
    ] {
        let said = fixture.error("Read", json!({"path": way})).await;
        assert_eq!(
            said,
            format!("`{way}`: No such file or directory (os error 2)")
        );
    }
    for (way, expected) in [
        ("", "the path is empty".to_owned()),
        ("file\u{0}/../x", "the path contains a NUL".to_owned()),
        (
            &"x".repeat(4097),
            "the path is longer than 4096 bytes".to_owned(),
        ),
    ] {
        for (tool, arguments) in every_tool(way) {
            assert_eq!(fixture.error(tool, arguments).await, expected, "{tool}");
        }
    }
}

#[tokio::test]
async fn links_within_a_root_are_followed() {
    let fixture = with_escaping_links();
    assert_eq!(
        fixture
            .ok("Read", json!({"path": "link-that-stays/file"}))
            .await,
        "inside"
    );
    assert_eq!(
        fixture
            .ok("Grep", json!({"path": "link-that-stays", "pattern": "in"}))
            .await,
        "inside/file:1:inside"
    );
}

#[tokio::test]
async fn searches_do_not_follow_links() {
    let fixture = with_escaping_links();
    let found = fixture
        .ok("Grep", json!({"pattern": "secret|inside"}))
        .await;
    assert_eq!(found, "inside/file:1:inside");
    assert_eq!(
        fixture.ok("Glob", json!({"pattern": "**"})).await,
        "inside/file"
    );
}

#[tokio::test]
async fn relative_paths_start_at_the_first_of_several_roots() {
    let fixture = Fixture::with_roots(&["second"]);
    let second = fixture.beside("second");
    fs::write(second.join("file"), "beta").unwrap();
    fixture.file("file", "alpha");
    let there = second.join("file").display().to_string();
    assert_eq!(fixture.ok("Read", json!({"path": "file"})).await, "alpha");
    assert_eq!(fixture.ok("Read", json!({"path": there})).await, "beta");
    let listed = fixture
        .ok("Glob", json!({"pattern": "*", "cwd": second}))
        .await;
    assert_eq!(
        listed, there,
        "what is not below the first root is shown whole"
    );
    let said = fixture.error("Read", json!({"path": "../outside"})).await;
    let roots = format!(
        "outside of the roots `{}`, `{}`",
        fixture.root().display(),
        second.display()
    );
    assert!(said.contains(&roots), "{said}");
}

#[test]
fn the_error_for_an_unusable_root_names_the_root() {
    assert!(matches!(Roots::open([]), Err(RootError::None)));
    let fixture = Fixture::new();
    fixture.file("file", "");
    for name in ["none", "file"] {
        let folder = fixture.root().join(name);
        let error = Roots::open([fixture.root(), folder.clone()]).unwrap_err();
        assert!(matches!(&error, RootError::Unusable { folder: named, .. } if *named == folder));
        let text = error.to_string();
        assert!(
            text.starts_with(&format!("root `{}`: ", folder.display())),
            "{text}"
        );
    }
}

/// Exchanges two names as fast as it can while `work` runs.
async fn while_exchanging<F: Future<Output = ()>>(one: PathBuf, other: PathBuf, work: F) {
    let stop = AtomicBool::new(false);
    let flips = thread::scope(|scope| {
        let flipping = scope.spawn(|| {
            let mut flips = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                // Both at once, so that there is always one or the other.
                renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
                flips += 1;
            }
            flips
        });
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(work));
        stop.store(true, Ordering::Relaxed);
        flipping.join().unwrap()
    });
    assert!(flips > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn links_swapped_in_during_a_call_do_not_escape_the_root() {
    let fixture = with_escaping_links();
    let root = fixture.root();
    fixture.file("flip/secret", "inside");
    symlink("../outside", root.join("spare")).unwrap();
    let end = Instant::now() + DEADLINE;
    while_exchanging(root.join("flip"), root.join("spare"), async {
        let (mut inside, mut refused) = (0, 0);
        // Until both sides of the exchange were met often enough to mean something.
        while inside < 30 || refused < 30 {
            assert!(Instant::now() < end, "{inside} inside, {refused} refused");
            let read = fixture.call("Read", json!({"path": "flip/secret"})).await;
            let wrote = json!({"path": "flip/secret", "content": "inside"});
            let wrote = fixture.call("Write", wrote).await;
            let deeper = json!({"path": "flip/new/er", "content": "inside"});
            let deeper = fixture.call("Write", deeper).await;
            let found = json!({"pattern": "secret|inside", "path": "flip"});
            let found = fixture.call("Grep", found).await;
            for answer in [&read, &wrote, &deeper, &found] {
                assert!(!answer.texts.concat().contains(SECRET), "{answer:?}");
            }
            inside += u32::from(!read.is_error);
            refused += u32::from(read.is_error);
        }
    })
    .await;
    assert_outside_untouched(&fixture);
}

/// Opening a pipe that has no writer would block.
#[tokio::test(flavor = "multi_thread")]
async fn pipes_swapped_in_during_a_call_do_not_block_tools() {
    let fixture = Fixture::new();
    fixture.file("folder/flip", "needle\n");
    fixture.pipe("spare");
    let (one, other) = (
        fixture.root().join("folder/flip"),
        fixture.root().join("spare"),
    );
    let end = Instant::now() + DEADLINE;
    while_exchanging(one, other, async {
        let (mut files, mut pipes) = (0, 0);
        while files < 100 || pipes < 100 {
            assert!(Instant::now() < end, "{files} files, {pipes} pipes");
            let by_name = json!({"pattern": "needle", "path": "folder/flip"});
            let by_name = fixture.call("Grep", by_name).await;
            fixture
                .ok("Grep", json!({"pattern": "needle", "path": "folder"}))
                .await;
            fixture.call("Read", json!({"path": "folder/flip"})).await;
            files += u32::from(!by_name.is_error);
            pipes += u32::from(by_name.is_error);
        }
    })
    .await;
}
