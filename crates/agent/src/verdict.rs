//! Verdicts on whether an agent can be isolated, so that it only has the gate's tools: from probes on this machine, and
//! from the table of tested versions. Without a verdict an agent counts as not isolated.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{
    AgentKind, StepFailed,
    access::{self, Variables},
    ask::{Question, ask},
    cli::AgentCli,
    folder::Folder,
    home::OwnHome,
};

/// The file in the data folder.
const FILE: &str = "agents.json";

/// Whether an agent's native tools can be disabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The agent has the gate's tools alone.
    Isolated,
    /// The agent keeps native tools beside the gate's.
    Coexists,
}

/// The verdicts on the agents of this machine, stored in the data folder.
#[derive(Debug, Clone)]
pub struct Verdicts {
    file: PathBuf,
}

/// An agent's program as it is installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Installed {
    /// From the output of `--version`.
    pub(crate) version: String,
    /// SHA-256 of the program.
    pub(crate) sha256: String,
    /// Size, modification time and inode of the program. While they match, the file is not hashed again.
    stamp: String,
}

/// The output of `--version`. The user's variables and files could make the program load others even for that question.
async fn version(
    warden_program: &Path,
    name: &str,
    users: &[(String, String)],
) -> Result<String, StepFailed> {
    let folder = Folder::make()?;
    let home = OwnHome::make(&folder)?;
    let mut env = access::passed(Variables(users), &[], true);
    env.extend(home.variables());
    let question = Question {
        program: name,
        args: &["--version"],
        env: &env,
        cwd: &home.work(),
        sandbox: None,
    };
    ask(warden_program, &question).await
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct VerdictFile {
    /// By the path of the program.
    #[serde(default)]
    installed: BTreeMap<PathBuf, (String, Installed)>,
    /// By provider, version and hash.
    #[serde(default)]
    verdicts: BTreeMap<String, Verdict>,
}

impl Verdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Isolated => "isolated",
            Self::Coexists => "coexists",
        }
    }
}

impl Verdicts {
    pub fn of(data_dir: &Path) -> Self {
        Self {
            file: data_dir.join(FILE),
        }
    }

    /// The verdict on the installed agent; `None` if there is none.
    pub async fn of_installed(
        &self,
        warden_program: &Path,
        kind: AgentKind,
        env: &[(String, String)],
    ) -> Option<Verdict> {
        let Some(cli) = kind.cli() else {
            // A model without a program has no native tools.
            return Some(Verdict::Isolated);
        };
        let installed = self.installed(warden_program, cli, env).await.ok()?;
        known(&self.read(), kind, &installed)
    }

    /// The installed program. Its version is only queried if the file has changed since the last time.
    pub(crate) async fn installed(
        &self,
        warden_program: &Path,
        cli: &dyn AgentCli,
        env: &[(String, String)],
    ) -> Result<Installed, StepFailed> {
        let name = cli.program();
        let program = find(name, env).ok_or_else(|| not_installed(name))?;
        let stamp = stamp(&program)?;
        let mut kept = self.read();
        if let Some((_, installed)) = kept.installed.get(&program)
            && installed.stamp == stamp
        {
            return Ok(installed.clone());
        }
        let said = version(warden_program, name, env).await?;
        let installed = Installed {
            version: version_in(&said).ok_or_else(|| without_version(name))?,
            sha256: hash(&program)?,
            stamp,
        };
        kept.installed
            .insert(program, (name.to_owned(), installed.clone()));
        self.write(&kept);
        Ok(installed)
    }

    /// Stores the verdict of a probe.
    pub(crate) fn keep(&self, kind: AgentKind, installed: &Installed, verdict: Verdict) {
        let mut kept = self.read();
        kept.verdicts.insert(key(kind, installed), verdict);
        self.write(&kept);
    }

    /// The agents on this machine with the verdict `isolated`.
    pub(crate) fn isolated_here(&self) -> Vec<AgentKind> {
        let kept = self.read();
        let is_isolated = |kind: &AgentKind| {
            kept.installed.values().any(|(name, installed)| {
                name == kind.as_str() && known(&kept, *kind, installed) == Some(Verdict::Isolated)
            })
        };
        AgentKind::PROGRAMS
            .iter()
            .copied()
            .filter(is_isolated)
            .collect()
    }

    fn read(&self) -> VerdictFile {
        let text = fs::read_to_string(&self.file).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Best effort: a verdict that could not be stored is only determined again.
    fn write(&self, kept: &VerdictFile) {
        let fresh = self.file.with_extension("json.tmp");
        let written = serde_json::to_vec_pretty(kept)
            .map_err(io::Error::from)
            .and_then(|text| {
                let mut file = fs::OpenOptions::new()
                    .write(true)
                    .create(true)
                    .truncate(true)
                    .mode(0o600)
                    .open(&fresh)?;
                io::Write::write_all(&mut file, &text)?;
                fs::rename(&fresh, &self.file)
            });
        if let Err(error) = written {
            crate::log::verdicts_not_kept(&error);
        }
    }
}

pub(crate) fn not_installed(program: &str) -> StepFailed {
    StepFailed::NotStarted {
        program: program.to_owned(),
        reason: "it is not on the PATH".to_owned(),
    }
}

fn without_version(program: &str) -> StepFailed {
    StepFailed::NotStarted {
        program: program.to_owned(),
        reason: "`--version` printed no version number".to_owned(),
    }
}

/// The warning before a step whose agent keeps its native tools. Its text is fixed by contract.
pub(crate) fn warning(kind: AgentKind, isolated: &[AgentKind]) -> String {
    let mut text = format!(
        "WARN: mcp_proxy on provider={kind} runs in coexistence mode.\n      \
         Built-in tools cannot be disabled and may bypass the proxy.\n      \
         Use 'claude' or 'openai-compatible' for guaranteed MCP-only isolation."
    );
    if !isolated.is_empty() {
        let names: Vec<&str> = isolated.iter().map(|kind| kind.as_str()).collect();
        text.push_str(&format!(
            "\n      Isolated on this machine: {}",
            names.join(", ")
        ));
    }
    text
}

/// A probe on this machine overrides the table of tested versions.
fn known(kept: &VerdictFile, kind: AgentKind, installed: &Installed) -> Option<Verdict> {
    if let Some(verdict) = kept.verdicts.get(&key(kind, installed)) {
        return Some(*verdict);
    }
    let checked = kind.cli().map(AgentCli::isolated_version);
    (checked == Some(installed.version.as_str())).then_some(Verdict::Isolated)
}

fn key(kind: AgentKind, installed: &Installed) -> String {
    format!("{kind} {} {}", installed.version, installed.sha256)
}

/// Finds a program on the `PATH`, with symlinks resolved.
fn find(name: &str, env: &[(String, String)]) -> Option<PathBuf> {
    let (_, path) = env.iter().rev().find(|(known, _)| known == "PATH")?;
    let is_program = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|data| data.is_file() && data.mode() & 0o111 != 0)
    };
    let found = std::env::split_paths(path)
        .map(|folder| folder.join(name))
        .find(is_program)?;
    fs::canonicalize(found).ok()
}

fn stamp(program: &Path) -> io::Result<String> {
    let data = fs::metadata(program)?;
    Ok(format!(
        "{} {}.{} {}",
        data.len(),
        data.mtime(),
        data.mtime_nsec(),
        data.ino()
    ))
}

fn hash(program: &Path) -> io::Result<String> {
    let mut file = fs::File::open(program)?;
    let mut hasher = Sha256::new();
    let mut piece = vec![0; 1024 * 1024];
    loop {
        match file.read(&mut piece)? {
            0 => break,
            length => hasher.update(&piece[..length]),
        }
    }
    let digest = hasher.finalize();
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The first word that looks like a version.
fn version_in(text: &str) -> Option<String> {
    let is_version = |word: &&str| {
        let word = word.trim_start_matches('v');
        word.split('.').count() >= 3 && word.starts_with(|c: char| c.is_ascii_digit())
    };
    let found = text.split_whitespace().find(is_version)?;
    Some(found.trim_start_matches('v').to_owned())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn versions_are_parsed_from_program_output() {
        for (said, version) in [
            ("2.1.325 (Claude Code)\n", Some("2.1.325")),
            ("0.61.0\n", Some("0.61.0")),
            ("codex-cli 0.166.0\n", Some("0.166.0")),
            ("v1.18.33", Some("1.18.33")),
            ("no version here", None),
        ] {
            assert_eq!(version_in(said).as_deref(), version, "{said}");
        }
    }

    #[test]
    fn the_coexistence_warning_has_its_exact_text() {
        expect![[r#"
            WARN: mcp_proxy on provider=codex runs in coexistence mode.
                  Built-in tools cannot be disabled and may bypass the proxy.
                  Use 'claude' or 'openai-compatible' for guaranteed MCP-only isolation.
                  Isolated on this machine: claude, gemini"#]]
        .assert_eq(&warning(
            AgentKind::Codex,
            &[AgentKind::Claude, AgentKind::Gemini],
        ));
    }

    #[test]
    fn a_probed_verdict_overrides_the_version_table() {
        let installed = Installed {
            version: "2.1.325".to_owned(),
            sha256: "aa".to_owned(),
            stamp: String::new(),
        };
        let mut kept = VerdictFile::default();
        let of = |kept: &VerdictFile, kind| known(kept, kind, &installed);
        assert_eq!(of(&kept, AgentKind::Claude), Some(Verdict::Isolated));
        assert_eq!(of(&kept, AgentKind::Codex), None);
        kept.verdicts
            .insert(key(AgentKind::Claude, &installed), Verdict::Coexists);
        assert_eq!(of(&kept, AgentKind::Claude), Some(Verdict::Coexists));
    }
}
