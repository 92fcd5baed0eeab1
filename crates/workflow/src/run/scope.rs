//! The values that templates and conditions see.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::{
    Journal, Kind, Outcome, State, Workflow, beside,
    model::public_name,
    outcome::right_case,
    span,
    template::{Lookup, below},
};

/// The values of a run: inputs, environment and the outcomes so far.
#[derive(Debug)]
pub(crate) struct RunValues {
    inputs: Value,
    run: String,
    name: String,
    begun: Instant,
    begun_at: Timestamp,
    env: HashMap<String, String>,
    context: Value,
    awf: Value,
    /// Where files for `readFile` can be: the workflow's folder first.
    folders: Vec<PathBuf>,
    seen: Mutex<Seen>,
}

/// What changes during a run.
#[derive(Debug)]
struct Seen {
    states: Map<String, Value>,
    turns: HashMap<String, Outcome>,
    vars: Map<String, Value>,
    error: Value,
    current: String,
}

/// The values of a run, with `loop` inside of a loop.
#[derive(Debug)]
pub(crate) struct Scope<'a> {
    values: &'a RunValues,
    around: Option<&'a Value>,
}

/// Where a run takes place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Around<'a> {
    pub(crate) run: &'a str,
    /// The file of the workflow.
    pub(crate) file: &'a Path,
    pub(crate) workdir: &'a Path,
    pub(crate) env: &'a [(String, String)],
}

impl<'a> Around<'a> {
    pub(super) fn of(journal: &'a Journal, file: &'a Path, env: &'a [(String, String)]) -> Self {
        Self {
            run: &journal.run,
            file,
            workdir: &journal.workdir,
            env,
        }
    }
}

impl RunValues {
    pub(crate) fn new(workflow: &Workflow, inputs: Map<String, Value>, around: Around<'_>) -> Self {
        let env: HashMap<String, String> = around.env.iter().cloned().collect();
        let folder = around.file.parent().unwrap_or(Path::new("."));
        let folders = [folder, around.workdir].map(fs::canonicalize);
        Self {
            inputs: Value::Object(inputs),
            run: around.run.to_owned(),
            name: workflow.name.clone(),
            begun: Instant::now(),
            begun_at: Timestamp::now(),
            context: context(around.workdir, &env),
            awf: awf_folders(folder, &env),
            env,
            folders: folders.into_iter().flatten().collect(),
            seen: Mutex::new(Seen {
                states: Map::new(),
                turns: HashMap::new(),
                vars: Map::new(),
                error: json!({"Message": "", "State": "", "ExitCode": 0, "Type": ""}),
                current: String::new(),
            }),
        }
    }

    fn locked(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the outcome of a state, and the variables that it sets.
    pub(super) fn remember(&self, state: &State, outcome: &Outcome) {
        let name = public_name(&state.name);
        let mut seen = self.locked();
        seen.states.insert(name.to_owned(), outcome.seen());
        if !outcome.turns.is_empty() {
            seen.turns.insert(name.to_owned(), outcome.clone());
        }
        let capture = &state.capture;
        for (variable, text) in [
            (&capture.stdout, &outcome.output),
            (&capture.stderr, &outcome.stderr),
        ] {
            if let Some(variable) = variable {
                seen.vars.insert(variable.clone(), text.clone().into());
            }
        }
        if let (Kind::Call(_), Some(Value::Object(outputs))) = (&state.kind, &outcome.json) {
            seen.vars.extend(outputs.clone());
        }
        if outcome.has_failed() {
            seen.error = json!({
                "Message": outcome.stderr.trim(),
                "State": name,
                "ExitCode": outcome.exit_code,
                "Type": "execution",
            });
        }
    }

    /// Takes a value of a state that is not run: `states.NAME.MEMBER`, and its text.
    pub(super) fn mock(&self, path: &str, text: &str) {
        let parts: Vec<&str> = path.splitn(3, '.').collect();
        let ["states", name, member] = parts.as_slice() else {
            return;
        };
        let member = right_case(member).unwrap_or(member);
        let value = match member {
            "Output" | "Stderr" | "Status" => Value::String(text.to_owned()),
            _ => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())),
        };
        let mut seen = self.locked();
        let state = seen
            .states
            .entry((*name).to_owned())
            .or_insert_with(|| Outcome::success("").seen());
        if let Some(members) = state.as_object_mut() {
            members.insert(member.to_owned(), value);
        }
    }

    pub(super) fn enter(&self, state: &str) {
        public_name(state).clone_into(&mut self.locked().current);
    }

    /// What a run that failed outside of its states failed with.
    pub(super) fn fail(&self, message: &str) {
        let mut seen = self.locked();
        if seen.error["Message"] == "" {
            seen.error["Message"] = message.into();
            if seen.error["State"] == "" {
                seen.error["Type"] = "workflow".into();
            }
        }
    }

    /// Whether the last visit of a state succeeded.
    pub(super) fn worked(&self, state: &str) -> bool {
        let seen = self.locked();
        seen.states
            .get(state)
            .is_some_and(|seen| seen["Status"] == "success")
    }

    /// Whether a path is about a state that has not run.
    pub(super) fn is_yet_to_run(&self, path: &str) -> bool {
        let mut parts = path.split('.');
        match (parts.next(), parts.next()) {
            (Some("states"), Some(name)) => !self.locked().states.contains_key(name),
            _ => false,
        }
    }

    /// The last outcome of a state with a conversation that can be continued.
    pub(super) fn conversation(&self, state: &str) -> Option<Outcome> {
        self.locked().turns.get(state).cloned()
    }

    pub(crate) fn seen<'a>(&'a self, around: Option<&'a Value>) -> Scope<'a> {
        Scope {
            values: self,
            around,
        }
    }

    fn workflow(&self, member: &str) -> Option<Value> {
        Some(match member {
            "id" | "ID" => self.run.clone().into(),
            "name" | "Name" => self.name.clone().into(),
            "duration" => self.begun.elapsed().as_secs().into(),
            "Duration" => span::shown(self.begun.elapsed()).into(),
            // In conditions, as nanoseconds: they can be compared.
            "Duration()" => u64::try_from(self.begun.elapsed().as_nanos()).ok()?.into(),
            "StartedAt" => self.begun_at.to_string().into(),
            "CurrentState" => self.locked().current.clone().into(),
            _ => return None,
        })
    }
}

impl Lookup for Scope<'_> {
    fn look_up(&self, path: &[String]) -> Option<Value> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "inputs" => below(&self.values.inputs, rest).cloned(),
            "workflow" => match rest {
                [member] => self.values.workflow(member),
                _ => None,
            },
            "loop" => below(self.around?, rest).cloned(),
            "env" => match rest {
                [name] => self.values.env.get(name).map(|value| value.clone().into()),
                _ => None,
            },
            "context" => {
                let right = rest.first().and_then(|member| match member.as_str() {
                    "working_dir" => Some("WorkingDir"),
                    "user" => Some("User"),
                    "hostname" => Some("Hostname"),
                    _ => None,
                });
                below(&self.values.context, &corrected(rest, right)).cloned()
            }
            "awf" => below(&self.values.awf, rest).cloned(),
            "error" => {
                let right = rest.first().and_then(|member| match member.as_str() {
                    "message" => Some("Message"),
                    "state" => Some("State"),
                    "exit_code" => Some("ExitCode"),
                    "type" => Some("Type"),
                    _ => None,
                });
                below(&self.values.locked().error, &corrected(rest, right)).cloned()
            }
            "vars" => {
                let (name, rest) = rest.split_first()?;
                below(self.values.locked().vars.get(name)?, rest).cloned()
            }
            "states" => {
                let (name, rest) = rest.split_first()?;
                let right = rest.first().and_then(|member| right_case(member));
                let rest = corrected(rest, right);
                below(self.values.locked().states.get(name)?, &rest).cloned()
            }
            _ => None,
        }
    }

    fn file(&self, path: &str) -> Result<String, String> {
        let told = |why: &str| format!("`{path}`: {why}");
        let folders = &self.values.folders;
        let base = folders.first().ok_or_else(|| told("no folder"))?;
        let found = fs::canonicalize(base.join(path)).map_err(|error| told(&error.to_string()))?;
        // The path can come from an agent's answer.
        if !folders.iter().any(|folder| found.starts_with(folder)) {
            return Err(told(
                "it is outside of the workflow's and the working folder",
            ));
        }
        beside::limited(&found).map_err(|error| told(&error.to_string()))
    }
}

/// A path whose first part has its right spelling. In lower case it is a warning of `validate`, or an error.
fn corrected(path: &[String], right: Option<&str>) -> Vec<String> {
    let mut path = path.to_vec();
    if let (Some(first), Some(right)) = (path.first_mut(), right) {
        right.clone_into(first);
    }
    path
}

fn context(workdir: &Path, env: &HashMap<String, String>) -> Value {
    let user = ["USER", "LOGNAME"].iter().find_map(|name| env.get(*name));
    let host = fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = host.or_else(|| env.get("HOSTNAME").cloned());
    json!({
        "WorkingDir": workdir,
        "User": user.cloned().unwrap_or_default(),
        "Hostname": host.unwrap_or_default().trim(),
    })
}

/// AWF's folders. Scripts and prompts beside the workflow go before those of the user.
fn awf_folders(workflow: &Path, env: &HashMap<String, String>) -> Value {
    let home = env.get("HOME").cloned().unwrap_or_default();
    let xdg = |variable: &str, default: &str| match env.get(variable) {
        Some(folder) if !folder.is_empty() => Path::new(folder).join("awf"),
        _ => Path::new(&home).join(default).join("awf"),
    };
    let config = xdg("XDG_CONFIG_HOME", ".config");
    let local = |name: &str| match workflow.join(name) {
        own if own.is_dir() => own,
        _ => config.join(name),
    };
    let data = xdg("XDG_DATA_HOME", ".local/share");
    json!({
        "cache_dir": xdg("XDG_CACHE_HOME", ".cache"),
        "prompts_dir": local("prompts"),
        "scripts_dir": local("scripts"),
        "skills_dir": local("skills"),
        "workflows_dir": config.join("workflows"),
        "plugins_dir": data.join("plugins"),
        "config_dir": config,
        "data_dir": data,
    })
}
