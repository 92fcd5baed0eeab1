//! Landlock: which files a process can open, whom it can signal, and, without a network namespace, which TCP port it reaches.

use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, NetPort,
    PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope,
};

use super::SetupError;
use crate::sandbox::FileAccess;

/// The newest version whose rights we ask for; an older kernel enforces those it knows.
const NEWEST: ABI = ABI::V9;

/// What is allowed at and below a path.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) path: PathBuf,
    pub(super) right: Right,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Right {
    Files(FileAccess),
    /// Reading from and writing to devices.
    Devices,
}

/// TCP connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ports {
    /// Not restricted here: the network namespace does it.
    Any,
    /// Connections to this port only, no listening.
    Only(Option<u16>),
}

/// Applies the rules to this process. Returns the version of Landlock that the kernel has, 0 for none.
pub(super) fn restrict(rules: &[Rule], ports: Ports) -> Result<u8, SetupError> {
    restrict_with_landlock(rules, ports).map_err(|error| {
        SetupError::at("could not apply the Landlock restriction")(std::io::Error::other(error))
    })
}

fn restrict_with_landlock(rules: &[Rule], ports: Ports) -> Result<u8, landlock::RulesetError> {
    // Best effort: what the kernel lacks is found in the version that this returns.
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?;
    if let Ports::Only(_) = ports {
        ruleset = ruleset.handle_access(AccessNet::from_all(NEWEST))?;
    }
    let mut created = ruleset.create()?;
    for rule in rules {
        created = add(created, rule)?;
    }
    if let Ports::Only(Some(port)) = ports {
        created = created.add_rule(NetPort::new(port, AccessNet::ConnectTcp))?;
    }
    let status = created.restrict_self()?;
    Ok(match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => version(effective_abi),
        LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => 0,
    })
}

fn add(created: RulesetCreated, rule: &Rule) -> Result<RulesetCreated, landlock::RulesetError> {
    // A path that has vanished meanwhile grants nothing.
    let Ok(path) = PathFd::new(&rule.path) else {
        return Ok(created);
    };
    let mut rights: BitFlags<AccessFs> = match rule.right {
        Right::Files(FileAccess::Read) => AccessFs::from_read(NEWEST),
        Right::Files(FileAccess::Write) => AccessFs::from_all(NEWEST),
        Right::Devices => {
            AccessFs::ReadFile
                | AccessFs::WriteFile
                | AccessFs::ReadDir
                | AccessFs::Truncate
                | AccessFs::IoctlDev
        }
    };
    if !rule.path.is_dir() {
        rights &= AccessFs::from_file(NEWEST);
    }
    created.add_rule(PathBeneath::new(path, rights))
}

fn version(abi: ABI) -> u8 {
    (1..=9u8)
        .rev()
        .find(|number| abi >= ABI::from(i32::from(*number)))
        .unwrap_or(0)
}
