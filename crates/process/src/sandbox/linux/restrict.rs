//! What a process gives up before the command starts: privileges, limits, files, system calls. The command inherits it.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets};

use super::SetupError;
use super::calls::{self, Setting};
use super::files::{self, Ports, Rule};
use crate::sandbox::gap::Enforced;

/// How many processes and threads a sandbox with namespaces can have at a time.
pub(super) const PROCESSES: u64 = 4096;

/// Restricts this process, which must have no other threads. `process_count` tells whether something else limits processes.
pub(super) fn restrict(
    rules: &[Rule],
    ports: Ports,
    setting: Setting,
    process_count: bool,
) -> Result<Enforced, SetupError> {
    rustix::thread::set_no_new_privs(true)
        .map_err(|errno| SetupError::at("could not set `no_new_privs`")(errno.into()))?;
    let limits = match setting {
        Setting::OwnNamespaces => {
            limit(Resource::Core, 0).and_then(|()| limit(Resource::Nproc, PROCESSES))
        }
        // The kernel would count all processes of the user.
        Setting::Shared { .. } => limit(Resource::Core, 0),
    };
    limits.map_err(SetupError::at("could not set the resource limits"))?;
    let landlock = files::restrict(rules, ports)?;
    drop_capabilities().map_err(SetupError::at("could not drop the capabilities"))?;
    let system_calls = calls::filter(setting).map_err(|error| {
        SetupError::at("could not filter system calls")(io::Error::other(error))
    })?;
    Ok(Enforced {
        landlock,
        system_calls,
        process_count,
    })
}

fn limit(resource: Resource, most: u64) -> io::Result<()> {
    let most = getrlimit(resource)
        .maximum
        .map_or(most, |hard| most.min(hard));
    let limit = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    Ok(setrlimit(resource, limit)?)
}

fn drop_capabilities() -> io::Result<()> {
    let has = rustix::thread::capabilities(None)?;
    // Without this capability nothing can be removed from the bounding set; `no_new_privs` alone keeps it useless.
    if has.effective.contains(CapabilitySet::SETPCAP) {
        for capability in CapabilitySet::all().iter() {
            match rustix::thread::remove_capability_from_bounding_set(capability) {
                // The kernel is older than the capability.
                Ok(()) | Err(rustix::io::Errno::INVAL) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        let bits = CapabilitiesSecureBits::NO_ROOT | CapabilitiesSecureBits::NO_ROOT_LOCKED;
        rustix::thread::set_capabilities_secure_bits(bits)?;
    }
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    Ok(rustix::thread::set_capabilities(None, none)?)
}
