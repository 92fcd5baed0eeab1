//! The relay: what an agent starts as its tool server. It copies bytes between the agent and the private
//! socket of the running step, and knows nothing of what they mean.
//!
//! What it needs stands in a file for the user alone, because some agents pass on almost no environment.

use std::{
    fs, io,
    io::{ErrorKind, Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    thread,
};

use serde::{Deserialize, Serialize};

/// How much is copied at once.
const PIECE_BYTES: usize = 64 * 1024;
/// Longest file that is read.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// The file that a relay is started with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelayFile {
    /// The private socket of the running step; without it the tools are served by this very process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
    /// What opens the socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The step's place in a trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// Whether the built-in tools are served; only without a socket.
    #[serde(default = "yes")]
    pub intercept_builtins: bool,
    /// Which operations of plugins are served; only without a socket.
    #[serde(default)]
    pub plugin_tools: Vec<PluginTools>,
    /// Where the built-in tools work; only without a socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_dir: Option<PathBuf>,
}

/// Operations of one plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginTools {
    /// The plugin.
    pub plugin: String,
    /// The operations that are tools.
    pub expose: Vec<String>,
}

/// Why a relay has nothing to relay to.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// The file cannot be read.
    #[error("`{}`: {error}", .file.display())]
    Unreadable {
        /// It.
        file: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The file is not what it should be.
    #[error("`{}` is no file of a relay: {why}", .file.display())]
    Wrong {
        /// It.
        file: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The step is not there.
    #[error("the step cannot be reached: {0}")]
    Unreachable(io::Error),
}

fn yes() -> bool {
    true
}

impl RelayFile {
    /// Reads a file.
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

/// Opens the private socket of a step.
pub fn connect(socket: &Path, token: &str) -> Result<UnixStream, RelayError> {
    let mut stream = UnixStream::connect(socket).map_err(RelayError::Unreachable)?;
    let line = format!("{token}\n");
    let said = stream.write_all(line.as_bytes());
    said.map_err(RelayError::Unreachable)?;
    Ok(stream)
}

/// Copies bytes both ways until the step's side ends. The end of the agent's side is passed on.
pub fn copy(
    input: impl Read + Send + 'static,
    output: impl Write,
    stream: &UnixStream,
) -> io::Result<()> {
    let to_step = stream.try_clone()?;
    thread::spawn(move || {
        let _ = pump(input, &to_step);
        // The agent said its last word; what is still to be answered comes back.
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
