//! What this machine can enforce, found by making a sandbox that grants nothing.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::gap::{Enforced, Gap, gaps};
use super::handoff::{Handoff, Purpose, VARIABLE};
use super::{Mode, Namespaces, Sandbox};
use crate::warden;

/// What this machine enforces for sandboxed children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Whether a child can have namespaces of its own; the reason if not.
    pub namespaces: Result<(), String>,
    /// What a child gets, with namespaces if it can have them; `None` if no sandbox could be made.
    pub enforced: Option<Enforced>,
}

impl Probe {
    /// The gaps of a sandbox of this kind here.
    pub fn gaps(&self, sandbox: &Sandbox) -> Vec<Gap> {
        let reason = self.namespaces.as_ref().err().map(String::as_str);
        match self.enforced {
            Some(enforced) => gaps(sandbox, enforced, reason),
            None => vec![Gap::NoSandbox],
        }
    }

    /// Whether [`Mode::Required`] starts a child here.
    pub fn holds_required(&self) -> bool {
        let has_namespaces = self.namespaces.is_ok();
        let sandbox = Sandbox::new(Mode::Required);
        !self
            .gaps(&sandbox)
            .iter()
            .any(|gap| gap.is_severe(has_namespaces))
    }

    /// What holds here, one sentence per mechanism and gap, for people.
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        match (&self.namespaces, self.enforced) {
            (Ok(()), Some(_)) => sentences.push(
                "namespaces: yes; a sandboxed process has files, processes and a network of its own".to_owned(),
            ),
            (Err(reason), Some(_)) => sentences.push(format!("namespaces: no ({reason})")),
            (_, None) => {}
        }
        if let Some(enforced) = self.enforced {
            sentences.push(match enforced.landlock {
                0 => "Landlock: no".to_owned(),
                version => format!("Landlock: yes, version {version}"),
            });
            sentences.push(match enforced.system_calls {
                true => "seccomp: yes".to_owned(),
                false => "seccomp: no".to_owned(),
            });
        }
        let gaps = self.gaps(&Sandbox::new(Mode::BestEffort));
        sentences.extend(gaps.iter().map(|gap| format!("gap: {}", gap.sentence())));
        sentences
    }
}

/// Finds out what this machine enforces, once per process; takes a few milliseconds.
pub fn probe(warden_program: &Path) -> &'static Probe {
    static PROBE: OnceLock<Probe> = OnceLock::new();
    PROBE.get_or_init(|| run(warden_program))
}

fn run(warden_program: &Path) -> Probe {
    match trial(warden_program, Namespaces::WhereAllowed) {
        Ok(enforced) => Probe {
            namespaces: Ok(()),
            enforced: Some(enforced),
        },
        Err(reason) => Probe {
            namespaces: Err(reason),
            enforced: trial(warden_program, Namespaces::Off).ok(),
        },
    }
}

fn trial(warden_program: &Path, namespaces: Namespaces) -> Result<Enforced, String> {
    let sandbox = Sandbox {
        namespaces,
        ..Sandbox::new(Mode::BestEffort)
    };
    let handoff = Handoff::for_warden(sandbox, None, Purpose::Probe);
    let text = handoff.to_text().map_err(|error| error.to_string())?;
    let output = Command::new(warden_program)
        .arg(warden::SUBCOMMAND)
        .arg(std::process::id().to_string())
        .args(["--", "probe"])
        .env_clear()
        .env(VARIABLE, text)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    serde_json::from_slice(&output.stdout).map_err(|_| {
        let said = String::from_utf8_lossy(&output.stderr);
        let line = said.lines().last().unwrap_or("the warden gave no reason");
        let reason = line.strip_prefix(warden::NOT_STARTED_PREFIX);
        reason
            .and_then(|rest| rest.split_once("`: "))
            .map_or(line, |(_, reason)| reason)
            .to_owned()
    })
}
