//! The files and folders that govern a gateway. Its tools cannot reach them without approval.

use std::{
    fs,
    path::{Path, PathBuf},
};

use callgate_gate::Protected;

use crate::{Config, ConfigSource, folders, governing, policies::SelectedPolicies};

/// The configuration in force with its policies, lock, packs and plugins, the user's own configuration folder, and the
/// data folders. Each under its configured name and under the path that links lead to.
pub(super) fn places(
    source: &ConfigSource,
    config: &Config,
    policies: &SelectedPolicies,
    (data_dir, lock_file): (&Path, &Path),
) -> Protected {
    let mut places: Vec<PathBuf> = vec![
        data_dir.to_owned(),
        source.trust_dir.clone(),
        lock_file.to_owned(),
    ];
    if let Some(file) = &source.file {
        let base = file.parent().unwrap_or(Path::new(""));
        places.push(file.clone());
        places.push(base.join(".callgate"));
        places.push(governing::packs(base, config));
    }
    // Protected even if it does not exist: a file that a tool creates there would govern the next start.
    let own = folders::user_config();
    places.extend(own.as_deref().and_then(Path::parent).map(Path::to_owned));
    places.extend(policies.files().map(|(file, _)| file.to_owned()));
    places.extend(config.activity.heads.files());
    places.extend(config.plugins.values().map(|plugin| plugin.path.clone()));
    let both = places.iter().flat_map(|place| names(place));
    Protected::new(both.map(|place| place.to_string_lossy().into_owned()))
}

/// A path from the root on: as it is written, with the links of its folder followed, and with all links followed.
pub(super) fn names(place: &Path) -> Vec<PathBuf> {
    let Ok(whole) = std::path::absolute(place) else {
        return Vec::new();
    };
    let folder = whole
        .parent()
        .and_then(|folder| fs::canonicalize(folder).ok());
    let in_folder = folder
        .zip(whole.file_name())
        .map(|(folder, name)| folder.join(name));
    let real = fs::canonicalize(&whole).ok();
    [Some(whole), in_folder, real]
        .into_iter()
        .flatten()
        .collect()
}
