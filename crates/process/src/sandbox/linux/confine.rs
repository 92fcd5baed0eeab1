//! The sandbox without namespaces: this process restricts itself and becomes the command.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::calls::{Attributes, Internet, Setting};
use super::files::{Ports, Right, Rule};
use super::{SetupError, restrict};
use crate::sandbox::handoff::{Handoff, Purpose};
use crate::sandbox::{FileAccess, Mode, Network, Sandbox, places};

/// Returns only if the command was not started.
pub(super) fn run(
    handoff: &Handoff,
    parent: u32,
    argv: &[OsString],
) -> Result<ExitCode, SetupError> {
    super::die_with_parent(parent)?;
    // Without a terminal: text typed into one would reach the person who started the gateway.
    let _ = rustix::process::setsid();
    let sandbox = &handoff.sandbox;
    let grants = Grants::new(sandbox)?;
    let environment = environment(handoff, &grants);
    let rules = rules(&grants, handoff.scratch.as_deref());
    let port = fallback_port(&sandbox.network);
    let setting = Setting::Shared {
        internet: match port {
            Some(_) => Internet::Tcp,
            None => Internet::Closed,
        },
        attributes: match sandbox.mode {
            Mode::Required => Attributes::Refused,
            Mode::BestEffort => Attributes::Allowed,
        },
    };
    let mut command = super::command(argv, environment)?;
    let enforced = restrict::restrict(&rules, Ports::Only(port), setting, false)?;
    if handoff.purpose == Purpose::Probe {
        return super::report(enforced);
    }
    super::settle(handoff, enforced)?;
    Err(SetupError::NotStarted {
        reason: crate::warden::reason(&command.exec()),
    })
}

fn fallback_port(network: &Network) -> Option<u16> {
    match network {
        Network::None => None,
        Network::Proxied(network) => network.fallback.as_ref().map(|proxy| proxy.port),
    }
}

/// The granted paths, without the hidden ones in them.
struct Grants(Vec<(PathBuf, FileAccess)>);

impl Grants {
    fn new(sandbox: &Sandbox) -> Result<Self, SetupError> {
        let hidden: Vec<PathBuf> = sandbox
            .hidden
            .iter()
            .filter_map(|path| path.canonicalize().ok())
            .collect();
        let mut listed = Vec::new();
        for grant in &sandbox.files {
            listed.push((super::real(&grant.path)?, grant.access));
        }
        let mut grants = Vec::new();
        for (path, access) in &listed {
            let pieces = around(path, &apart(path, *access, &listed, &hidden)).map_err(
                SetupError::at(format!("could not list `{}`", path.display())),
            )?;
            grants.extend(pieces.into_iter().map(|piece| (piece, *access)));
        }
        Ok(Self(grants))
    }

    fn cover(&self, path: &Path, access: FileAccess) -> bool {
        self.0
            .iter()
            .any(|(granted, has)| *has >= access && path.starts_with(granted))
    }
}

/// The paths below a grant of `path` that this grant must not cover: hidden ones, and those that are granted with less.
fn apart(
    path: &Path,
    access: FileAccess,
    listed: &[(PathBuf, FileAccess)],
    hidden: &[PathBuf],
) -> Vec<PathBuf> {
    let with_less = listed.iter().filter(|(other, has)| {
        let has_more = listed
            .iter()
            .any(|(same, more)| same == other && more > has);
        *has < access && other != path && !has_more
    });
    let with_less = with_less.map(|(other, _)| other);
    hidden.iter().chain(with_less).cloned().collect()
}

/// `path`, or what is in it besides the paths of `apart`: Landlock cannot take away again what a rule allows.
fn around(path: &Path, apart: &[PathBuf]) -> std::io::Result<Vec<PathBuf>> {
    if apart.iter().any(|apart| apart == path) {
        return Ok(Vec::new());
    }
    if !apart.iter().any(|apart| apart.starts_with(path)) {
        return Ok(vec![path.to_owned()]);
    }
    let mut pieces = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        // A link grants its target, which may be elsewhere.
        if !entry.file_type()?.is_symlink() {
            pieces.extend(around(&entry.path(), apart)?);
        }
    }
    Ok(pieces)
}

fn rules(grants: &Grants, scratch: Option<&Path>) -> Vec<Rule> {
    let read = places::FOLDERS
        .iter()
        .chain(&places::SETTINGS)
        .chain(&places::HOST_NAMES)
        .chain(&places::PROC)
        .map(|path| (Path::new(path).to_owned(), Right::Files(FileAccess::Read)));
    let devices = places::DEVICES
        .iter()
        .map(|path| (Path::new(path).to_owned(), Right::Devices));
    let granted = grants
        .0
        .iter()
        .map(|(path, access)| (path.clone(), Right::Files(*access)));
    let scratch = scratch.map(|path| (path.to_owned(), Right::Files(FileAccess::Write)));
    read.chain(devices)
        .chain(granted)
        .chain(scratch)
        .map(|(path, right)| Rule { path, right })
        .collect()
}

/// The proxy, and the private folder for temporary files and, unless it is granted, as home.
fn environment(handoff: &Handoff, grants: &Grants) -> Vec<(String, OsString)> {
    let mut variables = Vec::new();
    if let Some(scratch) = &handoff.scratch {
        let set = |name: &str, access| {
            let has = super::folder_variable(name);
            let granted = has.is_some_and(|path| grants.cover(&path, access));
            (!granted).then(|| (name.to_owned(), scratch.clone().into_os_string()))
        };
        variables.extend(set("TMPDIR", FileAccess::Write));
        variables.extend(set("HOME", FileAccess::Read));
    }
    if let Network::Proxied(network) = &handoff.sandbox.network
        && let Some(proxy) = &network.fallback
    {
        let authority = format!("callgate:{}@127.0.0.1:{}", proxy.password, proxy.port);
        // No program can listen on loopback here, so nothing there is reached without the proxy.
        variables.extend(super::proxy_variables(&authority, ""));
    }
    variables
}
