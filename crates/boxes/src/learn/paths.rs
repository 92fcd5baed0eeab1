//! From the files that a program used to the paths of a box: folders in place of hundreds of files, and nothing wider than
//! what belongs together.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Component, Path, PathBuf};

use callgate_gate::{
    Launch,
    visible::{Layout, Piece, pieces},
};
use callgate_process::sandbox::{self, FileAccess};
use callgate_process::watch::Use;

use super::Learned;
use crate::Occupant;

/// More files than this in one folder become the folder.
const MOST_SIBLINGS: usize = 8;

/// Folders with fewer names than this above them are never granted in place of their files: `/etc`, `/home`.
const LEAST_DEPTH: usize = 2;

/// What decides how paths are generalised.
pub struct Surroundings<'a> {
    /// The program, which every box contains.
    pub program: PathBuf,
    /// Existing files and folders that the server's arguments name: what is used in them belongs together.
    pub named: Vec<PathBuf>,
    /// Folders for temporary files, of which a box has its own.
    pub temporary: Vec<PathBuf>,
    /// Why a path cannot be granted.
    pub refused: &'a (dyn Fn(&Path) -> Option<String> + Send + Sync),
}

impl fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings")
            .field("program", &self.program)
            .field("named", &self.named)
            .field("temporary", &self.temporary)
            .finish_non_exhaustive()
    }
}

impl<'a> Surroundings<'a> {
    /// Those of a server that is started like this.
    pub fn of(
        launch: &Launch,
        refused: &'a (dyn Fn(&Path) -> Option<String> + Send + Sync),
    ) -> Self {
        let Launch::Stdio {
            command,
            args,
            env,
            cwd,
        } = launch
        else {
            return Self {
                program: PathBuf::new(),
                named: Vec::new(),
                temporary: Vec::new(),
                refused,
            };
        };
        let variable = |name: &str| {
            let found = env.iter().find(|(own, _)| own == name);
            found.map(|(_, value)| value.clone())
        };
        let folder = cwd.clone().or_else(|| std::env::current_dir().ok());
        let occupant = Occupant {
            program: PathBuf::from(command),
            search_path: variable("PATH"),
            ..Occupant::default()
        };
        let temporary = [
            variable("TMPDIR").map(PathBuf::from),
            Some(std::env::temp_dir()),
        ];
        let both = |path: PathBuf| [path.canonicalize().ok(), Some(path)];
        Self {
            program: occupant
                .program_paths()
                .into_iter()
                .next()
                .unwrap_or_default(),
            named: named(args, &folder.unwrap_or_default()),
            temporary: temporary
                .into_iter()
                .flatten()
                .flat_map(both)
                .flatten()
                .collect(),
            refused,
        }
    }
}

/// The files and folders that arguments name: `/srv/notes`, `./notes`, `--root=/srv/notes`.
fn named(args: &[String], folder: &Path) -> Vec<PathBuf> {
    let texts = args.iter().flat_map(|arg| {
        let value = arg.split_once('=').map(|(_, value)| value);
        [Some(arg.as_str()), value]
    });
    // A bare word is rather the name of something else.
    let paths = texts
        .flatten()
        .filter(|text| text.contains('/') || matches!(*text, "." | ".."));
    paths
        .filter_map(|text| folder.join(text).canonicalize().ok())
        .collect()
}

/// The paths that a box needs.
struct Needs<'a> {
    surroundings: &'a Surroundings<'a>,
    paths: BTreeMap<PathBuf, FileAccess>,
    learned: &'a mut Learned,
}

pub(super) fn learn(uses: &[Use], surroundings: &Surroundings<'_>, learned: &mut Learned) {
    let mut needs = Needs {
        surroundings,
        paths: BTreeMap::new(),
        learned,
    };
    for folder in surroundings.named.iter().filter(|path| path.is_dir()) {
        needs.add(folder.clone(), FileAccess::Read);
    }
    for one in uses.iter().filter(|one| is_plain(one)) {
        match one {
            Use::Read(path) => needs.read(path),
            Use::Write(path) => needs.write(path),
            Use::Change(path) => needs.change(path),
            Use::Socket(path) => needs.socket(path, uses),
            Use::Missed(what) => needs
                .learned
                .remark(format!("the watcher missed something: {what}")),
            Use::Connect(_) | Use::Name(_) | Use::Datagram(_) | Use::Listen(_) => {}
        }
    }
    needs.gather();
    needs.drop_covered();
    needs.remark_on_repositories();
    let paths = needs.paths;
    for (path, access) in paths {
        match access {
            FileAccess::Read => learned.read.push(path),
            FileAccess::Write => learned.write.push(path),
        }
    }
}

impl Needs<'_> {
    fn read(&mut self, path: &Path) {
        let is_there = path == self.surroundings.program || is_in_every_box(path);
        if is_there || self.is_temporary_folder(path) {
            return;
        }
        let unit = self.unit(path).unwrap_or_else(|| path.to_owned());
        self.add(unit, FileAccess::Read);
    }

    fn write(&mut self, path: &Path) {
        if is_in_every_box(path) && !is_system(path) || is_cache(path) {
            return;
        }
        let unit = self.named_folder(path).unwrap_or_else(|| path.to_owned());
        self.add(unit, FileAccess::Write);
    }

    /// Making, renaming and removing needs the folder.
    fn change(&mut self, path: &Path) {
        let Some(folder) = path.parent() else { return };
        let is_own = is_in_every_box(path) && !is_system(path);
        if self.is_temporary_folder(folder) || is_own || is_cache(path) {
            return;
        }
        let unit = self.named_folder(path).unwrap_or_else(|| folder.to_owned());
        let refused = self.refusal(&unit);
        if refused.is_some() && path.is_file() && self.refusal(path).is_none() {
            self.learned.remark(format!(
                "it made `{}`; only this file is granted, not its folder, so it cannot be replaced or made again: keep it in a \
                 folder of its own",
                path.display()
            ));
            return self.add(path.to_owned(), FileAccess::Write);
        }
        self.add(unit, FileAccess::Write);
    }

    fn socket(&mut self, path: &Path, uses: &[Use]) {
        let is_own = uses.contains(&Use::Change(path.to_owned()));
        let is_abstract = path.to_string_lossy().starts_with('@');
        let exists = path.exists() || is_abstract;
        if !is_own && exists {
            self.learned.withhold(
                format!("the socket `{}`", path.display()),
                "who connects to it has the rights of the program behind it",
            );
        }
    }

    fn refusal(&self, path: &Path) -> Option<String> {
        if is_system(path) {
            return Some("the system's programs and settings are read-only in a box".to_owned());
        }
        if path.starts_with("/dev") {
            return Some("a box has devices without data of others only".to_owned());
        }
        (self.surroundings.refused)(path)
    }

    fn add(&mut self, path: PathBuf, access: FileAccess) {
        // It may have been removed again; in the box there is nothing to grant.
        if !path.exists() || access == FileAccess::Read && is_in_every_box(&path) {
            return;
        }
        let refusal = self.refusal(&path).or_else(|| {
            (!can_be_written(&path)).then(|| {
                "its name has characters that cannot be shown; list the folder that it is in"
                    .to_owned()
            })
        });
        if let Some(why) = refusal {
            let verb = match access {
                FileAccess::Read => "reading",
                FileAccess::Write => "changing",
            };
            let what = format!("{verb} `{}`", path.display());
            return self.learned.withhold(what, why);
        }
        let has = self.paths.entry(path).or_insert(access);
        *has = (*has).max(access);
    }

    fn is_temporary_folder(&self, path: &Path) -> bool {
        self.surroundings.temporary.iter().any(|own| own == path)
    }

    /// The folder that belongs together with `path`: one that the server's arguments name, a repository, packages of Node, an
    /// installation of Python.
    fn unit(&self, path: &Path) -> Option<PathBuf> {
        let candidates = [
            self.named_folder(path),
            above(path, ".git"),
            through(path, "node_modules"),
            python(path),
        ];
        let mut candidates = candidates.into_iter().flatten();
        candidates.find(|unit| self.refusal(unit).is_none())
    }

    /// The widest folder of the arguments around `path`.
    fn named_folder(&self, path: &Path) -> Option<PathBuf> {
        let named = self.surroundings.named.iter();
        let around = named.filter(|named| path.starts_with(named) && named.is_dir());
        around
            .filter(|named| self.refusal(named).is_none())
            .min_by_key(|named| named.components().count())
            .cloned()
    }

    /// Puts folders in place of many entries, from the deepest on.
    fn gather(&mut self) {
        let mut depth = self.paths.keys().map(|path| names(path)).max().unwrap_or(0);
        while depth > LEAST_DEPTH {
            let mut entries: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
            for path in self.paths.keys().filter(|path| names(path) == depth) {
                if let Some(folder) = path.parent() {
                    entries
                        .entry(folder.to_owned())
                        .or_default()
                        .push(path.clone());
                }
            }
            for (folder, paths) in entries {
                let crowded = paths.len() > MOST_SIBLINGS && names(&folder) >= LEAST_DEPTH;
                if !crowded || self.refusal(&folder).is_some() {
                    continue;
                }
                // Not for writing: entries that are changed stay listed one by one.
                for path in &paths {
                    if self.paths.get(path) == Some(&FileAccess::Read) {
                        self.paths.remove(path);
                    }
                }
                self.paths.entry(folder).or_insert(FileAccess::Read);
            }
            depth -= 1;
        }
    }

    /// What is in a repository's `.git` makes git run commands, outside of the box, too.
    fn remark_on_repositories(&mut self) {
        for (path, access) in &self.paths {
            let in_one = path.components().any(|part| part.as_os_str() == ".git");
            if *access == FileAccess::Write && (in_one || path.join(".git").exists()) {
                self.learned.remark(format!(
                    "it can change the repository `{}`; git runs the hooks and settings of a repository with your rights",
                    path.display()
                ));
            }
        }
    }

    /// Drops what a folder grants, and what a link grants together with itself.
    fn drop_covered(&mut self) {
        let all = self.paths.clone();
        self.paths.retain(|path, access| {
            let by_folder = path
                .ancestors()
                .skip(1)
                .any(|above| all.get(above).is_some_and(|has| has >= access));
            !by_folder
        });
        let kept = self.paths.clone();
        let behind: BTreeSet<PathBuf> = kept
            .iter()
            .filter_map(|(path, access)| {
                let real = path.canonicalize().ok().filter(|real| real != path)?;
                (kept.get(&real)? <= access).then_some(real)
            })
            .collect();
        self.paths.retain(|path, _| !behind.contains(path));
    }
}

/// Whether the paths of a use are as the watcher reports them. The watched program can write to the report as well.
fn is_plain(one: &Use) -> bool {
    let (Use::Read(path) | Use::Write(path) | Use::Change(path)) = one else {
        return true;
    };
    let mut parts = path.components();
    path.is_absolute()
        && parts.all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
}

/// Whether a person sees a path in the file as it is, and callgate reads it as it is.
fn can_be_written(path: &Path) -> bool {
    path.to_str().is_some_and(|text| {
        let mut pieces = pieces(text, Layout::OneLine).into_iter();
        !text.contains("${") && pieces.all(|piece| matches!(piece, Piece::Plain(_)))
    })
}

/// The number of names in a path.
fn names(path: &Path) -> usize {
    path.components()
        .filter(|component| matches!(component, Component::Normal(_)))
        .count()
}

fn is_in_every_box(path: &Path) -> bool {
    let own = ["/proc", "/sys", "/dev/pts", "/dev/ptmx", "/dev/shm"];
    own.iter().any(|own| path.starts_with(own)) || is_system(path) || sandbox::is_own_device(path)
}

fn is_system(path: &Path) -> bool {
    sandbox::is_in_every_sandbox(path)
}

/// Whether it only saves the program some time.
fn is_cache(path: &Path) -> bool {
    path.components()
        .any(|component| component.as_os_str() == "__pycache__")
}

/// The folder above the entry with this name.
fn above(path: &Path, name: &str) -> Option<PathBuf> {
    let entry = path
        .ancestors()
        .filter(|above| above.file_name().is_some_and(|own| own == name))
        .last()?;
    entry.parent().map(Path::to_owned)
}

/// The path up to its first entry with this name.
fn through(path: &Path, name: &str) -> Option<PathBuf> {
    let entries = path.ancestors();
    let named = entries.filter(|above| above.file_name().is_some_and(|own| own == name));
    named.last().map(Path::to_owned)
}

/// The environment or installation of Python around a path.
fn python(path: &Path) -> Option<PathBuf> {
    let environment = path
        .ancestors()
        .find(|above| above.join("pyvenv.cfg").is_file());
    if let Some(environment) = environment {
        return Some(environment.to_owned());
    }
    let is_library = |folder: &&Path| {
        let name = folder.file_name().and_then(|name| name.to_str());
        let above = folder.parent().and_then(Path::file_name);
        name.is_some_and(|name| name.starts_with("python3"))
            && above.is_some_and(|lib| lib == "lib")
    };
    let library = path.ancestors().find(is_library)?;
    let prefix = library.parent()?.parent()?;
    match prefix.join("bin/python3").exists() {
        true => Some(prefix.to_owned()),
        false => Some(library.to_owned()),
    }
}

#[cfg(test)]
mod tests;
