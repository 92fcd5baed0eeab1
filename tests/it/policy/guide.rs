//! Every policy file in the guide is valid and passes its cases.

use std::fs;
use std::path::Path;

use crate::setup::Bed;
use crate::shell::{run, typed};

/// The files in a page: blocks of YAML that begin with their name as a comment.
fn files(page: &str) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for block in page.split("```yaml\n").skip(1) {
        let text = block.split("```").next().unwrap_or_default();
        let name = text.lines().next().and_then(|line| line.strip_prefix("# "));
        let name = name.unwrap_or_else(|| panic!("a file without a name: {text}"));
        files.push((name.to_owned(), text.to_owned()));
    }
    files
}

#[test]
fn the_guides_policy_files_work() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/policy.md");
    let files = files(&fs::read_to_string(docs).expect("the guide is there"));
    let bed = Bed::new("servers: {}\n");
    for (name, text) in &files {
        fs::write(bed.path(name), text).expect("it is ours");
    }
    let policies: Vec<&String> = files
        .iter()
        .map(|(name, _)| name)
        .filter(|name| !name.contains(".tests."))
        .collect();
    assert_eq!(
        (policies.len(), files.len()),
        (6, 12),
        "six wishes, each with its cases"
    );
    for name in policies {
        let checked = run(&mut typed(&bed, ["policy", "check", name]));
        assert_eq!(
            (checked.code, checked.stderr.as_str()),
            (Some(0), ""),
            "{name}"
        );
        let tested = run(&mut typed(&bed, ["policy", "test", name]));
        assert_eq!(
            tested.code,
            Some(0),
            "{name}\n{}{}",
            tested.stdout,
            tested.stderr
        );
    }
}
