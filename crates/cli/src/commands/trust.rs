//! `callgate trust`: allow a file that was found in a folder to be used, or a plugin.

use std::{fs, path::PathBuf, process::ExitCode};

use callgate_plugin::{NotFound, Shelf};

use crate::{
    args::{Shared, Trust},
    exit::Failed,
    folders::{self, CONFIG_FILE},
    trust::TrustList,
};

pub(crate) fn run(shared: &Shared, trust: &Trust) -> Result<ExitCode, Failed> {
    let data_dir = folders::data_dir(shared.data_dir.as_deref())?;
    let file = trust
        .file
        .clone()
        .unwrap_or_else(|| PathBuf::from(CONFIG_FILE));
    let mut list = TrustList::load(&data_dir)?;
    let wrong = |error: NotFound| Failed::user(format!("`{}`: {error}", file.display()));
    let plugin_files = Shelf::depends_on(&file).map_err(wrong)?;
    let is_plugin = plugin_files.is_some();
    for file in plugin_files.unwrap_or_else(|| vec![file]) {
        if trust.revoke {
            let was_there = list.remove(&file)?;
            let how = if was_there {
                "is trusted no more"
            } else {
                "was not trusted"
            };
            eprintln!("`{}` {how}", file.display());
            continue;
        }
        let content = fs::read(&file)
            .map_err(|error| Failed::user(format!("`{}`: {error}", file.display())))?;
        list.add(&file, &content)?;
        eprintln!(
            "`{}` is trusted as it is now; after a change it has to be trusted again",
            file.display()
        );
    }
    if trust.revoke {
        return Ok(ExitCode::SUCCESS);
    }
    if is_plugin {
        eprintln!("it may be started as you, wherever a step or a workflow names it");
    } else {
        eprintln!(
            "its servers may run commands as you; its policy can only be stricter than yours"
        );
    }
    Ok(ExitCode::SUCCESS)
}
