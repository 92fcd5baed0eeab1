//! Hostile files for a probe: configuration of a user and of a project that would run a command, have a file read or send a
//! request to another address, if an agent obeyed it.
//!
//! The files are those of the corpus in `crates/agent/hostile` that are marked for the probe. All are planted at once.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    AgentKind,
    access::{self, Variables},
    folder::Folder,
};

const COMMON: &str = include_str!("../../hostile/common.json");
/// The text that an agent must not read.
const CANARY: &str = "canary-of-the-probe";

/// What a hostile file achieved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// A command ran.
    Ran,
    /// A file outside of the project reached the model.
    Read,
    /// A request went to another address.
    Sent,
}

/// One case of the corpus.
#[derive(Debug, Deserialize)]
struct Case {
    #[cfg(test)]
    name: String,
    /// Whether the probe plants it.
    #[serde(default)]
    probe: bool,
    #[serde(default)]
    files: BTreeMap<String, Value>,
    #[serde(default)]
    links: BTreeMap<String, String>,
    #[serde(default)]
    programs: BTreeMap<String, String>,
    #[cfg(test)]
    #[serde(default)]
    variables: BTreeMap<String, String>,
    #[cfg(test)]
    prompt: Option<String>,
}

/// The planted files.
pub(super) struct Planted {
    /// How many files there are.
    pub(super) count: usize,
    /// The user's home, the canary and the marker are in it.
    folder: Folder,
    was_asked: Arc<AtomicBool>,
    _listening: AbortOnDropHandle<()>,
}

impl Planted {
    pub(super) async fn plant(kind: AgentKind, workdir: &Path) -> io::Result<Self> {
        let folder = Folder::make()?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port().to_string();
        let was_asked = Arc::new(AtomicBool::new(false));
        let mut planted = Self {
            count: 0,
            folder,
            was_asked: was_asked.clone(),
            _listening: AbortOnDropHandle::new(tokio::spawn(async move {
                while listener.accept().await.is_ok() {
                    was_asked.store(true, Ordering::Release);
                }
            })),
        };
        fs::create_dir_all(planted.home())?;
        fs::write(planted.canary(), CANARY)?;
        for case in cases(kind)? {
            planted.plant_case(&case, workdir, &port)?;
        }
        Ok(planted)
    }

    fn plant_case(&mut self, case: &Case, workdir: &Path, port: &str) -> io::Result<()> {
        let words = [
            ("%MARK%", self.mark().display().to_string()),
            ("%CANARY%", self.canary().display().to_string()),
            ("%TEXT%", CANARY.to_owned()),
            ("%URL%", format!("http://127.0.0.1:{port}")),
            ("%DESK%", workdir.display().to_string()),
            ("%HOME%", self.home().display().to_string()),
        ];
        let filled = |text: &str| {
            let all = words.iter();
            all.fold(text.to_owned(), |text, (word, value)| {
                text.replace(word, value)
            })
        };
        for (name, content) in &case.files {
            let text = match content {
                Value::String(text) => filled(text),
                other => filled(&other.to_string()),
            };
            fs::write(self.path(name, workdir)?, text)?;
        }
        for (name, target) in &case.links {
            symlink(filled(target), self.path(name, workdir)?)?;
        }
        for (name, text) in &case.programs {
            let path = self.path(name, workdir)?;
            fs::write(&path, filled(text))?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
        }
        self.count += case.files.len() + case.links.len() + case.programs.len();
        Ok(())
    }

    /// The path of a planted file, whose folder exists afterwards.
    fn path(&self, name: &str, workdir: &Path) -> io::Result<PathBuf> {
        let path = match name.split_once('/') {
            Some(("desk", below)) => workdir.join(below),
            Some(("home", below)) => self.home().join(below),
            _ => return Err(io::Error::other(format!("the corpus has a file `{name}`"))),
        };
        fs::create_dir_all(path.with_file_name(""))?;
        Ok(path)
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("users-home")
    }

    fn canary(&self) -> PathBuf {
        self.folder.path().join("canary.txt")
    }

    fn mark(&self) -> PathBuf {
        self.folder.path().join("mark")
    }

    /// The environment of the hostile user. Logins and chosen services of the real one would lead the agent away from the
    /// scripted model.
    pub(super) fn environment(&self, users: &[(String, String)]) -> Vec<(String, String)> {
        let mut env = access::passed(Variables(users), &[], true);
        env.push(("HOME".to_owned(), self.home().display().to_string()));
        env
    }

    /// What the files have achieved, given the requests that reached the model.
    pub(super) fn effects(&self, requests: &[Value]) -> Vec<Effect> {
        let was_read = || {
            requests
                .iter()
                .any(|request| request.to_string().contains(CANARY))
        };
        let all = [
            (Effect::Ran, self.mark().exists()),
            (Effect::Read, was_read()),
            (Effect::Sent, self.was_asked.load(Ordering::Acquire)),
        ];
        let found = all.into_iter().filter(|(_, has_happened)| *has_happened);
        found.map(|(effect, _)| effect).collect()
    }
}

/// The cases that a probe of this agent plants.
fn cases(kind: AgentKind) -> io::Result<Vec<Case>> {
    let mut all = parsed(COMMON)?;
    all.extend(parsed(own(kind))?);
    all.retain(|case| case.probe);
    Ok(all)
}

fn parsed(text: &str) -> io::Result<Vec<Case>> {
    Ok(serde_json::from_str(text)?)
}

fn own(kind: AgentKind) -> &'static str {
    match kind {
        AgentKind::Claude => include_str!("../../hostile/claude.json"),
        AgentKind::Gemini => include_str!("../../hostile/gemini.json"),
        AgentKind::Codex => include_str!("../../hostile/codex.json"),
        AgentKind::OpenCode => include_str!("../../hostile/opencode.json"),
        AgentKind::OpenAiCompatible => "[]",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    #[test]
    fn every_agent_has_forty_cases_with_names_of_their_own() {
        for kind in AgentKind::PROGRAMS {
            let cases = parsed(own(*kind)).unwrap();
            let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
            assert_eq!(names.len(), cases.len(), "{kind}");
            assert!(cases.len() >= 40, "{kind}: {}", cases.len());
        }
    }

    #[test]
    fn cases_of_a_probe_plant_no_file_twice_and_need_nothing_but_files() {
        for kind in AgentKind::PROGRAMS {
            let cases = cases(*kind).unwrap();
            assert!(cases.len() >= 5, "{kind}");
            let mut names = BTreeSet::new();
            for case in &cases {
                let files = case.files.keys().chain(case.links.keys());
                for name in files.chain(case.programs.keys()) {
                    assert!(names.insert(name.clone()), "{kind} {}: {name}", case.name);
                }
                assert!(case.variables.is_empty() && case.prompt.is_none());
            }
        }
    }

    #[tokio::test]
    async fn effects_of_planted_files_are_noticed() {
        let work = tempfile::TempDir::new().unwrap();
        let planted = Planted::plant(AgentKind::Claude, work.path())
            .await
            .unwrap();
        assert!(planted.count >= 10);
        assert_eq!(planted.effects(&[json!({"text": "x"})]), []);
        let written = fs::read_to_string(work.path().join(".claude/settings.json")).unwrap();
        let settings: Value = serde_json::from_str(&written).unwrap();
        let helper = settings["apiKeyHelper"].as_str().unwrap();
        let ran = std::process::Command::new("sh")
            .args(["-c", helper])
            .status();
        assert!(ran.unwrap().success());
        assert_eq!(planted.effects(&[]), [Effect::Ran]);
        let text = fs::read_to_string(planted.canary()).unwrap();
        let effects = planted.effects(&[json!({"text": text})]);
        assert_eq!(effects, [Effect::Ran, Effect::Read]);
        let env = planted.environment(&[("CLAUDE_CONFIG_DIR".to_owned(), "x".to_owned())]);
        assert_eq!(env.len(), 1);
        let npmrc = fs::read_to_string(work.path().join(".npmrc")).unwrap();
        let address = npmrc.split("http://").nth(1).unwrap().lines().next();
        let _stream = std::net::TcpStream::connect(address.unwrap()).unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while !planted.effects(&[]).contains(&Effect::Sent) {
            assert!(std::time::Instant::now() < deadline);
            tokio::task::yield_now().await;
        }
    }
}
