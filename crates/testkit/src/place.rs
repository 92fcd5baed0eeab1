//! Where things are while a test runs: binaries, data folders, processes, and waiting for them.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

/// How often a condition is polled.
const POLL: Duration = Duration::from_millis(10);

/// The path of a fixture binary of this crate, built first when it is missing or older than its sources.
///
/// # Panics
/// When it cannot be built: a test without its fixture has nothing to say.
pub fn bin(name: &str) -> PathBuf {
    static BUILT: OnceLock<()> = OnceLock::new();
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    BUILT.get_or_init(|| {
        let binaries = fixtures(crate_dir);
        fresh(
            &binaries,
            &[crate_dir.to_path_buf()],
            &["-p", "callgate-testkit", "--bins"],
        );
    });
    let path = built_dir().join(name);
    assert!(path.exists(), "no fixture `{name}` in this crate");
    path
}

/// The path of the product's binary, built first when it is missing or older than its sources.
///
/// # Panics
/// When it cannot be built.
pub fn callgate() -> PathBuf {
    static BUILT: OnceLock<()> = OnceLock::new();
    let path = built_dir().join("callgate");
    BUILT.get_or_init(|| {
        fresh(
            std::slice::from_ref(&path),
            &product_sources(),
            &["-p", "callgate-cli", "--bins"],
        )
    });
    path
}

/// A data folder that is gone when this is dropped.
#[derive(Debug)]
pub struct DataDir {
    dir: TempDir,
}

impl DataDir {
    /// A new, empty folder.
    ///
    /// # Panics
    /// When the system's temporary folder cannot be written.
    pub fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("callgate-").tempdir();
        Self {
            dir: dir.expect("the temporary folder is writable"),
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a file into the folder and returns its path.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, text).expect("a fresh folder is writable");
        path
    }

    /// The text of a file in the folder; empty when there is none yet.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).unwrap_or_default()
    }
}

impl Default for DataDir {
    fn default() -> Self {
        Self::new()
    }
}

/// The living processes, this one apart, whose arguments or environment contain the marker.
pub fn processes_with(marker: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let own = std::process::id();
    let mut found: Vec<u32> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != own)
        // A zombie has neither arguments nor environment, so it is not counted as living.
        .filter(|pid| {
            ["cmdline", "environ"]
                .iter()
                .any(|file| mentions(*pid, file, marker))
        })
        .collect();
    found.sort_unstable();
    found
}

/// Looks at the condition until it holds or the time is up; returns whether it held.
pub fn wait_until(deadline: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + deadline;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(POLL);
    }
}

/// Looks at the condition until it holds, for tests whose own tasks go on meanwhile.
///
/// # Panics
/// When it does not hold after a minute.
pub async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    let mut look = tokio::time::interval(POLL);
    while !condition() {
        assert!(Instant::now() < end, "never came true: {what}");
        look.tick().await;
    }
}

/// `target/<profile>`, seen from a test executable, which lies in its `deps`, or from a binary in it.
fn built_dir() -> PathBuf {
    let exe = std::env::current_exe().expect("a running program has a path");
    let dir = exe.parent().expect("a program lies in a folder");
    if dir.ends_with("deps") {
        dir.parent()
            .expect("`deps` lies in the profile's folder")
            .to_path_buf()
    } else {
        dir.to_path_buf()
    }
}

fn workspace() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    root.expect("this crate lies two folders below the workspace")
        .to_path_buf()
}

fn product_sources() -> Vec<PathBuf> {
    let crates = fs::read_dir(workspace().join("crates"))
        .into_iter()
        .flatten()
        .flatten();
    crates
        .map(|entry| entry.path())
        .filter(|path| !path.ends_with("testkit"))
        .collect()
}

/// Builds when a binary is missing, or when a source is newer than all of them: cargo leaves alone a
/// binary that a change does not concern, so the newest one tells when the last build was.
fn fresh(binaries: &[PathBuf], sources: &[PathBuf], what: &[&str]) {
    let modified = |path: &PathBuf| fs::metadata(path).and_then(|data| data.modified()).ok();
    let complete = binaries.iter().all(|path| path.exists());
    let built = binaries.iter().filter_map(modified).max();
    let newest = sources
        .iter()
        .filter_map(|folder| newest_source(folder))
        .max();
    if !complete || built < newest {
        build(what).expect("the binary under test can be built");
    }
}

/// Where the binaries of a crate lie once they are built.
fn fixtures(crate_dir: &Path) -> Vec<PathBuf> {
    let sources = fs::read_dir(crate_dir.join("src/bin"))
        .into_iter()
        .flatten()
        .flatten();
    sources
        .filter_map(|entry| Some(built_dir().join(entry.path().file_stem()?)))
        .collect()
}

/// The newest change in a crate's manifest or sources.
fn newest_source(krate: &Path) -> Option<SystemTime> {
    let mut newest = fs::metadata(krate.join("Cargo.toml"))
        .and_then(|data| data.modified())
        .ok();
    let mut folders = vec![krate.join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                newest = newest.max(entry.metadata().and_then(|data| data.modified()).ok());
            }
        }
    }
    newest
}

fn build(what: &[&str]) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let profile = built_dir();
    let profile = profile
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or("debug");
    let profile = if profile == "debug" { "dev" } else { profile };
    let output = Command::new(cargo)
        .arg("build")
        .args(what)
        .args(["--profile", profile])
        .current_dir(workspace())
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!(
            "cargo build failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}

fn mentions(pid: u32, file: &str, marker: &str) -> bool {
    let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    bytes
        .windows(marker.len().max(1))
        .any(|window| window == marker.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marked_process_is_found_until_it_ends() {
        let marker = format!("marker-of-{}", std::process::id());
        let mut child = Command::new("sleep")
            .arg("600")
            .env("MARK", &marker)
            .spawn()
            .expect("sleep exists");
        assert!(wait_until(Duration::from_secs(5), || processes_with(
            &marker
        ) == [child.id()]));
        child.kill().expect("it is ours");
        assert!(wait_until(Duration::from_secs(5), || processes_with(
            &marker
        )
        .is_empty()));
        child.wait().expect("it is ours");
    }

    #[test]
    fn waiting_for_a_false_condition_times_out() {
        assert!(!wait_until(Duration::from_millis(30), || false));
    }
}
