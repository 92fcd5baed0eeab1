//! How an agent is started: arguments, environment, stdin and working directory.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{Options, Proxy, StepFailed, folder::Folder};

/// The name under which an agent knows our tools.
pub(crate) const SERVER: &str = "callgate";
/// How long a call may take before an agent gives up on it, in milliseconds.
pub(crate) const CALL_TIMEOUT_MS: u64 = 600_000;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Launch {
    pub(crate) args: Vec<String>,
    /// Added to the inherited environment.
    pub(crate) env: Vec<(String, String)>,
    /// The prompt; empty if it is passed as an argument.
    pub(crate) stdin: String,
    /// The working directory; `None` means the work folder.
    pub(crate) cwd: Option<PathBuf>,
}

/// The input of [`AgentCli::launch`](crate::cli::AgentCli::launch).
#[derive(Debug)]
pub(crate) struct Task<'a> {
    /// The warden's binary.
    pub(crate) warden_program: &'a Path,
    pub(crate) folder: &'a Folder,
    pub(crate) workdir: &'a Path,
    pub(crate) proxy: Proxy,
    pub(crate) options: &'a Options,
    /// The prompt before any escaping that the agent's CLI needs.
    pub(crate) prompt: String,
    /// The environment that the agent inherits.
    pub(crate) env: &'a [(String, String)],
    /// The relay's command; `None` without a proxy.
    pub(crate) relay: Option<Relay>,
}

/// The command by which an agent starts the relay.
#[derive(Debug, Clone)]
pub(crate) struct Relay {
    pub(crate) program: PathBuf,
    pub(crate) file: PathBuf,
}

impl Relay {
    pub(crate) fn command(&self) -> String {
        self.program.display().to_string()
    }

    pub(crate) fn args(&self) -> Vec<String> {
        vec![
            "mcp-serve".to_owned(),
            "--config".to_owned(),
            self.file.display().to_string(),
        ]
    }
}

impl Task<'_> {
    /// A variable of the agent's environment.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        let found = self.env.iter().find(|(known, _)| known == name);
        found
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }
}

impl Task<'_> {
    /// Tells an agent its work folder, for agents that are started in another one.
    pub(crate) fn place(&self) -> String {
        let folder = self.workdir.display();
        format!(
            "You work in the folder `{folder}`. Your tools resolve relative paths against it, whatever your own working directory is.\n"
        )
    }

    /// Refuses to start an agent that would load one of these files from its work folder, or from a parent folder up to
    /// the user's home. `why` says what the agent would do with it.
    pub(crate) fn refuse_project_files(&self, names: &[&str], why: &str) -> Result<(), StepFailed> {
        let home = self.variable("HOME").map(Path::new);
        let folders = self.workdir.ancestors();
        let project = folders.take_while(|folder| Some(*folder) != home);
        let found = project
            .flat_map(|folder| names.iter().map(move |name| folder.join(name)))
            .find(|path| path.symlink_metadata().is_ok());
        match found {
            Some(path) => Err(StepFailed::ProjectFile {
                path,
                why: why.to_owned(),
            }),
            None => Ok(()),
        }
    }
}

pub(crate) fn push(args: &mut Vec<String>, more: &[&str]) {
    args.extend(more.iter().map(|arg| (*arg).to_owned()));
}

pub(crate) fn compact(value: &Value) -> String {
    value.to_string()
}

pub(crate) fn nothing() -> Value {
    json!({})
}
