//! Every outside crate has a line in docs/dependencies.md that says why it is there, and every line has a crate.
//!
//! A line is a list item or a table row that begins with the crate's name in backticks.

use std::collections::BTreeSet;

use super::Tree;

const REASONS: &str = "docs/dependencies.md";

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
    missing.chain(unused).collect()
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
        let tree = Tree::of(&[("Cargo.toml", MANIFEST), (REASONS, reasons)])
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
