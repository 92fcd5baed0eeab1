//! What a child process may touch: files, hosts and resources. On Linux the warden applies it before the command starts.
//!
//! The types here are the description. [`probe`] finds out what this machine can enforce of it; a child is started with what
//! it can, and each [`Gap`] is refused or reported.

mod gap;
pub(crate) mod handoff;
#[cfg(target_os = "linux")]
pub(crate) mod linux;
mod places;
mod probe;

pub use gap::{Enforced, GAP_PREFIX, Gap};
pub use probe::{Probe, probe};

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The restrictions of one child. A child without one has all rights of the gateway's user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    pub mode: Mode,
    pub namespaces: Namespaces,
    /// Paths besides the system's own programs and libraries. Everything else does not exist for the child.
    pub files: Vec<FileGrant>,
    /// Paths that stay out of reach even where a grant covers them, like the gateway's data folder.
    pub hidden: Vec<PathBuf>,
    pub network: Network,
}

impl Sandbox {
    /// A sandbox that grants nothing: no file besides the system's, no network.
    pub fn new(mode: Mode) -> Self {
        Self {
            mode,
            namespaces: Namespaces::WhereAllowed,
            files: Vec::new(),
            hidden: Vec::new(),
            network: Network::None,
        }
    }
}

/// Whether every sandbox has this path for reading: the system's programs, libraries and settings.
pub fn is_in_every_sandbox(path: &Path) -> bool {
    let mut places = places::FOLDERS
        .iter()
        .chain(&places::SETTINGS)
        .chain(&places::HOST_NAMES);
    places.any(|place| path.starts_with(place))
}

/// Whether every sandbox has this device.
pub fn is_own_device(path: &Path) -> bool {
    places::DEVICES
        .iter()
        .any(|device| path == Path::new(device))
}

/// The hosts that programs reach without the proxy where they have a loopback interface of their own.
pub const OWN_LOOPBACK: &str = "localhost,127.0.0.1,::1";

/// The variables that tell programs of the proxy at `authority`, and of the hosts that need none.
pub fn proxy_variables(authority: &str, without: &str) -> Vec<(String, String)> {
    let url = format!("http://{authority}");
    let mut variables = Vec::new();
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        variables.push((name.to_owned(), url.clone()));
        variables.push((name.to_lowercase(), url.clone()));
    }
    for name in ["NO_PROXY", "no_proxy"] {
        variables.push((name.to_owned(), without.to_owned()));
    }
    variables.push(("NODE_USE_ENV_PROXY".to_owned(), "1".to_owned()));
    variables
}

/// Whether the child gets user, mount, process, network, IPC and host-name namespaces of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Namespaces {
    /// Yes, where the kernel allows it.
    WhereAllowed,
    /// No: Landlock and seccomp alone restrict the child, as on a kernel without namespaces.
    Off,
}

/// What happens if the kernel cannot enforce a restriction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// The child is not started.
    Required,
    /// The child is started with the restrictions that the kernel enforces; the others are reported.
    BestEffort,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileGrant {
    /// An absolute path. A folder grants everything below it.
    pub path: PathBuf,
    pub access: FileAccess,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FileAccess {
    /// Reading and running.
    Read,
    /// Reading, running, changing, creating and removing.
    Write,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Network {
    /// No connection to anything.
    None,
    /// Connections through an egress proxy alone.
    Proxied(ProxiedNetwork),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxiedNetwork {
    /// The Unix socket on which the proxy listens, outside of the sandbox.
    pub socket: PathBuf,
    /// The proxy's loopback port and password, for a child without a network namespace.
    pub fallback: Option<LoopbackProxy>,
    /// Hosts that the child can also reach by their name or address, without knowing of the proxy.
    pub direct: Vec<HostPort>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopbackProxy {
    pub port: u16,
    /// The password for `Proxy-Authorization`: other programs of this machine reach the port as well.
    pub password: String,
}

/// One exact destination.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HostPort {
    /// A host name or an IP address.
    pub host: String,
    pub port: u16,
}
