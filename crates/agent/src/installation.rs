//! The files that an installed agent needs to run: its program, the packages beside it, and its interpreter.

use std::{
    fs::{self, File},
    io::Read,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// The folder that Node's packages are installed in, each with the packages that it needs beside it.
const PACKAGES: &str = "node_modules";
/// How much of a program is read to find its interpreter.
const MAX_FIRST_LINE_BYTES: u64 = 256;

/// The files and folders of a program that is found on a search path.
pub(crate) fn files(program: &str, search_path: &str) -> Vec<PathBuf> {
    let Some(named) = find(program, search_path) else {
        return Vec::new();
    };
    let mut files = of(&named);
    let interpreter = fs::canonicalize(&named).ok();
    let interpreter = interpreter.and_then(|real| interpreter_of(&real, search_path));
    files.extend(interpreter.iter().flat_map(|named| of(named)));
    files.sort();
    files.dedup();
    files
}

/// The program on the search path, as it is named there.
pub(crate) fn find(program: &str, search_path: &str) -> Option<PathBuf> {
    let mut named = std::env::split_paths(search_path).map(|folder| folder.join(program));
    named.find(|path| {
        let data = fs::metadata(path);
        data.is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    })
}

/// The files of a program, without its interpreter.
fn of(named: &Path) -> Vec<PathBuf> {
    let Ok(real) = fs::canonicalize(named) else {
        return Vec::new();
    };
    let mut files = vec![packages(&real).unwrap_or(real)];
    if named.is_symlink() {
        // The link itself, which only its folder has: a program that is started under another path looks for its other files
        // in the wrong place.
        let folder = named.parent().filter(|folder| !holds_a_home(folder));
        files.extend(packages(named).or(folder.map(Path::to_owned)));
    }
    files
}

/// Whether a folder of programs is one that holds everything of a user, or the files of other steps.
fn holds_a_home(folder: &Path) -> bool {
    let places = [std::env::home_dir(), Some(std::env::temp_dir())];
    let mut places = places.into_iter().flatten();
    places.any(|place| place.starts_with(folder))
}

/// The outermost folder of packages that the path is in.
fn packages(path: &Path) -> Option<PathBuf> {
    let above = path.ancestors().skip(1);
    let found = above.filter(|folder| folder.file_name().is_some_and(|name| name == PACKAGES));
    found.last().map(Path::to_owned)
}

/// The interpreter in the first line of a script.
fn interpreter_of(script: &Path, search_path: &str) -> Option<PathBuf> {
    let mut first = Vec::new();
    let opened = File::open(script).ok()?;
    opened
        .take(MAX_FIRST_LINE_BYTES)
        .read_to_end(&mut first)
        .ok()?;
    let line = first
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_whitespace();
    let program = Path::new(words.next()?);
    if program.file_name()? != "env" {
        return Some(program.to_owned());
    }
    let is_program = |word: &&str| !word.starts_with('-') && !word.contains('=');
    find(words.find(is_program)?, search_path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    struct Machine(TempDir);

    impl Machine {
        fn path(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(name)
        }

        fn program(&self, name: &str, text: &str) -> PathBuf {
            let path = self.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path
        }

        fn link(&self, name: &str, target: &str) {
            let path = self.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink(target, path).unwrap();
        }

        fn files(&self, folders: &[&str]) -> Vec<PathBuf> {
            let folders = folders.iter().map(|name| self.path(name));
            let search_path = std::env::join_paths(folders).unwrap();
            files("agent", search_path.to_str().unwrap())
        }
    }

    #[test]
    fn a_program_alone_is_one_file() {
        let machine = Machine(TempDir::new().unwrap());
        let program = machine.program("bin/agent", "\x7fELF");
        assert_eq!(machine.files(&["nowhere", "bin"]), [program]);
        assert_eq!(machine.files(&["nowhere"]), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_node_package_comes_with_all_packages_its_link_and_node() {
        let machine = Machine(TempDir::new().unwrap());
        let script = "#!/usr/bin/env -S node --no-warnings\nx";
        let inner = "lib/node_modules/a/node_modules/@b/agent/cli.js";
        machine.program(inner, script);
        machine.link("bin/agent", &format!("../{inner}"));
        let node = machine.program("node/node", "\x7fELF");
        let expected = [machine.path("bin"), machine.path("lib/node_modules"), node];
        assert_eq!(machine.files(&["bin", "node"]), expected);
    }

    #[test]
    fn a_home_is_no_folder_of_programs() {
        for folder in [Path::new("/"), &std::env::temp_dir()] {
            assert!(holds_a_home(folder), "{}", folder.display());
        }
        assert!(!holds_a_home(Path::new("/usr/local/bin")));
    }

    #[test]
    fn a_package_of_a_project_grants_nothing_of_the_project_besides_its_packages() {
        let machine = Machine(TempDir::new().unwrap());
        machine.program("project/node_modules/agent/cli", "#!/bin/sh\n");
        machine.link("project/node_modules/.bin/agent", "../agent/cli");
        let found = machine.files(&["project/node_modules/.bin"]);
        let sh = fs::canonicalize("/bin/sh").unwrap();
        assert!(found.contains(&machine.path("project/node_modules")));
        let others = found
            .iter()
            .filter(|path| path.starts_with(machine.path("")));
        assert_eq!(others.count(), 1);
        assert!(found.contains(&sh), "{found:?}");
    }
}
