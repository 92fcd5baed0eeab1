//! `cargo xtask package`: the binaries that users get, stripped, with their line tables in `.debug` files.
//!
//! Backtraces and debuggers find a `.debug` file by the link in its binary as long as both lie in one folder.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::command::{self, cargo, output};

const BINARIES: [&str; 2] = ["callgate", "callgate-warden"];

/// Builds, splits and lists the files in `target/package`.
pub(crate) fn run() -> Result<()> {
    let build = ["build", "--locked", "--profile", "dist"];
    command::run(cargo().args(build).args(["-p", "callgate-cli", "--bins"]))?;
    let metadata = output(cargo().args(["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: Value = serde_json::from_str(&metadata).context("cargo metadata prints JSON")?;
    let target = metadata["target_directory"].as_str();
    let target = Path::new(target.context("cargo metadata names no target folder")?);
    let folder = target.join("package");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for name in BINARIES {
        split(&target.join("dist").join(name), &folder, name)?;
    }
    Ok(())
}

/// Puts a stripped copy of `built` and its `.debug` file into `folder`.
fn split(built: &Path, folder: &Path, name: &str) -> Result<()> {
    let debug_name = format!("{name}.debug");
    // objcopy stores the link as the path is given, so it runs where both files are.
    let objcopy = |arguments: &[&str], files: [&Path; 2]| {
        let mut objcopy = command::command("objcopy");
        command::run(objcopy.current_dir(folder).args(arguments).args(files))
            .context("objcopy comes with the C compiler's binutils")
    };
    let (stripped, debug) = (Path::new(name), Path::new(&debug_name));
    objcopy(
        &["--only-keep-debug", "--compress-debug-sections"],
        [built, debug],
    )?;
    let link = format!("--add-gnu-debuglink={debug_name}");
    objcopy(&["--strip-all", &link], [built, stripped])?;
    for file in [name, &debug_name] {
        let bytes = fs::metadata(folder.join(file))?.len();
        println!("{:8.1} MB  target/package/{file}", bytes as f64 / 1e6);
    }
    Ok(())
}
