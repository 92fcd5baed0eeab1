//! The root folder of a sandbox: an empty file system in memory into which the granted paths are mounted.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount_change, mount_remount, unmount,
};

use super::SetupError;
use super::files::{Right, Rule};
use super::making::{bind, file_system, make_file, make_folder, make_parent};
use super::mounts::Mounts;
use crate::sandbox::{FileAccess, FileGrant, places};

/// Where the system's own root folder is while the new one is filled.
const OLD: &str = "/.old";

/// Folders of which one is there on every system, to mount the new root on.
const BASES: [&str; 4] = ["/tmp", "/run", "/mnt", "/var"];

/// The sandbox's own text files; each is mounted to its place, which may be in a granted folder.
const OWN_FILES: &str = "/.callgate";

const ROOT_OPTIONS: &CStr = c"mode=755,size=16m";

/// A folder for temporary files, in memory.
const SCRATCH_OPTIONS: &CStr = c"mode=1777,size=1g";

const HIDDEN_OPTIONS: &CStr = c"mode=755,size=64k";

/// Parts of `/proc` that configure the kernel. Root could write some of them without any capability.
const KERNEL_SETTINGS: [&str; 7] = [
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/irq",
    "/proc/bus",
    "/proc/fs",
    "/proc/acpi",
    "/proc/scsi",
];

/// What is at one path of a sandbox.
#[derive(Debug, Clone)]
pub(super) enum Contents {
    /// A file or folder of the system.
    Granted {
        source: PathBuf,
        access: FileAccess,
    },
    Device,
    Link(PathBuf),
    /// A granted path as it was written, which leads through links to this one.
    Alias(PathBuf),
    /// An empty folder of the sandbox's own.
    Scratch,
    /// Nothing, in place of what a granted folder has there.
    Hidden,
    Text(String),
    Socket(PathBuf),
}

/// The contents of a sandbox by path; a path comes after those above it.
#[derive(Debug)]
pub(super) struct Root {
    contents: BTreeMap<PathBuf, Contents>,
}

impl Root {
    /// The system's programs, libraries and devices.
    pub(super) fn with_system() -> Self {
        let mut root = Self {
            contents: BTreeMap::new(),
        };
        for path in places::FOLDERS.iter().chain(&places::SETTINGS) {
            root.system(Path::new(path));
        }
        for device in places::DEVICES {
            if Path::new(device).exists() {
                root.contents.insert(device.into(), Contents::Device);
            }
        }
        for (link, target) in [
            ("/dev/fd", "/proc/self/fd"),
            ("/dev/stdin", "/proc/self/fd/0"),
            ("/dev/stdout", "/proc/self/fd/1"),
            ("/dev/stderr", "/proc/self/fd/2"),
            ("/dev/ptmx", "pts/ptmx"),
            ("/var/tmp", "/tmp"),
        ] {
            root.contents
                .insert(link.into(), Contents::Link(target.into()));
        }
        root
    }

    fn system(&mut self, path: &Path) {
        let contents = match fs::read_link(path) {
            Ok(target) => Contents::Link(target),
            // The kernel says this of what is there and not a link.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Contents::Granted {
                source: path.to_owned(),
                access: FileAccess::Read,
            },
            Err(_) => return,
        };
        self.contents.insert(path.to_owned(), contents);
    }

    /// An empty folder that the command can write to.
    pub(super) fn scratch(&mut self, path: &Path) {
        self.contents
            .entry(path.to_owned())
            .or_insert(Contents::Scratch);
    }

    pub(super) fn grant(&mut self, grant: &FileGrant) -> Result<(), SetupError> {
        let source = super::real(&grant.path)?;
        if source.parent().is_none() {
            return self.grant_all(grant.access);
        }
        // Programs look for it under the path they know, which may lead through links. It is a link inside, too: mounted a
        // second time, it would show what is hidden in it.
        if source != grant.path {
            let alias = Contents::Alias(source.clone());
            self.contents.entry(grant.path.clone()).or_insert(alias);
        }
        self.contents.insert(
            source.clone(),
            Contents::Granted {
                source,
                access: grant.access,
            },
        );
        Ok(())
    }

    /// Everything in `/` but what a sandbox has of its own.
    fn grant_all(&mut self, access: FileAccess) -> Result<(), SetupError> {
        let entries = fs::read_dir("/").map_err(SetupError::at("could not list `/`"))?;
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let own = ["/proc", "/sys", "/dev", "/tmp"]
                .iter()
                .any(|own| path == Path::new(own));
            if !own && !path.is_symlink() {
                self.grant(&FileGrant { path, access })?;
            }
        }
        Ok(())
    }

    pub(super) fn hide(&mut self, path: &Path) {
        // A path that does not exist cannot be reached either.
        let Ok(path) = path.canonicalize() else {
            return;
        };
        self.keep_in_place(&path);
        self.contents.insert(path, Contents::Hidden);
    }

    /// Keeps the command from moving away what is granted for reading in a folder that it may change.
    pub(super) fn keep_readable_in_place(&mut self) {
        let readable = self
            .contents
            .iter()
            .filter_map(|(path, contents)| match contents {
                Contents::Granted {
                    access: FileAccess::Read,
                    ..
                } => Some(path.clone()),
                _ => None,
            });
        for path in readable.collect::<Vec<_>>() {
            self.keep_in_place(&path);
        }
    }

    /// The command could rename a folder on the way to `path`, and at the next start the path would lead elsewhere. A mount
    /// point cannot be renamed.
    fn keep_in_place(&mut self, path: &Path) {
        let above = path.ancestors().skip(1);
        let on_the_way = above.take_while(|above| !self.contents.contains_key(*above));
        let on_the_way: Vec<PathBuf> = on_the_way.map(Path::to_owned).collect();
        let covering = path
            .ancestors()
            .skip(1)
            .find_map(|above| self.contents.get(above));
        if let Some(Contents::Granted {
            access: FileAccess::Write,
            ..
        }) = covering
        {
            for source in on_the_way {
                let access = FileAccess::Write;
                self.contents
                    .insert(source.clone(), Contents::Granted { source, access });
            }
        }
    }

    pub(super) fn socket(&mut self, source: &Path, target: &Path) -> Result<(), SetupError> {
        let source = super::real(source)?;
        self.contents
            .insert(target.to_owned(), Contents::Socket(source));
        Ok(())
    }

    /// Makes this the root folder of the process, still without write protection. Returns what Landlock allows in it.
    pub(super) fn enter(&self, more: &[(PathBuf, Contents)]) -> Result<Vec<Rule>, SetupError> {
        enter_empty().map_err(SetupError::at("could not make a root folder"))?;
        let more = more.iter().map(|(path, contents)| (path, contents));
        let (aliases, mounts): (Vec<_>, Vec<_>) = self
            .contents
            .iter()
            .chain(more)
            .partition(|(_, contents)| matches!(contents, Contents::Alias(_)));
        // Links last: a folder that is made through one would be made in a granted folder.
        for (path, contents) in mounts.into_iter().chain(aliases) {
            self.place(path, contents).map_err(SetupError::at(format!(
                "could not mount `{}`",
                path.display()
            )))?;
        }
        fs::create_dir_all("/dev/pts")
            .and_then(|()| file_system("devpts", "/dev/pts", c"newinstance,ptmxmode=0666,mode=620"))
            .map_err(SetupError::at("could not mount `/dev/pts`"))?;
        fs::create_dir_all("/proc")
            .and_then(|()| file_system("proc", "/proc", c""))
            .map_err(SetupError::at("could not mount `/proc`"))?;
        Ok(self.rules())
    }

    fn rules(&self) -> Vec<Rule> {
        let mut rules = vec![
            Rule {
                path: "/".into(),
                right: Right::Files(FileAccess::Read),
            },
            Rule {
                path: "/dev".into(),
                right: Right::Devices,
            },
        ];
        for (path, contents) in &self.contents {
            let writable = match contents {
                Contents::Granted { access, .. } => *access == FileAccess::Write,
                Contents::Scratch | Contents::Socket(_) => true,
                Contents::Device
                | Contents::Link(_)
                | Contents::Alias(_)
                | Contents::Hidden
                | Contents::Text(_) => false,
            };
            if writable {
                rules.push(Rule {
                    path: path.clone(),
                    right: Right::Files(FileAccess::Write),
                });
            }
        }
        rules
    }

    fn place(&self, path: &Path, contents: &Contents) -> io::Result<()> {
        match contents {
            // The granted folder has its own, or does without.
            Contents::Link(_) if self.in_granted(path) => {}
            Contents::Link(target) => {
                symlink(target, path)
                    .or_else(|_| make_parent(path).and_then(|()| symlink(target, path)))?;
            }
            Contents::Alias(target) => self.place_alias(path, target)?,
            Contents::Granted { source, .. } | Contents::Socket(source) => {
                let source = in_old(source);
                if self.point(path, source.is_dir())? {
                    bind(&source, path)?;
                }
            }
            Contents::Device => {
                if self.point(path, false)? {
                    bind(&in_old(path), path)?;
                }
            }
            Contents::Scratch => {
                if self.point(path, true)? {
                    file_system("tmpfs", path, SCRATCH_OPTIONS)?;
                }
            }
            Contents::Hidden if path.is_dir() => file_system("tmpfs", path, HIDDEN_OPTIONS)?,
            Contents::Hidden if path.exists() => bind(&in_old(Path::new("/dev/null")), path)?,
            // Nothing covers it.
            Contents::Hidden => {}
            Contents::Text(text) => self.place_text(path, text)?,
        }
        Ok(())
    }

    /// Nothing is made where the path leads into a granted folder: it has the link already.
    fn place_alias(&self, path: &Path, target: &Path) -> io::Result<()> {
        let there = path
            .ancestors()
            .find(|above| above.symlink_metadata().is_ok());
        let Some(real) = there.and_then(|above| above.canonicalize().ok()) else {
            return Ok(());
        };
        if there == Some(path) || self.in_granted(&real.join("new")) {
            return Ok(());
        }
        make_parent(path)?;
        symlink(target, path)
    }

    fn place_text(&self, path: &Path, text: &str) -> io::Result<()> {
        let name = path.file_name().unwrap_or(path.as_os_str());
        let own = Path::new(OWN_FILES).join(name);
        make_parent(&own)?;
        fs::write(&own, text)?;
        if self.point(path, false)? {
            bind(&own, path)?;
        }
        Ok(())
    }

    /// Makes something to mount on; `false` if there is no place for it.
    ///
    /// In a granted folder nothing is made, because that would change the system's own folder.
    fn point(&self, path: &Path, folder: bool) -> io::Result<bool> {
        if self.in_granted(path) {
            return Ok(path.exists() && path.is_dir() == folder);
        }
        if folder {
            make_folder(path)?;
        } else {
            make_file(path)?;
        }
        Ok(true)
    }

    /// Whether the nearest contents above `path` are a granted folder.
    fn in_granted(&self, path: &Path) -> bool {
        let above = path
            .ancestors()
            .skip(1)
            .find_map(|above| self.contents.get(above));
        matches!(above, Some(Contents::Granted { .. }))
    }

    /// Write-protects everything that is not granted for writing and lets go of the system's own root folder.
    pub(super) fn seal(&self) -> Result<(), SetupError> {
        let at =
            |path: &Path| SetupError::at(format!("could not write-protect `{}`", path.display()));
        for path in KERNEL_SETTINGS
            .iter()
            .map(Path::new)
            .filter(|path| path.exists())
        {
            bind(path, path).map_err(at(path))?;
        }
        unmount(OLD, UnmountFlags::DETACH)
            .map_err(io::Error::from)
            .and_then(|()| fs::remove_dir(OLD))
            .map_err(SetupError::at(
                "could not let go of the system's root folder",
            ))?;
        let mounts = Mounts::read().map_err(SetupError::at("could not list the mounts"))?;
        for (path, has) in mounts.iter() {
            if let Some(wanted) = self.wanted(path) {
                mount_remount(path, MountFlags::BIND | has | wanted, "")
                    .map_err(|errno| at(path)(errno.into()))?;
            }
        }
        Ok(())
    }

    /// The flags of the mount at `path`.
    fn wanted(&self, path: &Path) -> Option<MountFlags> {
        let protected = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
        if path.starts_with("/proc") {
            return (path != Path::new("/proc")).then_some(protected);
        }
        if path.starts_with("/dev/pts") {
            return None;
        }
        match path.ancestors().find_map(|above| self.contents.get(above)) {
            Some(Contents::Granted {
                access: FileAccess::Write,
                ..
            }) => Some(MountFlags::NOSUID | MountFlags::NODEV),
            // Mounted with its flags.
            Some(Contents::Scratch) => None,
            Some(Contents::Device) => Some(MountFlags::NOSUID | MountFlags::NOEXEC),
            Some(Contents::Socket(_)) => Some(MountFlags::NOSUID | MountFlags::NODEV),
            Some(
                Contents::Granted {
                    access: FileAccess::Read,
                    ..
                }
                | Contents::Hidden
                | Contents::Link(_)
                | Contents::Alias(_)
                | Contents::Text(_),
            )
            | None => Some(protected),
        }
    }
}

/// Makes an empty file system the root folder, with the system's own at [`OLD`].
fn enter_empty() -> io::Result<()> {
    // No mount made here is to appear outside.
    mount_change(
        "/",
        MountPropagationFlags::REC | MountPropagationFlags::PRIVATE,
    )?;
    let base = BASES
        .iter()
        .map(Path::new)
        .find(|base| base.is_dir())
        .ok_or(io::ErrorKind::NotFound)?;
    file_system("tmpfs", base, ROOT_OPTIONS)?;
    rustix::process::chdir(base)?;
    fs::create_dir(".old")?;
    rustix::process::pivot_root(".", ".old")?;
    rustix::process::chdir("/")?;
    Ok(())
}

fn in_old(path: &Path) -> PathBuf {
    Path::new(OLD).join(path.strip_prefix("/").unwrap_or(path))
}
