//! The links that a path leads through.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

/// As many as the kernel follows.
const MOST_LINKS: usize = 40;

/// Where each link on the way of an absolute path lies, without links of its own.
pub(crate) fn on_the_way(path: &Path) -> Vec<PathBuf> {
    let mut links = Vec::new();
    // The names that are still to be walked, the next one last.
    let mut ahead: Vec<PathBuf> = Vec::new();
    push(path, &mut ahead);
    let mut at = PathBuf::from("/");
    while let Some(name) = ahead.pop() {
        if name == Path::new("..") {
            at.pop();
            continue;
        }
        let next = at.join(&name);
        match fs::read_link(&next) {
            Ok(target) if links.len() < MOST_LINKS => {
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                push(&target, &mut ahead);
                links.push(next);
            }
            Ok(_) | Err(_) => at = next,
        }
    }
    links
}

fn push(path: &Path, ahead: &mut Vec<PathBuf>) {
    let names = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    });
    ahead.extend(names);
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn every_link_on_the_way_is_found_where_it_lies() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("real/deep")).unwrap();
        symlink("real", root.join("one")).unwrap();
        symlink(root.join("one/deep"), root.join("two")).unwrap();
        symlink("../two", root.join("real/up")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let cases: [(&str, &[&str]); 6] = [
            ("real/deep/missing", &[]),
            ("one", &["one"]),
            ("one/deep", &["one"]),
            ("two/x", &["two", "one"]),
            ("one/up/x", &["one", "real/up", "two", "one"]),
            ("real/../one", &["one"]),
        ];
        for (path, expected) in cases {
            let expected: Vec<PathBuf> = expected.iter().map(|name| root.join(name)).collect();
            assert_eq!(on_the_way(&root.join(path)), expected, "{path}");
        }
        assert_eq!(on_the_way(&root.join("loop")).len(), MOST_LINKS);
    }
}
