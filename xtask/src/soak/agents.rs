//! The four agents as they are published, against a scripted model on loopback.

use anyhow::Result;

use super::install;
use crate::command::{cargo, command, root, run as run_command};

/// Steps of the four agents: a probe, a configured user, and eight scenarios with namespaces and without.
pub(super) fn run() -> Result<()> {
    run_script(&[])
}

/// The corpus of hostile projects and users, one step for each case with namespaces and without, and one bare agent.
pub(super) fn hostile() -> Result<()> {
    run_script(&["hostile"])
}

/// Each agent at a terminal: denied, held and approved, and large calls. Takes the pictures in docs/pictures.
pub(super) fn attended() -> Result<()> {
    run_script(&["attended"])
}

/// Builds the binaries and runs the script that installs the agents.
fn run_script(args: &[&str]) -> Result<()> {
    let built = ["-p", "callgate-cli", "-p", "callgate-testkit", "--bins"];
    run_command(cargo().arg("build").args(built))?;
    let folder = install::folder()?.join("agents");
    run_command(
        command("bash")
            .arg(root().join("e2e/agents.sh"))
            .arg(callgate_testkit::callgate())
            .arg(folder)
            .args(args),
    )
}
