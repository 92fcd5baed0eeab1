//! How an agent is started: its arguments, its environment, what it reads.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{
    AgentKind, Options, Proxy, StepFailed, claude, codex, events::Said, folder::Folder, gemini,
    opencode, step::House,
};

/// The name under which an agent knows our tools.
pub(crate) const SERVER: &str = "callgate";
/// How long a call may take before an agent gives up on it, in milliseconds.
pub(crate) const CALL_TIMEOUT_MS: u64 = 600_000;

/// A program to start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Launch {
    pub(crate) program: String,
    pub(crate) args: Vec<String>,
    /// Set besides what is inherited.
    pub(crate) env: Vec<(String, String)>,
    /// What it reads; nothing where the prompt is an argument.
    pub(crate) stdin: String,
    /// The folder that it is started in, where that is not the one it works in.
    pub(crate) cwd: Option<PathBuf>,
}

/// What an agent's own file needs to know to start it.
#[derive(Debug)]
pub(crate) struct Task<'a> {
    pub(crate) house: &'a House,
    pub(crate) folder: &'a Folder,
    pub(crate) workdir: &'a Path,
    pub(crate) proxy: Proxy,
    pub(crate) options: &'a Options,
    /// As it is to be understood; how it is written is the agent's matter.
    pub(crate) prompt: String,
    /// The environment that the agent inherits.
    pub(crate) env: &'a [(String, String)],
    /// The command of the relay; none where there is no proxy.
    pub(crate) relay: Option<Relay>,
}

/// The command of the relay.
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
    /// What an agent is told that is not started in the folder it works in.
    pub(crate) fn place(&self) -> String {
        let folder = self.workdir.display();
        format!(
            "You work in the folder `{folder}`. Your tools resolve relative paths against it, whatever your own working directory is.\n"
        )
    }

    /// Refuses to start an agent that would obey one of these files of its work folder, or of a folder above it below the
    /// user's home. `why` says what the agent would do with it.
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

/// How this agent is started for this task.
pub(crate) async fn launch(kind: AgentKind, task: &Task<'_>) -> Result<Launch, StepFailed> {
    match kind {
        AgentKind::Claude => claude::launch(task),
        AgentKind::Gemini => gemini::launch(task),
        AgentKind::Codex => codex::launch(task).await,
        AgentKind::OpenCode => opencode::launch(task).await,
        AgentKind::OpenAiCompatible => Err(StepFailed::Missing(
            "an OpenAI-compatible model is no program".to_owned(),
        )),
    }
}

/// What one line of an agent's stream says.
pub(crate) fn said(kind: AgentKind, line: &Value) -> Vec<Said> {
    match kind {
        AgentKind::Claude => claude::said(line),
        AgentKind::Gemini => gemini::said(line),
        AgentKind::Codex => codex::said(line),
        AgentKind::OpenCode => opencode::said(line),
        AgentKind::OpenAiCompatible => Vec::new(),
    }
}

/// Adds arguments that are texts.
pub(crate) fn push(args: &mut Vec<String>, more: &[&str]) {
    args.extend(more.iter().map(|arg| (*arg).to_owned()));
}

/// A tool as an agent reports it: ours under its bare name, or native.
pub(crate) fn used(name: &str, prefixes: &[&str], arguments: Option<&Value>) -> Said {
    let ours = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix));
    match ours {
        Some(tool) => Said::Call(tool.to_owned()),
        None => Said::Native {
            tool: name.to_owned(),
            arguments: arguments
                .filter(|value| value.is_object())
                .map(Value::to_string),
        },
    }
}

/// A JSON object as one line of text.
pub(crate) fn compact(value: &Value) -> String {
    value.to_string()
}

/// A number in an event.
pub(crate) fn number(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or(0)
}

/// A text in an event.
pub(crate) fn text(value: &Value, path: &str) -> Option<String> {
    value
        .pointer(path)
        .and_then(Value::as_str)
        .map(str::to_owned)
}

/// An empty object.
pub(crate) fn nothing() -> Value {
    json!({})
}
