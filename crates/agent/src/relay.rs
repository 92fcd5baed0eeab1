//! The relay: the program that an agent starts as its tool server. It copies bytes between the agent and the private
//! door of the running step, without interpreting them.
//!
//! It is configured by a file that only the user can read, because some agents pass on almost no environment.

use std::{
    fs::{self, File, OpenOptions},
    io,
    io::{ErrorKind, Read, Write},
    net::Shutdown,
    os::unix::{fs::OpenOptionsExt, net::UnixStream},
    path::{Path, PathBuf},
    thread,
};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use serde::{Deserialize, Serialize};

const PIECE_BYTES: usize = 64 * 1024;
/// Only so much of a file is read.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// The configuration file of a relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelayFile {
    /// The private socket of the running step; without it and without pipes this process serves the tools itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
    /// The private pipes of the running step, where sockets are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipes: Option<RelayPipes>,
    /// The one-time token for the socket or the pipes.
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

/// The named pipes of a running step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelayPipes {
    pub to_step: PathBuf,
    pub from_step: PathBuf,
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
    /// The step's socket or pipes do not accept the connection.
    #[error("cannot connect to the running step: {0}")]
    Unreachable(#[from] io::Error),
    #[error("the file names a way to a step but no token")]
    NoToken,
}

/// A connection to a running step.
#[derive(Debug)]
pub enum Connection {
    Socket(UnixStream),
    Pipes { to_step: File, from_step: File },
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

impl Connection {
    /// Connects to the running step that the file names. `None` if it names none.
    pub fn open(file: &RelayFile) -> Option<Result<Self, RelayError>> {
        let opened = match (&file.socket, &file.pipes) {
            (Some(socket), _) => UnixStream::connect(socket).map(Self::Socket),
            (None, Some(pipes)) => open_pipes(pipes),
            (None, None) => return None,
        };
        let connected = opened.map_err(RelayError::Unreachable);
        Some(connected.and_then(|connection| connection.introduced(file)))
    }

    fn introduced(mut self, file: &RelayFile) -> Result<Self, RelayError> {
        let token = file.token.as_deref().ok_or(RelayError::NoToken)?;
        let line = format!("{token}\n");
        match &mut self {
            Self::Socket(stream) => stream.write_all(line.as_bytes())?,
            Self::Pipes { to_step, .. } => to_step.write_all(line.as_bytes())?,
        }
        Ok(self)
    }

    /// Copies bytes in both directions until the step closes. The end of the agent's input is passed on.
    pub fn copy(self, input: impl Read + Send + 'static, output: impl Write) -> io::Result<()> {
        match self {
            Self::Socket(stream) => {
                let to_step = stream.try_clone()?;
                thread::spawn(move || {
                    let _ = pump(input, &to_step);
                    // Only the writing half closes: the step may still answer earlier requests.
                    let _ = to_step.shutdown(Shutdown::Write);
                });
                pump(&stream, output)
            }
            Self::Pipes { to_step, from_step } => {
                // The pipe closes with the thread.
                thread::spawn(move || pump(input, to_step));
                pump(from_step, output)
            }
        }
    }
}

/// Opens both pipes without waiting: a step that has ended opens them no more.
fn open_pipes(pipes: &RelayPipes) -> io::Result<Connection> {
    let open = |path: &Path, options: &mut OpenOptions| {
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = options.custom_flags(flags).open(path)?;
        fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
        io::Result::Ok(file)
    };
    // The step answers as soon as it reads the token, so the pipe for answers is opened first.
    let from_step = open(&pipes.from_step, OpenOptions::new().read(true))?;
    let to_step = open(&pipes.to_step, OpenOptions::new().write(true))?;
    Ok(Connection::Pipes { to_step, from_step })
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
