//! Confinement of file tools. A path is resolved first, and then opened relative to the root's descriptor,
//! which no path can leave. Checking the path and opening it by name would be a race: a symlink could be
//! swapped in between.

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

use crate::arguments::RequestedPath;

/// Longer paths are refused.
const MAX_PATH_BYTES: usize = 4096;

/// The folders that file tools may access. Relative paths start from the first.
#[derive(Debug, Clone)]
pub struct Roots {
    all: Arc<Vec<Root>>,
    /// Paths that no tool may access even inside a root: the gateway's own configuration and data.
    protected: Arc<Protected>,
}

#[derive(Debug)]
pub(crate) struct Root {
    /// With symlinks resolved.
    path: PathBuf,
    pub(crate) dir: Dir,
}

#[derive(Debug, thiserror::Error)]
pub enum RootError {
    #[error("there must be at least one root")]
    None,
    #[error("root `{}`: {error}", .folder.display())]
    Unusable { folder: PathBuf, error: io::Error },
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PathRefused {
    #[error("`{path}` is outside of {roots}; `builtins.roots` in callgate.yaml adds folders")]
    Outside { path: String, roots: String },
    #[error(
        "`{0}` governs this gateway (configuration, policy or data), so the built-in tools cannot use it; edit it by hand"
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

/// A path that resolved to a location inside a root.
#[derive(Debug)]
pub(crate) struct RootedPath<'r> {
    pub(crate) root: &'r Root,
    /// Relative to the root, `.` for the root itself.
    pub(crate) inside: PathBuf,
    /// As the model wrote it, for messages.
    requested: String,
    pub(crate) roots: &'r Roots,
}

impl Roots {
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

    /// The same roots without the protected paths.
    pub fn without(mut self, protected: Arc<Protected>) -> Self {
        self.protected = protected;
        self
    }

    /// Whether a path, with symlinks resolved, is protected.
    pub(crate) fn protects(&self, real: &Path) -> bool {
        self.protected.covers(&real.to_string_lossy())
    }

    /// Whether an open file is protected: by its current path, and by its inode, because a hard link has another
    /// path.
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

    /// Whether a name in an open folder is protected.
    pub(crate) fn protects_in(&self, folder: &File, name: &OsStr) -> bool {
        place_of(folder).is_some_and(|place| self.protects(&place.join(name)))
    }

    /// The folder that relative paths start from.
    pub fn first(&self) -> &Path {
        &self.all[0].path
    }

    /// Resolves a path and checks that it is inside a root. The result can be stale at once: open it only through
    /// the root's descriptor.
    pub(crate) fn place(&self, path: &RequestedPath<'_>) -> Result<RootedPath<'_>, PathRefused> {
        let path = path.as_str();
        if path.is_empty() {
            return Err(PathRefused::Empty);
        }
        if path.contains('\0') {
            return Err(PathRefused::Nul);
        }
        if path.len() > MAX_PATH_BYTES {
            return Err(PathRefused::TooLong);
        }
        // Policy reads `~` as the home folder. Opening a folder named `~` instead would open a path that policy
        // did not judge.
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
            return Err(PathRefused::Protected(path.to_owned()));
        }
        let inside = if inside.as_os_str().is_empty() {
            PathBuf::from(".")
        } else {
            inside
        };
        Ok(RootedPath {
            root,
            inside,
            requested: path.to_owned(),
            roots: self,
        })
    }

    /// A path for the model: relative to the first root if it is inside of it.
    pub(crate) fn shown(&self, path: &Path) -> String {
        let short = path.strip_prefix(self.first()).unwrap_or(path);
        short.display().to_string()
    }

    fn outside(&self, path: &str) -> PathRefused {
        let name = |root: &Root| format!("`{}`", root.path.display());
        let names: Vec<String> = self.all.iter().map(name).collect();
        let roots = match names.as_slice() {
            [only] => format!("the root {only}"),
            several => format!("the roots {}", several.join(", ")),
        };
        PathRefused::Outside {
            path: path.to_owned(),
            roots,
        }
    }
}

impl RootedPath<'_> {
    /// The absolute path, for processes that need one. Opening it by this name is not confined.
    pub(crate) fn whole(&self) -> PathBuf {
        if self.inside == Path::new(".") {
            return self.root.path.clone();
        }
        self.root.path.join(&self.inside)
    }

    /// As the model wrote it, for messages.
    pub(crate) fn as_requested(&self) -> &str {
        &self.requested
    }

    /// Refuses an opened file that is protected. Checked after opening: before, a symlink could still be swapped in.
    pub(crate) fn checked(&self, file: File) -> Result<File, PathRefused> {
        match self.roots.protects_file(&file) {
            true => Err(PathRefused::Protected(self.requested.clone())),
            false => Ok(file),
        }
    }

    /// An I/O error for the model. An escape reads like any path outside of the roots.
    pub(crate) fn failed(&self, error: io::Error) -> PathRefused {
        if is_escape(&error) {
            return self.roots.outside(&self.requested);
        }
        PathRefused::System {
            path: self.requested.clone(),
            error,
        }
    }
}

/// The current path of an open file.
fn place_of(file: &File) -> Option<PathBuf> {
    #[cfg(target_os = "linux")]
    let place = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok();
    #[cfg(target_os = "macos")]
    let place = rustix::fs::getpath(file)
        .ok()
        .map(|path| PathBuf::from(OsString::from_vec(path.into_bytes())));
    place
}

/// Whether a path led out of its root: `EXDEV` from `openat2`, or cap-std's own error where its fallback is used.
fn is_escape(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::XDEV.raw_os_error())
        || (error.raw_os_error().is_none() && error.kind() == io::ErrorKind::PermissionDenied)
}
