use std::fs;

use tempfile::TempDir;

use super::*;

/// A home folder with files, each made with the folders above it.
struct Home(TempDir);

impl Home {
    fn with(files: &[&str]) -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        for file in files {
            let path = home.path(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match file.ends_with('/') {
                true => fs::create_dir_all(path).unwrap(),
                false => fs::write(path, "").unwrap(),
            }
        }
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        let root = self.0.path().canonicalize().unwrap();
        match name {
            "" => root,
            name => root.join(name.trim_end_matches('/')),
        }
    }

    /// `read`, `write` and `withheld`, relative to the home. `data` is callgate's.
    fn learned(&self, named: &[&str], uses: &[Use]) -> (Vec<String>, Vec<String>, Vec<String>) {
        let home = self.path("");
        let (inner, data) = (home.clone(), home.join("data"));
        let refused = move |path: &Path| {
            let is_refused = inner.starts_with(path) || path.starts_with(&data);
            is_refused.then(|| "no".to_owned())
        };
        let surroundings = Surroundings {
            program: home.join("bin/program"),
            named: named.iter().map(|name| self.path(name)).collect(),
            temporary: vec![home.join("tmp")],
            refused: &refused,
        };
        let mut learned = Learned::default();
        learn(uses, &surroundings, &mut learned);
        let relative = |paths: Vec<PathBuf>| {
            let paths = paths.iter().map(|path| path.strip_prefix(&home).unwrap());
            paths.map(|path| path.display().to_string()).collect()
        };
        let prefix = format!("{}/", home.display());
        let withheld = learned.withheld.into_iter();
        let withheld = withheld.map(|one| one.what.replace(&prefix, ""));
        (
            relative(learned.read),
            relative(learned.write),
            withheld.collect(),
        )
    }

    fn read(&self, names: &[&str]) -> Vec<Use> {
        names
            .iter()
            .map(|name| Use::Read(self.path(name)))
            .collect()
    }
}

fn nothing() -> Vec<String> {
    Vec::new()
}

#[test]
fn files_that_belong_together_become_their_folder() {
    let home = Home::with(&[
        "app/node_modules/a/index.js",
        "app/node_modules/b/node_modules/c/index.js",
        "app/package.json",
        "venv/pyvenv.cfg",
        "venv/lib/python3.12/site-packages/x.py",
        "python/bin/python3",
        "python/lib/python3.13/os.py",
        "lib/python3.11/y.py",
        "repo/.git/HEAD",
        "repo/.git/objects/ab/cd",
        "notes/today.md",
    ]);
    let uses = home.read(&[
        "app/node_modules/b/node_modules/c/index.js",
        "app/node_modules/a/index.js",
        "app/package.json",
        "venv/lib/python3.12/site-packages/x.py",
        "python/lib/python3.13/os.py",
        "lib/python3.11/y.py",
        "repo/.git/HEAD",
        "notes/today.md",
        "bin/program",
        "tmp",
    ]);
    let (read, write, withheld) = home.learned(&[], &uses);
    let expected = [
        "app/node_modules",
        "app/package.json",
        "lib/python3.11",
        "notes/today.md",
        "python",
        "repo",
        "venv",
    ];
    assert_eq!(read, expected);
    assert_eq!((write, withheld), (nothing(), nothing()));
}

#[test]
fn folders_that_arguments_name_are_granted_as_a_whole() {
    let home = Home::with(&["docs/a/b.md", "docs/c.md", "file.txt", "other/"]);
    let uses = [
        Use::Read(home.path("docs/a/b.md")),
        Use::Change(home.path("docs/a/new.md")),
    ];
    let (read, write, _) = home.learned(&["docs", "file.txt", "other"], &uses);
    assert_eq!(
        (read, write),
        (vec!["other".to_owned()], vec!["docs".to_owned()])
    );
}

#[test]
fn many_files_of_one_folder_become_the_folder_and_few_do_not() {
    let names: Vec<String> = (0..9).map(|number| format!("many/{number}")).collect();
    let mut files: Vec<&str> = names.iter().map(String::as_str).collect();
    files.extend([
        "few/1", "few/2", "top1", "top2", "top3", "top4", "top5", "top6", "top7", "top8", "top9",
    ]);
    let home = Home::with(&files);
    let (read, _, withheld) = home.learned(&[], &home.read(&files));
    let top: Vec<String> = (1..=9).map(|number| format!("top{number}")).collect();
    // Never the home as a whole, however many of its files are used.
    let expected: Vec<String> = ["few/1".to_owned(), "few/2".to_owned(), "many".to_owned()]
        .into_iter()
        .chain(top)
        .collect();
    assert_eq!(read, expected);
    assert_eq!(withheld, nothing());
}

#[test]
fn new_files_need_their_folder_and_old_ones_only_themselves() {
    let home = Home::with(&["cache/old", "state/db", "x/__pycache__/m.pyc", "log.txt"]);
    let uses = [
        Use::Change(home.path("cache/new")),
        Use::Write(home.path("state/db")),
        Use::Read(home.path("state/db")),
        Use::Change(home.path("x/__pycache__/n.pyc")),
        Use::Write(home.path("x/__pycache__/m.pyc")),
        // The box has its own folder for temporary files.
        Use::Change(home.path("tmp/scratch")),
        // Its folder is the home, which is not granted.
        Use::Change(home.path("log.txt")),
    ];
    let (read, write, withheld) = home.learned(&[], &uses);
    assert_eq!((read, withheld), (nothing(), nothing()));
    assert_eq!(write, ["cache", "log.txt", "state/db"]);
}

#[test]
fn protected_paths_the_home_and_the_system_are_withheld() {
    let home = Home::with(&["data/record", "a"]);
    let uses = [
        Use::Read(home.path("data/record")),
        Use::Read(home.path("")),
        Use::Change(home.path("new-in-home")),
        Use::Write(PathBuf::from("/usr/bin")),
        Use::Write(PathBuf::from("/dev/null")),
        Use::Read(PathBuf::from("/usr/bin/env")),
        Use::Socket(home.path("a")),
        Use::Socket(home.path("missing")),
    ];
    let (read, write, withheld) = home.learned(&[], &uses);
    assert_eq!((read, write), (nothing(), nothing()));
    let root = home.path("").display().to_string();
    let expected = [
        "reading `data/record`".to_owned(),
        format!("reading `{root}`"),
        format!("changing `{root}`"),
        "changing `/usr/bin`".to_owned(),
        "the socket `a`".to_owned(),
    ];
    assert_eq!(withheld, expected);
}

#[test]
fn a_link_stands_for_what_it_leads_to_unless_its_folder_is_granted() {
    let home = Home::with(&["real/file", "real/second", "bin/x", "docs/y"]);
    std::os::unix::fs::symlink(home.path("real/file"), home.path("bin/link")).unwrap();
    std::os::unix::fs::symlink(home.path("real/second"), home.path("docs/link")).unwrap();
    let uses = home.read(&["bin/link", "real/file", "docs/link", "real/second"]);
    let (read, ..) = home.learned(&["docs"], &uses);
    assert_eq!(read, ["bin/link", "docs", "real/second"]);
}

#[test]
fn names_that_a_person_would_misread_are_withheld() {
    let names = [
        "notes/a\n      - /etc\n",
        "notes/a\u{202e}txt.exe",
        "notes/a\u{200b}b",
        "notes/\u{1b}[2Ka",
        "notes/${HOME}",
    ];
    let home = Home::with(&names);
    let (read, write, withheld) = home.learned(&[], &home.read(&names));
    assert_eq!((read, write), (nothing(), nothing()));
    assert_eq!(withheld.len(), names.len(), "{withheld:?}");
    // What only looks like YAML is quoted.
    let odd = ["notes/a: {b}", "notes/- x", "notes/# y", "notes/\"q\""];
    let home = Home::with(&odd);
    let (mut read, ..) = home.learned(&[], &home.read(&odd));
    read.sort();
    assert_eq!(
        read,
        ["notes/\"q\"", "notes/# y", "notes/- x", "notes/a: {b}"]
    );
}

#[test]
fn lines_that_no_watcher_reported_are_ignored() {
    let home = Home::with(&["a/b"]);
    let uses = ["a/b", "../x", "/proc/../etc", "."];
    let mut uses: Vec<Use> = uses.iter().map(|path| Use::Read(path.into())).collect();
    uses.push(Use::Write(home.path("a/../a/b")));
    assert_eq!(home.learned(&[], &uses), (nothing(), nothing(), nothing()));
}
