//! Finding and reading the configuration file.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::Config;
use crate::{
    exit::Failed,
    folders::{self, CONFIG_FILE},
    trust::TrustList,
};

/// Where a configuration came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Named by the user, or the user's own file.
    User,
    /// Found in the working folder and trusted: it may tighten the user's policy, not loosen it.
    Project,
    /// There is no file.
    Defaults,
}

/// A configuration and where it was found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) config: Config,
    pub(crate) file: Option<PathBuf>,
    pub(crate) origin: Origin,
    /// A file in the working folder that is not used, because nobody said that it may be.
    pub(crate) untrusted: Option<PathBuf>,
}

/// Finds the configuration: the named file, a trusted one in the working folder, the user's own,
/// none. `data_dir` is where trust is kept.
pub(crate) fn load(named: Option<&Path>, data_dir: &Path) -> Result<Found, Failed> {
    if let Some(file) = named {
        return Ok(found(read(file)?, file, Origin::User));
    }
    let here = PathBuf::from(CONFIG_FILE);
    let mut untrusted = None;
    if let Ok(content) = fs::read(&here) {
        if TrustList::load(data_dir)?.covers(&here, &content) {
            let mut project = found(parse(&content, &here)?, &here, Origin::Project);
            project.config.policy = tightened(&project.config)?;
            return Ok(project);
        }
        untrusted = Some(here);
    }
    let own = folders::user_config().filter(|file| file.exists());
    let found = match own {
        Some(file) => Found {
            untrusted,
            ..found(read(&file)?, &file, Origin::User)
        },
        None => Found {
            config: Config::default(),
            file: None,
            origin: Origin::Defaults,
            untrusted,
        },
    };
    Ok(found)
}

/// A project's file may ask for `allow-all` only where the user's own does so, too.
fn tightened(project: &Config) -> Result<Option<callgate_gate::Builtin>, Failed> {
    let own = folders::user_config().filter(|file| file.exists());
    let users = own
        .map(|file| read(&file))
        .transpose()?
        .and_then(|config| config.policy)
        .unwrap_or_default();
    let asked = project.policy.unwrap_or_default();
    Ok(Some(if users == asked {
        asked
    } else {
        callgate_gate::Builtin::Default
    }))
}

fn found(config: Config, file: &Path, origin: Origin) -> Found {
    Found {
        config,
        file: Some(file.to_owned()),
        origin,
        untrusted: None,
    }
}

fn read(file: &Path) -> Result<Config, Failed> {
    let content = fs::read(file)
        .map_err(|error| Failed::config(format!("configuration `{}`: {error}", file.display())))?;
    parse(&content, file)
}

fn parse(content: &[u8], file: &Path) -> Result<Config, Failed> {
    let wrong =
        |what: String| Failed::config(format!("configuration `{}`: {what}", file.display()));
    let text = std::str::from_utf8(content).map_err(|_| wrong("it is not UTF-8".to_owned()))?;
    if text.trim().is_empty() {
        return Ok(Config::default());
    }
    serde_saphyr::from_str(text).map_err(|error| wrong(located(&error, file)))
}

/// What is wrong, with its line and a snippet that points at it.
fn located(error: &serde_saphyr::Error, file: &Path) -> String {
    let text = error.render_with_formatter(&serde_saphyr::UserMessageFormatter);
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    text.replacen("--> <input>:", &format!("--> {}:", file.display()), 1)
}
