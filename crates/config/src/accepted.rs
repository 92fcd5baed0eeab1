//! The lock and the local packs beside a configuration; for a project, their trusted content.

use std::path::{Path, PathBuf};

use callgate_gate::pins::{Lock, PinMode, Pins};

use crate::{
    Config, ConfigSource, Origin, governing, governing::Governing, model::PinChoice, pin_file,
    trust::ProjectLock,
};

/// The local packs of scripts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Packs {
    None,
    /// The packs that the folder contains when a script runs.
    Folder(PathBuf),
    /// These packs, with the content that was read when trust was checked.
    Read(Vec<(PathBuf, Vec<u8>)>),
}

/// The local packs: for a project the trusted ones, otherwise those in the folder when a script runs.
pub(super) fn packs(
    beside: Option<&Path>,
    config: &Config,
    governing: Option<&Governing>,
) -> Packs {
    let folder = match (beside, &config.code.packs) {
        (Some(beside), _) => governing::packs(beside, config),
        (None, Some(folder)) => folder.clone(),
        (None, None) => return Packs::None,
    };
    match governing.and_then(|governing| governing.packs(&folder)) {
        Some(trusted) => Packs::Read(trusted),
        None => Packs::Folder(folder),
    }
}

/// The lock of a trusted project.
pub(super) fn project_lock(source: &ConfigSource, lock_file: &Path) -> Option<ProjectLock> {
    let root = source.file.clone()?;
    match source.origin {
        Origin::Project => Some(ProjectLock {
            data_dir: source.trust_dir.clone(),
            root,
            file: lock_file.to_owned(),
        }),
        Origin::User | Origin::Defaults => None,
    }
}

/// The pins for the configured mode; with `off` the lock is not even read. A project's lock is used as it was read
/// when trust was checked.
pub(super) fn pins(
    choice: Option<PinChoice>,
    lock_file: &Path,
    governing: Option<&Governing>,
) -> Pins {
    let only_tightens = governing.is_some();
    let mode = match choice {
        Some(PinChoice::Off) => {
            return Pins {
                mode: PinMode::Off,
                lock: Lock::default(),
                only_tightens,
            };
        }
        Some(PinChoice::Tofu | PinChoice::Review) | None => PinMode::Tofu,
        Some(PinChoice::Locked) => PinMode::Locked,
    };
    let lock = match governing {
        Some(governing) => pin_file::parse(governing.content(lock_file)),
        None => pin_file::read(lock_file),
    };
    Pins {
        mode,
        lock,
        only_tightens,
    }
}
