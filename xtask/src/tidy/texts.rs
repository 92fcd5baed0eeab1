//! No file names a folder of a developer's machine, and every relative link has a target.

use std::path::{Component, Path, PathBuf};

use super::{File, Tree};
use crate::command::root;

/// Folders that exist on one machine only, in halves so that this file passes its own check.
const MACHINE: [&str; 3] = [
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/wo", "rk/"),
];

pub(super) fn check(tree: &Tree) -> Vec<String> {
    let mut violations: Vec<String> = tree.files.iter().flat_map(machine_paths).collect();
    for file in tree.with_extension(".md") {
        violations.extend(broken_links(tree, file));
    }
    violations
}

fn machine_paths(file: &File) -> Vec<String> {
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for folder in MACHINE.iter().filter(|folder| names_folder(line, folder)) {
            found.push(format!(
                "{}:{}: machine-specific path `{folder}…`",
                file.path,
                index + 1
            ));
        }
    }
    found
}

/// True where the folder begins a path and something follows it; `docs/work/x`, a bare mention and what stands behind a
/// placeholder of a test (`@dir@`) are fine.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let inside = |c: char| c.is_alphanumeric() || "._-~*}>@".contains(c);
        let starts = !line[..at].ends_with(inside);
        let goes_on =
            line[at + folder.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '.');
        starts && goes_on
    })
}

fn broken_links(tree: &Tree, file: &File) -> Vec<String> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (index, line) in file.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for target in relative_links(line) {
            if !leads_somewhere(tree, file, target) {
                found.push(format!(
                    "{}:{}: the link `{target}` leads nowhere",
                    file.path,
                    index + 1
                ));
            }
        }
    }
    found
}

fn relative_links(line: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    // Every second piece between backticks is code, where brackets are not links.
    for prose in line.split('`').step_by(2) {
        for (at, _) in prose.match_indices("](") {
            let rest = &prose[at + 2..];
            let target = rest.split([')', ' ']).next().unwrap_or_default();
            let path = target.split('#').next().unwrap_or_default();
            if !path.is_empty() && !path.contains("://") && !path.starts_with("mailto:") {
                targets.push(path);
            }
        }
    }
    targets
}

fn leads_somewhere(tree: &Tree, file: &File, target: &str) -> bool {
    let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
    let Some(path) = normal(&folder.join(target)) else {
        return false;
    };
    let listed = tree.file(&path.to_string_lossy()).is_some();
    listed || root().join(path).exists()
}

/// The path without `.` and `..`; `None` when it leaves the repository.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => normal.push(name),
            Component::CurDir => {}
            Component::ParentDir if normal.pop() => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(normal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_paths_are_found_where_a_path_begins() {
        let [first, second, third] = MACHINE;
        for bad in [
            format!("see `{first}x`"),
            format!("{second}ann/a"),
            format!("path={third}main"),
        ] {
            assert_eq!(check(&Tree::of(&[("a.rs", &bad)])).len(), 1, "{bad}");
        }
        for good in [
            format!("docs{third}main"),
            format!("the {second} folder"),
            format!("~{second}x"),
        ] {
            assert_eq!(
                check(&Tree::of(&[("a.rs", &good)])),
                Vec::<String>::new(),
                "{good}"
            );
        }
    }

    #[test]
    fn links_resolve_from_their_file() {
        let text = "[a](b.md) [c](../README.md#top) [d](https://example.com/x) [e](#here)\n```\n[x](nowhere)\n```\n`[y](nowhere)`";
        let tree = Tree::of(&[("docs/a.md", text), ("docs/b.md", ""), ("README.md", "")]);
        assert_eq!(check(&tree), Vec::<String>::new());
        let broken = Tree::of(&[("docs/a.md", "\n[a](gone.md) [b](../../outside.md)")]);
        let expected = [
            "docs/a.md:2: the link `gone.md` leads nowhere",
            "docs/a.md:2: the link `../../outside.md` leads nowhere",
        ];
        assert_eq!(check(&broken), expected);
    }
}
