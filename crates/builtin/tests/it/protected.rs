//! Protected files lie in a root and are not used by any file tool, under whatever name.

use std::{fs, os::unix::fs::symlink};

use serde_json::json;

use crate::fixture::Fixture;

fn with_protected_files() -> Fixture {
    let fixture = Fixture::protecting(&["callgate.yaml", "data"]);
    fixture.file("callgate.yaml", "policy: mine\n");
    fixture.file("data/log/1.jsonl", "policy decisions\n");
    fixture.file("notes", "about the policy\n");
    fixture
}

#[tokio::test]
async fn protected_paths_are_refused_in_every_spelling() {
    let fixture = with_protected_files();
    symlink("callgate.yaml", fixture.root().join("link")).unwrap();
    symlink("data", fixture.root().join("folder-link")).unwrap();
    let whole = fixture.root().join("callgate.yaml").display().to_string();
    for path in [
        "callgate.yaml",
        "./notes/../callgate.yaml",
        "CALLGATE.yaml",
        "link",
        "folder-link/log/1.jsonl",
        "data",
        "data/log/1.jsonl",
        "data/new",
        &whole,
    ] {
        let expected = format!(
            "`{path}` governs this gateway (configuration, policy or data), so the built-in tools cannot use it; edit it by hand"
        );
        for (tool, arguments) in [
            ("Read", json!({"path": path})),
            (
                "Write",
                json!({"path": path, "content": "policy: allow-all"}),
            ),
            (
                "Edit",
                json!({"path": path, "old": "mine", "new": "allow-all"}),
            ),
            ("Grep", json!({"path": path, "pattern": "policy"})),
            ("Glob", json!({"cwd": path, "pattern": "**"})),
        ] {
            assert_eq!(fixture.error(tool, arguments).await, expected, "{tool}");
        }
    }
    assert_eq!(fixture.content("callgate.yaml"), b"policy: mine\n");
    assert_eq!(fixture.names("data"), ["log"]);
}

#[tokio::test]
async fn hard_links_to_protected_files_are_refused() {
    let fixture = with_protected_files();
    fs::hard_link(
        fixture.root().join("callgate.yaml"),
        fixture.root().join("alias"),
    )
    .unwrap();
    fs::hard_link(
        fixture.root().join("data/log/1.jsonl"),
        fixture.root().join("log"),
    )
    .unwrap();
    fs::hard_link(
        fixture.root().join("notes"),
        fixture.root().join("more-notes"),
    )
    .unwrap();
    for path in ["alias", "log"] {
        let said = fixture.error("Read", json!({"path": path})).await;
        assert!(said.contains("governs this gateway"), "{said}");
        let said = fixture
            .error("Edit", json!({"path": path, "old": "policy", "new": "x"}))
            .await;
        assert!(said.contains("governs this gateway"), "{said}");
    }
    assert_eq!(
        fixture.ok("Read", json!({"path": "more-notes"})).await,
        "about the policy\n"
    );
    let found = fixture.ok("Grep", json!({"pattern": "policy"})).await;
    assert_eq!(
        found,
        "more-notes:1:about the policy\nnotes:1:about the policy"
    );
}

#[tokio::test]
async fn searches_skip_protected_files() {
    let fixture = with_protected_files();
    assert_eq!(fixture.ok("Glob", json!({"pattern": "**"})).await, "notes");
    let counted = json!({"pattern": "policy", "output_mode": "count"});
    assert_eq!(fixture.ok("Grep", counted).await, "notes:1");
}
