//! Locations of the data folder and of the user's configuration file.

use std::{
    env, fs, io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

use crate::Failed;

/// The name of a configuration file.
pub const CONFIG_FILE: &str = "callgate.yaml";

/// The user's own configuration file, whether it exists or not.
pub fn user_config() -> Option<PathBuf> {
    let base = xdg("XDG_CONFIG_HOME", ".config")?;
    Some(base.join("callgate").join(CONFIG_FILE))
}

/// The given data folder, or the XDG one. It is created if missing and made private to the user.
pub fn data_dir(told: Option<&Path>) -> Result<PathBuf, Failed> {
    let folder = match told {
        Some(folder) => folder.to_owned(),
        None => xdg("XDG_DATA_HOME", ".local/share")
            .map(|base| base.join("callgate"))
            .ok_or_else(|| {
                Failed::system("cannot find a data folder: `HOME` is not set")
                    .help("set --data-dir")
            })?,
    };
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder);
    let kept = made.and_then(|()| make_private(&folder));
    kept.map_err(|error| Failed::system(format!("data folder `{}`: {error}", folder.display())))?;
    fs::canonicalize(&folder).map_err(|error| Failed::system(format!("data folder: {error}")))
}

/// A folder that is private is left alone: on a read-only mount even setting the same mode fails.
fn make_private(folder: &Path) -> io::Result<()> {
    let mode = fs::metadata(folder)?.permissions().mode();
    if mode & 0o777 == 0o700 {
        return Ok(());
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
}

fn xdg(variable: &str, below_home: &str) -> Option<PathBuf> {
    let set = |name: &str| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    set(variable)
        .filter(|path| path.is_absolute())
        .or_else(|| Some(set("HOME")?.join(below_home)))
}
