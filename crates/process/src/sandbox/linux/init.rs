//! The first process of a sandbox's namespaces. It makes the sandbox, restricts itself, starts the command, relays its
//! connections and reaps orphans. When it ends, the kernel ends every process in the namespace.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use rustix::process::{DumpableBehavior, Pid, WaitOptions, wait};

use super::calls::Setting;
use super::files::Ports;
use super::relay::Relay;
use super::root::{Contents, Root};
use super::{SetupError, loopback, namespaces, restrict};
use crate::sandbox::handoff::{Handoff, Purpose};
use crate::sandbox::{Network, OWN_LOOPBACK, Sandbox};

/// Where the egress proxy's socket is inside.
const SOCKET: &str = "/.callgate/egress.sock";

/// The first kernel on which each process namespace has a limit of its own.
const OWN_LIMIT_SINCE: (u32, u32) = (6, 14);

pub(super) fn run(
    handoff: &Handoff,
    parent: u32,
    argv: &[OsString],
) -> Result<ExitCode, SetupError> {
    super::die_with_parent(parent)?;
    // Without a terminal: text typed into one would reach the person who started the gateway.
    let _ = rustix::process::setsid();
    let folder = std::env::current_dir().ok();
    let root = root(&handoff.sandbox)?;
    namespaces::enter_others()?;
    loopback::raise().map_err(SetupError::at("could not switch on the loopback interface"))?;
    let relay = relay(&handoff.sandbox.network)?;
    let rules = root.enter(&host_names(relay.as_ref()))?;
    let process_count = limit_processes();
    root.seal()?;
    go_to(folder.as_deref());
    let command = super::command(argv, environment(relay.as_ref())?)?;
    hide_this_process()?;
    let enforced = restrict::restrict(&rules, Ports::Any, Setting::OwnNamespaces, process_count)?;
    if handoff.purpose == Purpose::Probe {
        return super::report(enforced);
    }
    super::settle(handoff, enforced)?;
    start(command, relay)
}

fn root(sandbox: &Sandbox) -> Result<Root, SetupError> {
    let mut root = Root::with_system();
    root.scratch(Path::new("/tmp"));
    root.scratch(Path::new("/dev/shm"));
    if let Some(home) = super::folder_variable("HOME") {
        root.scratch(&home);
    }
    for grant in &sandbox.files {
        root.grant(grant)?;
    }
    root.keep_readable_in_place();
    for path in &sandbox.hidden {
        root.hide(path);
    }
    if let Network::Proxied(network) = &sandbox.network {
        root.socket(&network.socket, Path::new(SOCKET))?;
    }
    Ok(root)
}

fn relay(network: &Network) -> Result<Option<Relay>, SetupError> {
    match network {
        Network::None => Ok(None),
        Network::Proxied(network) => Relay::bind(network).map(Some).map_err(SetupError::at(
            "could not listen for connections of the command",
        )),
    }
}

/// The sandbox's own `/etc/hosts` and `/etc/resolv.conf`.
fn host_names(relay: Option<&Relay>) -> [(PathBuf, Contents); 2] {
    let own = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let mut hosts = format!(
        "127.0.0.1 localhost {own}\n::1 localhost\n",
        own = own.trim()
    );
    for (address, name) in relay.map(Relay::names).unwrap_or_default() {
        hosts.push_str(&format!("{address} {name}\n"));
    }
    let resolver = "# Names are resolved by the egress proxy.\n".to_owned();
    [
        (PathBuf::from("/etc/hosts"), Contents::Text(hosts)),
        (PathBuf::from("/etc/resolv.conf"), Contents::Text(resolver)),
    ]
}

/// Whether the number of processes is limited.
///
/// The resource limit does not hold for root. On older kernels this file is that of the whole system and stays untouched.
fn limit_processes() -> bool {
    let not_root = !rustix::process::geteuid().is_root();
    let version = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
        return not_root;
    };
    let limited = (major, minor) >= OWN_LIMIT_SINCE
        && fs::write("/proc/sys/kernel/pid_max", restrict::PROCESSES.to_string()).is_ok();
    limited || not_root
}

/// The command's working folder, or, if it was not granted, the sandbox's own folder for temporary files.
fn go_to(folder: Option<&Path>) {
    let granted = folder.is_some_and(|folder| rustix::process::chdir(folder).is_ok());
    if !granted {
        // Exists: this process has made it.
        let _ = rustix::process::chdir("/tmp");
    }
}

fn environment(relay: Option<&Relay>) -> Result<Vec<(String, OsString)>, SetupError> {
    let mut variables = Vec::new();
    // Programs would fail in a folder that does not exist inside.
    if super::folder_variable("TMPDIR").is_some_and(|folder| !folder.is_dir()) {
        variables.push(("TMPDIR".to_owned(), OsString::from("/tmp")));
    }
    if let Some(relay) = relay {
        let port = relay.port().map_err(SetupError::at(
            "could not listen for connections of the command",
        ))?;
        let authority = format!("127.0.0.1:{port}");
        variables.extend(super::proxy_variables(&authority, OWN_LOOPBACK));
    }
    Ok(variables)
}

/// Keeps the command from reading this process' environment, program and descriptors under `/proc/1`.
fn hide_this_process() -> Result<(), SetupError> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|errno| SetupError::at("could not hide the sandbox's first process")(errno.into()))
}

fn start(mut command: Command, relay: Option<Relay>) -> Result<ExitCode, SetupError> {
    if let Some(relay) = relay {
        relay
            .run(Path::new(SOCKET))
            .map_err(SetupError::at("could not serve connections of the command"))?;
    }
    let child = command
        .process_group(0)
        .spawn()
        .map_err(|error| SetupError::NotStarted {
            reason: crate::warden::reason(&error),
        })?;
    let child = super::pid_of(&child).ok_or(SetupError::ParentGone)?;
    crate::warden::release_pipes_and_folder()
        .map_err(SetupError::at("could not release the command's pipes"))?;
    Ok(reap_until(child))
}

fn reap_until(child: Pid) -> ExitCode {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == child => {
                return crate::warden::exit_code(Some(status));
            }
            Ok(Some(_) | None) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return crate::warden::exit_code(None),
        }
    }
}
