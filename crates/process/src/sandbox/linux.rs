//! The sandbox on Linux.
//!
//! With namespaces: the warden enters a user namespace and starts itself again as the first process of a process namespace
//! ([`init`]), which makes the other namespaces, the [`root`] folder and the [`relay`], restricts itself and starts the
//! command. Without: the warden starts itself again, restricts itself ([`confine`]) and becomes the command. No step needs
//! code between `fork` and `exec`, which safe Rust does not have.

mod calls;
mod confine;
mod files;
mod init;
mod loopback;
mod making;
mod mounts;
mod namespaces;
mod relay;
mod restrict;
mod root;

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};

use rustix::process::Pid;

use super::gap::{Enforced, GAP_PREFIX, gaps};
use super::handoff::{Handoff, Purpose, Stage, VARIABLE};
use super::{Mode, Namespaces};
use crate::warden::{self, tree};

/// The name of the first process of a sandbox in process lists.
const PROCESS_NAME: &str = "cg-sandbox";

/// Why a sandbox could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SetupError {
    #[error("{step}: {source}")]
    Step { step: String, source: io::Error },
    #[error("its sandbox is required and incomplete here: {sentence}")]
    Incomplete { sentence: String },
    #[error("the gateway ended before the sandbox was made")]
    ParentGone,
    #[error("{reason}")]
    NotStarted { reason: String },
}

impl SetupError {
    /// For `map_err`: names the step that failed.
    fn at(step: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let step = step.into();
        |source| Self::Step { step, source }
    }
}

/// Starts the process that makes the sandbox and then runs `argv` in it. Called by the warden.
pub(crate) fn spawn(handoff: &Handoff, argv: &[OsString]) -> Result<Child, SetupError> {
    let has_namespaces = has_namespaces(handoff);
    if has_namespaces {
        namespaces::enter_user_namespace()?;
    }
    let stage = match has_namespaces {
        true => Stage::Init,
        false => Stage::Confine,
    };
    let next = Handoff {
        stage,
        ..handoff.clone()
    };
    let text = next
        .to_text()
        .map_err(|error| SetupError::at("could not pass the sandbox on")(error.into()))?;
    // What the gateway itself inherited from its parent is not for the command.
    close_fds::set_fds_cloexec(3, &[]);
    let program =
        warden::own_program().map_err(SetupError::at("could not find the own program"))?;
    Command::new(program)
        .arg0(PROCESS_NAME)
        .arg(warden::SUBCOMMAND)
        .arg(std::process::id().to_string())
        .arg("--")
        .args(argv)
        .env(VARIABLE, text)
        .spawn()
        .map_err(SetupError::at(
            "could not start the sandbox's first process",
        ))
}

/// Whether the command needs a private folder of the system's for temporary files.
pub(crate) fn needs_scratch(handoff: &Handoff) -> bool {
    !has_namespaces(handoff)
}

fn has_namespaces(handoff: &Handoff) -> bool {
    handoff.no_namespaces.is_none() && handoff.sandbox.namespaces == Namespaces::WhereAllowed
}

/// Runs the stage of the sandbox that this process was started for.
pub(crate) fn run(handoff: &Handoff, parent: u32, argv: &[OsString]) -> ExitCode {
    let result = match handoff.stage {
        Stage::Warden | Stage::Init => init::run(handoff, parent, argv),
        Stage::Confine => confine::run(handoff, parent, argv),
    };
    result.unwrap_or_else(|error| {
        let command = argv
            .first()
            .map(|word| word.to_string_lossy())
            .unwrap_or_default();
        // Fails if stderr is closed; the exit code has the same meaning.
        let _ = writeln!(
            io::stderr(),
            "{}{command}`: {error}",
            warden::NOT_STARTED_PREFIX
        );
        ExitCode::from(warden::EXIT_NOT_STARTED)
    })
}

/// Makes this process end with its parent, however that ends.
fn die_with_parent(parent: u32) -> Result<(), SetupError> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|errno| SetupError::at("could not watch the warden")(errno.into()))?;
    // The parent may have ended before. In a process namespace, only this folder still shows the parent's id.
    let alive = tree::parent_of_self().is_some_and(|id| u32::try_from(id) == Ok(parent));
    if alive {
        Ok(())
    } else {
        Err(SetupError::ParentGone)
    }
}

/// Refuses or reports what is not enforced.
fn settle(handoff: &Handoff, enforced: Enforced) -> Result<(), SetupError> {
    let gaps = gaps(&handoff.sandbox, enforced, handoff.no_namespaces.as_deref());
    let has_namespaces = has_namespaces(handoff);
    let severe = gaps.iter().find(|gap| gap.is_severe(has_namespaces));
    match (handoff.sandbox.mode, severe, handoff.purpose) {
        (Mode::Required, Some(gap), Purpose::Run) => Err(SetupError::Incomplete {
            sentence: gap.sentence(),
        }),
        (_, _, Purpose::Probe) => Ok(()),
        (Mode::Required | Mode::BestEffort, _, Purpose::Run) => {
            for gap in gaps {
                // Fails if stderr is closed.
                let _ = writeln!(io::stderr(), "{GAP_PREFIX}{}", gap.sentence());
            }
            Ok(())
        }
    }
}

/// Prints what was enforced, for [`super::probe`].
fn report(enforced: Enforced) -> Result<ExitCode, SetupError> {
    let text = serde_json::to_string(&enforced).map_err(io::Error::from);
    text.and_then(|text| io::stdout().write_all(text.as_bytes()))
        .map_err(SetupError::at("could not print what is enforced"))?;
    Ok(ExitCode::SUCCESS)
}

/// The command, with the environment of a sandboxed process.
fn command(argv: &[OsString], environment: Vec<(String, OsString)>) -> Result<Command, SetupError> {
    let (program, args) = argv.split_first().ok_or_else(|| SetupError::NotStarted {
        reason: "no command given after `--`".to_owned(),
    })?;
    let mut command = Command::new(program);
    command.args(args).env_remove(VARIABLE).envs(environment);
    Ok(command)
}

/// The variables that tell programs of the proxy at `authority`, and of the hosts that need none.
fn proxy_variables(authority: &str, without: &str) -> impl Iterator<Item = (String, OsString)> {
    super::proxy_variables(authority, without)
        .into_iter()
        .map(|(name, value)| (name, value.into()))
}

/// The absolute path in variable `name`.
fn folder_variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute() && path.parent().is_some())
}

/// A granted or hidden path without links.
fn real(path: &Path) -> Result<PathBuf, SetupError> {
    path.canonicalize().map_err(SetupError::at(format!(
        "could not grant `{}`",
        path.display()
    )))
}

fn pid_of(child: &Child) -> Option<Pid> {
    Pid::from_raw(child.id().cast_signed())
}
