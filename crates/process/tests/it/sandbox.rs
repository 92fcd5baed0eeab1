//! Sandboxed children: what they cannot do, what they can, and what is left of them. Real processes, with and without
//! namespaces.

mod attack_list;
mod attacks;
mod ending;
mod network;
mod ordinary;
mod starting;

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};

use callgate_process::sandbox::{FileAccess, FileGrant, Mode, Namespaces, Sandbox};
use callgate_process::stderr_tail::StderrTail;
use callgate_process::{Ending, Process, ProcessSpec};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;

use crate::given::{DEADLINE, spec, wait};

/// Both kinds of sandboxes.
const KINDS: [Namespaces; 2] = [Namespaces::WhereAllowed, Namespaces::Off];

/// A machine with things that a sandboxed child must not reach, and one folder that it may use.
struct Machine {
    granted: TempDir,
    outside: TempDir,
    /// Another process of the user.
    victim: Child,
    tcp: TcpListener,
    udp: UdpSocket,
    _socket: UnixListener,
    abstract_name: String,
    _abstract_socket: UnixListener,
}

impl Machine {
    fn new() -> Self {
        let (granted, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("secret"), "a secret\n").unwrap();
        fs::write(granted.path().join("mine"), "mine\n").unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        tcp.set_nonblocking(true).unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        udp.set_nonblocking(true).unwrap();
        let socket = UnixListener::bind(outside.path().join("socket")).unwrap();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let abstract_name = format!("callgate-test-{}-{number}", std::process::id());
        let name = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        Self {
            granted,
            outside,
            victim: Command::new("sleep").arg("1000").spawn().unwrap(),
            tcp,
            udp,
            _socket: socket,
            abstract_name,
            _abstract_socket: UnixListener::bind_addr(&name).unwrap(),
        }
    }

    fn granted(&self) -> &Path {
        self.granted.path()
    }

    fn sandbox(&self, namespaces: Namespaces) -> Sandbox {
        Sandbox {
            namespaces,
            files: vec![grant(self.granted(), FileAccess::Write)],
            ..Sandbox::new(Mode::Required)
        }
    }

    /// A shell script, started in the granted folder.
    fn spec(&self, script: &str, sandbox: Option<Sandbox>) -> ProcessSpec {
        let mut spec = ProcessSpec {
            cwd: Some(self.granted().to_owned()),
            sandbox,
            ..spec("sh", &["-c", script])
        };
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let variables = [
            ("GRANTED", text(self.granted())),
            ("OUTSIDE", text(self.outside.path())),
            ("GATEWAY", std::process::id().to_string()),
            ("VICTIM", self.victim.id().to_string()),
            ("TCP", self.tcp.local_addr().unwrap().port().to_string()),
            ("UDP", self.udp.local_addr().unwrap().port().to_string()),
            ("ABSTRACT", self.abstract_name.clone()),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value));
        spec.env.extend(variables);
        spec
    }

    /// Whether a connection or a packet has come in since the last time.
    fn was_reached(&self) -> bool {
        let connected = std::iter::from_fn(|| self.tcp.accept().ok()).count() > 0;
        let received = std::iter::from_fn(|| self.udp.recv(&mut [0; 64]).ok()).count() > 0;
        connected || received
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

fn grant(path: impl Into<PathBuf>, access: FileAccess) -> FileGrant {
    FileGrant {
        path: path.into(),
        access,
    }
}

/// How a child ended and what it printed.
#[derive(Debug)]
struct Outcome {
    ending: Ending,
    stdout: String,
    stderr: String,
}

async fn run(spec: &ProcessSpec) -> Outcome {
    let mut process = Process::spawn(spec, StderrTail::new()).unwrap();
    drop(process.take_stdin());
    let mut stdout = String::new();
    let mut pipe = process.take_stdout().unwrap();
    tokio::time::timeout(DEADLINE, pipe.read_to_string(&mut stdout))
        .await
        .expect("stdout ends")
        .unwrap();
    Outcome {
        ending: wait(&mut process).await,
        stdout,
        stderr: process.stderr().lines().join("\n"),
    }
}
