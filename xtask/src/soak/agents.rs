//! The four agents as they are published, against a scripted model on loopback.

use anyhow::Result;

use super::install;
use crate::command::{cargo, command, root, run as run_command};

/// Builds the binary and runs the script that installs the agents and looks at them.
pub(super) fn run() -> Result<()> {
    run_command(cargo().args(["build", "-p", "callgate-cli", "--bins"]))?;
    let folder = install::folder()?.join("agents");
    run_command(
        command("bash")
            .arg(root().join("e2e/agents.sh"))
            .arg(root().join("target/debug/callgate"))
            .arg(folder),
    )
}
