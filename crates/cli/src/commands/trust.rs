//! `callgate trust`: allow a file that was found in a folder to be used.

use std::{fs, path::PathBuf, process::ExitCode};

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
    if trust.revoke {
        let was_there = list.remove(&file)?;
        eprintln!(
            "`{}` {}",
            file.display(),
            if was_there {
                "is trusted no more"
            } else {
                "was not trusted"
            }
        );
        return Ok(ExitCode::SUCCESS);
    }
    let content =
        fs::read(&file).map_err(|error| Failed::user(format!("`{}`: {error}", file.display())))?;
    list.add(&file, &content)?;
    eprintln!(
        "`{}` is trusted as it is now; after a change it has to be trusted again",
        file.display()
    );
    eprintln!("its servers may run commands as you; its policy can only be stricter than yours");
    Ok(ExitCode::SUCCESS)
}
