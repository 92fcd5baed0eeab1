//! How an agent is started: arguments, environment, stdin and working directory.

use std::path::{Path, PathBuf};

use callgate_process::sandbox::Sandbox;
use serde_json::{Value, json};

use crate::{Options, Proxy, StepFailed, access::Variables, folder::Folder, home::OwnHome};

/// The name under which an agent knows our tools.
pub(crate) const SERVER: &str = "callgate";
/// How long a call may take before an agent gives up on it, in milliseconds.
pub(crate) const CALL_TIMEOUT_MS: u64 = 600_000;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Launch {
    pub(crate) args: Vec<String>,
    /// Added to the environment of the task.
    pub(crate) env: Vec<(String, String)>,
    /// The prompt. It is never an argument: those are short, and other users see them.
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
    /// Where the agent works and what the project says; empty unless its tools are ours.
    pub(crate) preface: String,
    /// The task, before any escaping that the agent's CLI needs.
    pub(crate) prompt: String,
    /// The user's environment.
    pub(crate) users: Variables<'a>,
    /// The agent's environment before [`Launch::env`] is added.
    pub(crate) env: &'a [(String, String)],
    /// The step's own home; `None` means the user's.
    pub(crate) home: Option<OwnHome>,
    /// The sandbox of the agent's box, for programs that are asked something before.
    pub(crate) sandbox: Option<&'a Sandbox>,
    /// The relay's command; `None` without a proxy.
    pub(crate) relay: Option<Relay>,
}

/// The command by which an agent starts the relay.
#[derive(Debug, Clone)]
pub(crate) struct Relay {
    pub(crate) program: PathBuf,
    pub(crate) file: PathBuf,
    /// The socket or the pipes of the step that it opens.
    pub(crate) doors: Vec<PathBuf>,
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
    /// The preface and the task in one text.
    pub(crate) fn whole_prompt(&self) -> String {
        match self.preface.as_str() {
            "" => self.prompt.clone(),
            preface => format!("{preface}\n{}", self.prompt),
        }
    }

    /// Refuses to start an agent that would load one of these files from its work folder, or from a parent folder up to
    /// the user's home. `why` says what the agent would do with it.
    pub(crate) fn refuse_project_files(&self, names: &[&str], why: &str) -> Result<(), StepFailed> {
        let home = self.users.get("HOME").map(Path::new);
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
