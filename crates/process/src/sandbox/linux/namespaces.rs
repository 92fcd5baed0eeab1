//! The namespaces of a sandbox: made by the warden (user, process ids) and by the first process in them (the others).

use std::fs;
use std::io;

use rustix::process::{getegid, geteuid};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags};

use super::SetupError;

/// What the first process of a sandbox needs to set it up. A program that is run by another user than root would lose all
/// capabilities at its start if they were not ambient.
const FOR_SETUP: CapabilitySet = CapabilitySet::SYS_ADMIN
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SETPCAP);

/// Puts this process into a user namespace of its own; its next child starts a process namespace.
pub(super) fn enter_user_namespace() -> Result<(), SetupError> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    unshare(
        UnshareFlags::NEWUSER | UnshareFlags::NEWPID,
        "user namespace",
    )?;
    // Without `deny`, only root may map a group.
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/gid_map", &format!("{group} {group} 1"))?;
    write("/proc/self/uid_map", &format!("{user} {user} 1"))?;
    keep_for_child().map_err(SetupError::at(
        "could not keep the capabilities for setting up the sandbox",
    ))
}

/// Gives this process its own mounts, network, IPC and host name.
pub(super) fn enter_others() -> Result<(), SetupError> {
    unshare(UnshareFlags::NEWNS, "mount namespace")?;
    unshare(UnshareFlags::NEWNET, "network namespace")?;
    unshare(
        UnshareFlags::NEWIPC | UnshareFlags::NEWUTS,
        "IPC and host-name namespaces",
    )
}

// Deprecated in favour of an unsafe form, because descriptors can be unshared with it; namespaces cannot do any harm.
#[allow(deprecated)]
fn unshare(flags: UnshareFlags, what: &str) -> Result<(), SetupError> {
    let at = SetupError::at(format!("could not make a {what}"));
    rustix::thread::unshare(flags).map_err(|errno| at(errno.into()))
}

fn write(path: &str, text: &str) -> Result<(), SetupError> {
    fs::write(path, text).map_err(SetupError::at(format!("could not write `{path}`")))
}

fn keep_for_child() -> io::Result<()> {
    let has = rustix::thread::capabilities(None)?;
    let sets = CapabilitySets {
        inheritable: has.inheritable | FOR_SETUP,
        ..has
    };
    rustix::thread::set_capabilities(None, sets)?;
    for capability in FOR_SETUP.iter() {
        rustix::thread::configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}
