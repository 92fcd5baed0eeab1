//! Tests the sandbox from the inside: applies one layer, or all of them as a worker does, and then attempts everything
//! that must fail. The tests of the sandbox run this.

use std::{
    fs::{self, File},
    io::{self, Write},
    net::{TcpListener, TcpStream, UdpSocket},
    os::unix::net::UnixStream,
    process::{Command, ExitCode},
    thread,
};

use rustix::process::{getppid, test_kill_process};

use super::confine;

/// A layer of the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wall {
    /// Landlock: no files, no TCP.
    Files,
    /// Seccomp: only the system calls that computing needs.
    Calls,
    /// Resource limits: no new descriptors, no file writes.
    Limits,
    All,
}

impl Wall {
    /// The layer of that name.
    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "files" => Self::Files,
            "calls" => Self::Calls,
            "limits" => Self::Limits,
            "all" => Self::All,
            _ => return None,
        })
    }
}

/// Applies a layer and tests it. Prints one line on whether the kernel enforces it, then one per attempt.
pub fn probe(wall: Wall) -> ExitCode {
    let stands = match wall {
        Wall::Files => confine::close_files().map_err(io::Error::other),
        Wall::Calls => confine::filter_calls().map_err(io::Error::other),
        Wall::Limits => confine::limit(64 << 20, 64 << 20).map(|()| true),
        Wall::All => all(),
    };
    let Ok(stands) = stands else {
        return ExitCode::FAILURE;
    };
    let mut lines = format!("stands {stands}\n");
    for (what, attempt) in ATTEMPTS {
        let came = match attempt() {
            Ok(()) => "worked".to_owned(),
            Err(error) => format!("refused {error}"),
        };
        lines.push_str(&format!("{what} {came}\n"));
    }
    match io::stdout().write_all(lines.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn all() -> io::Result<bool> {
    confine::confine(64 << 20).map_err(io::Error::other)?;
    confine::filter_calls().map_err(io::Error::other)
}

type Attempt = fn() -> io::Result<()>;

/// The attempts that must fail.
const ATTEMPTS: [(&str, Attempt); 11] = [
    ("read-file", || File::open("/etc/passwd").map(drop)),
    ("write-file", || {
        let path = std::env::temp_dir().join("callgate-probe");
        let mut file = File::create(&path)?;
        let written = file.write_all(b"x");
        fs::remove_file(&path)?;
        written
    }),
    ("list-folder", || fs::read_dir("/").map(drop)),
    ("read-process", || fs::read("/proc/self/environ").map(drop)),
    ("tcp-connect", || {
        // No server listens there, so `connection refused` means that the sandbox let the attempt through.
        match TcpStream::connect(("127.0.0.1", 9)) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
            other => other.map(drop),
        }
    }),
    ("tcp-listen", || {
        TcpListener::bind(("127.0.0.1", 0)).map(drop)
    }),
    ("udp", || UdpSocket::bind(("127.0.0.1", 0)).map(drop)),
    ("unix-socket", || UnixStream::pair().map(drop)),
    ("start-program", || {
        Command::new("/bin/true").status().map(drop)
    }),
    ("start-thread", || {
        let started = thread::Builder::new().spawn(|| ())?;
        started.join().map_err(|_| io::Error::other("it panicked"))
    }),
    ("signal-parent", || {
        let parent = getppid().ok_or_else(|| io::Error::other("no parent"))?;
        Ok(test_kill_process(parent)?)
    }),
];
