//! Shared by the unit tests of the agents: a task to launch an agent for, in private folders.

use std::{fs, path::PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    AgentKind, Options, Proxy, StepFailed,
    access::Variables,
    events::{AgentEvent, native},
    folder::Folder,
    home::OwnHome,
    launch::{Launch, Relay, Task},
    running::own_environment,
};

/// A user's home, a work folder and the private folder of a step.
pub(crate) struct Bench {
    place: TempDir,
    pub(crate) folder: Folder,
    pub(crate) options: Options,
    pub(crate) env: Vec<(String, String)>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let place = TempDir::new().unwrap();
        for name in ["home", "work"] {
            fs::create_dir(place.path().join(name)).unwrap();
        }
        let home = place.path().join("home").display().to_string();
        Self {
            env: vec![("HOME".to_owned(), home)],
            folder: Folder::make().unwrap(),
            options: Options::default(),
            place,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Writes a file of the user's home or of the work folder.
    pub(crate) fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.env.push((name.to_owned(), value.to_owned()));
    }

    /// Launches an agent for this prompt.
    pub(crate) async fn launch(
        &self,
        kind: AgentKind,
        proxy: Proxy,
        prompt: &str,
    ) -> Result<Launch, StepFailed> {
        let workdir = self.path("work");
        let cli = kind.cli().unwrap();
        let users = Variables(&self.env);
        let (home, env) = match proxy {
            Proxy::Full => {
                let own = OwnHome::make(&self.folder).unwrap();
                let env = own_environment(cli, users, &self.options, (&own, false));
                (Some(own), env)
            }
            Proxy::Additive | Proxy::Off => (None, self.env.clone()),
        };
        let relay = Relay {
            program: PathBuf::from("/opt/callgate"),
            file: self.folder.path().join("relay.json"),
            doors: Vec::new(),
        };
        let task = Task {
            // Does not exist: a test must not start the agent's program.
            warden_program: &self.path("no-warden"),
            folder: &self.folder,
            workdir: &workdir,
            proxy,
            options: &self.options,
            preface: String::new(),
            prompt: prompt.to_owned(),
            users,
            env: &env,
            home,
            sandbox: None,
            relay: (proxy != Proxy::Off).then_some(relay),
        };
        cli.launch(&task).await
    }

    /// A file of the step's own home, as JSON.
    pub(crate) fn in_home(&self, name: &str) -> Value {
        self.written(&format!("home/{name}"))
    }

    /// A file of the step's folder, as JSON.
    pub(crate) fn written(&self, name: &str) -> Value {
        let text = fs::read_to_string(self.folder.path().join(name)).unwrap();
        serde_json::from_str(&text).unwrap()
    }
}

impl Launch {
    /// The argument after this one.
    pub(crate) fn value(&self, flag: &str) -> Option<&str> {
        let at = self.args.iter().position(|arg| arg == flag)?;
        self.args.get(at + 1).map(String::as_str)
    }

    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        let found = self.env.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Parses an event of an agent.
pub(crate) fn read(kind: AgentKind, event: &Value) -> Vec<AgentEvent> {
    kind.cli().unwrap().read_event(event)
}

/// A final event without a text.
pub(crate) fn done(error: Option<&str>) -> AgentEvent {
    AgentEvent::Done {
        text: None,
        error: error.map(str::to_owned),
    }
}

/// A use of a native tool with its arguments.
pub(crate) fn native_use(tool: &str, arguments: Option<&Value>) -> AgentEvent {
    AgentEvent::Native {
        id: None,
        used: native(tool, arguments),
    }
}
