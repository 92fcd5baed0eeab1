//! The relay: the program that an agent starts as its tool server. It copies bytes between the agent and the private
//! socket of the running step, without interpreting them.
//!
//! It is configured by a file that only the user can read, because some agents pass on almost no environment.

use std::{
    fs, io,
    io::{ErrorKind, Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    thread,
};

use serde::{Deserialize, Serialize};

const PIECE_BYTES: usize = 64 * 1024;
/// Only so much of a file is read.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// The configuration file of a relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelayFile {
    /// The private socket of the running step; without it this process serves the tools itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
    /// The one-time token for the socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The step's trace context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// Whether the built-in tools are served; only without a socket.
    #[serde(default = "yes")]
    pub intercept_builtins: bool,
    /// Which operations of plugins are served; only without a socket.
    #[serde(default)]
    pub plugin_tools: Vec<PluginTools>,
    /// The root of the built-in tools; only without a socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_dir: Option<PathBuf>,
}

/// Operations of one plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginTools {
    pub plugin: String,
    /// The operations that are tools.
    pub expose: Vec<String>,
}

/// Why a relay could not connect.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// The file cannot be read.
    #[error("`{}`: {error}", .file.display())]
    Unreadable { file: PathBuf, error: io::Error },
    /// The file is not valid.
    #[error("`{}` is not a valid relay file: {why}", .file.display())]
    Wrong { file: PathBuf, why: String },
    /// The step's socket does not accept the connection.
    #[error("cannot connect to the running step: {0}")]
    Unreachable(io::Error),
}

fn yes() -> bool {
    true
}

impl RelayFile {
    pub fn read(file: &Path) -> Result<Self, RelayError> {
        let unreadable = |error| RelayError::Unreadable {
            file: file.to_owned(),
            error,
        };
        let mut text = String::new();
        let opened = fs::File::open(file).map_err(unreadable)?;
        opened
            .take(MAX_FILE_BYTES)
            .read_to_string(&mut text)
            .map_err(unreadable)?;
        serde_json::from_str(&text).map_err(|error| RelayError::Wrong {
            file: file.to_owned(),
            why: error.to_string(),
        })
    }
}

/// Connects to the private socket of a step.
pub fn connect(socket: &Path, token: &str) -> Result<UnixStream, RelayError> {
    let mut stream = UnixStream::connect(socket).map_err(RelayError::Unreachable)?;
    let line = format!("{token}\n");
    let said = stream.write_all(line.as_bytes());
    said.map_err(RelayError::Unreachable)?;
    Ok(stream)
}

/// Copies bytes in both directions until the step closes. The end of the agent's input is passed on.
pub fn copy(
    input: impl Read + Send + 'static,
    output: impl Write,
    stream: &UnixStream,
) -> io::Result<()> {
    let to_step = stream.try_clone()?;
    thread::spawn(move || {
        let _ = pump(input, &to_step);
        // Only the writing half closes: the step may still answer earlier requests.
        let _ = to_step.shutdown(Shutdown::Write);
    });
    pump(stream, output)
}

fn pump(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match from.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(length) => {
                to.write_all(&piece[..length])?;
                to.flush()?;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
