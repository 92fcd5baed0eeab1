//! The real path behind a path: every link is followed, also a dangling one, because writing to it creates its target. The part
//! that does not exist yet is kept as it is.

use std::{
    collections::VecDeque,
    fs, io,
    path::{Component, Path, PathBuf},
};

use callgate_gate::RealPath;
use rustix::io::Errno;

/// A longer chain of links is taken for a cycle. The kernel's limit is 40 as well.
const MAX_LINKS: usize = 40;

/// The real path of an absolute path. Blocks on the file system.
pub fn real(path: &str) -> RealPath {
    match resolved(Path::new(path)) {
        Ok(real) => match real.into_os_string().into_string() {
            Ok(real) => RealPath::At(real),
            // Patterns match text, and a name that is not UTF-8 could slip past all of them.
            Err(_) => RealPath::Unknown,
        },
        Err(_) => RealPath::Unknown,
    }
}

/// [`real`] with the system's error.
pub(super) fn resolved(path: &Path) -> io::Result<PathBuf> {
    let mut ahead: VecDeque<PathBuf> = parts(path).collect();
    let mut real = PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = ahead.pop_front() {
        if part == Path::new("..") {
            // The kernel resolves `..` after the link before it, so it is applied to the real path and not to the text.
            real.pop();
            continue;
        }
        let next = real.join(&part);
        match fs::symlink_metadata(&next) {
            Ok(found) if found.file_type().is_symlink() => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(Errno::LOOP.into());
                }
                let target = fs::read_link(&next)?;
                if target.is_absolute() {
                    real = PathBuf::from("/");
                }
                let inside: Vec<PathBuf> = parts(&target).collect();
                inside
                    .into_iter()
                    .rev()
                    .for_each(|part| ahead.push_front(part));
            }
            Ok(_) => real = next,
            // A part that is missing, or that we may not read, cannot be followed as a link. Its name still has to be
            // matched: the call may create it, and the server may have other rights than we have.
            Err(error) if is_absent(&error) => real = next,
            Err(error) => return Err(error),
        }
    }
    Ok(real)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::PermissionDenied
    )
}

fn parts(path: &Path) -> impl Iterator<Item = PathBuf> {
    path.components().filter_map(|component| match component {
        Component::Normal(part) => Some(PathBuf::from(part)),
        Component::ParentDir => Some(PathBuf::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn real_paths_follow_every_link() {
        let folder = tempfile::tempdir().expect("there is room");
        let here = fs::canonicalize(folder.path()).expect("it is there");
        let at = |rest: &str| format!("{}/{rest}", here.display());
        fs::create_dir(at("a")).expect("it is ours");
        symlink("/etc", at("etc")).expect("it is ours");
        symlink("a", at("b")).expect("it is ours");
        symlink("/etc/not-there-yet", at("dangling")).expect("it is ours");
        symlink("round", at("round")).expect("it is ours");
        let real = |rest: &str| real(&at(rest));
        assert_eq!(real("etc/passwd"), RealPath::At("/etc/passwd".into()));
        assert_eq!(real("b/x/y"), RealPath::At(at("a/x/y")));
        assert_eq!(real("dangling"), RealPath::At("/etc/not-there-yet".into()));
        assert_eq!(real("etc/../x"), RealPath::At("/x".into()));
        assert_eq!(real("a/../b"), RealPath::At(at("a")));
        assert_eq!(real("not/there"), RealPath::At(at("not/there")));
        assert_eq!(real("round/x"), RealPath::Unknown);
    }
}
