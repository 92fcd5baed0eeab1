//! Agent steps through the real binary: fake agents that behave and misbehave, and models that do.

mod additive;
mod boxed;
mod ends;
mod full;
mod openai;
mod relay;
mod shown;
mod traces;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use callgate_testkit::agents::AgentScript;
use serde_json::Value;

use crate::evidence::{all_records, run, stdout};
use crate::setup::Bed;

/// The agents that are programs.
const PROGRAMS: [&str; 4] = ["claude", "gemini", "codex", "opencode"];
/// The versions that are known to be isolated.
pub(crate) const KNOWN: [&str; 4] = ["2.1.325", "0.61.0", "0.166.0", "1.18.33"];
/// The user's own configuration, which must stay unchanged.
const USERS: [(&str, &str); 4] = [
    (".claude.json", r#"{"mcpServers":{"mine":{"command":"x"}}}"#),
    (
        ".gemini/settings.json",
        r#"{"security":{"auth":{"selectedType":"gemini-api-key"}},"theme":"x"}"#,
    ),
    (".codex/config.toml", "model = \"x\"\n"),
    (".config/opencode/opencode.json", r#"{"theme":"x"}"#),
];

/// A place where agents are fakes: their programs, a user's home, a folder to work in.
pub(crate) struct Stage {
    pub(crate) bed: Bed,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::with("policy: allow-all\n")
    }

    /// Agents have no box here: fakes write down what they were given, outside of their step.
    pub(crate) fn with(config: &str) -> Self {
        Self::boxed(&format!("{config}agents: {{box: 'off'}}\n"))
    }

    /// A place where agents are boxed unless the configuration says otherwise.
    pub(crate) fn boxed(config: &str) -> Self {
        let stage = Self {
            bed: Bed::new(config),
        };
        AgentScript::install(&stage.bed.path("bin"));
        for folder in ["desk", "tmp"] {
            fs::create_dir(stage.bed.path(folder)).expect("it is fresh");
        }
        for (name, text) in USERS {
            let file = stage.bed.path("home").join(name);
            fs::create_dir_all(file.parent().expect("a folder")).expect("it is fresh");
            fs::write(file, text).expect("it is fresh");
        }
        stage
    }

    /// Sets what the agents do.
    pub(crate) fn script(&self, script: AgentScript) {
        let script = AgentScript {
            log: self.bed.path("agent.log"),
            ..script
        };
        let text = serde_json::to_string(&script).expect("it is JSON");
        fs::write(self.bed.path("script.json"), text).expect("it is ours");
    }

    /// `callgate agent` with these arguments, beside the working folder.
    pub(crate) fn agent(&self, args: &[&str]) -> Command {
        let mut command = self.callgate(std::iter::once(&"agent").chain(args));
        command.arg("--workdir").arg(self.bed.path("desk"));
        command
    }

    /// `callgate` with these arguments, where agents are fakes.
    pub(crate) fn callgate<'a>(&self, args: impl IntoIterator<Item = &'a &'a str>) -> Command {
        let mut command = self.bed.command(args);
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .env("PATH", format!("{}:{path}", self.bed.path("bin").display()))
            .env("HOME", self.bed.path("home"))
            .env("TMPDIR", self.bed.path("tmp"))
            .env_remove("GEMINI_CLI_HOME")
            .env_remove("XDG_CONFIG_HOME");
        command
    }

    /// What the last agent was given.
    pub(crate) fn given(&self) -> Value {
        let log = self.bed.read("agent.log");
        let last = log.lines().last().expect("an agent was there");
        serde_json::from_str(last).expect("it is JSON")
    }

    /// The arguments of the last agent, without what differs from run to run.
    pub(crate) fn argv(&self) -> Vec<String> {
        let given = self.given();
        let argv = given["argv"].as_array().expect("arguments").iter().skip(1);
        argv.map(|arg| self.plain(arg.as_str().expect("a text")))
            .collect()
    }

    /// The task in the last agent's prompt, after the work folder.
    pub(crate) fn task(&self) -> String {
        let given = self.given();
        let prompt = given["stdin"].as_str().expect("a text");
        let end = "working directory is.\n\n";
        let (_, task) = prompt.split_once(end).expect("a work folder");
        task.to_owned()
    }

    /// A text without what differs from run to run.
    fn plain(&self, text: &str) -> String {
        let tmp = self.bed.path("tmp").display().to_string();
        let binary = callgate_testkit::callgate().display().to_string();
        let mut text = text.replace(&binary, "$BIN");
        while let Some(at) = text.find(&format!("{tmp}/callgate-step-")) {
            let end = at + tmp.len() + "/callgate-step-".len() + 26;
            text.replace_range(at..end, "$STEP");
        }
        text
    }

    /// Every record, oldest first.
    pub(crate) fn records(&self) -> Vec<Value> {
        all_records(&stdout(&run(&self.bed, &["activity", "export"])))
    }

    /// The record of the step itself.
    fn step_record(&self) -> String {
        let records = self.records();
        let step = records
            .iter()
            .rev()
            .find(|record| record["tool"] == "agent.step");
        let step = step.unwrap_or_else(|| panic!("no step in {records:?}"));
        step["reason"].as_str().expect("a text").to_owned()
    }

    /// Checks that nothing is left: no process, no temporary file, no changed configuration.
    pub(crate) fn assert_nothing_left(&self) {
        let folder = self.bed.path("").display().to_string();
        let folder = folder.trim_end_matches('/');
        let gone = || callgate_testkit::processes_with(folder).is_empty();
        let patience = std::time::Duration::from_secs(8);
        assert!(
            callgate_testkit::wait_until(patience, gone),
            "{:?}",
            callgate_testkit::processes_with(folder)
        );
        let empty = || self.left().is_empty();
        assert!(
            callgate_testkit::wait_until(patience, empty),
            "{:?}",
            self.left()
        );
        for (name, text) in USERS {
            assert_eq!(self.bed.read(&format!("home/{name}")), text, "{name}");
        }
    }

    fn left(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.bed.path("tmp"))
            .expect("it is ours")
            .flatten();
        entries.map(|entry| entry.path()).collect()
    }
}
