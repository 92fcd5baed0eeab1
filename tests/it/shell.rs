//! The binary as typed into a shell: in a clean environment, with a home and a data folder of its own.

use std::ffi::OsStr;
use std::process::Command;

use callgate_testkit::callgate;

use crate::setup::Bed;

/// What a command left behind.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Its exit code.
    pub(crate) code: Option<i32>,
    /// Data.
    pub(crate) stdout: String,
    /// Everything else.
    pub(crate) stderr: String,
}

/// A command in the bed's folder, which is also where its home and its data folder are. Nothing
/// names the configuration that lies there.
pub(crate) fn typed<S: AsRef<OsStr>>(bed: &Bed, args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(callgate());
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", bed.path("home"))
        .env("CALLGATE_DATA_DIR", bed.path("data"))
        .current_dir(bed.path(""))
        .args(args);
    command
}

/// The same with the configuration named.
pub(crate) fn named<S: AsRef<OsStr>>(bed: &Bed, args: impl IntoIterator<Item = S>) -> Command {
    let mut command = typed(bed, args);
    command.env("CALLGATE_CONFIG", bed.path("callgate.yaml"));
    command
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> Ran {
    let output = command.output().expect("the binary starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran {
        code: output.status.code(),
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
    }
}

/// Puts `$DIR` where the bed's folder stands, so that the rest can be compared.
pub(crate) fn normalised(bed: &Bed, text: &str) -> String {
    let folder = bed.path("");
    let real = std::fs::canonicalize(&folder).expect("the folder is there");
    let mut text = text.to_owned();
    for path in [real, folder] {
        let path = path.display().to_string();
        text = text.replace(path.trim_end_matches('/'), "$DIR");
    }
    text.replace(&callgate().display().to_string(), "$CALLGATE")
}
