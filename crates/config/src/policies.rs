//! The chosen policies: built-in ones and files, read and compiled.

use std::{
    collections::{BTreeMap, HashMap},
    env, fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use callgate_gate::{
    Builtin, CompileContext, Launch, Layer, Mode, PathBase, Policy, Problem, Protected, Rules,
    ServerName, ServerSpec, ToolFilter,
};
use callgate_process::regular_file;

use crate::{Failed, Flags};
use crate::{
    LoadedConfig, complaint,
    governing::Governing,
    model::{PolicyChoice, PolicyMode},
};

/// The policies that a gateway runs on; the strictest verdict applies.
#[derive(Debug, PartialEq)]
pub struct SelectedPolicies {
    pub(super) chosen: Vec<Chosen>,
    /// The policies of tenants other than `local`.
    pub(super) tenants: BTreeMap<String, Chosen>,
    pub mode: PolicyMode,
}

#[derive(Debug, PartialEq)]
pub(super) enum Chosen {
    Default,
    Cautious,
    AllowAll,
    File(PolicyFile),
}

/// A policy file as it was read.
#[derive(Debug, Clone)]
pub struct PolicyFile {
    pub file: PathBuf,
    pub text: String,
    pub rules: Arc<Rules>,
}

/// Two policy files are equal if path and text are: the same text means something else in another folder.
impl PartialEq for PolicyFile {
    fn eq(&self, other: &Self) -> bool {
        self.file == other.file && self.text == other.text
    }
}

impl SelectedPolicies {
    /// Reads the policies of a configuration; a flag overrides the file.
    pub(super) fn read(found: &LoadedConfig, flags: &Flags) -> Result<Self, Failed> {
        let choices = match &flags.policy {
            Some(text) => vec![of_flag(text)?],
            None => {
                let own = found.config.policy.clone().unwrap_or(PolicyChoice::Default);
                found.users_policy.iter().cloned().chain([own]).collect()
            }
        };
        let written = found.config.policy_mode.unwrap_or(PolicyMode::Strict);
        let mode = flags.policy_mode.unwrap_or(written);
        let read = |choice: PolicyChoice| Chosen::read(choice, found.governing.as_ref());
        let chosen: Result<Vec<Chosen>, Failed> = choices.into_iter().map(read).collect();
        let tenants = found.config.tenants.0.iter().map(|(name, tenant)| {
            let choice = tenant.policy.clone().unwrap_or(PolicyChoice::Default);
            Ok((name.clone(), Chosen::read(choice, None)?))
        });
        Ok(Self {
            chosen: chosen?,
            tenants: tenants.collect::<Result<_, Failed>>()?,
            mode,
        })
    }

    /// The policy that decides calls.
    pub(super) fn compiled(
        &self,
        filters: HashMap<ServerName, ToolFilter>,
        servers: &[ServerSpec],
        (builtin_root, protected): (Option<&Path>, &Arc<Protected>),
        guarded: bool,
    ) -> Policy {
        let layer = |chosen: &Chosen| match chosen {
            Chosen::Default => Layer::Builtin(Builtin::Default),
            Chosen::Cautious => Layer::Builtin(Builtin::Cautious),
            Chosen::AllowAll => Layer::Builtin(Builtin::AllowAll),
            Chosen::File(file) => Layer::Rules(file.rules.clone()),
        };
        let mode = match self.mode {
            PolicyMode::Strict => Mode::Strict,
            PolicyMode::Fast => Mode::Fast,
        };
        let folder = |server: &ServerSpec| match &server.launch {
            Launch::Stdio { cwd: Some(cwd), .. } => {
                let folder = fs::canonicalize(cwd).unwrap_or_else(|_| cwd.clone());
                Some((server.name.clone(), folder.display().to_string()))
            }
            Launch::Stdio { cwd: None, .. }
            | Launch::Http(_)
            | Launch::SwitchedOff
            | Launch::Off { .. } => None,
        };
        let builtins = builtin_root.map(|root| (ServerName::builtin(), root.display().to_string()));
        let folders: HashMap<ServerName, String> =
            servers.iter().filter_map(folder).chain(builtins).collect();
        let policy = |layers: Vec<Layer>| {
            let policy = Policy::of(layers, filters.clone())
                .mode(mode)
                .ground(ground(Path::new(".")), folders.clone())
                .protecting(protected.clone());
            match guarded {
                true => policy.guarded(),
                false => policy,
            }
        };
        let tenants = self.tenants.iter().map(|(name, chosen)| {
            let own = policy(vec![layer(chosen)]);
            (name.clone(), Arc::new(own))
        });
        policy(self.chosen.iter().map(layer).collect()).tenants(tenants.collect())
    }

    /// The line about the policy that is printed at start.
    pub fn line(&self) -> String {
        let mut lines: Vec<String> = self.chosen.iter().map(Chosen::line).collect();
        let tenants = self.tenants.iter();
        lines
            .extend(tenants.map(|(name, chosen)| format!("for tenant `{name}` {}", chosen.line())));
        let mode = match self.mode {
            PolicyMode::Strict => "",
            PolicyMode::Fast => " (fast: by tool names only)",
        };
        format!("{}{mode}", lines.join("; and "))
    }

    /// The policy as the configuration would have it.
    pub(super) fn chosen(&self) -> PolicyChoice {
        match self.chosen.last() {
            None | Some(Chosen::Default) => PolicyChoice::Default,
            Some(Chosen::Cautious) => PolicyChoice::Cautious,
            Some(Chosen::AllowAll) => PolicyChoice::AllowAll,
            Some(Chosen::File(file)) => PolicyChoice::File(file.file.clone()),
        }
    }

    /// The files and what was read from them.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.policy_files()
            .map(|file| (file.file.as_path(), file.text.as_str()))
    }

    /// The files as they were read.
    pub fn policy_files(&self) -> impl Iterator<Item = &PolicyFile> {
        let all = self.chosen.iter().chain(self.tenants.values());
        all.filter_map(|chosen| match chosen {
            Chosen::File(file) => Some(file),
            Chosen::Default | Chosen::Cautious | Chosen::AllowAll => None,
        })
    }
}

impl Chosen {
    /// A project's policy file is used as it was read when trust was checked, not read again.
    fn read(choice: PolicyChoice, governing: Option<&Governing>) -> Result<Self, Failed> {
        Ok(match choice {
            PolicyChoice::Default => Self::Default,
            PolicyChoice::Cautious => Self::Cautious,
            PolicyChoice::AllowAll => Self::AllowAll,
            PolicyChoice::File(file) => {
                let known = governing.and_then(|governing| governing.content(&file));
                Self::File(match known {
                    Some(content) => PolicyFile::of(&file, content.to_vec())?,
                    None => PolicyFile::read(&file)?,
                })
            }
        })
    }

    fn line(&self) -> String {
        match self {
            Self::Default => {
                "policy default: calls that look destructive need approval, all others are allowed and recorded"
                    .to_owned()
            }
            Self::Cautious => {
                "policy cautious: calls of tools that do not declare themselves harmless need approval, all are recorded"
                    .to_owned()
            }
            Self::AllowAll => "policy allow-all: every call is allowed and recorded".to_owned(),
            Self::File(PolicyFile { file, rules, .. }) => {
                let name = rules.name().map_or(String::new(), |name| format!(" ({name})"));
                format!(
                    "policy `{}`{name}: {} rules, calls that no rule allows are denied, all are recorded",
                    file.display(),
                    rules.count()
                )
            }
        }
    }
}

impl PolicyFile {
    /// Reads and compiles a policy file.
    pub fn read(file: &Path) -> Result<Self, Failed> {
        let wrong = |error| Failed::config(format!("policy `{}`: {error}", file.display()));
        Self::of(file, regular_file::read(file).map_err(wrong)?)
    }

    /// Compiles the content of a policy file.
    fn of(file: &Path, text: Vec<u8>) -> Result<Self, Failed> {
        let shown = file.display().to_string();
        let text = String::from_utf8(text)
            .map_err(|_| Failed::config(format!("policy `{shown}` is not valid UTF-8")))?;
        let ground = ground(file.parent().unwrap_or(Path::new("")));
        let real = |folder: &str| Some(fs::canonicalize(folder).ok()?.display().to_string());
        let around = CompileContext {
            ground: &ground,
            real: &real,
        };
        let rules =
            Rules::read(&text, around).map_err(|problems| failed(&shown, &text, &problems))?;
        Ok(Self {
            file: file.to_owned(),
            text,
            rules: Arc::new(rules),
        })
    }
}

/// What `~` and relative paths mean in a folder.
pub fn ground(folder: &Path) -> PathBase {
    let folder = if folder == Path::new("") {
        Path::new(".")
    } else {
        folder
    };
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| PathBuf::from("/"));
    PathBase {
        home: env::var("HOME").ok().filter(|home| home.starts_with('/')),
        folder: folder.display().to_string(),
    }
}

fn of_flag(text: &str) -> Result<PolicyChoice, Failed> {
    let unknown =
        |what: String| Failed::user(what).help("use a file, default, cautious or allow-all");
    match text.parse() {
        Ok(PolicyChoice::File(file)) if !file.exists() => {
            Err(unknown(format!("there is no policy file `{text}`")))
        }
        Ok(choice) => Ok(choice),
        Err(()) => Err(unknown(format!("unknown policy `{text}`"))),
    }
}

/// All problems of a file as one failure. The help of a single problem is printed separately.
fn failed(file: &str, text: &str, problems: &[Problem]) -> Failed {
    const SORT: &str = "policy";
    if let [only] = problems {
        return complaint::of(SORT, file, text, only);
    }
    let shown = |problem: &Problem| match &problem.help {
        Some(help) => format!("{}\nhelp: {help}", problem.shown(SORT, file, text)),
        None => problem.shown(SORT, file, text),
    };
    let all: Vec<String> = problems.iter().map(shown).collect();
    Failed::config(all.join("\nerror: "))
}
