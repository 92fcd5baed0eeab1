//! Whether a path leads to the gateway's own configuration: by name, through links, or as a hard link of the same file.

use std::{ffi::OsStr, fs, io, os::unix::fs::MetadataExt, path::Path};

use callgate_gate::{Protected, Reach};
use rustix::io::Errno;

use super::paths;

/// How many files of protected folders are compared with a hard-linked file.
const MAX_COMPARED: usize = 100_000;

/// Where an absolute path leads. Blocks on the file system.
pub fn reach(path: &str, protected: &Protected) -> Reach {
    // By name first: a protected place stays protected even if a link at its name leads elsewhere now.
    if protected.covers(path) && !has_dots(path) {
        return Reach::Inside;
    }
    let real = match paths::resolved(Path::new(path)) {
        Ok(real) => real,
        // The kernel refuses such a path for every program, so nothing can be reached by it.
        Err(error) if leads_nowhere(&error) => return Reach::Elsewhere,
        Err(_) => return Reach::Unknown,
    };
    let shown = real.to_string_lossy();
    if protected.covers(&shown) {
        return Reach::Inside;
    }
    if let Ok(data) = fs::metadata(&real)
        && is_another_name(&data, protected)
    {
        return Reach::Inside;
    }
    if protected.is_above(&shown) {
        return Reach::Above;
    }
    Reach::Elsewhere
}

/// Whether this file is a hard link of a protected one.
pub fn is_another_name(data: &fs::Metadata, protected: &Protected) -> bool {
    // A file with one name cannot be another name, which spares the walk in nearly all cases.
    if !data.is_file() || data.nlink() < 2 {
        return false;
    }
    let mut left = MAX_COMPARED;
    let mut places = protected.places().iter();
    places.any(|place| has_the_same(Path::new(place), data, &mut left))
}

/// Whether `wanted` is this file or in this folder. True if there is too much to compare: unknown counts as protected.
fn has_the_same(place: &Path, wanted: &fs::Metadata, left: &mut usize) -> bool {
    *left = left.saturating_sub(1);
    if *left == 0 {
        return true;
    }
    let Ok(data) = fs::symlink_metadata(place) else {
        return false;
    };
    if data.file_type().is_symlink() {
        // The target of a protected link is a protected place of its own, so only the target itself is compared.
        return fs::metadata(place).is_ok_and(|data| is_same(&data, wanted));
    }
    if !data.is_dir() {
        return is_same(&data, wanted);
    }
    // Hard links never cross file systems.
    if data.dev() != wanted.dev() {
        return false;
    }
    let mut entries = fs::read_dir(place).into_iter().flatten().flatten();
    entries.any(|entry| has_the_same(&entry.path(), wanted, left))
}

fn is_same(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

fn has_dots(path: &str) -> bool {
    let dots = OsStr::new("..");
    Path::new(path).iter().any(|part| part == dots)
}

fn leads_nowhere(error: &io::Error) -> bool {
    let known = [Errno::LOOP, Errno::NAMETOOLONG, Errno::INVAL];
    known
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn protected_paths_are_recognised_through_links_and_hard_links() {
        let folder = tempfile::tempdir().expect("there is room");
        let here = fs::canonicalize(folder.path()).expect("it is there");
        let at = |rest: &str| format!("{}/{rest}", here.display());
        for made in ["data/deep", "home/config", "beside"] {
            fs::create_dir_all(at(made)).expect("it is ours");
        }
        for file in ["data/deep/key", "home/config/file", "beside/plain"] {
            fs::write(at(file), file).expect("it is ours");
        }
        fs::hard_link(at("data/deep/key"), at("beside/key")).expect("one file system");
        fs::hard_link(at("beside/plain"), at("beside/twin")).expect("one file system");
        symlink(at("home"), at("beside/link")).expect("it is ours");
        symlink("nowhere", at("beside/nowhere")).expect("it is ours");
        symlink("round", at("beside/round")).expect("it is ours");
        let protected = Protected::new([at("data"), at("home/config/file")]);
        for (path, expected) in [
            ("data", Reach::Inside),
            ("data/not/there", Reach::Inside),
            ("home/config/file", Reach::Inside),
            ("home/config/other", Reach::Elsewhere),
            ("beside/link/config/file", Reach::Inside),
            ("beside/../data/x", Reach::Inside),
            ("data/../beside/plain", Reach::Elsewhere),
            ("beside/key", Reach::Inside),
            ("beside/twin", Reach::Elsewhere),
            ("beside/link", Reach::Above),
            ("home", Reach::Above),
            ("beside/nowhere", Reach::Elsewhere),
            ("beside/round/x", Reach::Elsewhere),
        ] {
            assert_eq!(reach(&at(path), &protected), expected, "{path}");
        }
        let long = format!("/{}", "x".repeat(300));
        assert_eq!(reach(&long, &protected), Reach::Elsewhere);
    }
}
