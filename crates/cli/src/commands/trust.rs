//! `callgate trust`: trusts or revokes a project's configuration or a plugin.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use callgate_config::{
    self as config, CONFIG_FILE, PluginDirs, PluginNotFound, folders,
    trust::{self, Manifest, TrustList},
};
use callgate_gate::Digest;
use callgate_process::regular_file;

use crate::{
    args::{Shared, Trust},
    exit::Failed,
};

pub(crate) fn run(shared: &Shared, trust: &Trust) -> Result<ExitCode, Failed> {
    let data_dir = folders::data_dir(shared.data_dir.as_deref())?;
    let file = trust
        .file
        .clone()
        .unwrap_or_else(|| PathBuf::from(CONFIG_FILE));
    if trust.revoke {
        return revoke(&data_dir, &file);
    }
    let wrong = |error: PluginNotFound| Failed::user(format!("`{}`: {error}", file.display()));
    let plugin_files = PluginDirs::depends_on(&file).map_err(wrong)?;
    let (manifest, what_it_means) = match plugin_files {
        Some(files) => (
            of_files(&files)?,
            "steps and workflows can now start it with your permissions",
        ),
        None => (
            config::manifest_of(&file)?,
            "its servers can run commands with your permissions; its policy can only be stricter than yours",
        ),
    };
    TrustList::change(&data_dir, |list| list.trust(&file, manifest.clone()))?;
    for name in manifest.keys() {
        eprintln!("trusted `{name}` with its current content");
    }
    eprintln!("if one of these files changes, or another appears, run `callgate trust` again");
    eprintln!("{what_it_means}");
    Ok(ExitCode::SUCCESS)
}

fn revoke(data_dir: &Path, file: &Path) -> Result<ExitCode, Failed> {
    let revoked = TrustList::change(data_dir, |list| list.revoke(file))?;
    for name in &revoked {
        eprintln!("revoked trust in `{name}`");
    }
    if revoked.is_empty() {
        eprintln!("`{}` was not trusted", file.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn of_files(files: &[PathBuf]) -> Result<Manifest, Failed> {
    let one = |file: &PathBuf| {
        let wrong = |error| Failed::user(format!("`{}`: {error}", file.display()));
        let content = regular_file::read(file).map_err(wrong)?;
        let name = trust::name(file).map_err(wrong)?;
        Ok((name, Digest::of(&content).to_string()))
    };
    files.iter().map(one).collect()
}
