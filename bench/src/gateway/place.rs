//! Where the programs are: this one, and the release build of the gateway.

use std::{path::PathBuf, process::Command, sync::OnceLock};

use anyhow::{Context, bail};

/// This program, which is also the echo upstream and the raw pass-through.
pub(crate) fn own_program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("our own program")
}

/// The gateway that is measured.
static GATEWAY: OnceLock<PathBuf> = OnceLock::new();

/// Takes this gateway instead of building one, so that two builds can be compared.
pub(crate) fn take_gateway(program: PathBuf) {
    GATEWAY.get_or_init(|| program);
}

/// The gateway: the one to take, or one that is built like this program, once.
pub(crate) fn callgate() -> anyhow::Result<PathBuf> {
    if let Some(program) = GATEWAY.get() {
        return Ok(program.clone());
    }
    let program = build()?;
    Ok(GATEWAY.get_or_init(|| program).clone())
}

fn build() -> anyhow::Result<PathBuf> {
    let profile = if cfg!(debug_assertions) {
        "dev"
    } else {
        "release"
    };
    let built = Command::new("cargo")
        .args([
            "build",
            "--quiet",
            "--package",
            "callgate-cli",
            "--profile",
            profile,
        ])
        .status()
        .context("cargo")?;
    if !built.success() {
        bail!("the gateway does not build");
    }
    Ok(own_program()?.with_file_name("callgate"))
}
