//! Where file tools may go. A path is looked up by its real place, and then opened relative to the
//! root's descriptor, where nothing leads out: looking first and opening by name afterwards would
//! leave a moment in which a link could be swapped in.

#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::{
    ffi::OsStr,
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};
#[cfg(target_os = "macos")]
use std::{ffi::OsString, os::unix::ffi::OsStringExt};

use callgate_call::{is_another_name, real_path};
use callgate_gate::{Protected, RealPath};
use cap_std::{ambient_authority, fs::Dir};

use crate::arguments::AskedPath;

/// Longest path that is looked at.
const MAX_PATH_BYTES: usize = 4096;

/// The folders that file tools may use. Relative paths start from the first.
#[derive(Debug, Clone)]
pub struct Roots {
    all: Arc<Vec<Root>>,
    /// What no tool may use, though it lies in a root.
    protected: Arc<Protected>,
}

#[derive(Debug)]
pub(crate) struct Root {
    /// Where it really is.
    path: PathBuf,
    pub(crate) dir: Dir,
}

/// A root cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// There must be one, for relative paths to start from.
    #[error("there must be at least one root")]
    None,
    /// It is no folder that can be opened.
    #[error("root `{}`: {error}", .folder.display())]
    Unusable {
        /// The folder.
        folder: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

/// Why a path is not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error("`{path}` is outside of {roots}; `builtins.roots` in callgate.yaml adds folders")]
    Outside { path: String, roots: String },
    #[error(
        "`{0}` is part of what governs this gateway, and the built-in tools do not use it; change it by hand"
    )]
    Protected(String),
    #[error("the path is empty")]
    Empty,
    #[error("the path contains a NUL")]
    Nul,
    #[error("the path is longer than {MAX_PATH_BYTES} bytes")]
    TooLong,
    #[error("`{path}`: {error}")]
    System { path: String, error: io::Error },
}

/// A place inside a root.
#[derive(Debug)]
pub(crate) struct Place<'r> {
    pub(crate) root: &'r Root,
    /// Relative to the root, `.` for the root itself.
    pub(crate) inside: PathBuf,
    /// As it was asked for.
    asked: String,
    pub(crate) roots: &'r Roots,
}

impl Roots {
    /// Opens the folders.
    pub fn open(folders: impl IntoIterator<Item = PathBuf>) -> Result<Self, RootError> {
        let open = |folder: PathBuf| {
            let opened = folder.canonicalize().and_then(|path| {
                let dir = Dir::open_ambient_dir(&path, ambient_authority())?;
                Ok(Root { path, dir })
            });
            opened.map_err(|error| RootError::Unusable { folder, error })
        };
        let roots = folders.into_iter().map(open);
        let roots: Vec<Root> = roots.collect::<Result<_, _>>()?;
        if roots.is_empty() {
            return Err(RootError::None);
        }
        Ok(Self {
            all: Arc::new(roots),
            protected: Arc::default(),
        })
    }

    /// The same, without what governs the gateway.
    pub fn without(mut self, protected: Arc<Protected>) -> Self {
        self.protected = protected;
        self
    }

    /// Whether a path, links resolved, is one that no tool may use.
    pub(crate) fn protects(&self, real: &Path) -> bool {
        self.protected.covers(&real.to_string_lossy())
    }

    /// Whether an open file is one that no tool may use: by where it is at this moment, and by what it is, whatever
    /// name it was opened by.
    pub(crate) fn protects_file(&self, file: &File) -> bool {
        if self.protected.is_empty() {
            return false;
        }
        let is_there = place_of(file).is_some_and(|place| self.protects(&place));
        is_there
            || file
                .metadata()
                .is_ok_and(|data| is_another_name(&data, &self.protected))
    }

    /// The same of a name in an open folder.
    pub(crate) fn protects_in(&self, folder: &File, name: &OsStr) -> bool {
        place_of(folder).is_some_and(|place| self.protects(&place.join(name)))
    }

    /// The folder that relative paths start from.
    pub fn first(&self) -> &Path {
        &self.all[0].path
    }

    /// Where a path is, if that is inside a root. What is opened there has to be opened through the
    /// root: this is only where it was a moment ago.
    pub(crate) fn place(&self, path: &AskedPath<'_>) -> Result<Place<'_>, Refused> {
        let path = path.as_str();
        if path.is_empty() {
            return Err(Refused::Empty);
        }
        if path.contains('\0') {
            return Err(Refused::Nul);
        }
        if path.len() > MAX_PATH_BYTES {
            return Err(Refused::TooLong);
        }
        // Policy takes `~` for the home folder; a folder of that name here would be another one.
        if path.starts_with('~') {
            return Err(self.outside(path));
        }
        let whole = self.first().join(path);
        let whole = whole.to_str().ok_or_else(|| self.outside(path))?;
        let RealPath::At(real) = real_path(whole) else {
            return Err(self.outside(path));
        };
        let inside = |root: &Root| Some(Path::new(&real).strip_prefix(&root.path).ok()?.to_owned());
        let found = self.all.iter().find_map(|root| Some((root, inside(root)?)));
        let (root, inside) = found.ok_or_else(|| self.outside(path))?;
        if self.protects(Path::new(&real)) {
            return Err(Refused::Protected(path.to_owned()));
        }
        let inside = if inside.as_os_str().is_empty() {
            PathBuf::from(".")
        } else {
            inside
        };
        Ok(Place {
            root,
            inside,
            asked: path.to_owned(),
            roots: self,
        })
    }

    /// A path as it is told to the model: relative to where relative paths start, where it is there.
    pub(crate) fn shown(&self, path: &Path) -> String {
        let short = path.strip_prefix(self.first()).unwrap_or(path);
        short.display().to_string()
    }

    fn outside(&self, path: &str) -> Refused {
        let name = |root: &Root| format!("`{}`", root.path.display());
        let names: Vec<String> = self.all.iter().map(name).collect();
        let roots = match names.as_slice() {
            [only] => format!("the root {only}"),
            several => format!("the roots {}", several.join(", ")),
        };
        Refused::Outside {
            path: path.to_owned(),
            roots,
        }
    }
}

impl Place<'_> {
    /// Where it is, for those who need a name. Opening it by this name is not confined.
    pub(crate) fn whole(&self) -> PathBuf {
        if self.inside == Path::new(".") {
            return self.root.path.clone();
        }
        self.root.path.join(&self.inside)
    }

    /// As it was asked for.
    pub(crate) fn asked(&self) -> &str {
        &self.asked
    }

    /// A file that was opened here, unless no tool may use it.
    pub(crate) fn checked(&self, file: File) -> Result<File, Refused> {
        match self.roots.protects_file(&file) {
            true => Err(Refused::Protected(self.asked.clone())),
            false => Ok(file),
        }
    }

    /// What the system said, as the model is told. Led outside is outside, however it came to that.
    pub(crate) fn failed(&self, error: io::Error) -> Refused {
        if is_escape(&error) {
            return self.roots.outside(&self.asked);
        }
        Refused::System {
            path: self.asked.clone(),
            error,
        }
    }
}

/// Where an open file is.
fn place_of(file: &File) -> Option<PathBuf> {
    #[cfg(target_os = "linux")]
    let place = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok();
    #[cfg(target_os = "macos")]
    let place = rustix::fs::getpath(file)
        .ok()
        .map(|path| PathBuf::from(OsString::from_vec(path.into_bytes())));
    place
}

/// A path that led out of its root: the system's own word for it, or that of the fallback for systems
/// that cannot tell.
fn is_escape(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::XDEV.raw_os_error())
        || (error.raw_os_error().is_none() && error.kind() == io::ErrorKind::PermissionDenied)
}
