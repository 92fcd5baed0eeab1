//! Every outside crate has a line in docs/dependencies.md that says why it is there, every line has a crate, and each
//! crate of ours names in its sources what its manifest declares.
//!
//! A line is a list item or a table row that begins with the crate's name in backticks.

use std::collections::BTreeSet;

use super::{Dependency, Package, Tree, sources::is_word};

const REASONS: &str = "docs/dependencies.md";

/// Crates that only generated code names.
const GENERATED: [&str; 2] = ["prost", "tonic-prost"];

pub(super) fn check(tree: &Tree) -> Vec<String> {
    let used: BTreeSet<&str> = tree
        .packages
        .iter()
        .flat_map(|package| &package.dependencies)
        .filter(|dependency| !dependency.ours)
        .map(|dependency| dependency.name.as_str())
        .collect();
    let declared = tree
        .file("Cargo.toml")
        .map(|file| declared(&file.text))
        .unwrap_or_default();
    let Some(reasons) = tree.file(REASONS) else {
        return vec![format!("{REASONS}: the file is missing")];
    };
    let listed = listed(&reasons.text);
    let known: BTreeSet<&str> = used.union(&declared).copied().collect();
    let missing = known
        .difference(&listed)
        .map(|name| format!("{REASONS}: no line for `{name}`"));
    let unused = listed
        .union(&declared)
        .filter(|name| !used.contains(*name))
        .map(|name| format!("{REASONS}: no crate of ours uses `{name}`"));
    missing.chain(unused).chain(unnamed(tree)).collect()
}

/// Dependencies that no source of their package names.
fn unnamed(tree: &Tree) -> impl Iterator<Item = String> {
    let of_package = |package: &'_ Package| {
        let folder = format!("{}/", package.folder);
        let sources: Vec<&str> = tree
            .with_extension(".rs")
            .filter(|file| file.path.starts_with(&folder))
            .map(|file| file.text.as_str())
            .collect();
        let is_named = |dependency: &&Dependency| {
            let name = dependency.name.replace('-', "_");
            sources.iter().any(|text| is_word(text, &name))
        };
        let unnamed = package
            .dependencies
            .iter()
            .filter(|dependency| !GENERATED.contains(&dependency.name.as_str()))
            .filter(|dependency| !is_named(dependency))
            .map(|dependency| format!("{folder}Cargo.toml: `{}` is not used", dependency.name));
        unnamed.collect::<Vec<String>>()
    };
    tree.packages.iter().flat_map(of_package)
}

/// The outside crates in `[workspace.dependencies]`.
fn declared(manifest: &str) -> BTreeSet<&str> {
    manifest
        .lines()
        .skip_while(|line| line.trim() != "[workspace.dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name.trim())
        .filter(|name| !name.is_empty() && !name.starts_with('#') && !name.starts_with("callgate-"))
        .collect()
}

fn listed(reasons: &str) -> BTreeSet<&str> {
    let name = |line: &'_ str| -> Option<(usize, usize)> {
        let start = ["- `", "* `", "| `"]
            .iter()
            .find(|start| line.starts_with(**start))?
            .len();
        Some((start, line[start..].find('`')?))
    };
    reasons
        .lines()
        .filter_map(|line| name(line).map(|(start, length)| &line[start..start + length]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[workspace]\n[workspace.dependencies]\ncallgate-wire = { path = \"x\" }\nbytes = \"1\"\nserde = { version = \"1\" }\n\n[profile.dev]\ndebug = 1\n";

    fn found(reasons: &str) -> Vec<String> {
        found_with(reasons, "use callgate_wire::A; use bytes::B;")
    }

    fn found_with(reasons: &str, source: &str) -> Vec<String> {
        let tree = Tree::of(&[
            ("Cargo.toml", MANIFEST),
            (REASONS, reasons),
            ("crates/callgate-gate/src/lib.rs", source),
            ("crates/bench/tests/it/main.rs", "serde::x(); odd::y!();"),
        ])
        .with_package(
            "callgate-gate",
            &[("callgate-wire", false), ("bytes", false)],
        )
        .with_package("bench", &[("serde", true), ("odd", false)]);
        check(&tree)
    }

    #[test]
    fn a_line_for_each_crate_passes() {
        let reasons = "# Why\n- `bytes`: shared buffers\n| `serde` | data |\n* `odd` is odd\ntext `ignored`\n";
        assert_eq!(found(reasons), Vec::<String>::new());
    }

    #[test]
    fn a_dependency_that_no_source_names_is_found() {
        let reasons = "- `bytes`: shared buffers\n- `serde`: data\n- `odd`: odd\n";
        let found = found_with(reasons, "use callgate_wire::A; let my_bytes = 1;");
        assert_eq!(
            found,
            ["crates/callgate-gate/Cargo.toml: `bytes` is not used"]
        );
    }

    #[test]
    fn missing_and_unused_lines_are_found() {
        let all = found("- `bytes`: shared buffers\n- `gone`: no longer\n").join("\n");
        for expected in [
            "no line for `serde`",
            "no line for `odd`",
            "no crate of ours uses `gone`",
        ] {
            assert!(all.contains(expected), "{all}");
        }
    }
}
